"""Files of quantized data sets: there and back, and every kind of damage."""

import errno
import json
import mmap
import os
import zipfile
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest

from bitstep.data import DataError, blocks
from bitstep.data.npz import find_arrays
from bitstep.pipeline.levels import decode
from bitstep.quantization import (
    ENCODINGS,
    QuantizedDataset,
    StorageError,
    archive,
    load_quantized,
    pack_codes,
    pack_floats,
    quantize,
    quantize_bit_planes,
    quantize_labels,
    quantize_rows,
    save_quantized,
    storage,
)


def make(**options):
    rng = np.random.default_rng(0)
    features = rng.normal(size=(30, 25))
    labels = features[:, 0] > 0 if options.get("task") == "classification" else features[:, 0]
    return quantize(features, labels, **{"bits": 3, "copies": 2, "seed": 4, **options})


def rewrite(path, header=None, **changes):
    """Replace arrays (with new checksums) and entries of the header."""
    with np.load(path) as stored:
        arrays = dict(stored)
    content = json.loads(arrays.pop("header").tobytes())
    for name, array in changes.items():
        arrays[name] = array
        content["sha256"][name] = storage._sha256(array)
    content.update(header or {})
    arrays["header"] = np.frombuffer(json.dumps(content).encode(), np.uint8)
    with path.open("wb") as file:
        np.savez(file, **arrays)


@pytest.mark.parametrize("task", ["regression", "classification"])
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("bits", [2, 3, 8])
def test_there_and_back(tmp_path, task, encoding, bits):
    bits = 32 if encoding == "float" else bits
    data = make(task=task, encoding=encoding, bits=bits)
    path = tmp_path / "set.bits"
    save_quantized(data, path)
    assert [file.name for file in tmp_path.iterdir()] == ["set.bits"]   # nothing temporary is left
    again = load_quantized(str(path))
    for name in ("bits", "encoding", "bus_width", "n_features", "label_format", "label_scale",
                 "label_offset", "row_format", "level_limit", "n_rows", "task"):
        assert getattr(again, name) == getattr(data, name), name
    assert (again.rows.seed, again.rows.copies) == (data.rows.seed, data.rows.copies)
    assert again.scaler.kind == data.scaler.kind
    for mine, theirs in [(again.labels.stored, data.labels.stored), (again.variance, data.variance),
                         (again.scaler.centre, data.scaler.centre),
                         (again.scaler.scale, data.scaler.scale),
                         *zip(again.rows.stored, data.rows.stored, strict=True)]:
        np.testing.assert_array_equal(mine, theirs)
        assert mine.dtype == theirs.dtype
    if task == "classification":
        np.testing.assert_array_equal(again.classes, data.classes)
    else:
        assert again.classes is None


def outlying(**options):
    """A data set with a column that scaler ``quantile`` clips."""
    features = np.random.default_rng(1).normal(size=(300, 7))
    features[17, 3] = 1e4
    make_rows = quantize_rows if options else quantize_bit_planes
    rows = make_rows(features, scaler="quantile", seed=9,
                     weights=np.arange(1, 301, dtype=np.uint16), **options)
    stream = replace(quantize_labels(features[:, 0] > 0, 300, task="classification"),
                     classes=np.array(["no", "yes"]))
    return QuantizedDataset(rows, stream, feature_names=tuple("abcdefg"))


def assert_same(found, wanted, name=""):
    """Every field of two objects is the same, bit for bit."""
    assert type(found) is type(wanted), name
    if is_dataclass(wanted):
        for part in fields(wanted):
            if part.name != "level_sums":       # of which no file has a copy
                assert_same(getattr(found, part.name), getattr(wanted, part.name), part.name)
    elif isinstance(wanted, tuple):
        assert len(found) == len(wanted), name
        for mine, theirs in zip(found, wanted, strict=True):
            assert_same(mine, theirs, name)
    elif isinstance(wanted, np.ndarray):
        assert found.dtype == wanted.dtype, name
        np.testing.assert_array_equal(found, wanted, name)
    else:
        assert found == wanted, name


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("options", [
    {}, {"bits": 4, "encoding": "double", "copies": 3, "bus_width": 128},
    {"bits": 6, "encoding": "nearest", "fine_rows": True}, {"bits": 32, "encoding": "float"},
    {"bits": 2, "encoding": "nearest", "levels": "optimal"}], ids=str)
