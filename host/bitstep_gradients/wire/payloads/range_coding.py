"""Range coding of symbols, with the counts of the message itself.

The coder is constriction's range coder: a state of 64 bits, words of 32, probabilities that are
multiples of 2**-24. Its models take float64, and the same floats must give the same code on every
machine. They do, because nothing is rounded: the floats given are integers that add up to
2**24 - n for n symbols, so that constriction's factor (2**24 - n) / sum is 1, and all products and
partial sums are integers far below 2**53.
"""

import numpy as np

from bitstep_gradients.errors import MessageError
from bitstep_gradients.wire.payloads.base import Payload, check_length, check_same, count_symbols
from bitstep_gradients.wire.payloads.tables import MOST, pack_table, unpack_table

TOTAL = 2**24                   # constriction's unit of probability
LARGEST = TOTAL - TOTAL // 2**16
_SEAL_BITS = 16                 # mean bits that the end of a code takes
# Meanings of the numbers 1 .. 511 of a table, in sixteenths of a count: sixteen steps an octave.
# Counts up to 31 are exact.
VALUES = np.array([16 + step % 16 << step // 16 for step in range(MOST)], np.int64)


class Range(Payload):
    """Range coder: a table of the counts, rounded to sixteen steps an octave, then its words.

    Words are little-endian; zero bytes at the end are left away. No symbol has a probability above
    1 - 2**-16, so that a payload of few bytes cannot hold billions of symbols.
    """

    number, name = 4, "range"

    def encode(self, symbols, n_symbols):
        symbols = np.asarray(symbols)
        if not symbols.size:
            return b""
        numbers = rounded_counts(count_symbols(symbols, n_symbols))
        used = np.flatnonzero(numbers)
        places = np.zeros(n_symbols, np.int32)
        places[used] = np.arange(used.size)
        encoder = _streams().queue.RangeEncoder()
        encoder.encode(places[symbols], _model(frequencies(VALUES[numbers[used] - 1])))
        return pack_table(numbers) + encoder.get_compressed().astype("<u4").tobytes().rstrip(b"\0")

    def decode(self, payload, count, n_symbols, dtype=np.int64):
        if not count:
            check_length(payload, 0)
            return np.zeros(0, dtype)
        numbers, coded = unpack_table(payload, n_symbols)
        used = np.flatnonzero(numbers)
        if not used.size:
            raise MessageError("the message's table gives no symbol a probability")
        chances = frequencies(VALUES[numbers[used] - 1])
        least = count * np.log2(TOTAL / chances.max())
        if least > 8 * len(coded) + 64:
            raise MessageError(f"the message has {count} symbols of at least {least:.0f} bits, and "
                               f"their code has only {len(coded)} bytes")
        words = np.frombuffer(coded + bytes(-len(coded) % 4), "<u4").astype(np.uint32)
        decoder = _streams().queue.RangeDecoder(words)
        try:
            places = decoder.decode(_model(chances), count)
        except AssertionError as error:         # constriction's for a code that no encoder made
            raise MessageError(f"the message's range code is corrupted: {error}") from error
        if places.max() >= used.size:
            raise MessageError("the message has a symbol that its table does not name")
        symbols = used.astype(dtype)[places]
        return check_same(symbols, payload, self.encode(symbols, n_symbols))

    def expected_bits(self, count, probabilities):
        """The length for the expected counts; symbols expected less than half a time are left out
        of the table.
        """
        expected = count * np.asarray(probabilities, np.float64)
        if not count:
            return 0
        expected[(expected < 0.5) & (np.arange(expected.size) != np.argmax(expected))] = 0
        numbers = rounded_counts(np.ceil(expected).astype(np.int64))
        used = np.flatnonzero(numbers)
        chances = frequencies(VALUES[numbers[used] - 1])[:used.size]
        return 8 * len(pack_table(numbers)) + _SEAL_BITS \
            + float(expected[used] @ np.log2(TOTAL / chances))

    def require(self):
        _streams()


def rounded_counts(counts: np.ndarray) -> np.ndarray:
    """Numbers of a table for counts: int64, same shape, 0 for a count of 0.

    The nearest of ``VALUES`` to 16 times the count, all counts halved until the largest is in their
    range. A count that is not 0 stays above 0.
    """
    halvings = max(int(counts.max()).bit_length() - 31, 0)
    scaled = 16 * (counts >> halvings)
    nearest = np.searchsorted(VALUES[1:] + VALUES[:-1], 2 * scaled, side="right") + 1
    return np.where(counts > 0, nearest, 0)


def frequencies(values: np.ndarray) -> np.ndarray:
    """Probabilities in units of 2**-24 for the values of the symbols that are used.

    Parameters
    ----------
    values : ndarray of int64, shape (n_used,)
        From 16 to 30 * 2**31; at least one.

    Returns
    -------
    frequencies : ndarray of int64, shape (max(n_used, 2),)
        At least 1 and at most 2**24 - 2**8, with the sum 2**24. If there is one symbol, a second
        one follows that is never sent.
    """
    if values.size == 1:
        values = np.append(values, 0)
    chances = values * (TOTAL - values.size) // values.sum() + 1
    first, second = np.argsort(-chances, kind="stable")[:2]
    chances[first] += TOTAL - chances.sum()
    excess = max(int(chances[first]) - LARGEST, 0)
    chances[first] -= excess
    chances[second] += excess
    return chances


def _model(chances: np.ndarray):
    """The coder's model with exactly these probabilities (of which it adds 1 unit each)."""
    return _streams().model.Categorical((chances - 1).astype(np.float64), perfect=False)


def _streams():
    try:
        import constriction
    except ImportError as error:
        raise ImportError("payload=\"range\" needs the package constriction, which is not "
                          "installed; run: pip install 'bitstep[range]', or choose another "
                          "payload") from error
    return constriction.stream      # pyright: ignore[reportAttributeAccessIssue]  # compiled
