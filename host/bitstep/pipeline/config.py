"""The pipeline configuration: every choice that changes the hardware, and what follows from it.

A :class:`PipelineConfig` is what the generator turns into RTL, and what the packer, the driver and
the golden model read their shapes from.
"""

import functools
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

BUS_WIDTHS = (64, 128, 256, 512)
ROW_FORMATS = ("one_level", "two_levels", "float32")
WOVEN = "woven"             # row format of bit planes
_SHORT = {"one_level": "one", "two_levels": "two", "float32": "f32",     # in names of files
          WOVEN: "woven"}
SOLVERS = ("linear", "logistic")
CYCLES_PER_UPDATE = {"linear": (2, 4), "logistic": (6,)}

MODEL_WIDTH = 32            # bits of a model word, signed
UPDATE_WIDTH = 32           # bits of c, the scaled residual that multiplies a row's levels, signed
MANTISSA_WIDTH = 18         # bits of a step mantissa, unsigned
SHIFT_UNIT = 8              # a step is mantissa * 2 ** -(SHIFT_UNIT * shift)
MAX_SHIFT = 7               # largest ``shift``
COEFFICIENT_WIDTH = 18      # bits of a diagonal-correction coefficient, signed
LABEL_WIDTH = 32            # bits of a decoded label, signed
MAX_LABEL_SHIFT = 63        # largest value of the register LABEL_SHIFT
FLOAT_BITS = 32             # stored bits of a value of row format ``float32``
WOVEN_BITS = 16             # stored bits of a value of row format ``woven``
WOVEN_LANE_BITS = 4         # bits of a beat for each lane of such a pipeline
ROUNDING_STAGES = 4         # cycles in which an update is rounded to few bits
FINE_STAGES = 4             # by which updates with the finer sigmoid of a full pass come later
FLOAT_GUARD = 22            # fraction bits that sums of floating-point products keep
FINE_WIDTH = 16             # bits of a value of a fine row, signed
LOOKAHEAD_MARGIN_WIDTH = 63     # bits of what updates in flight may change, unsigned
TABLE_LEVEL_BITS = 8        # bits of a level in a table of levels, signed
MAX_TABLE_BITS = 5          # largest stored bits of a value whose levels are in a table
MAX_CELL_HALF_LEVELS = 4    # largest half-width of an encoding's cell, in half levels
SIGMOID_FRACTION = 12       # fraction bits of the sigmoid's argument
AUX_WIDTH = 64              # bits of the bus that carries labels, tables and models
MAX_FEATURES = 1 << 20
MAX_LOOKAHEAD = 32
MAX_MODELS = 8              # models that one pass over the rows trains
FEW_BITS = (2, 16)          # bits of a rounded model or update, least and most
MAX_DENSE_MODELS = 16       # models likewise of a pipeline for dense rows, which share one path
MAX_DENSE_FEATURES = 64     # features of a dense row
DENSE_DITHER_STAGES = 6     # cycles until the dither of the first dense rows is there
DENSE_COUNT_CYCLES = 34     # cycles in which the beats of dense rows are counted

_FLAGS = ("minibatch", "corrections", "proximal", "refetch", "level_tables", "rounded_updates",
          "dense")


def ceil_div(a: int, b: int) -> int:
    """Quotient of two positive integers, rounded up."""
    return -(-a // b)


def _choice(name: str, value: Any, allowed: tuple) -> None:
    if value not in allowed or isinstance(value, bool):
        options = ", ".join(map(str, allowed))
        raise ValueError(f"{name} must be one of {options}, not {value!r}")


def _between(name: str, value: Any, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name} must be an integer from {low} to {high}, not {value!r}")


# Groups of choices that exclusions are about: values of fields, each of which is of the group.
TRAITS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "refetching": {"refetch": bool},
    "level tables": {"level_tables": bool},
    "proximal steps": {"proximal": bool},
    "few bits": {"model_bits": bool, "rounded_updates": bool},
    "dense rows": {"dense": bool},
    "several models": {"models": lambda models: models is not None and models > 1},
    "look-ahead": {"lookahead": lambda rows: rows not in (None, "auto", 0)},
    "slow updates": {"cycles_per_update": lambda cycles: cycles not in (None, 2)},
    "logistic loss": {"solver": lambda solver: solver == "logistic"},
    "one bit": {"bits": lambda bits: bits == 1},
    "many levels": {"bits": lambda bits: bits is not None and bits > MAX_TABLE_BITS},
    "two levels": {"row_format": lambda rows: rows == "two_levels"},
    "unbounded codes": {"row_format": lambda rows: rows not in (None, "one_level")},
    "untabled codes": {"row_format": lambda rows: rows not in (None, "one_level")},
    "woven rows": {"row_format": lambda rows: rows == WOVEN},
    "no whole codes": {"row_format": lambda rows: rows in ("float32", WOVEN)},
}


