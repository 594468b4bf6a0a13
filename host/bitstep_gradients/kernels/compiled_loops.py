"""All kernels; importing this needs numba."""

from bitstep_gradients.kernels.levels import round_targets, round_to_levels
from bitstep_gradients.kernels.nesting import look_up, nest_values, unnest_values
from bitstep_gradients.kernels.packing import pack_fixed, pack_radix, unpack_fixed, unpack_radix
from bitstep_gradients.kernels.prefix import count_symbols, find_codes, pack_codes
from bitstep_gradients.kernels.rounding import fill_words, restore_values, round_values
from bitstep_gradients.kernels.sketches import project, restore_rows, transform_rows

__all__ = ["count_symbols", "fill_words", "find_codes", "look_up", "nest_values", "pack_codes",
           "pack_fixed", "pack_radix", "project", "restore_rows", "restore_values",
           "round_targets", "round_to_levels", "round_values", "transform_rows", "unnest_values",
           "unpack_fixed", "unpack_radix"]
