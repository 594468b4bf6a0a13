"""From features and labels to the stored codes and labels that a pipeline reads.

The formats are those of docs/number-formats.md and docs/memory-layout.md; everything works with
NumPy alone.
"""

from bitstep.pipeline.encodings import ENCODINGS, LEVELS
from bitstep.pipeline.memory import pack_codes, pack_floats, pack_labels, unpack_floats
from bitstep.pipeline.shapes import MAX_COPIES
from bitstep.quantization.bit_planes import (
    BitPlaneOptions,
    BitPlaneRows,
    LevelSums,
    label_bits_of,
)
from bitstep.quantization.dataset import QuantizedDataset
from bitstep.quantization.encodings import Grid, encode
from bitstep.quantization.labels import LabelStream, quantize_labels, sign_labels
from bitstep.quantization.quantizing import quantize, quantize_bit_planes, quantize_rows
from bitstep.quantization.rows import QuantizedRows
from bitstep.quantization.scaling import (
    Scaler,
    column_ranges,
    fit_scaler,
    scaler_of_ranges,
)
from bitstep.quantization.storage import StorageError, load_quantized, save_quantized

__all__ = [
    "ENCODINGS",
    "LEVELS",
    "MAX_COPIES",
    "BitPlaneOptions",
    "BitPlaneRows",
    "Grid",
    "LabelStream",
    "LevelSums",
    "QuantizedDataset",
    "QuantizedRows",
    "Scaler",
    "StorageError",
    "column_ranges",
    "encode",
    "fit_scaler",
    "label_bits_of",
    "load_quantized",
    "pack_codes",
    "pack_floats",
    "pack_labels",
    "quantize",
    "quantize_bit_planes",
    "quantize_labels",
    "quantize_rows",
    "save_quantized",
    "scaler_of_ranges",
    "sign_labels",
    "unpack_floats",
]
