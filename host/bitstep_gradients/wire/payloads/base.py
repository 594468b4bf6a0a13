"""Base of the codings of symbols, and checks of what arrives."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from bitstep_gradients import kernels
from bitstep_gradients.errors import MessageError


class Payload(ABC):
    """Coding of symbols 0 .. n_symbols - 1."""

    number: ClassVar[int]       # in the header, from 1 to 15
    name: ClassVar[str]

    @abstractmethod
    def encode(self, symbols: np.ndarray, n_symbols: int) -> bytes:
        """Code symbols (integers, shape (count,))."""

    @abstractmethod
    def decode(self, payload: bytes, count: int, n_symbols: int,
               dtype: type = np.int64) -> np.ndarray:
        """Find ``count`` symbols (of a type that holds them). Raise MessageError if the bytes do
        not hold them.
        """

    @abstractmethod
    def expected_bits(self, count: int, probabilities: np.ndarray) -> float:
        """Expected bits of ``count`` symbols that have these mean probabilities."""

    def require(self) -> None:
        """Raise ImportError if a package is missing that the coding needs."""
        return


def count_symbols(symbols: np.ndarray, n_symbols: int) -> np.ndarray:
    """Count each symbol: int64, shape (n_symbols,). ValueError for one that is none of them."""
    if symbols.size and not 0 <= symbols.min() <= symbols.max() < n_symbols:
        raise ValueError(f"symbols must be from 0 to {n_symbols - 1}, not {symbols.min()} to "
                         f"{symbols.max()}")
    loops = kernels.find_kernels()
    if not loops:
        # On 32-bit machines bincount takes, and gives, integers of 32 bits alone.
        found = np.bincount(symbols.astype(np.intp, copy=False), minlength=n_symbols)
        return found.astype(np.int64, copy=False)
    counts = np.zeros(n_symbols, np.int64)
    loops.count_symbols(np.ascontiguousarray(symbols), counts)
    return counts


def check_length(payload: bytes, expected: int) -> None:
    """Raise MessageError unless a payload has as many bytes as expected."""
    if len(payload) != expected:
        raise MessageError(f"the message's payload must have {expected} bytes, not {len(payload)}")


def check_symbols(symbols: np.ndarray, n_symbols: int) -> np.ndarray:
    """Return symbols; raise MessageError unless all are below ``n_symbols``."""
    if symbols.size and symbols.max() >= n_symbols:
        raise MessageError(f"the message has the symbol {symbols.max()}, and its codec has "
                           f"{n_symbols} symbols")
    return symbols


def check_same(symbols: np.ndarray, payload: bytes, own: bytes) -> np.ndarray:
    """Return symbols; raise MessageError unless a payload is the one that they are coded as."""
    if payload != own:
        raise MessageError("the message's payload is not the one of its symbols: it is corrupted, "
                           "or no bitstep wrote it")
    return symbols


def powers_of_two(width: int) -> np.ndarray:
    """Values of the bits of a number, the lowest first: int64, shape (width,)."""
    return np.int64(1) << np.arange(width, dtype=np.int64)