def test_every_part_is_there_and_back(tmp_path, options, whole, monkeypatch):
    if not whole:
        monkeypatch.setattr(storage, "_PIECE", 100)
        monkeypatch.setattr(blocks, "BLOCK_VALUES", 64)
    data = outlying(**options)
    assert data.scaler.clip is not None
    save_quantized(data, tmp_path / "set")
    assert_same(load_quantized(tmp_path / "set"), data)


def test_a_change_in_any_piece_is_found(tmp_path, monkeypatch):
    path = tmp_path / "set"
    save_quantized(outlying(bits=3, encoding="nearest"), path)
    monkeypatch.setattr(storage, "_PIECE", 100)
    content, array = bytearray(path.read_bytes()), find_arrays(path)["rows_0"]
    content[array.offset + array.n_bytes - 8] ^= 1
    path.write_bytes(content)
    with pytest.raises(StorageError, match="the SHA-256 of array 'rows_0' is not the one in the"):
        load_quantized(path)


def test_one_bit(tmp_path):
    data = make(bits=1)
    save_quantized(data, tmp_path / "set")
    again = load_quantized(tmp_path / "set")
    np.testing.assert_array_equal(again.rows.stored[1], data.rows.stored[1])


def test_shared_copies_are_stored_once(tmp_path):
    data = make(encoding="nearest", copies=200)
    save_quantized(data, tmp_path / "set")
    again = load_quantized(tmp_path / "set")
    assert (tmp_path / "set").stat().st_size < 10_000
    assert again.rows.copies == 200
    assert all(rows is again.rows.stored[0] for rows in again.rows.stored)


def test_save_replaces_whole_files_only(tmp_path, monkeypatch):
    path = tmp_path / "set"
    save_quantized(make(seed=1), path)
    before = path.read_bytes()

    write = archive._write_some

    def fail(file, offset, content):
        if offset > 500:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, offset, content[:100])       # a write may be a part only
    with monkeypatch.context() as patch:
        patch.setattr(archive, "_write_some", fail)
        with pytest.raises(OSError, match=r"set cannot be written \(No space left on device\); a "
                           "file that was there is unchanged"):
            save_quantized(make(seed=2), path)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    file_before = path.stat().st_ino
    save_quantized(make(seed=2), path)
    assert load_quantized(path).rows.seed == 2
    assert path.stat().st_ino != file_before     # renamed, not written over


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "set.bits"
    save_quantized(make(), path)
    return path


def refuse(path, message):
    with pytest.raises(StorageError) as error:
        load_quantized(path)
    assert str(error.value).startswith(f"{path}: ")
    assert message in str(error.value)
    assert isinstance(error.value, DataError)


def test_missing(tmp_path):
    refuse(tmp_path / "none", "there is no such file; check the path")


@pytest.mark.parametrize("content", [b"", b"1 1:2\n", b"\x89PNG"])
def test_another_kind(tmp_path, content):
    (tmp_path / "set").write_bytes(content)
    refuse(tmp_path / "set", "found a file of another kind (it starts with")


def test_another_npz(tmp_path):
    np.savez(tmp_path / "set.npz", X=np.ones(3))
    refuse(tmp_path / "set.npz", "found an .npz file of another kind (arrays X)")
    np.savez(tmp_path / "set.npz", header=np.frombuffer(b'{"magic": "x", "version": 1}', np.uint8))
    refuse(tmp_path / "set.npz", "found an .npz file of another kind (arrays header)")


@pytest.mark.parametrize("kept", [0.1, 0.5, 0.99])
def test_cut_short(saved, kept):
    content = saved.read_bytes()
    saved.write_bytes(content[:int(len(content) * kept)])
    refuse(saved, "the file is damaged or was cut short")


def test_too_large_for_32_bits(saved, monkeypatch):
    monkeypatch.setattr(storage, "MAPPED_BYTES", 1000)
    refuse(saved, f"found {saved.stat().st_size:,} bytes; a program of 32 bits can map at most "
           "1,000; quantize fewer rows, or to fewer bits")


