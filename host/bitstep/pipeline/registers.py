"""The register map: one frozen table from which RTL, driver and documentation are generated.

Every register is 32 bits wide; a 64-bit value is two registers, ``NAME_LO`` and ``NAME_HI``.
"""

import enum
from collections.abc import Collection
from dataclasses import dataclass

MAP_VERSION = 5
PAGE_BYTES = 4096           # unit of PORT_STRIDE
ADDRESS_WIDTH = 10          # bits of a byte address on the register bus


@dataclass(frozen=True)
class Register:
    """One register: byte offset, access (``ro``, ``rw`` or ``wo``), width in bits, meaning;
    and the choice of :class:`bitstep.pipeline.config.PipelineConfig` without which it is not there.
    """

    name: str
    offset: int
    access: str
    width: int
    text: str
    choice: str = ""


class Status(enum.IntFlag):
    """Bits of STATUS."""

    BUSY = 1
    DONE = 2
    FAILED = 4


class Control(enum.IntFlag):
    """Bits of CONTROL."""

    START = 1
    ABORT = 2


class Error(enum.IntEnum):
    """Values of ERROR: why a run ended early."""

    NONE = 0
    BAD_CONFIGURATION = 1
    ROW_READ = 2
    AUX_READ = 3
    MODEL_WRITE = 4
    OVERFLOW = 5
    ABORTED = 6


class Overflow(enum.IntFlag):
    """Bits of OVERFLOW, of the first of several models: what left its range."""

    UPDATE = 1
    MODEL = 2
    CORRECTION = 4


class Loss(enum.IntEnum):
    """Values of LOSS: what a run minimises (docs/number-formats.md)."""

    LEAST_SQUARES = 0
    SQUARED_HINGE = 1
    HINGE = 2
    LOGISTIC = 3
    HUBER = 4


class LabelFormat(enum.IntEnum):
    """Values of LABEL_FORMAT: how a label is stored."""

    SIGN = 0
    INT16 = 1
    INT32 = 2


def _pair(name, offset, access, text):
    return [Register(f"{name}_LO", offset, access, 32, f"{text}, bits 31 to 0"),
            Register(f"{name}_HI", offset + 4, access, 32, f"{text}, bits 63 to 32")]


COUNTERS = (
    ("CYCLES", "Clock cycles from start to done"),
    ("BEATS", "Row beats that entered the pipeline, those that wait in its queue among them"),
    ("BYTES_READ", "Bytes accepted on all read buses"),
    ("STALL_ROWS", "Cycles without a row beat to read"),
    ("STALL_LABELS", "Cycles without a label"),
    ("STALL_LOOKAHEAD", "Cycles that a row waited for an update (look-ahead too small)"),
    ("STALL_RECURSION", "Cycles that a row waited for the scalar recursion"),
    ("STALL_CORRECTION", "Cycles that a row waited for the diagonal correction"),
    ("STALL_REFETCH", ("Cycles that rows waited for a fine row, or for one that comes again; "
                       "beats that enter a second time are counted nowhere")),
    ("FLUSH", ("Cycles spent applying the last updates of an epoch or of a correction period, in "
               "rows without data between batches, and in proximal steps")),
    ("MODEL_IO", "Cycles spent loading and writing models and tables"),
    ("OVERFLOWS", "Cycles in which a value left its range"),
    ("REFETCHED_ROWS", "Rows read again with 16 bits a value"),
)
COUNTER_BASE = 0x100

