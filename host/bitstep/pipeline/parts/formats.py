"""Row formats: what a code stands for, and how rows, labels, models and tables stand in memory.

A format owns every number that follows from its choices alone. :attr:`RowFormat.front_end` says
what the hardware puts between the reader of rows and the pipeline.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from bitstep.checks import check_choice, check_integer
from bitstep.pipeline.bit_planes import PLANES, BitPlaneLayout
from bitstep.pipeline.parts.widths import AUX_WIDTH, MODEL_WIDTH, ceil_div

ROW_FORMATS = ("one_level", "two_levels", "float32")
BIT_PLANES = "bit_planes"             # row format of bit planes
FLOAT_BITS = 32             # stored bits of a value of row format ``float32``
FLOAT_GUARD = 22            # fraction bits that sums of floating-point products keep
BIT_PLANE_BITS = PLANES         # stored bits of a value of row format ``bit_planes``
MAX_BIT_PLANE_FEATURES = 1 << 16    # dot products of 17-bit levels and 32-bit words fit 64 bits
BIT_PLANE_LANE_BITS = 4         # bits of a beat for each lane of such a pipeline
FINE_WIDTH = 16             # bits of a value of a fine row, signed
CODEBOOK_LEVEL_BITS = 8        # bits of a level in a codebook, signed
MAX_CODEBOOK_BITS = 5          # largest stored bits of a value whose levels are in a table
MAX_PACKED_FEATURES = 64     # features of a packed row
PACKED_COUNT_CYCLES = 34     # cycles in which the beats of packed rows are counted


@dataclass(frozen=True)
class RowFormat:
    """Rows of one level a code, each padded to whole beats; the base of all formats.

    Parameters
    ----------
    bits : int
        Stored bits of a code.
    bus_width : int
        Bits of a beat in memory.
    max_features : int
        Features of the longest row.
    models : int
        Models of a pass, each of which has a label of its own for a row.

    Attributes
    ----------
    short : str
        The format in names of files.
    front_end : str or None
        Stage between memory and pipeline: ``tables``, which turn codes into levels, ``planes``,
        which are put together to codes, or None.
    floating : bool
        Values are floating-point numbers, whose results depend on the look-ahead.
    planes : int
        Bit planes, of which each epoch reads as many as its entry says; 0: codes stand together.
    centred : bool
        Labels may hold derivatives at a centre, and corrections constants.
    packed : bool
        The rows of a beat are taken together.
    dot_fraction : int
        Fraction bits of a value in a dot product, in units of the level in an update.
    usual_interval : int
        Least update interval of pipelines for such rows, where none is asked for.
    max_label_shift : int
        Largest left shift of a label: enough for every model range and width of a label.
    """

    bits: int
    bus_width: int
    max_features: int
    models: int = 1

    short: ClassVar[str] = "one"
    front_end: ClassVar[str | None] = None
    floating: ClassVar[bool] = False
    planes: ClassVar[int] = 0
    centred: ClassVar[bool] = False
    packed: ClassVar[bool] = False
    dot_fraction: ClassVar[int] = 0
    usual_interval: ClassVar[int] = 2
    max_label_shift: ClassVar[int] = 40

    @classmethod
    def check_bits(cls, choices: Any) -> None:
        """Raise ValueError unless the format has the bits and features of a configuration."""
        check_integer("bits", choices.bits, 1, 8)

    def check_features(self) -> None:
        """Raise ValueError unless the longest row is one that the pipeline can take."""

    # Codes and levels

    @staticmethod
    def limit_of(bits: int) -> int:
        """Largest level of codes of so many bits."""
        return max(1, (1 << bits - 1) - 1)

    @property
    def code_bits(self) -> int:
        """Bits of a code as the pipeline gets it, behind the front-end."""
        return self.bits

    @property
    def beat_width(self) -> int:
        """Bits of a beat as the pipeline gets it, behind the front-end."""
        return self.bus_width

    @property
    def gradient_limit(self) -> int:
        """Weight of the value 1 of a scaled feature in an update: the largest level."""
        return self.limit_of(self.code_bits)

    @property
    def level_limit(self) -> int:
        """Weight of the value 1 of a scaled feature in a dot product."""
        return self.gradient_limit << self.dot_fraction

    @property
    def level_width(self) -> int:
        """Bits of a decoded level, signed."""
        return self.level_limit.bit_length() + 1

    @property
    def change_width(self) -> int:
        """Bits of a level's magnitude in an update."""
        return self.level_width - 1

    @property
    def ternary_levels(self) -> bool:
        """True if the levels are -1, 0 and 1."""
        return self.level_width == 2

    @property
    def has_zero_code(self) -> bool:
        """True if the code 0 decodes to level 0, so that padding needs no mask."""
        return self.bits > 1

    @property
    def intercept_limit(self) -> int:
        """Largest value of INTERCEPT_LEVEL, the one with which an intercept is trained."""
        return self.gradient_limit

    @property
    def intercept_width(self) -> int:
        """Bits of the intercept's level."""
        return 8

    @property
    def square_width(self) -> int:
        """Bits of the product of the intercept's levels in a dot product and in an update."""
        return FLOAT_GUARD + 1

    @property
    def fine_fraction(self) -> int:
        """Fraction bits, in units of a level, of a value of a fine row: as many as its
        16 bits have room for.
        """
        return FINE_WIDTH - max(self.bits, 2)

    # Places in memory

    @property
    def lanes(self) -> int:
        """Codes in a beat; the remaining high bits of a beat are 0."""
        return self.bus_width // self.bits

    @property
    def rows_per_beat(self) -> int:
        """Rows that are taken together."""
        return 1

    @property
    def used_share(self) -> float:
        """Share of a beat's bits that hold codes, in a beat that is full."""
        return self.rows_per_beat * self.lanes * self.bits / self.bus_width

    @property
    def label_rows(self) -> int:
        """Rows whose labels stand together in memory, those of a beat: ``rows_per_beat`` rounded up
        to a power of two.
        """
        return 1 << (self.rows_per_beat - 1).bit_length()

    @property
    def label_streams(self) -> int:
        """Labels of a row in memory, of which each model takes one: ``models`` rounded up to a
        power of two, so that a row never begins within a group.
        """
        return 1 << (self.models - 1).bit_length()

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

    def block_rows(self, n_features: int) -> int:
        """Rows of a block, the unit in which rows are stored: one."""
        del n_features
        return 1

    def block_bytes(self, n_features: int) -> int:
        """Bytes of a block."""
        return self.beats(n_features) * self.beat_bytes

    def beats_read(self, n_rows: int, n_features: int, planes: int) -> int:
        """Beats of memory that an epoch reads of its rows."""
        del planes
        return ceil_div(n_rows, self.rows_per_beat) * self.beats(n_features)

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

    def codebook_words(self, n_features: int) -> int:
        """64-bit words of the codebooks; 0 without."""
        return self.beats(n_features) * self.codebook_beat_words

    @property
    def codebook_beat_words(self) -> int:
        """64-bit words of the codebooks of a beat's features; 0 without."""
        return 0

    def check_cycles(self, n_features: int) -> int:
        """Cycles in which the hardware checks the registers of a run: one for each bit of the
        factor that it multiplies the rows by.
        """
        return self.beats(n_features).bit_length()

    # Arithmetic

    @property
    def dot_width(self) -> int:
        """Bits of a dot product, wide enough for every model and row of the configuration."""
        return self.dot_width_of(self.capacity)

    def dot_width_of(self, n_features: int) -> int:
        """Bits that dot products of rows with so many features have in every pipeline."""
        terms = n_features + 1      # and the intercept
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


