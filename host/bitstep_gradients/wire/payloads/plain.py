"""Codings whose length does not depend on the symbols."""

from math import log2

import numpy as np

from bitstep_gradients import kernels
from bitstep_gradients.errors import MessageError
from bitstep_gradients.wire.payloads.base import (
    Payload,
    check_length,
    check_symbols,
    powers_of_two,
)


class Fixed(Payload):
    """As many bits for each symbol as the largest one needs, the lowest bits first."""

    number, name = 1, "fixed"

    def encode(self, symbols, n_symbols):
        width = symbol_width(n_symbols)
        if width == 8:
            return np.asarray(symbols, np.uint8).tobytes()
        loops = kernels.find_kernels()
        if loops and width < 8:
            packed = np.empty((symbols.size * width + 7) // 8, np.uint8)
            loops.pack_fixed(np.ascontiguousarray(symbols, np.uint8), width, packed)
            return packed.tobytes()
        bits = np.asarray(symbols, np.uint32)[:, None] >> np.arange(width, dtype=np.uint32) & 1
        return np.packbits(bits.astype(np.uint8), bitorder="little").tobytes()

    def decode(self, payload, count, n_symbols, dtype=np.int64):
        width = symbol_width(n_symbols)
        check_length(payload, (count * width + 7) // 8)
        if width == 8:
            return check_symbols(np.frombuffer(payload, np.uint8).astype(dtype), n_symbols)
        loops = kernels.find_kernels()
        if loops and width < 8:
            symbols = np.empty(count, np.uint8)
            largest = loops.unpack_fixed(np.frombuffer(payload, np.uint8), width, symbols)
            check_symbols(np.array([largest]), n_symbols)
            return symbols.astype(dtype, copy=False)
        bits = np.unpackbits(np.frombuffer(payload, np.uint8), count=count * width,
                             bitorder="little")
        symbols = bits.reshape(count, width) @ powers_of_two(width)
        return check_symbols(symbols, n_symbols).astype(dtype, copy=False)

    def expected_bits(self, count, probabilities):
        return 8 * ((count * symbol_width(len(probabilities)) + 7) // 8)


class Radix(Payload):
    """Groups of symbols as digits of one number, the first symbol lowest: 5 trits a byte.

    See :func:`radix_group` for the size of a group. The last group of a message may be shorter; it
    takes the bits that it needs.
    """

    number, name = 2, "radix"

    def encode(self, symbols, n_symbols):
        group, width = radix_group(n_symbols)
        loops = kernels.find_kernels()
        if loops and n_symbols <= 256:
            packed = np.empty((self._bits(symbols.size, n_symbols) + 7) // 8, np.uint8)
            loops.pack_radix(np.ascontiguousarray(symbols, np.uint8), n_symbols, group, width,
                             packed)
            return packed.tobytes()
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

    def decode(self, payload, count, n_symbols, dtype=np.int64):
        group, width = radix_group(n_symbols)
        check_length(payload, (self._bits(count, n_symbols) + 7) // 8)
        whole, rest = divmod(count, group)
        loops = kernels.find_kernels()
        if loops and n_symbols <= 256:
            symbols = np.empty(count, np.uint8)
            if not loops.unpack_radix(np.frombuffer(payload, np.uint8), n_symbols, group, width,
                                      radix_width(n_symbols, rest), symbols):
                raise _beyond(n_symbols)
            return symbols.astype(dtype, copy=False)
        bits = np.unpackbits(np.frombuffer(payload, np.uint8), bitorder="little")
        numbers = bits[:whole * width].reshape(whole, width) @ powers_of_two(width)
        symbols = [_digits(numbers, n_symbols, group).reshape(-1)]
        if rest:
            last = radix_width(n_symbols, rest)
            number = bits[whole * width:][:last] @ powers_of_two(last)
            symbols.append(_digits(np.array([number]), n_symbols, rest).reshape(-1))
        return np.concatenate(symbols).astype(dtype, copy=False)

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


def _bits(numbers: np.ndarray, width: int) -> np.ndarray:
    """Bits of numbers, the lowest first: uint8, shape (numbers * width,)."""
    return (numbers[:, None] >> np.arange(width) & 1).astype(np.uint8).reshape(-1)


def _digits(numbers: np.ndarray, n_symbols: int, group: int) -> np.ndarray:
    """Digits of numbers, the lowest first: int64, shape (numbers, group)."""
    if numbers.size and numbers.max() >= n_symbols ** group:
        raise _beyond(n_symbols)
    return numbers[:, None] // n_symbols ** np.arange(group, dtype=np.int64) % n_symbols


def _beyond(n_symbols: int) -> MessageError:
    return MessageError(f"the message has a group of symbols that no symbols of {n_symbols} make")