@dataclass(frozen=True)
class Exclusion:
    """Two groups of :data:`TRAITS` that one pipeline cannot have together, and the reason."""

    one: str
    other: str
    reason: str


EXCLUSIONS = (
    Exclusion("two levels", "one bit", "a code of two samples takes at least 2 bits"),
    Exclusion("refetching", "unbounded codes", "the codes of rows that may be read again must "
              "bound their values"),
    Exclusion("refetching", "logistic loss", "only the update of the hinge loss depends on nothing "
              "but the side of a bound"),
    Exclusion("refetching", "level tables", "refetching needs equally spaced levels"),
    Exclusion("level tables", "untabled codes", "a table has the level of each code of one sample"),
    Exclusion("level tables", "many levels", "a table takes a memory in every lane, of at most "
              f"2**{MAX_TABLE_BITS} levels"),
    Exclusion("several models", "refetching", "each model would have rows of its own to read "
              "again"),
    Exclusion("several models", "woven rows", "each model would scale the rows differently"),
    Exclusion("several models", "few bits", "a pass rounds one model"),
    Exclusion("few bits", "no whole codes", "a model and updates are rounded for rows of 1 to 8 "
              "bits alone"),
    Exclusion("few bits", "refetching", "rows are decided by bounds of a model of all bits"),
    Exclusion("dense rows", "few bits", "dense rows have no place where a model or updates are "
              "rounded"),
    Exclusion("dense rows", "no whole codes", "dense rows are codes of 1 to 8 bits, one after the "
              "other"),
    Exclusion("dense rows", "logistic loss", "its update takes 6 cycles, and the rows of a beat "
              "are taken together every 2"),
    Exclusion("dense rows", "slow updates", "the rows of a beat are taken together every 2 cycles"),
    Exclusion("dense rows", "look-ahead", "it would need the products of each row with all rows of "
              "the beats before"),
    Exclusion("dense rows", "proximal steps", "dense rows have no place where weights are shrunk "
              "or bounded"),
    Exclusion("dense rows", "level tables", "dense rows have no tables of levels"),
    Exclusion("dense rows", "refetching", "the rows of a beat are taken together, and none is read "
              "again"),
)