def test_a_flipped_bit(saved):
    content = bytearray(saved.read_bytes())
    at = content.find(make().rows.stored[1].tobytes())
    assert at > 0
    content[at + 5] ^= 1
    saved.write_bytes(content)
    refuse(saved, "the SHA-256 of array 'rows_1' is not the one in the header")


def test_a_flipped_bit_of_the_header(saved):
    content = bytearray(saved.read_bytes())
    at = content.find(b'"seed": 4')
    assert at > 0
    content[at + 8] ^= 1
    saved.write_bytes(content)
    refuse(saved, "the file is damaged or was cut short (Bad CRC-32")


@pytest.mark.parametrize("options", [{}, {"encoding": "nearest", "fine_rows": True}])
def test_arrays_are_mapped(tmp_path, options):
    """Aligned, without a copy, and NumPy and zip programs read the same."""
    path = tmp_path / "set.npz"
    data = make(**options)
    save_quantized(data, path)
    again = load_quantized(path)
    arrays = [*again.rows.stored, *([] if again.fine_rows is None else [again.fine_rows])]
    for array in (*arrays, again.labels.stored):
        assert not array.flags.owndata
        assert not array.flags.writeable
        assert isinstance(array.base, mmap.mmap)
    stored = find_arrays(path)
    assert [array.offset % 64 for array in stored.values()] == [0] * len(stored)
    with zipfile.ZipFile(path) as zipped:
        assert zipped.testzip() is None
    with np.load(path) as file:
        np.testing.assert_array_equal(file["rows_0"], data.rows.stored[0])
        assert set(file) == set(stored)
    save_quantized(again, path)     # over the file that is mapped
    np.testing.assert_array_equal(arrays[0], data.rows.stored[0])
    np.testing.assert_array_equal(load_quantized(path).rows.stored[0], data.rows.stored[0])


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_archives_of_others(tmp_path, write):
    """Neither aligned nor, of one, to be mapped: the same data set."""
    path = tmp_path / "set.npz"
    data = make(encoding="stochastic", fine_rows=True)
    save_quantized(data, path)
    with np.load(path) as stored:
        arrays = dict(stored)
    write(path, **arrays)
    again = load_quantized(path)
    for name in ("stored", "fine_rows", "variance"):
        np.testing.assert_array_equal(getattr(again.rows, name), getattr(data.rows, name))
    assert again.fine_rows is not None
    assert again.fine_rows.flags.aligned


def test_checksum(saved):
    with np.load(saved) as stored:
        arrays = dict(stored)
    arrays["variance"] = arrays["variance"] * 2     # a whole file, but not the one that was saved
    with saved.open("wb") as file:
        np.savez(file, **arrays)
    refuse(saved, "the SHA-256 of array 'variance' is not the one in the header")


def test_other_versions(saved):
    for version in (1, 3):      # files of version 1 have older names of fields
        rewrite(saved, {"version": version})
        refuse(saved, f"found format version {version}; this bitstep reads version 2; quantize")


def test_missing_array(saved):
    with zipfile.ZipFile(saved) as zipped:
        kept = {name: zipped.read(name) for name in zipped.namelist() if name != "rows_1.npy"}
    with zipfile.ZipFile(saved, "w") as zipped:
        for name, content in kept.items():
            zipped.writestr(name, content)
    refuse(saved, "the file is damaged or was cut short ('rows_1")


