"""Codecs of one bit a value: 1-bit SGD and signSGD."""

from collections.abc import Sequence
from math import prod

import numpy as np

from bitstep_gradients.codecs.plain import Deterministic
from bitstep_gradients.errors import MessageError
from bitstep_gradients.vectors import bucket_count, bucket_starts, checked_vector, of_buckets
from bitstep_gradients.wire.payloads import PAYLOADS

SIGNS = PAYLOADS["fixed"]


class OneBit(Deterministic):
    """``one-bit``: one bit a value and two centres a row of a matrix: the mean of the row's values
    below zero, and of the others (Seide et al., Interspeech 2014). It is biased: meant for error
    feedback.

    Parameters
    ----------
    bucket_size : int
        0 (default): buckets are the rows of an array, along its first dimension; a vector is one
        row. Else: values that share two centres, from 1 to 2**32 - 1.
    """

    name, number = "one-bit", 24

    def __init__(self, *, bucket_size: int = 0):
        super().__init__(bucket_size=bucket_size)

    def row_size(self, shape: tuple[int, ...]) -> int:
        """Values that share two centres."""
        return self.bucket_size or max(prod(shape[1:] if len(shape) > 1 else shape), 1)

    def _encode_shaped(self, values, key, side):
        flat = values.reshape(-1)
        centres = self._centres(flat, self.row_size(values.shape))
        return centres.astype("<f4").tobytes() + SIGNS.encode(flat >= 0, 2)

    def _decode_shaped(self, body, shape, key, side):
        count, size = prod(shape), self.row_size(shape)
        centres = _floats(body, 2 * bucket_count(count, size)).reshape(2, -1)
        if (centres[0] > 0).any() or (centres[1] < 0).any():
            raise MessageError("the message must have centres of values below zero that are not "
                               "positive, and centres of the others that are not negative")
        return _choose(centres, SIGNS.decode(body[4 * centres.size:], count, 2), size)

    def _encode(self, values, key):
        return self._encode_shaped(values, key, None)

    def _decode(self, body, count, key, side):
        return self._decode_shaped(body, (count,), key, side)

    def _rounded(self, values):
        flat, size = values.reshape(-1), self.row_size(values.shape)
        return _choose(self._centres(flat, size), flat >= 0, size).reshape(values.shape)

    @staticmethod
    def _centres(values, size) -> np.ndarray:
        """Means of the values below zero and of the others: float32, shape (2, rows)."""
        starts = bucket_starts(values.size, size)
        if not starts.size:
            return np.zeros((2, 0), np.float32)
        exact, means = values.astype(np.float64), []
        for members in (values < 0, values >= 0):
            sums = np.add.reduceat(np.where(members, exact, 0), starts)
            means.append(sums / np.maximum(np.add.reduceat(members.astype(np.int64), starts), 1))
        return np.array(means).astype(np.float32)

    def expected_bits(self, vector):
        values, dtype = checked_vector(vector)
        rows = bucket_count(values.size, self.row_size(values.shape))
        return self.overhead_bits(values.shape, dtype) + 64 * rows \
            + 8 * ((values.size + 7) // 8)


class Sign(Deterministic):
    """``sign``: the sign of every value, and the mean magnitude of the bucket (signSGD, Bernstein
    et al., ICML 2018, with the scale of Karimireddy et al., ICML 2019). Zero counts as positive.
    It is biased: meant for error feedback, or for :func:`majority_vote`.

    Parameters
    ----------
    bucket_size : int
        See :class:`bitstep_gradients.codecs.base.Codec`.
    """

    name, number = "sign", 25

    def __init__(self, *, bucket_size: int = 0):
        super().__init__(bucket_size=bucket_size)

    def scales(self, values: np.ndarray) -> np.ndarray:
        """Mean magnitude of every bucket: float32, shape (n_buckets,)."""
        starts = bucket_starts(values.size, self.bucket_size)
        if not starts.size:
            return np.zeros(0, np.float32)
        sums = np.add.reduceat(np.abs(values.astype(np.float64)), starts)
        return (sums / np.diff(np.append(starts, values.size))).astype(np.float32)

    def _encode(self, values, key):
        return self.scales(values).astype("<f4").tobytes() + SIGNS.encode(values >= 0, 2)

    def _decode(self, body, count, key, side):
        scales = _floats(body, self.n_buckets(count))
        if (scales < 0).any():
            raise MessageError("the message must have scales that are not negative")
        signs = SIGNS.decode(body[4 * scales.size:], count, 2)
        return _choose(np.stack([-scales, scales]), signs, self.bucket_size)

    def _rounded(self, values):
        flat = values.reshape(-1)
        scales = self.scales(flat)
        return _choose(np.stack([-scales, scales]), flat >= 0, self.bucket_size) \
            .reshape(values.shape)

    def expected_bits(self, vector):
        values, dtype = checked_vector(vector)
        return self.overhead_bits(values.shape, dtype) + 32 * self.n_buckets(values.size) \
            + 8 * ((values.size + 7) // 8)


def majority_vote(vectors: Sequence[np.ndarray], *, scaled: bool = False) -> np.ndarray:
    """Aggregate the gradients of all ranks by the majority of their signs (signSGD with majority
    vote, Bernstein et al., ICML 2018).

    Parameters
    ----------
    vectors : sequence of ndarray of float32
        One a rank, all of one shape, such as what codec ``sign`` decodes. Zero has no vote.
    scaled : bool
        Multiply the vote by the mean magnitude over the ranks.

    Returns
    -------
    vote : ndarray of float32, the shape of a vector
        -1, 0 (as many votes for either sign) or 1, times the magnitude if ``scaled``. It does not
        depend on the order of the ranks unless ``scaled``.

    Raises
    ------
    ValueError
        For no vectors, vectors of different shapes, or values that are not finite.
    """
    if not len(vectors) or len({np.shape(one) for one in vectors}) > 1:
        raise ValueError("vectors must be at least one, and of one shape, not of the shapes "
                         f"{[np.shape(one) for one in vectors]}")
    if not all(np.isfinite(one).all() for one in vectors):
        raise ValueError("vectors must hold finite values: NaN and infinity have no vote")
    votes = sum(np.sign(one).astype(np.int64) for one in vectors)
    vote = np.sign(votes).astype(np.float32)
    if not scaled:
        return vote
    return vote * np.mean([np.abs(np.asarray(one, np.float64)) for one in vectors], axis=0) \
        .astype(np.float32)


def _floats(body: bytes, count: int) -> np.ndarray:
    """The first ``count`` numbers of a body: float32, finite."""
    numbers = np.frombuffer(body, "<f4", count) if len(body) >= 4 * count else np.zeros(0)
    if numbers.size != count or not np.isfinite(numbers).all():
        raise MessageError(f"the message must have {count} scales or centres, all finite")
    return numbers.astype(np.float32)


def _choose(pairs: np.ndarray, signs: np.ndarray, bucket_size: int) -> np.ndarray:
    """The lower or upper number of its bucket for every sign: float32, shape (count,)."""
    lower, upper = (of_buckets(one, signs.size, bucket_size) for one in pairs)
    return np.where(signs, upper, lower)