class TwoLevelRows(RowFormat):
    """Rows whose codes hold two samples, one for the dot product and one for the update."""

    short = "two"

    @staticmethod
    def limit_of(bits: int) -> int:
        """Largest level of codes of so many bits."""
        return max(1, 1 << bits >> 3)

    @property
    def has_zero_code(self) -> bool:
        """True if the code 0 decodes to level 0, so that padding needs no mask."""
        return self.bits > 2


class CodebookRows(RowFormat):
    """Rows whose codes are places in a codebook that every feature has."""

    front_end = "tables"

    @property
    def has_zero_code(self) -> bool:
        """True: the tables turn padding into level 0."""
        return True

    @property
    def code_bits(self) -> int:
        """Bits of a level, which the tables put in the place of a code."""
        return CODEBOOK_LEVEL_BITS

    @property
    def beat_width(self) -> int:
        """Bits of a beat of levels."""
        return self.lanes * CODEBOOK_LEVEL_BITS

    @property
    def row_words(self) -> int:
        """64-bit words of a level of every lane."""
        return ceil_div(self.lanes * CODEBOOK_LEVEL_BITS, AUX_WIDTH)

    @property
    def codebook_beat_words(self) -> int:
        """64-bit words of the tables of a beat's features: for each code, a level of every lane."""
        return self.row_words << self.bits


class FloatRows(RowFormat):
    """Rows of IEEE 754 single-precision numbers in [-1, 1]."""

    short = "f32"
    floating = True
    dot_fraction = FLOAT_GUARD
    usual_interval = 4
    max_label_shift = 62

    @classmethod
    def check_bits(cls, choices):
        """See :meth:`RowFormat.check_bits`."""
        check_choice("bits of row format 'float32'", choices.bits, (FLOAT_BITS,))

    @staticmethod
    def limit_of(bits: int) -> int:
        """Weight of the value 1 in an update."""
        del bits
        return 1

    @property
    def level_width(self) -> int:
        """Bits of the stored value, which products take apart."""
        return FLOAT_BITS

    @property
    def change_width(self) -> int:
        """1: a product with a value of at most 1 is rounded to an integer of the update's size."""
        return 1


