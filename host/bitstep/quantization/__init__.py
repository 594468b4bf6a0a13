"""From features and labels to the packed codes and labels that a pipeline reads.

The formats are those of docs/number-formats.md and docs/memory-layout.md; everything works with
NumPy alone.
"""

from bitstep.quantization.dataset import MAX_COPIES, QuantizedDataset, quantize
from bitstep.quantization.encodings import ENCODINGS, Grid, encode
from bitstep.quantization.packing import pack_codes, pack_floats, pack_labels, unpack_floats
from bitstep.quantization.scaling import Scaler, fit_scaler
from bitstep.quantization.storage import StorageError

__all__ = ["ENCODINGS", "MAX_COPIES", "Grid", "QuantizedDataset", "Scaler", "StorageError",
           "encode", "fit_scaler", "pack_codes", "pack_floats", "pack_labels", "quantize",
           "unpack_floats"]