@pytest.mark.parametrize(("header", "arrays", "message"), [
    ({"rows": ["rows_0", "rows_2"]}, {}, "'rows_2'"),
    ({"rows": []}, {}, "rows must be 1 to 255 arrays"),
    ({"n_features": 64}, {}, "rows must be uint8 of shape (30, 32)"),
    ({"bits": 9}, {}, "bits must be an integer from 1 to 8"),
    ({"encoding": "x"}, {}, "encoding must be one of"),
    ({"bus_width": 96}, {}, "bus_width must be one of"),
    ({"label_format": "INT8"}, {}, "'INT8'"),
    ({"label_format": "INT32"}, {}, "labels must be uint8 of shape (120,)"),
    ({"label_scale": 0}, {}, "label_scale finite and positive, not 0.0 and 0"),
    ({"label_scale": None}, {}, "do not fit each other"),
    ({"classes": [0, 1]}, {}, "labels of 2 classes must be SIGN, not INT16"),
    ({"classes": [0, 1, 2]}, {}, "labels of 3 classes must be numbers from 0 to 2, not -"),
    ({"classes": [0]}, {}, "classes must be 2 to 256 increasing numbers"),
    ({"classes": [0, 2, 1]}, {}, "classes must be 2 to 256 increasing numbers"),
    ({"scaler": "x"}, {}, "scaler must be one of"),
    ({}, {"labels": np.zeros(7, np.uint8)}, "labels must be uint8 of shape (64,)"),
    ({}, {"variance": np.zeros(24)}, "scaler and variance must have shape (25,)"),
    ({}, {"variance": np.full(25, -1.0)}, "variance must be finite and not negative"),
    ({}, {"scale": np.zeros(25)}, "scale finite and positive"),
    ({}, {"full": np.zeros((30, 25), np.int16)}, "nothing is known of array 'full'"),
    ({}, {"rows_1": np.zeros((29, 16), np.uint8)}, "rows must be uint8 of shape (30, 16)"),
    ({}, {"rows_1": np.zeros((30, 16), np.int8)}, "not int8 of shape (30, 16)"),
])
def test_parts_that_do_not_fit(saved, header, arrays, message):
    if "label_offset" not in header and "label_scale" in header:
        header = {"label_offset": 0.0, **header}
    rewrite(saved, header, **arrays)
    refuse(saved, "the parts of the file do not fit each other")
    refuse(saved, message)


def test_missing_entry(saved):
    rewrite(saved)
    assert load_quantized(saved).rows.seed == 4
    with np.load(saved) as stored:
        content = json.loads(stored["header"].tobytes())
    for entry in set(content) - {"magic", "version", "sha256"}:
        save_quantized(make(), saved)
        rewrite(saved)
        with np.load(saved) as stored:
            arrays = dict(stored)
        shorter = {name: value for name, value in content.items() if name != entry}
        arrays["header"] = np.frombuffer(json.dumps(shorter).encode(), np.uint8)
        with saved.open("wb") as file:
            np.savez(file, **arrays)
        refuse(saved, f"do not fit each other ('{entry}')")


@pytest.mark.parametrize("bits", [2, 3, 8])
def test_impossible_code(tmp_path, bits):
    path, data, code = tmp_path / "set", make(bits=bits), 1 << bits - 1
    save_quantized(data, path)
    codes = data.rows.codes(1)
    codes[29, 24] = code
    rewrite(path, rows_1=pack_codes(codes, bits, 64))
    refuse(path, f"rows_1 holds code {code}, which stands for no level")


@pytest.mark.parametrize(("byte", "bit"), [(7, 7), (8 + 1, 4), (15, 0), (15, 7)])
def test_padding(saved, byte, bit):
    """25 features of 3 bits: 63 bits in the first beat, 12 in the second."""
    rows = make().rows.stored[1].copy()
    rows[17, byte] |= 1 << bit
    rewrite(saved, rows_1=rows)
    refuse(saved, "padding in rows_1 is not 0")


def test_double_has_no_impossible_code(tmp_path):
    data = make(encoding="double", bits=3)
    assert (data.rows.codes() == 4).any()
    save_quantized(data, tmp_path / "set")
    assert load_quantized(tmp_path / "set").n_rows == 30


# Fine rows, floating-point rows

@pytest.mark.parametrize("encoding", ["nearest", "stochastic"])
@pytest.mark.parametrize("bits", [1, 3, 8])
def test_fine_rows_there_and_back(tmp_path, encoding, bits):
    data = make(encoding=encoding, bits=bits, fine_rows=True)
    save_quantized(data, tmp_path / "set")
    again = load_quantized(tmp_path / "set")
    assert again.fine_rows is not None
    assert again.fine_rows.dtype == np.int16
    np.testing.assert_array_equal(again.fine_rows, data.fine_rows)
    assert again.rows.cell_half_levels == data.rows.cell_half_levels
    save_quantized(make(encoding=encoding, bits=bits), tmp_path / "set")
    assert load_quantized(tmp_path / "set").fine_rows is None


