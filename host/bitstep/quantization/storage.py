"""Quantized data sets in files: one ``.npz`` with a JSON header, read with NumPy alone.

The rows are not compressed and are mapped into memory (docs/memory-layout.md).
"""

import io
import json
import os
import sys
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.data.blocks import row_blocks
from bitstep.data.dataset import DataError
from bitstep.data.npz import BROKEN, COMPRESSED, MappedFile, StoredArray, find_arrays
from bitstep.pipeline.levels import decode
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.registers import LabelFormat
from bitstep.quantization.archive import ArchiveWriter, Arrays, open_archive
from bitstep.quantization.bit_planes import BitPlaneEncoder, BitPlaneRows
from bitstep.quantization.dataset import QuantizedDataset
from bitstep.quantization.encoder import RowEncoder
from bitstep.quantization.labels import LabelStream
from bitstep.quantization.rows import QuantizedRows
from bitstep.quantization.scaling import Scaler

MAGIC = "bitstep quantized data set"
VERSION = 2
MAPPED_BYTES = sys.maxsize  # of a file; 2 GB on 32-bit machines
_PIECE = 1 << 23          # bytes of an array that are read or written at a time
_RELEASED_BLOCKS = 256      # of rows, after which the map gives its memory back


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
    # Copies without draws are one array, which is stored once.
    first = {id(rows): f"rows_{copy}" for copy, rows in reversed([*enumerate(data.stored)])}
    arrays = {first[id(rows)]: rows for rows in data.stored}
    if data.fine_rows is not None:
        arrays["fine_rows"] = data.fine_rows
    shapes: Arrays = {name: (array.dtype, array.shape) for name, array in arrays.items()}
    with open_archive(Path(path), shapes) as archive:
        for name, array in arrays.items():
            rows = max(1, _PIECE // array[:1].nbytes)
            for start in range(0, len(array), rows):
                archive.append(name, array[start:start + rows])
        finish_archive(archive, data, labels, [first[id(rows)] for rows in data.stored],
                       dataset.feature_names)


def finish_archive(archive: ArchiveWriter,
                   data: QuantizedRows | RowEncoder | BitPlaneRows | BitPlaneEncoder,
                   labels: LabelStream, names: list[str],
                   feature_names: tuple[str, ...] | None) -> None:
    """Write all but the rows of a quantized data set.

    Parameters
    ----------
    archive : ArchiveWriter
        It holds the rows.
    data : QuantizedRows, BitPlaneRows or the encoder of either
        What the codes stand for.
    labels : LabelStream
    names : list of str
        Name of the array of each copy.
    feature_names : tuple of str or None
        Names of the columns, if they have some.
    """
    bit_planes = isinstance(data, (BitPlaneRows, BitPlaneEncoder))
    of_columns = ("excess", data.excess) if bit_planes else ("variance", data.variance)
    for name, array in (("labels", labels.stored), ("centre", data.scaler.centre),
                        ("scale", data.scaler.scale), of_columns):
        archive.add(name, array)
    for name, array in (("clip", data.scaler.clip), ("codebooks", data.codebooks),
                        ("moments", getattr(data, "moments", None)),
                        ("shifts", getattr(data, "shifts", None)),
                        ("weights", getattr(data, "weights", None))):
        if array is not None:
            archive.add(name, array)
    classes = labels.classes
    header = {
        "magic": MAGIC, "version": VERSION, "bits": data.bits, "encoding": data.encoding,
        "bus_width": data.bus_width, "n_features": data.n_features, "rows": names,
        "label_format": labels.label_format.name,
        "label_scale": labels.scale, "label_offset": labels.offset,
        "classes": None if classes is None else classes.tolist(), "scaler": data.scaler.kind,
        "seed": data.seed, "sha256": archive.checksums(),
    }
    if isinstance(data, (BitPlaneRows, BitPlaneEncoder)):
        # The last block is padded, so the rows are not counted by it.
        header |= {"n_rows": data.n_rows}
    if feature_names is not None:
        header |= {"feature_names": list(feature_names)}
    archive.add("header", np.frombuffer(json.dumps(header).encode(), np.uint8))


def load_quantized(path: "str | os.PathLike[str]") -> QuantizedDataset:
    """Map a file that :func:`save_quantized` wrote into memory, and check all of it.

    Rows, labels and fine rows are read-only views of the file, which the system
    reads when they are touched and may forget again. Files with the same name that are written
    later are other files: a data set keeps its own.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    QuantizedDataset

    Raises
    ------
    StorageError
        If the file is missing, cut short, of another kind, or too large for a program of 32 bits;
        if its version is newer; if a checksum differs; or if the parts do not fit each other or
        hold codes, or values of fine rows, that no encoder writes.
    """
    path = Path(path)
    if not path.is_file():
        raise StorageError(f"{path}: there is no such file; check the path")
    with path.open("rb") as file:
        start = file.read(4)
    if start != b"PK\x03\x04":      # what every .npz starts with
        raise StorageError(f"{path}: found a file of another kind (it starts with {start!r}); it "
                           "must be one that bitstep.quantization.save_quantized wrote")
    if (size := path.stat().st_size) > MAPPED_BYTES:
        raise StorageError(f"{path}: found {size:,} bytes; a program of 32 bits can map at most "
                           f"{MAPPED_BYTES:,}; quantize fewer rows, or to fewer bits")
    try:
        with zipfile.ZipFile(path) as archive:
            header = _header(path, archive)
        stored = find_arrays(path)
        mapped = MappedFile(path)
        arrays = {name: _array(path, name, stored[name], mapped) for name in header["sha256"]}
    except StorageError:
        raise
    except (*BROKEN, ValueError, KeyError) as error:
        raise StorageError(f"{path}: the file is damaged or was cut short ({error}); copy it again "
                           "or quantize again") from error
    for name, array in arrays.items():
        if _sha256(array, mapped) != header["sha256"][name]:
            raise StorageError(f"{path}: the SHA-256 of array {name!r} is not the one in the "
                               "header, so the file was changed; copy it again or quantize again")
    try:
        dataset = _assemble(header, arrays)
        for name in dict.fromkeys(header["rows"]):
            if isinstance(dataset.rows, BitPlaneRows):
                dataset.rows.check_padding(mapped.release)
            else:
                _check_codes(dataset.rows, name, arrays[name], mapped)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise StorageError(f"{path}: the parts of the file do not fit each other ({error}); "
                           "quantize again") from error
    mapped.release()
    return dataset


def _array(path: Path, name: str, stored: StoredArray, mapped: MappedFile) -> np.ndarray:
    """An array of the file: a view of the map where its bytes are there as they are needed."""
    if stored.offset == COMPRESSED:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
            return arrays[name]
    array = mapped.array(stored)
    return array if array.flags.aligned else array.copy()   # others write archives without padding


def _header(path: Path, archive: zipfile.ZipFile) -> dict[str, Any]:
    names = [name.removesuffix(".npy") for name in archive.namelist()]
    try:
        # Read as a whole, which compares it with its checksum.
        header = json.loads(np.load(io.BytesIO(archive.read("header.npy"))).tobytes())
        magic, version = header["magic"], int(header["version"])
    except (KeyError, ValueError, TypeError):
        magic, version, header = None, 0, {}
    if magic != MAGIC:
        raise StorageError(f"{path}: found an .npz file of another kind (arrays "
                           f"{', '.join(names[:5])}); it must be one that "
                           "bitstep.quantization.save_quantized wrote")
    if version != VERSION:
        raise StorageError(f"{path}: found format version {version}; this bitstep reads version "
                           f"{VERSION}; quantize again with this bitstep, or install a newer one")
    return header


def _assemble(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> QuantizedDataset:
    classes = header["classes"]
    for name in arrays.keys() - {"labels", "centre", "scale", "variance", "excess", "fine_rows",
                                 "clip", "codebooks", "moments", "shifts", "weights"}:
        if not name.startswith("rows_"):
            raise ValueError(f"nothing is known of array {name!r}")
    shared = {"bus_width": header["bus_width"], "n_features": header["n_features"],
              "stored": tuple(arrays[name] for name in header["rows"]),
              "scaler": Scaler(header["scaler"], arrays["centre"], arrays["scale"],
                               arrays.get("clip")),
              "seed": header["seed"], "weights": arrays.get("weights")}
    if header["encoding"] == BIT_PLANES:
        rows = BitPlaneRows(n_rows=header["n_rows"], excess=arrays["excess"],
                            moments=arrays.get("moments"), shifts=arrays.get("shifts"), **shared)
    else:
        rows = QuantizedRows(
            bits=header["bits"], encoding=header["encoding"], variance=arrays["variance"],
            fine_rows=arrays.get("fine_rows"), codebooks=arrays.get("codebooks"), **shared)
    return QuantizedDataset(
        rows,
        LabelStream(
            arrays["labels"], LabelFormat[header["label_format"]], header["label_scale"],
            header["label_offset"], _classes(classes)),
        feature_names=None if (names := header.get("feature_names")) is None
        else tuple(map(str, names)))


def _classes(stored: list[Any] | None) -> np.ndarray | None:
    """Classes of a header: names, or numbers."""
    if stored is None:
        return None
    names = all(isinstance(one, str) for one in stored)
    return np.array(stored, str if names else np.float64)


def _check_codes(data: QuantizedRows, name: str, rows: np.ndarray, mapped: MappedFile) -> None:
    """Raise ValueError for a set bit of padding, a code that no encoder writes or a value of a
    fine row that lies outside the cell of its code.
    """
    config = data.config
    real = np.zeros((config.rows.beats(data.n_features), config.bus_width), np.uint8)
    lanes = config.rows.lanes
    lanes = real[:, :lanes * config.bits].reshape(len(real), lanes, config.bits)
    features = np.arange(lanes[:, :, 0].size).reshape(lanes.shape[:2]) < data.n_features
    lanes[features] = 1
    padding = ~np.packbits(real.reshape(-1), bitorder="little")
    grid = data.grid
    for block, start, stop in row_blocks(*rows.shape):
        if block % _RELEASED_BLOCKS == 0:
            mapped.release()
        if (rows[start:stop] & padding).any():
            raise ValueError(f"padding in {name} is not 0")
        if grid.has_all_codes and data.fine_rows is None:
            continue
        codes = grid.unpack(rows[start:stop], config.rows, data.n_features)
        grid.check_codes(codes, name)
        if data.fine_rows is not None:
            _check_cells(data, name, codes, data.fine_rows[start:stop])


def _check_cells(data: QuantizedRows, name: str, codes: np.ndarray, fine_rows: np.ndarray) -> None:
    fraction = data.config.rows.fine_fraction
    levels, _ = decode(codes, bits=data.bits, row_format="one_level")
    values = fine_rows.astype(np.int64)
    if (np.abs(2 * (values - (levels << fraction))) > data.cell_half_levels << fraction).any() \
            or (np.abs(values) > data.level_limit << fraction).any():
        raise ValueError(f"fine_rows holds a value outside the cell of its code in {name}")


def _sha256(array: np.ndarray, mapped: MappedFile | None = None) -> str:
    """Checksum of an array's values, row after row; the map keeps no more than a piece."""
    digest = sha256()
    rows = max(1, _PIECE // max(1, array[:1].nbytes))
    for start in range(0, len(array), rows):
        digest.update(np.ascontiguousarray(array[start:start + rows]).data)
        if mapped is not None:
            mapped.release()
    return digest.hexdigest()