REGISTERS = tuple([
    Register("IDENTITY_0", 0x000, "ro", 32, "Hash of the netlist with identity 0, bits 31 to 0"),
    Register("IDENTITY_1", 0x004, "ro", 32, "Hash, bits 63 to 32"),
    Register("IDENTITY_2", 0x008, "ro", 32, "Hash, bits 95 to 64"),
    Register("IDENTITY_3", 0x00C, "ro", 32, "Hash, bits 127 to 96"),
    Register("VERSION", 0x010, "ro", 32, "Version of this map"),
    Register("CONTROL", 0x020, "wo", 2, "Bit 0 starts a run, bit 1 aborts one"),
    Register("STATUS", 0x024, "ro", 3, "Bit 0 busy, bit 1 done, bit 2 the run failed (see ERROR)"),
    Register("ERROR", 0x028, "ro", 4, "Why the run ended early; 0 if it did not"),
    Register("EPOCHS_DONE", 0x02C, "ro", 32, "Epochs whose model is complete in memory"),
    Register("OVERFLOW", 0x030, "ro", 24, "Bit 0 update, bit 1 model, bit 2 correction; "
             "three more bits for each further model, up to the eighth"),
    Register("OVERFLOW_MORE", 0x034, "ro", 24, "Likewise of the ninth model and those after it"),
    Register("ROWS", 0x040, "rw", 32, "Rows of an epoch, at least 1"),
    Register("BEATS_PER_ROW", 0x044, "rw", 20, "Beats of a row, 1 to the configuration's limit"),
    Register("LAST_LANES", 0x048, "rw", 10, "Features in a row's last beat, at least 1"),
    Register("EPOCHS", 0x04C, "rw", 32, "Epochs, at least 1"),
    Register("BATCH", 0x050, "rw", 32, "Rows of a batch, at least 1"),
    Register("LABEL_FORMAT", 0x054, "rw", 2, "0: 1 bit (1 is +1, 0 is -1), 1: int16, 2: int32"),
    Register("LABEL_SHIFT", 0x058, "rw", 6,
             "Left shift of a label, 0 to 40; to 62 for floating-point rows; logistic pipelines "
             "for one model: at least 13; bit-plane rows have larger least values "
             "(number-formats.md)"),
    Register("INTERCEPT_LEVEL", 0x05C, "rw", 17, "Level of the intercept's constant 1 (1 for "
             "floating-point rows); 0 for none"),
    Register("LOOKAHEAD", 0x060, "rw", 6, "Look-ahead of this run, at most the configuration's. "
             "D of pipeline.md is always allowed; of long rows more only where the memories of "
             "rows hold it"),
    Register("CORRECTION_PERIOD", 0x064, "rw", 32,
             "Rows between diagonal corrections, a multiple of BATCH; 0 for none"),
    Register("WARM_START", 0x068, "rw", 1, "1 loads the model at MODEL_IN, 0 starts from zero"),
    Register("COPIES", 0x06C, "rw", 8, "Copies of the rows; epoch e reads copy e mod COPIES"),
    *_pair("ROWS_ADDRESS", 0x070, "rw", "Address of the rows, aligned to a beat"),
    *_pair("COPY_STRIDE", 0x078, "rw", "Bytes from a copy of the rows to the next"),
    *_pair("LABELS_ADDRESS", 0x080, "rw", "Address of the labels, aligned to 8 bytes"),
    *_pair("EPOCH_TABLE_ADDRESS", 0x088, "rw", "Address of the epoch table, aligned to 8 bytes"),
    *_pair("MODEL_IN_ADDRESS", 0x090, "rw", "Address of the first model, aligned to 8 bytes"),
    *_pair("COEFFICIENTS_ADDRESS", 0x098, "rw",
           "Address of the coefficients, of bit-plane rows with "
           "the constants behind them, aligned to 8 bytes"),
    *_pair("MODEL_OUT_ADDRESS", 0x0A0, "rw", "Address of epoch 0's model, aligned to 8 bytes"),
    *_pair("MODEL_OUT_STRIDE", 0x0A8, "rw", "Bytes from an epoch's model to the next"),
    Register("LOSS", 0x0B0, "rw", 3, "What is minimised"),
    Register("PROXIMAL_PERIOD", 0x0B4, "rw", 32,
             "Rows between proximal steps, a multiple of BATCH; 0 for none"),
    Register("BOX_LIMIT", 0x0B8, "rw", 31, "Largest magnitude of a model word after a proximal "
             "step"),
    Register("CELL_HALF_LEVELS", 0x0BC, "rw", 3, "Largest difference of a fine row to its "
             "codes, in half levels, 1 to 4; 0 for no refetching"),
    *_pair("FINE_ADDRESS", 0x0C0, "rw", "Address of the fine rows, aligned to 8 bytes"),
    Register("LOOKAHEAD_MARGIN", 0x0C8, "rw", 32, "Bound of what the updates in flight add to the "
             "reach of a row's cells, in units of K rounded up: CELL_HALF_LEVELS times "
             "LOOKAHEAD times the number of features times the largest level; 0 without "
             "refetching"),
    *_pair("CODEBOOKS_ADDRESS", 0x0D0, "rw", "Address of the codebooks, aligned to 8 "
           "bytes; for pipelines that have them"),
    Register("MODELS", 0x0D8, "rw", 5, "Models of this run, 1 to the configuration's; not looked "
             "at by pipelines for one model"),
    Register("SHARED_LABELS", 0x0DC, "rw", 1, "1: every model has the same labels, which memory "
             "holds once; not looked at by pipelines for one model"),
    Register("END_WITH_FIRST", 0x0E0, "rw", 1, "1: the first model that leaves its range ends the "
             "run, and no model is written of that epoch; 0: the last one ends it; not looked at "
             "by pipelines for one model"),
    Register("MODEL_BITS", 0x0E4, "rw", 5, "Bits of the model that dot products meet, 2 to the "
             "configuration's; 0 for a pipeline without"),
    Register("UPDATE_BITS", 0x0E8, "rw", 5, "Bits of an update, 2 to 16; 0 for all, and for a "
             "pipeline without"),
    Register("GRADIENT", 0x0EC, "rw", 1, "1: the run sums the gradient of all rows, in words of 64 "
             "bits; for one epoch of bit-plane rows with BATCH at least ROWS, without corrections "
             "and proximal steps"),
    Register("DERIVATIVES", 0x0F0, "rw", 1, "1: a run with GRADIENT writes the derivative of each "
             "row's loss, as a label of 4 bytes, to MODEL_OUT_ADDRESS in place of the gradient; "
             "for losses that are smooth, with labels of format SIGN"),
    Register("DERIVATIVE_BOUND", 0x0F4, "rw", 26, "HUBER: largest derivative, in units of a stored "
             "label, at least 1; 0 for the other losses"),
    Register("WEIGHTED", 0x0F8, "rw", 1, "1: every row has a weight beside its labels "
             "(memory-layout.md); only in pipelines with weights of rows", "row_weights"),
    Register("PORT_STRIDE", 0x0FC, "rw", 32, "Pages of 4,096 bytes from a slice of the rows to the "
             "next (memory-layout.md); only in pipelines whose rows come over several ports",
             "row_ports"),
] + [
    register
    for index, (name, text) in enumerate(COUNTERS)
    for register in _pair(name, COUNTER_BASE + 8 * index, "ro", text)
])

