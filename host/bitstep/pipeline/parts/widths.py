"""Widths and limits that all pipelines have in common."""

BUS_WIDTHS = (64, 128, 256, 512)
USUAL_BUS_WIDTH = 64
MODEL_WIDTH = 32            # bits of a model word, signed
UPDATE_WIDTH = 32           # bits of c, the scaled residual that multiplies a row's levels, signed
MANTISSA_WIDTH = 18         # bits of a step mantissa, unsigned
SHIFT_UNIT = 8              # a step is mantissa * 2 ** -(SHIFT_UNIT * shift)
MAX_SHIFT = 7               # largest ``shift``
COEFFICIENT_WIDTH = 18      # bits of a diagonal-correction coefficient, signed
LABEL_WIDTH = 32            # bits of a decoded label, signed
BOUND_WIDTH = 26            # bits of the bound of a derivative, in units of a label, unsigned
MAX_LABEL_SHIFT = 63        # largest value of the register LABEL_SHIFT
LOOKAHEAD_MARGIN_WIDTH = 63     # bits of what updates in flight may change, unsigned
MAX_CELL_HALF_LEVELS = 4    # largest half-width of an encoding's cell, in half levels
SIGMOID_FRACTION = 12       # fraction bits of the sigmoid's argument
AUX_WIDTH = 64              # bits of the bus that carries labels, tables and models
ROW_PORTS = (1, 2, 4)       # memory ports that the row bus is made of
LEAST_PORT_WIDTH = 64       # bits of each
MAX_FEATURES = 1 << 20
MAX_CLOCK_MHZ = 1e6         # of a clock, which is below
# Of a simulated memory: each idle cycle takes time, and slower ones would take hours.
MAX_MEMORY_LATENCY = 100_000            # cycles
MEMORY_GBPS = (0.01, 1e6)               # 10^9 bytes a second, between these
MAX_LOOKAHEAD = 32
MAX_MODELS = 8              # models that one pass over the rows trains
MAX_PACKED_MODELS = 16       # models likewise of a pipeline for packed rows, which share one path
FEW_BITS = (2, 16)          # bits of a rounded model or update, least and most


def ceil_div(a: int, b: int) -> int:
    """Quotient of two positive integers, rounded up."""
    return -(-a // b)
