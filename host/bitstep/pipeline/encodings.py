"""Encodings of values as codes: facts that rows, pipelines and options share."""

from dataclasses import dataclass

from bitstep.pipeline.parts.formats import BIT_PLANE_BITS, BIT_PLANES, FLOAT_BITS

LEVELS = ("uniform", "optimal")
SCALERS = ("quantile", "minmax", "maxabs")


@dataclass(frozen=True, kw_only=True)
class Encoding:
    """Properties of an encoding.

    Attributes
    ----------
    row_format : str
        Row format of the pipelines that decode it (:mod:`bitstep.pipeline.config`).
    draws : int
        Random samples that a code holds.
    min_bits, max_bits : int
        Least and most bits of a code.
    corrected : bool
        True if diagonal corrections take the variance of the codes out of the gradient. They are
        those of least squares, so no other loss can be trained on such codes.
    cell : int
        Largest distance of a value to the level of its code, in half intervals, for encodings
        that may have fine rows; 0 for the others.
    tabled : bool
        True if columns may have tables of their levels.
    label_bits : {16, 32}
        Stored bits of a regression's label, if nothing else is asked for.
    """

    row_format: str = "one_level"
    draws: int
    min_bits: int = 1
    max_bits: int = 8
    corrected: bool = False
    cell: int = 0
    tabled: bool = False
    label_bits: int = 16

    @property
    def indefinite(self) -> bool:
        """True if the rows as they are stored may have directions along which gradients lead away
        from every optimum: by corrections, which subtract from a square, or since the two samples
        of a value are not the same factor twice.
        """
        return self.corrected or self.row_format == "two_levels"


ENCODINGS = {
    "nearest": Encoding(draws=0, cell=1, tabled=True),
    "stochastic": Encoding(draws=1, cell=2, tabled=True),
    "compensated": Encoding(draws=1, corrected=True, tabled=True),
    "double-symmetric": Encoding(draws=2, min_bits=2, corrected=True),
    "double": Encoding(row_format="two_levels", draws=2, min_bits=2),
    "float": Encoding(row_format="float32", draws=0, min_bits=FLOAT_BITS, max_bits=FLOAT_BITS,
                      label_bits=32),
}
# Codes of bit-plane rows: nobody chooses an encoding for these.
_OF_BIT_PLANES = Encoding(row_format=BIT_PLANES, draws=0, min_bits=BIT_PLANE_BITS,
                          max_bits=BIT_PLANE_BITS)


def encoding_of(name: str) -> Encoding:
    """Properties of the encoding of some rows: one of :data:`ENCODINGS`, or that of bit planes."""
    return _OF_BIT_PLANES if name == BIT_PLANES else ENCODINGS[name]