@dataclass(frozen=True, kw_only=True)
class PipelineConfig:
    """One SGD pipeline, as plain choices.

    Parameters
    ----------
    bus_width : {64, 128, 256, 512}
        Bits in a beat of the row bus.
    bits : int
        Stored bits per value, 1 to 8; 32 for row format ``float32``, 16 for ``woven``.
    row_format : {"one_level", "two_levels", "float32", "woven"}
        ``one_level``: a code is one signed level, used in the dot product and in the gradient
        (encodings ``nearest``, ``stochastic``, ``double-symmetric``, ``compensated``).
        ``two_levels``: a code holds two samples, one for each use (encoding ``double``).
        ``float32``: a value is an IEEE 754 single-precision number in [-1, 1].
        ``woven``: bit planes, of which each epoch reads as many as its entry says; at most
        65,536 features.
    max_features : int
        Features that the memories are sized for; rounded up to whole beats (``capacity``).
    lookahead : int
        Rows by which the model in memory may trail the row being read. 0 waits for every update.
    cycles_per_update : int
        Cycles from one update to the next, the least distance between two rows: 2, or 4 for a fast
        clock; 6 with solver ``logistic``.
    minibatch : bool
        True if batches of more than one row are possible (costs a second model memory).
    corrections : bool
        True if the diagonal corrections and L2 are possible (costs a memory and multipliers).
    solver : {"linear", "logistic"}
        ``linear``: losses whose derivative is piecewise linear (least squares, squared hinge,
        hinge). ``logistic``: the logistic loss.
    proximal : bool
        True if proximal steps (L1 and box constraint) are possible.
    refetch : bool
        True if rows that could be on either side of the hinge are read again with 16 bits a value
        (costs memories, multipliers and a port). Needs row format ``one_level`` and solver
        ``linear``.
    level_tables : bool
        True if every feature has a table of its levels, loaded at the start of a run: a code is an
        index into it (costs a memory a lane, and lanes as wide as with 8 bits). Needs row format
        ``one_level``, at most 5 bits and no ``refetch``.
    models : int
        Models that one pass over the rows trains, 1 to 8 (costs a dot product, a model memory, a
        solver and, with ``corrections``, an engine each). More than 1 needs rows of whole codes
        and no ``refetch``. With ``dense`` 1 to 16, which take turns on one path.
    model_bits : int
        Largest number of bits of the model that dot products meet, 2 to 16, for runs that round
        it; 0: dot products meet words of 32 bits. Costs rounding in a few lanes; saves
        multipliers, the products with the rows before and most of the second model memory.
    rounded_updates : bool
        True if updates can be rounded to 2 to 16 bits. With this or ``model_bits`` every batch
        begins with an empty pipeline (``drains``), and needs integer rows of fixed bits, no
        ``refetch`` and one model.
    dense : bool
        True if rows follow each other in memory without padding, ``max_features`` codes each, and
        those of a beat are taken together (docs/pipeline.md#dense-rows). Needs ``max_features`` of
        at most 64 that fit a beat, whole codes, ``cycles_per_update=2``, ``lookahead=0``,
        and none of ``proximal``, ``refetch`` and ``level_tables``.

    Raises
    ------
    ValueError
        If a choice is out of range; the message says what must hold.
    """

    bus_width: int = 64
    bits: int = 4
    row_format: str = "one_level"
    max_features: int = 4096
    lookahead: int = 8
    cycles_per_update: int = 2
    minibatch: bool = True
    corrections: bool = True
    solver: str = "linear"
    proximal: bool = False
    refetch: bool = False
    level_tables: bool = False
    models: int = 1
    model_bits: int = 0
    rounded_updates: bool = False
    dense: bool = False

    def __post_init__(self):
        for name in ("bus_width", "bits", "max_features", "lookahead", "cycles_per_update",
                     "models", "model_bits"):
            if isinstance(value := getattr(self, name), np.integer):
                object.__setattr__(self, name, int(value))
        for name in _FLAGS:
            if isinstance(value := getattr(self, name), np.bool_):
                object.__setattr__(self, name, bool(value))
        _choice("bus_width", self.bus_width, self._bus_widths)
        _choice("row_format", self.row_format, (*ROW_FORMATS, WOVEN))
        if self.row_format == "float32":
            _choice("bits of row format 'float32'", self.bits, (FLOAT_BITS,))
        elif self.row_format == WOVEN:
            _choice("bits of row format 'woven'", self.bits, (WOVEN_BITS,))
            # Dot products of 17-bit levels and 32-bit words then fit 64 bits.
            _between("max_features of row format 'woven'", self.max_features, 1, 1 << 16)
        else:
            _between("bits", self.bits, 1, 8)
        _between("max_features", self.max_features, 1, MAX_FEATURES)
        _between("lookahead", self.lookahead, 0, MAX_LOOKAHEAD)
        _between("models", self.models, 1, MAX_DENSE_MODELS if self.dense else MAX_MODELS)
        _choice("solver", self.solver, SOLVERS)
        _choice(f"cycles_per_update of solver {self.solver!r}", self.cycles_per_update,
                CYCLES_PER_UPDATE[self.solver])
        for name in _FLAGS:
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, not {getattr(self, name)!r}")
        if self.model_bits != 0 or isinstance(self.model_bits, bool):
            _between("model_bits that are not 0", self.model_bits, *FEW_BITS)
        self._check_exclusions()
        if self.dense:
            most = min(MAX_DENSE_FEATURES, self.bus_width // self.bits)
            if self.max_features > most:
                raise ValueError(
                    f"Dense rows of {self.bits} bits on a bus of {self.bus_width} must have 1 to "
                    f"{most} features (max_features), not {self.max_features}; for more, rows that "
                    "are not dense waste little")

    def _check_exclusions(self):
        said = {trait: " and ".join(f"{name}={getattr(self, name)!r}" for name, holds in
                                    fields.items() if holds(getattr(self, name)))
                for trait, fields in TRAITS.items()}
        for one in EXCLUSIONS:
            if said[one.one] and said[one.other]:
                raise ValueError(f"{said[one.one]} does not go together with {said[one.other]}: "
                                 f"{one.reason}; leave one of the two out")

    # Codes and levels

    @property
    def _bus_widths(self) -> tuple[int, ...]:
        return BUS_WIDTHS

    @property
    def decoded(self) -> "PipelineConfig":
        """The pipeline behind the tables of levels, or behind the planes of woven rows: as many
        lanes, whose codes are levels of 8 bits, or halves of levels of 16. Without either this
        configuration itself.
        """
        if not self.level_tables and self.row_format != WOVEN:
            return self
        bits = TABLE_LEVEL_BITS if self.level_tables else self.bits
        choices = {**self.to_dict(), "level_tables": False, "bits": bits,
                   "bus_width": self.lanes * bits}
        return _DecodedConfig(**choices)

    @property
    def models_as_beats(self) -> "PipelineConfig":
        """The pipeline that a correction engine of dense rows is made for: each model is a beat."""
        choices = {**self.to_dict(), "dense": False, "models": 1,
                   "bus_width": self.lanes * self.bits, "max_features": self.lanes * self.models}
        return _DecodedConfig(**choices)

    @property
    def level_limit(self) -> int:
        """Weight of the value 1 of a scaled feature in a dot product: the largest level, or,
        for row format ``float32``, 1 with all fraction bits of the sum.
        """
        return level_limit(TABLE_LEVEL_BITS if self.level_tables else self.bits, self.row_format)

    @property
    def gradient_limit(self) -> int:
        """Weight of the value 1 of a scaled feature in an update."""
        return 1 if self.row_format == "float32" else self.level_limit

    @property
    def intercept_limit(self) -> int:
        """Largest value of INTERCEPT_LEVEL, the one with which an intercept is trained."""
        return self.gradient_limit

    @property
    def level_width(self) -> int:
        """Bits of a decoded level, signed; of the stored value for row format ``float32``."""
        if self.row_format == WOVEN:        # whose levels are below the limit
            return self.bits + 1
        return FLOAT_BITS if self.row_format == "float32" else self.level_limit.bit_length() + 1

    @property
    def ternary_levels(self) -> bool:
        """True if the levels are -1, 0 and 1."""
        return self.level_width == 2

    @property
    def intercept_width(self) -> int:
        """Bits of the intercept's level."""
        return self.intercept_limit.bit_length() if self.row_format == WOVEN else 8

    @property
    def has_constants(self) -> bool:
        """True if corrections add constants, those of woven rows."""
        return self.row_format == WOVEN and self.corrections

    @property
    def sums_gradients(self) -> bool:
        """True if a run can sum the gradient of all rows, in words of 64 bits."""
        return self.has_constants and self.minibatch

    @property
    def writes_derivatives(self) -> bool:
        """True if a run can write the derivatives of all rows' losses as labels."""
        return self.sums_gradients

    @property
    def fine_stages(self) -> int:
        """Cycles by which updates of a gradient come later: those of the finer sigmoid."""
        return FINE_STAGES * (self.sums_gradients and self.solver == "logistic")

    @property
    def has_zero_code(self) -> bool:
        """True if the code 0 decodes to level 0, so that padding needs no mask."""
        return self.level_tables or (self.row_format != WOVEN and self.bits > (
            1 if self.row_format == "one_level" else 2))

    @property
    def fine_fraction(self) -> int:
        """Fraction bits, in units of a level, of a value of a fine row: as many as its
        16 bits have room for.
        """
        return FINE_WIDTH - max(self.bits, 2)

    # Few bits

    @property
    def drains(self) -> bool:
        """True if every batch begins with an empty pipeline, all updates before it applied."""
        return self.model_bits > 0 or self.rounded_updates

    @property
    def correlated_rows(self) -> int:
        """Rows before a row whose products with it are formed: where batches begin with an empty
        pipeline no row needs any.
        """
        return 0 if self.drains else self.lookahead

    @property
    def seen_width(self) -> int:
        """Bits of a word of the model that a dot product meets, signed."""
        return self.model_bits or MODEL_WIDTH + 1

    @property
    def rounding_lanes(self) -> int:
        """Model words that are rounded in a cycle, a power of two: a quarter of a beat's, at most
        32. Four rounds of the generator of dithers in a cycle keep up with 32, fewer with 16.
        """
        most = 32 if self.dither_cycles == 5 else 16
        return min(most, 1 << max(self.model_lanes.bit_length() - 3, 1))

    # Shapes

    @property
    def lanes(self) -> int:
        """Codes in a beat; the remaining high bits of a beat are 0. Of woven rows: values of a
        row that the pipeline takes in a cycle, a quarter of a beat of one plane. Of dense rows:
        codes of a row.
        """
        if self.dense:
            return self.max_features
        return self.bus_width // (WOVEN_LANE_BITS if self.row_format == WOVEN else self.bits)

    @property
    def rows_per_beat(self) -> int:
        """Dense rows in a beat; 1 for others."""
        return self.bus_width // self.bits // self.max_features if self.dense else 1

    @property
    def label_rows(self) -> int:
        """Rows whose labels stand together in memory, those of a beat: ``rows_per_beat`` rounded up
        to a power of two.
        """
        return 1 << (self.rows_per_beat - 1).bit_length()

    @property
    def used_share(self) -> float:
        """Share of a beat's bits that hold codes, in a pipeline for dense rows."""
        return self.rows_per_beat * self.max_features * self.bits / self.bus_width

    @property
    def beat_bytes(self) -> int:
        """Bytes in a beat of the row bus."""
        return self.bus_width // 8

    @property
    def max_beats(self) -> int:
        """Beats in the longest row."""
        return ceil_div(self.max_features, self.lanes)

    @property
    def capacity(self) -> int:
        """Features in the longest row."""
        return self.max_beats * self.lanes

    @property
    def model_lanes(self) -> int:
        """Words that a beat's model occupies in memory: ``lanes`` rounded up to an even number."""
        return ceil_div(self.lanes, 2) * 2

    def beats(self, n_features: int) -> int:
        """Beats that a row of ``n_features`` occupies."""
        return ceil_div(n_features, self.lanes)

    def model_words(self, n_features: int) -> int:
        """32-bit words of a model buffer: the rows' lanes, the intercept, one word of padding."""
        return self.beats(n_features) * self.model_lanes + 2

    def fine_words(self, n_features: int) -> int:
        """16-bit words of a fine row: a model's order of words up to the last feature's
        pair, then padding to 64 bits.
        """
        beats = self.beats(n_features)
        last = n_features - (beats - 1) * self.lanes
        return ceil_div((beats - 1) * self.model_lanes + last, 4) * 4

    def table_words(self, n_features: int) -> int:
        """64-bit words of the tables of levels: for each beat of a row and each code, a level of
        every lane.
        """
        return self.beats(n_features) * self.table_row_words << self.bits

    @property
    def label_streams(self) -> int:
        """Labels of a row in memory, of which each model takes one: ``models`` rounded up to a
        power of two, so that a row never begins within a group.
        """
        return 1 << (self.models - 1).bit_length()

    @property
    def table_row_words(self) -> int:
        """64-bit words of a level of every lane."""
        return ceil_div(self.lanes * TABLE_LEVEL_BITS, AUX_WIDTH)

    # Arithmetic

    @property
    def dot_width(self) -> int:
        """Bits of a dot product, wide enough for every model and row of the configuration."""
        terms = self.capacity + 1      # and the intercept
        return MODEL_WIDTH + (self.level_limit * terms).bit_length() + 1

    @property
    def gram_width(self) -> int:
        """Bits of a product of two rows (and the intercept's square), signed."""
        largest = self.level_limit * self.gradient_limit
        return (largest * (self.capacity + 1)).bit_length() + 1

    @property
    def dot_margin_width(self) -> int:
        """Bits of the sum of a model's magnitudes, times the largest cell, unsigned."""
        return MODEL_WIDTH + 3 + self.capacity.bit_length()

    @property
    def max_label_shift(self) -> int:
        """Largest left shift of a label: enough for every model range and width of a label."""
        return 62 if self.row_format == "float32" else 40

    # Time

    @property
    def tree_stages(self) -> int:
        """Registers in the adder tree of the dot product: one for every two levels."""
        if self.dense:      # the intercept and the label are added, too
            return ceil_div((self.lanes + 1).bit_length(), 2)
        return ceil_div(max(self.lanes - 1, 1).bit_length(), 2)

    @property
    def fast_clock(self) -> bool:
        """True if registers stand wherever a clock of 100 MHz and more on a slow FPGA needs them
        (``cycles_per_update`` 4, docs/pipeline.md).
        """
        return self.cycles_per_update == 4

    @property
    def memory_wait(self) -> int:
        """Cycles that words of a memory wait in registers before they are used: memory blocks are
        slow to answer, so for a fast clock nothing else happens in the cycle in which they do.
        """
        return int(self.fast_clock)

    @property
    def always_read(self) -> bool:
        """True if memories are read in every cycle: an enable comes late and drives a lot, so a
        fast clock does without.
        """
        return self.fast_clock

    @property
    def strobe_delay(self) -> int:
        """Cycles that a strobe takes from one part of the hardware to another: for a fast clock one
        for the way alone.
        """
        return int(self.fast_clock)

    @property
    def registered_streams(self) -> bool:
        """True if streams between parts of the hardware pass registers that cut every path, for
        the same reason.
        """
        return self.fast_clock

    @property
    def product_stages(self) -> int:
        """Registers of a product in a lane: 2 for a fast clock, and for floating-point products,
        which are aligned in the second.
        """
        return 2 if self.row_format == "float32" or self.fast_clock else 1

    @property
    def term_stages(self) -> int:
        """Registers of the terms of a product in a lane. Where they are fewer than
        :attr:`product_stages`, what takes the terms sums them: the tree of the dot product, and the
        subtraction from the model. That leaves the choice among the rows before a cycle of its own:
        the levels of the row to apply reach the model store so much later than their slot.
        """
        return 2 if self.row_format == "float32" else 1

    @property
    def solver_lead(self) -> int:
        """Cycles by which a row's products with the rows before reach the solver before its dot
        product.
        """
        return 3 if self.fast_clock else 1

    @property
    def scale_stages(self) -> int:
        """Registers in which the sum over a model of few bits is scaled and gets its intercept."""
        return (2 if self.fast_clock else 1) if self.model_bits else 0

    @property
    def dot_stages(self) -> int:
        """Cycles from a row's last slot to its dot product, of dense rows less the label."""
        if self.dense:
            return 1 + self.word_stages + self.tree_stages
        return 5 + 2 * self.product_stages + self.tree_stages + self.scale_stages

    @property
    def latency(self) -> int:
        """Cycles from a row's last beat to the first beat that may apply its update."""
        if self.dense:      # two of the solver, the products with the levels, and the model's turn
            return self.dot_stages + 3 + self.sum_stages + 1
        return self.dot_stages + solver_stages(self.cycles_per_update) \
            + ROUNDING_STAGES * self.rounded_updates

    @property
    def word_stages(self) -> int:
        """Cycles from a slot of dense rows to its model words: one more with corrections."""
        return 1 + self.corrections

    @property
    def sum_stages(self) -> int:
        """Registers in the sum of a beat's dense rows: one for every two levels, of which the
        subtraction from the model is one and has its own.
        """
        return ceil_div((self.rows_per_beat - 1).bit_length() + 1, 2) - 1

    @property
    def dither_cycles(self) -> int:
        """Cycles in which the dither of four rows is made: few enough that rows never wait for it,
        and a multiple of 5, the groups of four rounds.
        """
        return 5 if self.cycles_per_update == 2 else 15

    @property
    def start_delay(self) -> int:
        """Cycles by which an epoch's first slot comes later, so that its dither is there with its
        dot product.
        """
        if self.dense:      # beside its beat
            return DENSE_DITHER_STAGES
        return max(0, self.dither_cycles + 1 - self.dot_stages)

    def required_lookahead(self, beats: int) -> int:
        """Least look-ahead with which rows of ``beats`` beats never wait for an update; dense rows
        have none.
        """
        if self.dense:
            return 0
        pitch = max(beats, self.cycles_per_update)
        return ceil_div(self.latency + beats - 1, pitch) - 1

    def effective_lookahead(self, beats: int) -> int:
        """Look-ahead that rows of ``beats`` beats use in this configuration."""
        return min(self.lookahead, self.required_lookahead(beats))

    def run_lookahead(self, beats: int, batch: int) -> int:
        """Look-ahead of a run with integer rows: where batches begin with an empty pipeline, no
        more rows can be in it than a batch has.
        """
        lookahead = self.effective_lookahead(beats)
        return min(lookahead, batch - 1) if self.drains else lookahead

    def allows_lookahead(self, lookahead: int, beats: int) -> bool:
        """True if rows of ``beats`` beats may use a look-ahead in this configuration."""
        return lookahead <= self.lookahead and beats <= self.line_depth(lookahead + 1)

    def keeps_lookahead(self, other: "PipelineConfig", beats: int) -> bool:
        """True if rows of ``beats`` beats give here what they give with the look-ahead that
        ``other`` has for them. Only floating-point results depend on it.
        """
        return self.row_format != "float32" \
            or self.allows_lookahead(other.effective_lookahead(beats), beats)

    def runs(self, other: "PipelineConfig") -> bool:
        """True if this pipeline runs the jobs of another one, as far as its options go.

        Cycles per update may differ, and so may the look-ahead of integer rows: they change the
        speed alone. The sizes of a job are checked with the job
        (:func:`bitstep.pipeline.results.check_job`).

        Parameters
        ----------
        other : PipelineConfig
            The pipeline that the jobs are made for.
        """
        same = ("bits", "bus_width", "row_format", "solver", "level_tables", "dense")
        return all(getattr(self, name) == getattr(other, name) for name in same) \
            and all(getattr(self, name) or not getattr(other, name)
                    for name in ("proximal", "refetch", "rounded_updates")) \
            and bool(self.model_bits) == bool(other.model_bits) \
            and self.model_bits >= other.model_bits \
            and all(self.keeps_lookahead(other, beats)
                    for beats in range(1, min(self.max_beats, other.max_beats) + 1))

    def line_depth(self, line: int) -> int:
        """Beats that delay line ``line`` (1 is the nearest row) must hold.

        Line d feeds the correlation with row i - d and, one further, the update; only rows short
        enough to need it use it, so all but the first two are short.
        """
        return _line_depths(self)[line - 1]

    @property
    def correction_lanes(self) -> int:
        """Model words that the correction engine treats in a cycle; an even number."""
        return max(2, ceil_div(self.model_lanes, 32) * 2)

    def with_lookahead(self, n_features: int | None = None) -> "PipelineConfig":
        """This configuration with exactly the look-ahead that rows of ``n_features`` need, or, for
        None, rows of any length.
        """
        if n_features is not None:
            return replace(self, lookahead=self.required_lookahead(self.beats(n_features)))
        # Beyond the latency, longer rows need no more than one row.
        lengths = range(1, min(self.max_beats, self.latency) + 1)
        return replace(self, lookahead=max(map(self.required_lookahead, lengths)))

    # Identity

    @property
    def name(self) -> str:
        """Short name for files and messages, unique among configurations."""
        flags = "".join(f"-{flag}" for flag, said in (
            ("nobatch", not self.minibatch), ("nocorr", not self.corrections),
            ("logistic", self.solver == "logistic"), ("proximal", self.proximal),
            ("refetch", self.refetch), ("tables", self.level_tables),
            ("dense", self.dense), (f"m{self.models}", self.models > 1),
            (f"q{self.model_bits}", self.model_bits), ("rounded", self.rounded_updates)) if said)
        return (f"w{self.bus_width}-b{self.bits}-{_SHORT[self.row_format]}-n{self.max_features}"
                f"-d{self.lookahead}-c{self.cycles_per_update}{flags}")

    def to_dict(self) -> dict[str, Any]:
        """The choices as a dictionary that JSON can hold."""
        return asdict(self)


class _DecodedConfig(PipelineConfig):
    """Configuration behind tables of levels or planes, whose beats have any width."""

    @property
    def _bus_widths(self):
        return (self.bus_width,)

    @property
    def lanes(self):
        """Codes in a beat."""
        return self.bus_width // self.bits


def level_limit(bits: int, row_format: str) -> int:
    """Weight of the value 1 of a scaled feature in a dot product."""
    if row_format == "float32":
        return 1 << FLOAT_GUARD
    if row_format == "two_levels":
        return max(1, 1 << bits >> 3)
    if row_format == WOVEN:
        return 1 << bits
    return max(1, (1 << bits - 1) - 1)


def solver_stages(cycles_per_update: int) -> int:
    """Cycles from a finished dot product to the update it gives (see docs/pipeline.md)."""
    return {2: 4, 4: 5, 6: 7}[cycles_per_update]


@functools.cache
def _line_depths(config: PipelineConfig) -> tuple[int, ...]:
    needed = [config.effective_lookahead(beats) for beats in range(1, config.max_beats + 1)]
    return tuple(
        max((beats for beats, d in enumerate(needed, start=1) if d >= line - 1), default=1)
        for line in range(1, config.lookahead + 2))
