"""Quantized data sets in files: one ``.npz`` with a JSON header, read with NumPy alone."""

import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.data.blocks import row_blocks
from bitstep.data.dataset import DataError
from bitstep.pipeline.levels import decode, unpack_codes
from bitstep.pipeline.memory import unpack_floats
from bitstep.pipeline.registers import LabelFormat
from bitstep.quantization.dataset import QuantizedDataset
from bitstep.quantization.labels import LabelStream
from bitstep.quantization.rows import QuantizedRows
from bitstep.quantization.scaling import Scaler
from bitstep.writing import whole_file

MAGIC = "bitstep quantized data set"
VERSION = 1


class StorageError(DataError):
    """A file of a quantized data set is missing, damaged, or of another kind or version."""


def save_quantized(dataset: QuantizedDataset, path: "str | os.PathLike[str]") -> None:
    """Write a quantized data set to one file.

    The file takes its name only when it is complete, so a file that exists is whole, and one that
    it replaces stays until then. Array ``header`` holds JSON with the SHA-256 of every other array.

    Parameters
    ----------
    dataset : QuantizedDataset
    path : str or path
        Any suffix; a file there is replaced.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    data, labels = dataset.rows, dataset.labels
    arrays: dict[str, Any] = {
        "labels": labels.packed, "centre": data.scaler.centre, "scale": data.scaler.scale,
        "variance": data.variance}
    # Copies without draws are one array, which is stored once.
    first = {id(rows): f"rows_{copy}" for copy, rows in reversed([*enumerate(data.packed)])}
    arrays |= {first[id(rows)]: rows for rows in data.packed}
    if data.fine_rows is not None:
        arrays["fine_rows"] = data.fine_rows
    classes = labels.classes
    header = {
        "magic": MAGIC, "version": VERSION, "bits": data.bits, "encoding": data.encoding,
        "bus_width": data.bus_width, "n_features": data.n_features,
        "rows": [first[id(rows)] for rows in data.packed],
        "label_format": labels.label_format.name,
        "label_scale": labels.scale, "label_offset": labels.offset,
        "classes": None if classes is None else classes.tolist(), "scaler": data.scaler.kind,
        "seed": data.seed, "sha256": {name: _sha256(array) for name, array in arrays.items()},
    }
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with whole_file(os.fspath(path)) as temporary, temporary.open("wb") as file:
        np.savez(file, **arrays)


def load_quantized(path: "str | os.PathLike[str]") -> QuantizedDataset:
    """Read a file that :func:`save_quantized` wrote, and check all of it.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    QuantizedDataset

    Raises
    ------
    StorageError
        If the file is missing, cut short or of another kind; if its version is newer; if a checksum
        differs; or if the parts do not fit each other or hold codes, or values of fine rows,
        that no encoder writes.
    """
    path = Path(path)
    if not path.is_file():
        raise StorageError(f"{path}: there is no such file; check the path")
    with path.open("rb") as file:
        start = file.read(4)
    if start != b"PK\x03\x04":      # what every .npz starts with
        raise StorageError(f"{path}: found a file of another kind (it starts with {start!r}); it "
                           "must be one that bitstep.quantization.save_quantized wrote")
    try:
        # Opened here, because NumPy leaves a file open that it cannot read.
        with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
            header = _header(path, stored)
            arrays = {name: stored[name] for name in header["sha256"]}
    except StorageError:
        raise
    except (zipfile.BadZipFile, OSError, EOFError, ValueError, KeyError) as error:
        raise StorageError(f"{path}: the file is damaged or was cut short ({error}); copy it again "
                           "or quantize again") from error
    for name, array in arrays.items():
        if _sha256(array) != header["sha256"][name]:
            raise StorageError(f"{path}: the SHA-256 of array {name!r} is not the one in the "
                               "header, so the file was changed; copy it again or quantize again")
    try:
        dataset = _assemble(header, arrays)
        for name in dict.fromkeys(header["rows"]):
            _check_codes(dataset.rows, name, arrays[name])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(f"{path}: the parts of the file do not fit each other ({error}); "
                           "quantize again") from error
    return dataset


def _header(path: Path, stored: Any) -> dict[str, Any]:
    try:
        header = json.loads(stored["header"].tobytes())
        magic, version = header["magic"], int(header["version"])
    except (KeyError, ValueError, TypeError):
        magic, version, header = None, 0, {}
    if magic != MAGIC:
        raise StorageError(f"{path}: found an .npz file of another kind (arrays "
                           f"{', '.join(stored.files[:5])}); it must be one that "
                           "bitstep.quantization.save_quantized wrote")
    if version != VERSION:
        raise StorageError(f"{path}: found format version {version}; this bitstep reads version "
                           f"{VERSION}; install a newer bitstep, or quantize again")
    return header


def _assemble(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> QuantizedDataset:
    classes = header["classes"]
    for name in arrays.keys() - {"labels", "centre", "scale", "variance", "fine_rows"}:
        if not name.startswith("rows_"):
            raise ValueError(f"nothing is known of array {name!r}")
    return QuantizedDataset(
        QuantizedRows(
            bits=header["bits"], encoding=header["encoding"], bus_width=header["bus_width"],
            n_features=header["n_features"],
            packed=tuple(arrays[name] for name in header["rows"]),
            scaler=Scaler(header["scaler"], arrays["centre"], arrays["scale"]),
            variance=arrays["variance"], seed=header["seed"], fine_rows=arrays.get("fine_rows")),
        LabelStream(
            arrays["labels"], LabelFormat[header["label_format"]], header["label_scale"],
            header["label_offset"], None if classes is None else np.array(classes, np.float64)))


def _check_codes(data: QuantizedRows, name: str, rows: np.ndarray) -> None:
    """Raise ValueError for a set bit of padding, a code that no encoder writes or a value of a
    fine row that lies outside the cell of its code.
    """
    config = data.config
    real = np.zeros((config.beats(data.n_features), config.bus_width), np.uint8)
    lanes = real[:, :config.lanes * config.bits].reshape(len(real), config.lanes, config.bits)
    features = np.arange(lanes[:, :, 0].size).reshape(lanes.shape[:2]) < data.n_features
    lanes[features] = 1
    padding = ~np.packbits(real.reshape(-1), bitorder="little")
    impossible = 1 << config.bits - 1       # the level below -level_limit
    for _, start, stop in row_blocks(*rows.shape):
        if (rows[start:stop] & padding).any():
            raise ValueError(f"padding in {name} is not 0")
        if config.row_format == "float32":
            values = unpack_floats(rows[start:stop], data.n_features)
            if not (np.abs(values) <= 1).all():     # NaN is refused, too
                raise ValueError(f"{name} holds a value that is not in [-1, 1]")
        elif config.row_format == "one_level" and (config.bits > 1 or data.fine_rows is not None):
            codes = unpack_codes(rows[start:stop], config, data.n_features)
            if config.bits > 1 and (codes == impossible).any():
                raise ValueError(f"{name} holds code {impossible}, which stands for no level")
            if data.fine_rows is not None:
                _check_cells(data, name, codes, data.fine_rows[start:stop])


def _check_cells(data: QuantizedRows, name: str, codes: np.ndarray, fine_rows: np.ndarray) -> None:
    fraction = data.config.fine_fraction
    levels, _ = decode(codes, bits=data.bits, row_format="one_level")
    values = fine_rows.astype(np.int64)
    if (np.abs(2 * (values - (levels << fraction))) > data.cell_half_levels << fraction).any() \
            or (np.abs(values) > data.level_limit << fraction).any():
        raise ValueError(f"fine_rows holds a value outside the cell of its code in {name}")


def _sha256(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
