"""Quantized data sets in files: one ``.npz`` with a JSON header, read with NumPy alone."""

import hashlib
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.data.dataset import DataError
from bitstep.pipeline.levels import decode, unpack_codes
from bitstep.pipeline.memory import unpack_floats
from bitstep.pipeline.registers import LabelFormat
from bitstep.quantization.blocks import row_blocks
from bitstep.quantization.dataset import QuantizedDataset
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
    arrays: dict[str, Any] = {
        "labels": dataset.labels, "centre": dataset.scaler.centre, "scale": dataset.scaler.scale,
        "variance": dataset.variance}
    # Copies without draws are one array, which is stored once.
    first = {id(rows): f"rows_{copy}" for copy, rows in reversed([*enumerate(dataset.rows)])}
    arrays |= {first[id(rows)]: rows for rows in dataset.rows}
    if dataset.full is not None:
        arrays["full"] = dataset.full
    classes = dataset.classes
    header = {
        "magic": MAGIC, "version": VERSION, "bits": dataset.bits, "encoding": dataset.encoding,
        "bus_width": dataset.bus_width, "n_features": dataset.n_features,
        "rows": [first[id(rows)] for rows in dataset.rows],
        "label_format": dataset.label_format.name,
        "label_scale": dataset.label_scale, "label_offset": dataset.label_offset,
        "classes": None if classes is None else classes.tolist(), "scaler": dataset.scaler.kind,
        "seed": dataset.seed, "sha256": {name: _sha256(array) for name, array in arrays.items()},
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
        differs; or if the parts do not fit each other or hold codes, or values at full precision,
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
            _check_rows(dataset, name, arrays[name])
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
    return QuantizedDataset(
        bits=header["bits"], encoding=header["encoding"], bus_width=header["bus_width"],
        n_features=header["n_features"],
        rows=tuple(arrays[name] for name in header["rows"]),
        labels=arrays["labels"], label_format=LabelFormat[header["label_format"]],
        label_scale=header["label_scale"], label_offset=header["label_offset"],
        classes=None if classes is None else np.array(classes, np.float64),
        scaler=Scaler(header["scaler"], arrays["centre"], arrays["scale"]),
        variance=arrays["variance"], seed=header["seed"], full=arrays.get("full"))


def _check_rows(dataset: QuantizedDataset, name: str, rows: np.ndarray) -> None:
    """Raise ValueError for a set bit of padding, a code that no encoder writes or a value at full
    precision that lies outside the cell of its code.
    """
    config = dataset.row_config
    real = np.zeros((config.beats(dataset.n_features), config.bus_width), np.uint8)
    lanes = real[:, :config.lanes * config.bits].reshape(len(real), config.lanes, config.bits)
    features = np.arange(lanes[:, :, 0].size).reshape(lanes.shape[:2]) < dataset.n_features
    lanes[features] = 1
    padding = ~np.packbits(real.reshape(-1), bitorder="little")
    impossible = 1 << config.bits - 1       # the level below -level_limit
    for _, start, stop in row_blocks(*rows.shape):
        if (rows[start:stop] & padding).any():
            raise ValueError(f"padding in {name} is not 0")
        if config.family == "float":
            values = unpack_floats(rows[start:stop], dataset.n_features)
            if not (np.abs(values) <= 1).all():     # NaN is refused, too
                raise ValueError(f"{name} holds a value that is not in [-1, 1]")
        elif config.family == "single" and (config.bits > 1 or dataset.full is not None):
            codes = unpack_codes(rows[start:stop], config, dataset.n_features)
            if config.bits > 1 and (codes == impossible).any():
                raise ValueError(f"{name} holds code {impossible}, which stands for no level")
            if dataset.full is not None:
                _check_cells(dataset, name, codes, dataset.full[start:stop])


def _check_cells(dataset: QuantizedDataset, name: str, codes: np.ndarray,
                 full: np.ndarray) -> None:
    fraction = dataset.row_config.full_fraction
    levels, _ = decode(codes, bits=dataset.bits, family="single")
    values = full.astype(np.int64)
    if (np.abs(2 * (values - (levels << fraction))) > dataset.refetch_cell << fraction).any() \
            or (np.abs(values) > dataset.level_limit << fraction).any():
        raise ValueError(f"full holds a value outside the cell of its code in {name}")


def _sha256(array: np.ndarray) -> str:
    return hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
