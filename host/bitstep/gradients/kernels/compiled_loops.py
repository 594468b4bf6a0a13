"""All kernels; importing this needs numba."""

from bitstep.gradients.kernels.packing import pack_fixed, pack_radix, unpack_fixed, unpack_radix
from bitstep.gradients.kernels.prefix import count_symbols, find_codes, pack_codes
from bitstep.gradients.kernels.rounding import fill_words, restore_values, round_values

__all__ = ["count_symbols", "fill_words", "find_codes", "pack_codes", "pack_fixed", "pack_radix",
           "restore_values", "round_values", "unpack_fixed", "unpack_radix"]
