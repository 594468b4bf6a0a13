"""Vectors that codecs take, and their buckets."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bitstep.checks import check_choice

DType = Literal["float32", "float16", "bfloat16"]
DTYPES: tuple[DType, ...] = ("float32", "float16", "bfloat16")
NORMS = ("l2", "linf")
_PIECE = 2**16                  # values of a piece of a sum


@dataclass(frozen=True)
class BFloat16:
    """Values in bfloat16, for which NumPy has no type.

    Parameters
    ----------
    bits : ndarray of uint16
        The upper halves of the values in float32.

    Raises
    ------
    TypeError
        For another type: values are rounded by :meth:`rounded`.
    """

    bits: np.ndarray

    def __post_init__(self):
        found = getattr(self.bits, "dtype", type(self.bits).__name__)
        if found != np.uint16:
            raise TypeError("bits must be an array of uint16, the upper halves of values in "
                            f"float32, not {found}; BFloat16.rounded takes the values")

    @classmethod
    def rounded(cls, values: np.ndarray) -> "BFloat16":
        """Round finite values in float32 to the nearest bfloat16, ties to even."""
        words = np.asarray(values, np.float32).view(np.uint32)
        odd = words >> np.uint32(16) & np.uint32(1)
        return cls((words + np.uint32(0x7FFF) + odd >> np.uint32(16)).astype(np.uint16))

    @property
    def values(self) -> np.ndarray:
        """The same values in float32."""
        return (self.bits.astype(np.uint32) << np.uint32(16)).view(np.float32)


def float_values(name: str, vector: "np.ndarray | BFloat16") -> tuple[np.ndarray, DType]:
    """Convert a vector of floats to float32; values may become infinite.

    Parameters
    ----------
    name : str
        Of the vector, for messages.
    vector
        See :func:`checked_vector`.

    Returns
    -------
    values, dtype
        See :func:`checked_vector`.

    Raises
    ------
    TypeError
        For another type of values.
    """
    if isinstance(vector, BFloat16):
        return vector.values, "bfloat16"
    vector = np.asarray(vector)
    kind = vector.dtype.type            # the same for both byte orders
    if kind not in (np.float16, np.float32, np.float64):
        raise TypeError(f"{name} must hold float16, float32 or float64 values, or be a BFloat16, "
                        f"not {vector.dtype}")
    with np.errstate(over="ignore"):
        return np.asarray(vector, np.float32, order="C"), \
            "float16" if kind is np.float16 else "float32"


def checked_vector(vector: "np.ndarray | BFloat16") -> tuple[np.ndarray, DType]:
    """Check values that are to be encoded.

    Parameters
    ----------
    vector : ndarray of float16, float32 or float64, or BFloat16; any shape
        Of any byte order. float64 is rounded to float32.

    Returns
    -------
    values : ndarray of float32, the same shape
        The vector itself, if it is such an array: not to be changed.
    dtype : str
        The type that the message names.

    Raises
    ------
    TypeError
        For another type of values.
    ValueError
        For values that are not finite in float32.
    """
    values, dtype = float_values("vector", vector)
    finite = np.isfinite(values)
    if not finite.all():
        raise ValueError(f"vector must be finite in float32, but {np.size(values) - finite.sum()} "
                         f"of {np.size(values)} values are not")
    return values, dtype


def checked_side(side: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray | None:
    """Check side information about a vector of a shape.

    Parameters
    ----------
    side : ndarray or None
        Finite values of the shape.
    shape : tuple of int

    Returns
    -------
    side : ndarray of float32, shape (count,), or None

    Raises
    ------
    ValueError
        For another shape, or values that are not finite in float32.
    """
    if side is None:
        return None
    if np.shape(side) != shape:
        raise ValueError(f"side must have the shape {shape} of the vector, not {np.shape(side)}")
    with np.errstate(over="ignore"):
        flat = np.asarray(side).astype(np.float32).reshape(-1)
    if not np.isfinite(flat).all():
        raise ValueError("side must be finite in float32, but "
                         f"{flat.size - np.isfinite(flat).sum()} of {flat.size} values are not")
    return flat


def bucket_starts(count: int, bucket_size: int) -> np.ndarray:
    """Index of the first value of every bucket.

    Parameters
    ----------
    count : int
        Values in all.
    bucket_size : int
        Values a bucket; 0: one bucket holds all. The last one may be shorter.

    Returns
    -------
    starts : ndarray of int64, shape (n_buckets,)
        Empty if there is no value.
    """
    return np.arange(0, count, bucket_size or max(count, 1))


def bucket_count(count: int, bucket_size: int) -> int:
    """Number of buckets, as :func:`bucket_starts` has them. It takes no memory: ``count`` may be
    what a message claims.
    """
    return -(-count // (bucket_size or max(count, 1)))


def bucket_blocks(count: int, bucket_size: int) -> list[tuple[int, int, int]]:
    """Buckets as blocks of equal ones: the full buckets, and the shorter last one.

    Parameters
    ----------
    count, bucket_size : int
        See :func:`bucket_starts`.

    Returns
    -------
    blocks : list of (start, buckets, size)
        Index of the first value, buckets of the block, values of each; at most two blocks.
    """
    size = bucket_size or max(count, 1)
    full, rest = divmod(count, size)
    blocks = [(0, full, size), (full * size, 1, rest)]
    return [block for block in blocks if block[1] and block[2]]


def bucket_norms(values: np.ndarray, bucket_size: int, norm: str) -> np.ndarray:
    """Norm of every bucket.

    Parameters
    ----------
    values : ndarray of float32, shape (count,)
    bucket_size : int
        See :func:`bucket_starts`.
    norm : {"l2", "linf"}
        ``l2`` is summed in float64 and rounded to float32.

    Returns
    -------
    norms : ndarray of float32, shape (n_buckets,)

    Raises
    ------
    ValueError
        If an L2 norm is beyond float32.
    """
    check_choice("norm", norm, NORMS)
    starts = bucket_starts(values.size, bucket_size)
    if not starts.size:
        return np.zeros(0, np.float32)
    if norm == "linf":
        largest, least = np.maximum.reduceat(values, starts), np.minimum.reduceat(values, starts)
        return np.abs(np.maximum(largest, -least))
    squares = bucket_sums(values, bucket_size, np.zeros(starts.size))
    with np.errstate(over="ignore"):
        norms = np.sqrt(squares).astype(np.float32)
    if not np.isfinite(norms).all():
        raise ValueError("the L2 norm of a bucket must be finite in float32; scale the vector "
                         "down, or take the largest value for it: codec qsgd-linf or alq-linf, or "
                         'norm="linf" of nuqsgd')
    return norms


def bucket_sums(values: np.ndarray, bucket_size: int,
                centres: np.ndarray | None = None) -> np.ndarray:
    """Sums over buckets, in float64 and in pieces that stay in a cache.

    Parameters
    ----------
    values : ndarray of float32, shape (count,)
    bucket_size : int
        See :func:`bucket_starts`.
    centres : ndarray of float64, shape (n_buckets,), optional
        If given, squares of the distances from them are summed.

    Returns
    -------
    sums : ndarray of float64, shape (n_buckets,)
    """
    sums = np.zeros(bucket_count(values.size, bucket_size))
    size = bucket_size or max(values.size, 1)
    for start in range(0, values.size, _PIECE):
        piece = values[start:start + _PIECE].astype(np.float64)
        first = start // size
        places = np.arange(first * size, start + piece.size, size) - start
        places[0] = 0                                   # where the piece's part of a bucket begins
        if centres is not None:
            own = centres[first:first + places.size]
            piece -= own if own.size == 1 else np.repeat(own, np.diff(places, append=piece.size))
            piece *= piece
        # sum is several times faster than reduceat
        sums[first:first + places.size] += \
            piece.sum() if places.size == 1 else np.add.reduceat(piece, places)
    return sums


def sum_of_squares(values: np.ndarray) -> float:
    """Sum of squares in float64, by pairs. Not by BLAS: its threads wait busily between two short
    calls, and its sums depend on their number.
    """
    return float(np.square(values, dtype=np.float64).sum())


def of_buckets(per_bucket: np.ndarray, count: int, bucket_size: int) -> np.ndarray:
    """One value a bucket for every value of the bucket, shape (count,); not to be changed."""
    if per_bucket.size == 1:
        return np.broadcast_to(per_bucket, count)
    return np.repeat(per_bucket, bucket_size or max(count, 1))[:count]
