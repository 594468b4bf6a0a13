"""Vectors that codecs take, and their buckets."""

from dataclasses import dataclass
from typing import Literal

import numpy as np

from bitstep.checks import check_choice

DType = Literal["float32", "float16", "bfloat16"]
DTYPES: tuple[DType, ...] = ("float32", "float16", "bfloat16")
NORMS = ("l2", "linf")


@dataclass(frozen=True)
class BFloat16:
    """Values in bfloat16, for which NumPy has no type.

    Parameters
    ----------
    bits : ndarray of uint16
        The upper halves of the values in float32.
    """

    bits: np.ndarray

    @classmethod
    def rounded(cls, values: np.ndarray) -> "BFloat16":
        """Round finite values in float32 to the nearest bfloat16, ties to even."""
        words = np.asarray(values, np.float32).view(np.uint32).astype(np.uint64)
        return cls(((words + 0x7FFF + (words >> 16 & 1)) >> 16).astype(np.uint16))

    @property
    def values(self) -> np.ndarray:
        """The same values in float32."""
        return (self.bits.astype(np.uint32) << 16).view(np.float32)


def checked_vector(vector: "np.ndarray | BFloat16") -> tuple[np.ndarray, DType]:
    """Check values that are to be encoded.

    Parameters
    ----------
    vector : ndarray of float16, float32 or float64, or BFloat16; any shape
        float64 is rounded to float32.

    Returns
    -------
    values : ndarray of float32, the same shape
    dtype : str
        The type that the message names.

    Raises
    ------
    TypeError
        For another type of values.
    ValueError
        For values that are not finite in float32.
    """
    if isinstance(vector, BFloat16):
        values, dtype = vector.values, "bfloat16"
    else:
        vector = np.asarray(vector)
        if vector.dtype not in (np.float16, np.float32, np.float64):
            raise TypeError("vector must hold float16, float32 or float64 values, or be a BFloat16,"
                            f" not {vector.dtype}")
        dtype = "float16" if vector.dtype == np.float16 else "float32"
        with np.errstate(over="ignore"):
            values = vector.astype(np.float32)
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
        return np.maximum.reduceat(np.abs(values), starts)
    squares = np.add.reduceat(values.astype(np.float64)**2, starts)
    with np.errstate(over="ignore"):
        norms = np.sqrt(squares).astype(np.float32)
    if not np.isfinite(norms).all():
        raise ValueError("the L2 norm of a bucket must be finite in float32; scale the vector down "
                         'or take norm="linf"')
    return norms


def of_buckets(per_bucket: np.ndarray, count: int, bucket_size: int) -> np.ndarray:
    """Repeat one value a bucket for every value of the bucket, shape (count,)."""
    return np.repeat(per_bucket, bucket_size or max(count, 1))[:count]