class BitPlaneRows(RowFormat):
    """Rows in bit planes, of which each epoch reads as many as its entry says."""

    short = "planes"
    front_end = "planes"
    planes = PLANES
    centred = True

    @classmethod
    def check_bits(cls, choices):
        """See :meth:`RowFormat.check_bits`."""
        check_choice("bits of row format 'bit_planes'", choices.bits, (BIT_PLANE_BITS,))
        check_integer("max_features of row format 'bit_planes'", choices.max_features, 1,
                      MAX_BIT_PLANE_FEATURES)

    @staticmethod
    def limit_of(bits: int) -> int:
        """Weight of the value 1; the levels are below it."""
        return 1 << bits

    @property
    def has_zero_code(self) -> bool:
        """False: all levels are odd."""
        return False

    @property
    def beat_width(self) -> int:
        """Bits of the codes that the pipeline takes in a cycle."""
        return self.lanes * self.bits

    @property
    def level_width(self) -> int:
        """Bits of a decoded level, signed, which is below the limit."""
        return self.bits + 1

    @property
    def intercept_width(self) -> int:
        """Bits of the intercept's level."""
        return self.intercept_limit.bit_length()

    @property
    def square_width(self) -> int:
        """Bits of the square of the intercept's level."""
        return 2 * self.intercept_width - 1

    @property
    def lanes(self) -> int:
        """Values of a row that the pipeline takes in a cycle, a quarter of a beat of one plane."""
        return self.bus_width // BIT_PLANE_LANE_BITS

    @property
    def used_share(self) -> float:
        """1: a beat holds bits of one plane."""
        return 1.0

    def block_rows(self, n_features: int) -> int:
        """Rows of a block; the last one may be padded."""
        return BitPlaneLayout(n_features).block_rows

    def block_bytes(self, n_features: int) -> int:
        """Bytes of a block, with all planes."""
        return BitPlaneLayout(n_features).block_bytes

    def beats_read(self, n_rows: int, n_features: int, planes: int) -> int:
        """Beats of memory that an epoch reads of its rows, in so many planes."""
        return BitPlaneLayout(n_features).bytes_read(n_rows, planes) // self.beat_bytes

    def check_cycles(self, n_features: int) -> int:
        """Cycles in which the hardware checks the registers of a run; the factor is the groups of
        bits that a plane of a row has.
        """
        return ceil_div(n_features, BIT_PLANE_LANE_BITS).bit_length()


class PackedRows(RowFormat):
    """Packed rows: they follow each other without padding, as many in a beat as fit."""

    packed = True

    def check_features(self) -> None:
        """Raise ValueError unless a row fits a beat, and takes no more than so many lanes."""
        most = min(MAX_PACKED_FEATURES, self.bus_width // self.bits)
        if self.max_features > most:
            raise ValueError(
                f"Packed rows of {self.bits} bits on a bus of {self.bus_width} must have 1 to "
                f"{most} features (max_features), not {self.max_features}; for more, rows that "
                "are not packed waste little")

    @property
    def lanes(self) -> int:
        """Codes of a row."""
        return self.max_features

    @property
    def rows_per_beat(self) -> int:
        """Rows in a beat."""
        return self.bus_width // self.bits // self.max_features

    def check_cycles(self, n_features: int) -> int:
        """Cycles in which the hardware checks the registers of a run: it divides the rows."""
        del n_features
        return PACKED_COUNT_CYCLES


class PackedTwoLevelRows(PackedRows, TwoLevelRows):
    """Packed rows whose codes hold two samples."""


# By name, packed, and codebooks.
KINDS: dict[tuple[str, bool, bool], type[RowFormat]] = {
    ("one_level", False, False): RowFormat,
    ("one_level", False, True): CodebookRows,
    ("one_level", True, False): PackedRows,
    ("two_levels", False, False): TwoLevelRows,
    ("two_levels", True, False): PackedTwoLevelRows,
    ("float32", False, False): FloatRows,
    (BIT_PLANES, False, False): BitPlaneRows}


def plain_format(row_format: str) -> type[RowFormat]:
    """The row format of a name, of rows that are neither packed nor have codebooks."""
    return KINDS[row_format, False, False]


def format_of(choices: Any) -> RowFormat:
    """Return the row format of a configuration's choices."""
    return KINDS[choices.row_format, choices.packed, choices.codebooks](
        choices.bits, choices.bus_width, choices.max_features, choices.models)


def level_limit(bits: int, row_format: str) -> int:
    """Weight of the value 1 of a scaled feature in a dot product, of codes without a table."""
    kind = plain_format(row_format)
    return kind.limit_of(bits) << kind.dot_fraction
