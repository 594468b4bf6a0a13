"""Codings of symbols in a message, by name."""

from bitstep_gradients.wire.payloads.base import (
    Payload,
    check_length,
    check_symbols,
    powers_of_two,
)
from bitstep_gradients.wire.payloads.huffman import Huffman
from bitstep_gradients.wire.payloads.plain import (
    Fixed,
    Radix,
    radix_group,
    radix_width,
    symbol_width,
)
from bitstep_gradients.wire.payloads.range_coding import Range

PAYLOADS: dict[str, Payload] = {one.name: one for one in (Fixed(), Radix(), Huffman(), Range())}

__all__ = ["PAYLOADS", "Fixed", "Huffman", "Payload", "Radix", "Range", "check_length",
           "check_symbols", "powers_of_two", "radix_group", "radix_width", "symbol_width"]