OFFSETS = {register.name: register.offset for register in REGISTERS}


def registers_of(choices: Collection[str]) -> tuple[Register, ...]:
    """The registers of a pipeline; the other offsets of the map read as 0 there.

    Parameters
    ----------
    choices : collection of str
        What the pipeline has of the fields that :attr:`Register.choice` names.
    """
    return tuple(register for register in REGISTERS
                 if not register.choice or register.choice in choices)


def table() -> str:
    """The register map as a Markdown table, and one of the values that have names."""
    rows = [f"| `0x{r.offset:03X}` | `{r.name}` | {r.access} | {r.width} | {r.text} |"
            for r in REGISTERS]
    return "\n".join(["| offset | name | access | bits | meaning |",
                      "| --- | --- | --- | --- | --- |", *rows]) + f"""

Some registers hold one of a few named values:

| register | values |
| --- | --- |
| `ERROR` | {_values(Error)} |
| `OVERFLOW` | {_values(Overflow)}, added up |
| `LABEL_FORMAT` | {_values(LabelFormat)} |
| `LOSS` | {_values(Loss)} |"""


def document() -> str:
    """The page docs/registers.md."""
    counters = COUNTER_BASE + 8 * len(COUNTERS)
    return f"""# Registers

Generated by `python -m bitstep.pipeline.registers > docs/registers.md` from the table that the RTL
and the driver are made from; version {MAP_VERSION} of the map.

Every register is a 32-bit word on an AXI4-Lite bus with {ADDRESS_WIDTH}-bit byte addresses; `_LO`
and `_HI` are the halves of a 64-bit value. Access is read only (`ro`), read and write (`rw`) or
write only (`wo`); bits above a register's width read as 0. While STATUS says busy, writes to all
but CONTROL are ignored. Bytes whose strobe is 0 keep their value, and CONTROL needs the lowest one.
The two lowest bits of an address are ignored. Addresses without a register read as 0.

A run is busy from the answer to the write that starts it. It ends by itself, with an error or by
an abort; then STATUS says done, and STATUS, ERROR, EPOCHS_DONE, OVERFLOW and the counters stay
until the next one starts. A run that fails tells so, in STATUS and ERROR, while it is busy until
its buses are idle. A start while busy and an abort while not do nothing.

The interrupt is a level: bit 1 of STATUS, done. The next start or a reset lowers it, nothing else.

A reset, of any length, sets what can be written, STATUS, ERROR, EPOCHS_DONE, OVERFLOW and the
counters to 0; for 64 cycles more nothing is accepted.

The counters, `0x{COUNTER_BASE:03X}` to `0x{counters - 1:03X}`, start at 0 with each run, and
again after 2^48 - 1. Reading the low half of one keeps its high half for the next read of it, so a
value does not tear.

{table()}
"""


def _values(kind) -> str:
    return ", ".join(f"{member.value} {member.name}" for member in kind)


if __name__ == "__main__":
    print(document(), end="")