@pytest.mark.parametrize(("encoding", "bits"), [("nearest", 1), ("nearest", 3), ("stochastic", 3)])
@pytest.mark.parametrize("copy", [0, 1])
@pytest.mark.parametrize("direction", [-1, 1])
def test_values_outside_their_cells(tmp_path, encoding, bits, copy, direction):
    data = make(encoding=encoding, bits=bits, fine_rows=True)
    assert data.fine_rows is not None
    fraction = data.rows.config.rows.fine_fraction
    levels, _ = decode(data.rows.codes(copy), bits=bits, row_format="one_level")
    row, column = np.argwhere((levels == -direction) if bits == 1 else (levels == 0))[0]
    half = data.rows.cell_half_levels << fraction - 1
    edge = (int(levels[row, column]) << fraction) + direction * half
    if bits > 1 and encoding == "nearest":
        fine_rows = data.fine_rows.copy()
        fine_rows[row, column] = edge
        save_quantized(data, tmp_path / "set")
        rewrite(tmp_path / "set", fine_rows=fine_rows)
        again = load_quantized(tmp_path / "set")
        np.testing.assert_array_equal(again.fine_rows, fine_rows)
    fine_rows = data.fine_rows.copy()
    fine_rows[row, column] = np.clip(edge + direction, -32768, 32767)
    save_quantized(data, tmp_path / "set")
    rewrite(tmp_path / "set", fine_rows=fine_rows)
    refuse(tmp_path / "set", "fine_rows holds a value outside the cell of its code in rows_")


@pytest.mark.parametrize("end", [-1, 1])
def test_values_beyond_the_grid(tmp_path, end):
    data = make(encoding="nearest", fine_rows=True)
    assert data.fine_rows is not None
    levels, _ = decode(data.rows.codes(), bits=3, row_format="one_level")
    row, column = np.argwhere(levels == 3 * end)[0]
    fine_rows = data.fine_rows.copy()
    fine_rows[row, column] = end * ((3 << 13) + 1)
    save_quantized(data, tmp_path / "set")
    rewrite(tmp_path / "set", fine_rows=fine_rows)
    refuse(tmp_path / "set", "fine_rows holds a value outside the cell of its code")


@pytest.mark.parametrize(("fine_rows", "message"), [
    (np.zeros((30, 24), np.int16),
     "fine_rows must be int16 of shape (30, 25), not int16 of shape (30,"),
    (np.zeros((30, 25), np.int32), "fine_rows must be int16 of shape (30, 25), not int32"),
])
def test_fine_rows_of_another_shape(tmp_path, fine_rows, message):
    save_quantized(make(encoding="nearest", fine_rows=True), tmp_path / "set")
    rewrite(tmp_path / "set", fine_rows=fine_rows)
    refuse(tmp_path / "set", message)


def test_fine_rows_has_a_checksum(tmp_path):
    save_quantized(make(encoding="nearest", fine_rows=True), tmp_path / "set")
    with np.load(tmp_path / "set") as stored:
        arrays = dict(stored)
    arrays["fine_rows"] = arrays["fine_rows"] - 1
    with (tmp_path / "set").open("wb") as file:
        np.savez(file, **arrays)
    refuse(tmp_path / "set", "the SHA-256 of array 'fine_rows' is not the one in the header")


def test_fine_rows_of_an_encoding_without(saved):
    rewrite(saved, fine_rows=np.zeros((30, 25), np.int16))
    refuse(saved, "are kept for the encodings 'nearest' and 'stochastic', not for 'compensated'")


@pytest.mark.parametrize("value", [1.0000001, -2, np.nan, np.inf])
def test_float_values_out_of_range(tmp_path, value):
    data = make(bits=32, encoding="float")
    values = data.rows.codes().copy()
    values[29, 24] = -1
    save_quantized(data, tmp_path / "set")
    rewrite(tmp_path / "set", rows_0=pack_floats(values, 64))
    assert load_quantized(tmp_path / "set").rows.codes()[29, 24] == -1
    values[29, 24] = value
    rewrite(tmp_path / "set", rows_0=pack_floats(values, 64))
    refuse(tmp_path / "set", "rows_0 holds a value that is not in [-1, 1]")


def test_float_padding(tmp_path):
    data = make(bits=32, encoding="float")
    rows = data.rows.stored[0].copy()
    rows[3, 100] = 1        # the 26th value
    save_quantized(data, tmp_path / "set")
    rewrite(tmp_path / "set", rows_0=rows)
    refuse(tmp_path / "set", "padding in rows_0 is not 0")
