"""Codebooks for each column: levels of least variance, and the codes that index them.

A level is an integer from -127 to 127 and stands for level / 127 of a scaled feature. So levels lie
on the grid of 8-bit codes, and positions are those of that grid: 24 fraction bits.
"""

from functools import cached_property

import numpy as np

from bitstep.checks import check_choice
from bitstep.levels import optimal_levels
from bitstep.levels.counting import split_counts
from bitstep.pipeline.encodings import ENCODINGS, LEVELS
from bitstep.pipeline.levels import look_up
from bitstep.pipeline.parts.formats import CODEBOOK_LEVEL_BITS, MAX_CODEBOOK_BITS, level_limit
from bitstep.quantization.encodings import FRACTION_BITS, Grid, random_words

LIMIT = level_limit(CODEBOOK_LEVEL_BITS, "one_level")
PLACES = 2 * LIMIT + 1          # levels that there can be
_WHOLE = np.uint32(1 << FRACTION_BITS)


def check_levels(levels: str, encoding: str, bits: int) -> None:
    """Raise ValueError unless an encoding can have such levels at these bits."""
    check_choice("levels", levels, LEVELS)
    if levels != "uniform" and not (ENCODINGS[encoding].tabled and bits <= MAX_CODEBOOK_BITS):
        able = ", ".join(repr(name) for name, one in ENCODINGS.items() if one.tabled)
        raise ValueError(f"levels={levels!r} needs one of the encodings {able} and at most "
                         f"{MAX_CODEBOOK_BITS} bits, not {encoding!r} and {bits}")


class PlaceCounts:
    """Weights of the places of a grid of 8-bit levels, for each column.

    A value between two places counts for both, the nearer one more: as stochastic rounding to the
    places would do on average. Levels that are optimal for the places with these weights are
    optimal for the values, too: the variance of the two differs by a constant.

    Parameters
    ----------
    n_features : int
        256 numbers are kept for each.
    """

    def __init__(self, n_features: int):
        self._weights = np.zeros((n_features, PLACES + 1))
        # Rows wait until they are about as many as the places: counting passes over all of these.
        self._waiting = np.empty((PLACES + 1, n_features), np.uint32)
        self._n_waiting = 0

    def add(self, positions: np.ndarray) -> None:
        """Count rows, by their positions (uint32, shape (rows, n_features))."""
        while len(positions):
            free = self._waiting[self._n_waiting:][:len(positions)]
            free[:] = positions[:len(free)]
            positions = positions[len(free):]
            self._n_waiting += len(free)
            if self._n_waiting == len(self._waiting):
                self._count()

    def _count(self):
        """Add the weights of the rows that wait."""
        positions = self._waiting[:self._n_waiting]
        self._n_waiting = 0
        places = (positions >> np.uint32(FRACTION_BITS)).astype(np.int64)
        above = (positions & (_WHOLE - 1)) / float(_WHOLE)
        places += np.arange(len(self._weights), dtype=np.int64) * (PLACES + 1)
        flat, size = places.reshape(-1), self._weights.size
        counts = split_counts(flat, above.reshape(-1), size)
        self._weights += counts.reshape(self._weights.shape)

    def tables(self, bits: int) -> np.ndarray:
        """Levels of least mean variance: int8, shape (n_features, 2 ** bits), rising.

        The first and the last level are the ends of what was counted. A column with fewer places
        than codes repeats its last level.
        """
        self._count()
        found = np.empty((len(self._weights), 1 << bits), np.int8)
        for table, weights in zip(found, self._weights, strict=True):
            used = np.flatnonzero(weights)
            if len(used) > len(table):
                levels = optimal_levels(used.astype(np.float64), len(table), weights=weights[used])
            else:
                levels = used
            table[:len(levels)] = np.asarray(levels) - LIMIT
            table[len(levels):] = table[len(levels) - 1]
        return found


class TableGrid(Grid):
    """Grid whose levels are those of a table for each column.

    Parameters
    ----------
    encoding, bits
        See :class:`bitstep.quantization.encodings.Grid`.
    tables : ndarray of int8, shape (n_features, 2 ** bits)
        Rising, from -127 to 127.

    Raises
    ------
    ValueError
        If the encoding cannot have tables.
    """

    spare = False

    tables: np.ndarray

    def __init__(self, encoding: str, bits: int, tables: np.ndarray):
        super().__init__(encoding, bits)
        check_levels("optimal", encoding, bits)
        object.__setattr__(self, "tables", tables)

    @cached_property
    def _intervals(self):
        """Code of the level below each place, and width in places of the interval above it, both of
        shape (n_features, PLACES); and the levels as positions, shape (n_features, 2 ** bits).
        """
        tables, bits = self.tables, self.bits
        places = tables.astype(np.int64) + LIMIT
        # First code of the last level, which may be there several times.
        top = (places < places[:, -1:]).sum(axis=1, keepdims=True)
        below = np.full((len(tables), PLACES), -1, np.int8)
        for levels in places.T:         # a code at a time, since there may be many columns
            below += levels[:, None] <= np.arange(PLACES)
        lower = np.clip(below, 0, np.maximum(top - 1, 0))
        widths = np.take_along_axis(places, np.minimum(lower + 1, (1 << bits) - 1), axis=1) \
            - np.take_along_axis(places, lower, axis=1)
        return (lower.astype(np.uint8), widths.astype(np.uint64),
                places.astype(np.uint32) << np.uint32(FRACTION_BITS))

    @property
    def intervals(self):
        """Intervals between the ends -1 and 1, in which positions are counted."""
        return PLACES - 1

    def _split(self, positions):
        """Codes of the levels below positions, how far these are above them, and the widths of the
        intervals: all in units of a position.
        """
        lower_codes, widths, levels = self._intervals
        positions = np.clip(positions, levels[:, 0], levels[:, -1])
        places = (positions >> np.uint32(FRACTION_BITS)).astype(np.intp)
        columns = np.arange(len(levels))
        lower = lower_codes[columns, places]
        above = positions - levels[columns, lower]
        return lower, above, widths[columns, places] << np.uint64(FRACTION_BITS)

    def codes(self, positions, rng):
        """Codes drawn for positions of shape (rows, n_features); see :meth:`Grid.codes`.

        The upper level is taken if r w / 2**32 < d, where r is a random word of 32 bits, w the
        width of the interval and d the distance from its lower end: with the probability d / w, to
        2**-32.
        """
        lower, above, widths = self._split(positions)
        if not self.draws:
            up = 2 * above.astype(np.uint64) >= np.maximum(widths, 1)
        else:
            words = random_words(positions.size, rng).reshape(positions.shape).astype(np.uint64)
            words *= widths
            words >>= np.uint64(32)
            up = words < above
        return lower + up.astype(np.uint8)

    def _variance(self, positions):
        _, above, widths = self._split(positions)
        unit = 2.0 ** -FRACTION_BITS / LIMIT
        return (above * unit) * ((widths - above) * unit)

    def values(self, codes):
        """Scaled values that codes stand for; see :meth:`Grid.values`."""
        values = look_up(codes, self.tables) / LIMIT
        return values, values


def grid_of(encoding: str, bits: int, tables: np.ndarray | None) -> Grid:
    """The grid of codes whose levels are in tables, or equally spaced."""
    return Grid(encoding, bits) if tables is None else TableGrid(encoding, bits, tables)
