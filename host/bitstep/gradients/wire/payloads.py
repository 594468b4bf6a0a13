"""Codings of symbols in a message."""

from math import log2
from typing import Protocol

import numpy as np

from bitstep.gradients.errors import MessageError


class Payload(Protocol):
    """Coding of symbols 0 .. n_symbols - 1."""

    number: int         # in the header, from 1 to 15
    name: str

    def encode(self, symbols: np.ndarray, n_symbols: int) -> bytes:
        """Code symbols (integers, shape (count,))."""
        ...

    def decode(self, payload: bytes, count: int, n_symbols: int) -> np.ndarray:
        """Find ``count`` symbols (int64). Raise MessageError if the bytes do not hold them."""
        ...

    def expected_bits(self, count: int, probabilities: np.ndarray) -> float:
        """Expected bits of ``count`` symbols that have these mean probabilities."""
        ...


class Fixed:
    """As many bits for each symbol as the largest one needs, the lowest bits first."""

    number, name = 1, "fixed"

    def encode(self, symbols, n_symbols):
        width = symbol_width(n_symbols)
        bits = np.asarray(symbols, np.uint32)[:, None] >> np.arange(width, dtype=np.uint32) & 1
        return np.packbits(bits.astype(np.uint8), bitorder="little").tobytes()

    def decode(self, payload, count, n_symbols):
        width = symbol_width(n_symbols)
        check_length(payload, (count * width + 7) // 8)
        bits = np.unpackbits(np.frombuffer(payload, np.uint8), count=count * width,
                             bitorder="little")
        return check_symbols(bits.reshape(count, width) @ (1 << np.arange(width)), n_symbols)

    def expected_bits(self, count, probabilities):
        return 8 * ((count * symbol_width(len(probabilities)) + 7) // 8)


class Radix:
    """Groups of symbols as digits of one number, the first symbol lowest: 5 trits a byte.

    See :func:`radix_group` for the size of a group. The last group of a message may be shorter; it
    takes the bits that it needs.
    """

    number, name = 2, "radix"

    def encode(self, symbols, n_symbols):
        group, width = radix_group(n_symbols)
        symbols = np.asarray(symbols, np.int64)
        whole = symbols.size // group
        powers = n_symbols ** np.arange(group, dtype=np.int64)
        numbers = symbols[:whole * group].reshape(whole, group) @ powers
        rest = symbols[whole * group:]
        bits = [_bits(numbers, width)]
        if rest.size:
            last = rest @ powers[:rest.size]
            bits.append(_bits(np.array([last]), radix_width(n_symbols, rest.size)))
        return np.packbits(np.concatenate(bits), bitorder="little").tobytes()

    def decode(self, payload, count, n_symbols):
        group, width = radix_group(n_symbols)
        check_length(payload, (self._bits(count, n_symbols) + 7) // 8)
        whole, rest = divmod(count, group)
        bits = np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little")
        numbers = bits[:whole * width].reshape(whole, width) @ (1 << np.arange(width))
        symbols = [_digits(numbers, n_symbols, group).reshape(-1)]
        if rest:
            last = radix_width(n_symbols, rest)
            number = bits[whole * width:][:last] @ (1 << np.arange(last))
            symbols.append(_digits(np.array([number]), n_symbols, rest).reshape(-1))
        return np.concatenate(symbols)

    def expected_bits(self, count, probabilities):
        return 8 * ((self._bits(count, len(probabilities)) + 7) // 8)

    @staticmethod
    def _bits(count, n_symbols):
        group, width = radix_group(n_symbols)
        whole, rest = divmod(count, group)
        return whole * width + radix_width(n_symbols, rest)


def symbol_width(n_symbols: int) -> int:
    """Bits that hold a symbol, at least 1."""
    return max((n_symbols - 1).bit_length(), 1)


def radix_width(n_symbols: int, group: int) -> int:
    """Bits that hold ``group`` symbols as digits of one number."""
    return (n_symbols ** group - 1).bit_length()


def radix_group(n_symbols: int) -> tuple[int, int]:
    """Symbols of a group and its bits: the smallest group within 56 bits that takes at most 1 %
    more than the logarithm of ``n_symbols``. If there is none, the one with the least loss.
    """
    sizes = [size for size in range(1, 57) if radix_width(n_symbols, size) <= 56]
    loss = {size: radix_width(n_symbols, size) / (size * log2(n_symbols)) for size in sizes}
    size = next((size for size in sizes if loss[size] <= 1.01), min(sizes, key=loss.__getitem__))
    return size, radix_width(n_symbols, size)


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


def _bits(numbers: np.ndarray, width: int) -> np.ndarray:
    """Bits of numbers, the lowest first: uint8, shape (numbers * width,)."""
    return (numbers[:, None] >> np.arange(width) & 1).astype(np.uint8).reshape(-1)


def _digits(numbers: np.ndarray, n_symbols: int, group: int) -> np.ndarray:
    """Digits of numbers, the lowest first: int64, shape (numbers, group)."""
    if numbers.size and numbers.max() >= n_symbols ** group:
        raise MessageError(f"the message has a group of symbols that {group} symbols of "
                           f"{n_symbols} cannot be")
    return numbers[:, None] // n_symbols ** np.arange(group, dtype=np.int64) % n_symbols


PAYLOADS: dict[str, Payload] = {one.name: one for one in (Fixed(), Radix())}
