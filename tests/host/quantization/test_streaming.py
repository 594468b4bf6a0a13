"""Quantizing in two passes: the file of quantizing in memory, bit for bit, and its errors."""

import gzip
import os
import re
import shutil
import zipfile
from collections import namedtuple

import numpy as np
import pytest

from bitstep.cli import main
from bitstep.data import DataError, load, open_table, split
from bitstep.data.blocks import BLOCK_VALUES
from bitstep.data.tables import arrays, table, texts
from bitstep.quantization import (
    ENCODINGS,
    QuantizedDataset,
    archive,
    load_quantized,
    quantize_labels,
    quantize_rows,
    save_quantized,
    streaming,
)
from bitstep.quantization.encoder import RowOptions

RNG = np.random.default_rng(3)
N_ROWS, N_FEATURES = 400, 11
FEATURES = RNG.normal(size=(N_ROWS, N_FEATURES)).round(3)
FEATURES[::3, 4] = 0
FEATURES[:, 7] = 5
LABELS = (FEATURES[:, 0] > 0.3).astype(float)


def write_csv(path):
    names = ",".join(f"f{column}" for column in range(N_FEATURES)) + ",label\n"
    path.write_text(names + "".join(f"{','.join(map(str, row))},{label:g}\n\n" for row, label in
                                    zip(FEATURES.tolist(), LABELS, strict=True)))


def write_svm(path, base=1):
    path.write_text("# nothing\n" + "".join(
        f"{label:g} " + " ".join(f"{column + base}:{value}" for column, value in enumerate(row)
                                 if value) + "\n"
        for row, label in zip(FEATURES.tolist(), LABELS, strict=True)))


def write_parquet(path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    columns = {f"f{column}": FEATURES[:, column] for column in range(N_FEATURES)}
    parquet.write_table(arrow.table({**columns, "label": LABELS.astype(int)}), path,
                        row_group_size=70)


def write_arrow(path):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    columns = {f"f{column}": FEATURES[:, column] for column in range(N_FEATURES)}
    rows = arrow.table({**columns, "label": LABELS})
    new = arrow.ipc.new_stream if path.name == "stream.arrow" else arrow.ipc.new_file
    with arrow.OSFile(str(path), "wb") as file, new(file, rows.schema) as writer:
        writer.write_table(rows, max_chunksize=60)


def whole():
    return np.column_stack([FEATURES, LABELS])


WRITERS = {
    "set.csv": write_csv,
    "set.svm": write_svm,
    "zero.svm": lambda path: write_svm(path, 0),
    "set.csv.gz": lambda path: (write_csv(path.with_suffix("")), path.write_bytes(
        gzip.compress(path.with_suffix("").read_bytes()))),
    "set.npy": lambda path: np.save(path, whole()),
    "columns.npy": lambda path: np.save(path, np.asfortranarray(whole())),
    "single.npy": lambda path: np.save(path, whole().astype(np.float32)),
    "big-endian.npy": lambda path: np.save(path, whole().astype(">f4")),
    "set.npz": lambda path: np.savez(path, X=FEATURES, y=LABELS),
    "columns.npz": lambda path: np.savez(path, y=LABELS.astype(int), X=np.asfortranarray(FEATURES)),
    "compressed.npz": lambda path: np.savez_compressed(path, X=FEATURES, y=LABELS > 0),
    "compressed-columns.npz": lambda path: np.savez_compressed(
        path, X=np.asfortranarray(FEATURES), y=LABELS),
    "integers.npz": lambda path: np.savez(path, X=(8 * FEATURES).astype(np.int8), y=LABELS),
    "set.parquet": write_parquet,
    "set.arrow": write_arrow,
    "stream.arrow": write_arrow,
}


@pytest.fixture
def small_pieces(monkeypatch):
    """Pieces, chunks and parts that divide neither blocks nor rows."""
    monkeypatch.setattr(table, "PIECE_VALUES", 37 * N_FEATURES)
    monkeypatch.setattr(arrays, "PIECE_VALUES", 37 * N_FEATURES)
    monkeypatch.setattr("bitstep.data.tables.arrow.PIECE_VALUES", 37 * N_FEATURES)
    monkeypatch.setattr(arrays, "_GAP_BYTES", 200)
    monkeypatch.setattr("bitstep.data.text.CHUNK_BYTES", 1000)
    monkeypatch.setattr("bitstep.data.blocks.BLOCK_VALUES", 24 * N_FEATURES)
    monkeypatch.setattr(streaming, "PART_BYTES", 50 * N_FEATURES * 4)       # two blocks
    monkeypatch.setattr(streaming, "_PIECE_BYTES", 7 * N_FEATURES * 4)


def in_memory(source, path, train_rows, shuffle, seed, task="classification", **options):
    """Write what quantizing in memory gives."""
    rows, _ = split(load(source), train_rows, shuffle, seed)
    labels = quantize_labels(rows.labels, rows.n_rows, task=task,
                             label_bits=ENCODINGS[options.get("encoding", "nearest")].label_bits)
    options = {"scaler": "quantile", **options}
    save_quantized(QuantizedDataset(quantize_rows(rows.features, seed=seed, **options), labels,
                                    feature_names=rows.feature_names), path)


@pytest.mark.covering(2)
@pytest.mark.parametrize("name", WRITERS)
@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize("train_rows", [None, 1, 123, N_ROWS])
def test_files(tmp_path, small_pieces, name, shuffle, train_rows):
    """Each kind of file: the same bytes as from memory."""
    source, found, expected = tmp_path / name, tmp_path / "found.npz", tmp_path / "expected.npz"
    WRITERS[name](source)
    arguments = ["quantize", str(source), "--out", str(found), "--model", "linreg", "--bits", "3",
                 "--seed", "5", "--shuffle" if shuffle else "--no-shuffle"]
    if train_rows is not None:
        arguments += ["--train-rows", str(train_rows)]
    assert main(arguments) == 0
    in_memory(str(source), expected, train_rows, shuffle, 5, "regression", bits=3,
              encoding="compensated")
    assert found.read_bytes() == expected.read_bytes()
    count = N_ROWS if train_rows is None else train_rows
    assert load_quantized(found).n_rows == count
    left = {path.name for path in tmp_path.iterdir()} - {"set.csv"}
    assert left == {name, "found.npz", "expected.npz"} - {"set.csv"}    # nothing temporary


def every_option():
    for encoding, kind in ENCODINGS.items():
        for bits in range(kind.min_bits, kind.max_bits + 1):
            yield encoding, bits


@pytest.mark.covering(1)
@pytest.mark.parametrize(("encoding", "bits"), list(every_option()))
@pytest.mark.parametrize("shuffle", [True, False])
def test_options(tmp_path, small_pieces, encoding, bits, shuffle):
    """Each encoding at each number of bits, with copies, fine rows, scalers, buses."""
    fine = bool(ENCODINGS[encoding].cell)
    options = {"bits": bits, "encoding": encoding, "copies": 1 + bits % 3, "fine_rows": fine,
               "scaler": ("minmax", "maxabs")[bits % 2], "bus_width": (64, 256)[bits // 2 % 2]}
    source, expected = tmp_path / "set.npy", tmp_path / "expected.npz"
    np.save(source, whole())
    in_memory(str(source), expected, 301, shuffle, bits, **options)
    rows = open_table(str(source))
    chosen = streaming.choose_rows("set", rows.count_rows(), 301, shuffle, bits)
    survey = rows.survey(chosen.numbers())
    labels = quantize_labels(chosen.labels(survey), 301, task="classification",
                             label_bits=ENCODINGS[encoding].label_bits)
    done = []
    streaming.write_quantized(rows, survey, chosen, labels, RowOptions(**options, seed=bits),
                              tmp_path / "found.npz", done.append)
    assert (tmp_path / "found.npz").read_bytes() == expected.read_bytes()
    assert done == [*range(24, 301, 24), 301]


@pytest.mark.parametrize("n_features", [1, 3, 100, 256, 4096, BLOCK_VALUES + 1])
def test_widths(tmp_path, monkeypatch, n_features):
    """Blocks of real sizes, one row wider than a block."""
    n_rows = 5 if n_features > 4096 else 2 * BLOCK_VALUES // n_features + 7
    values = np.random.default_rng(0).normal(size=(n_rows, n_features + 1)).astype(np.float32)
    np.save(tmp_path / "set.npy", values)
    monkeypatch.setattr(streaming, "PART_BYTES", 1)     # parts of a block
    assert main(["quantize", str(tmp_path / "set.npy"), "--out", str(tmp_path / "found.npz"),
                 "--seed", "1", "--bits", "4", "--copies", "2"]) == 0
    in_memory(str(tmp_path / "set.npy"), tmp_path / "expected.npz", None, True, 1, "regression",
              bits=4, copies=2, encoding="compensated")
    assert (tmp_path / "found.npz").read_bytes() == (tmp_path / "expected.npz").read_bytes()


def test_hundreds_of_parts(tmp_path, monkeypatch):
    values = np.random.default_rng(0).normal(size=(1100, 2))
    np.save(tmp_path / "set.npy", values)
    monkeypatch.setattr("bitstep.data.blocks.BLOCK_VALUES", 4)
    monkeypatch.setattr(streaming, "PART_BYTES", 1)         # a block of four rows each
    assert main(["quantize", str(tmp_path / "set.npy"), "--out", str(tmp_path / "found.npz"),
                 "--seed", "1", "--bits", "4"]) == 0
    in_memory(str(tmp_path / "set.npy"), tmp_path / "expected.npz", None, True, 1, "regression",
              bits=4, encoding="compensated")
    assert (tmp_path / "found.npz").read_bytes() == (tmp_path / "expected.npz").read_bytes()


def test_negative_zeros(tmp_path, small_pieces):
    """The sign of a zero depends on the order of the rows, a scaler must not."""
    values = whole()
    values[::2, 2], values[1::2, 2] = 0.0, -0.0
    np.save(tmp_path / "set.npy", values)
    assert main(["quantize", str(tmp_path / "set.npy"), "--out", str(tmp_path / "found.npz")]) == 0
    in_memory(str(tmp_path / "set.npy"), tmp_path / "expected.npz", None, True, 0, "classification",
              bits=8, encoding="stochastic")
    assert np.signbit(load_quantized(tmp_path / "found.npz").scaler.centre[2]) == 0
    assert (tmp_path / "found.npz").read_bytes() == (tmp_path / "expected.npz").read_bytes()


def test_few_rows_of_a_large_file_are_read_alone(tmp_path, monkeypatch):
    np.savez(tmp_path / "set.npz", X=np.random.default_rng(0).normal(size=(20_000, 50)),
             y=np.arange(20_000.0))
    read, total = arrays._Rows._bytes, []

    def count(rows, n_bytes, offset=0):
        total.append(n_bytes)
        return read(rows, n_bytes, offset)
    monkeypatch.setattr(arrays._Rows, "_bytes", count)
    for option in ("--shuffle", "--no-shuffle"):
        total.clear()
        assert main(["quantize", str(tmp_path / "set.npz"), "--out", str(tmp_path / "q.npz"),
                     "--train-rows", "20", option]) == 0
        # All labels, which say what the task is, and some rows in two passes.
        assert 2 * 20 * 51 * 8 + 20_000 * 8 <= sum(total) < 20_000 * 8 + 400_000
    in_memory(str(tmp_path / "set.npz"), tmp_path / "expected.npz", 20, False, 0, "regression",
              bits=4, encoding="compensated")
    assert (tmp_path / "q.npz").read_bytes() == (tmp_path / "expected.npz").read_bytes()


def test_text_ends_at_the_last_row_that_is_needed(tmp_path, small_pieces, monkeypatch):
    write_svm(tmp_path / "set.svm")
    rows = open_table(str(tmp_path / "set.svm"))
    rows.survey()
    parsed = []
    sparse = texts.sparse_rows

    def count(file, path):
        for chunk in sparse(file, path):
            parsed.append(len(chunk.labels))
            yield chunk
    monkeypatch.setattr(texts, "sparse_rows", count)
    assert sum(len(piece.rows) for piece in rows.pieces(np.arange(30))) == 30
    assert 30 <= sum(parsed) < 60


# Errors

def refuse(capsys, message, path, *options):
    """The command fails with one line, and there is no output."""
    out = path.parent / "out.npz"
    assert main(["quantize", str(path), "--out", str(out), *options]) == 1
    shown = capsys.readouterr().err
    assert message in shown
    assert shown.count("\n") == 1
    assert not out.exists()
    assert not [name for name in os.listdir(path.parent) if name.startswith(".")]


def test_not_a_number_far_in_the_file(tmp_path, capsys, small_pieces):
    values = whole()
    values[397, 6] = np.nan
    np.save(tmp_path / "set.npy", values)
    refuse(capsys, "set: features must be finite, not nan (row 397, column 6, counted from 0)",
           tmp_path / "set.npy", "--model", "linreg")
    values[397, 6], values[398, -1] = 0, np.inf
    np.save(tmp_path / "set.npy", values)
    refuse(capsys, "set: labels must be finite, not inf (row 398, counted from 0)",
           tmp_path / "set.npy", "--model", "linreg")


def test_rows_that_are_not_chosen_may_be_bad_where_they_are_not_read(tmp_path, capsys,
                                                                    small_pieces):
    values = FEATURES.copy()
    values[397, 6] = np.nan
    np.savez(tmp_path / "set.npz", X=values, y=LABELS)
    command = ["quantize", str(tmp_path / "set.npz"), "--out", str(tmp_path / "out.npz"),
               "--no-shuffle", "--train-rows", "300"]
    assert main(command) == 0
    labels = LABELS.copy()
    labels[396] = np.nan        # labels are read, for the task
    np.savez(tmp_path / "set.npz", X=values, y=labels)
    assert main(command) == 1
    assert "set: labels must be finite, not nan (row 396, counted from 0)" in \
        capsys.readouterr().err


def test_row_of_another_length_in_the_middle(tmp_path, capsys, small_pieces):
    write_csv(tmp_path / "set.csv")
    lines = (tmp_path / "set.csv").read_text().splitlines()
    lines[601] = lines[601].partition(",")[2]
    (tmp_path / "set.csv").write_text("\n".join(lines))
    refuse(capsys, "set.csv, line 602: found 11 columns; every row must have 12, like the first",
           tmp_path / "set.csv")


def test_line_numbers_of_libsvm_text(tmp_path, capsys, small_pieces):
    write_svm(tmp_path / "set.svm")
    with (tmp_path / "set.svm").open("a") as file:
        file.write("1 3:4 2:1\n")
    refuse(capsys, "set.svm, line 402: found '2:1'; the indices of a line must increase",
           tmp_path / "set.svm")


@pytest.mark.parametrize("change", ["longer", "shorter", "other", "gone", "touched"])
@pytest.mark.parametrize("name", ["set.csv", "set.svm", "set.npy", "set.npz", "set.parquet"])
def test_a_file_that_changes_between_the_passes(tmp_path, capsys, monkeypatch, name, change):
    source = tmp_path / name
    WRITERS[name](source)
    content = source.read_bytes()
    write = streaming.write_quantized

    def tamper(*arguments):
        if change == "gone":
            source.unlink()
        elif change == "touched":
            os.utime(source, ns=(1, 1))
        elif change == "other":
            os.replace(shutil.copy2(source, tmp_path / "copy"), source)
        else:
            source.write_bytes(content + content if change == "longer" else content[:-20])
        return write(*arguments)
    monkeypatch.setattr("bitstep.cli.quantize.write_quantized", tamper)
    refuse(capsys, f"{name}: the file changed while it was read; it must stay as it is", source)


@pytest.mark.parametrize("shuffle", ["--shuffle", "--no-shuffle"])
@pytest.mark.parametrize("times", [0, 2])
@pytest.mark.parametrize("name, rule", [("set.csv", "csv_rows"), ("set.svm", "sparse_rows")])
def test_a_text_that_changes_in_the_second_pass(tmp_path, capsys, small_pieces, monkeypatch,
                                                shuffle, times, name, rule):
    """Fewer or more rows than the first pass has seen, though nothing else shows the change."""
    source = tmp_path / name
    WRITERS[name](source)
    every, passes = getattr(texts, rule), []

    def more(*arguments):
        passes.append(arguments)
        for number, rows in enumerate(every(*arguments)):
            yield from [rows] * (times if len(passes) == 2 and number else 1)
    monkeypatch.setattr(texts, rule, more)
    refuse(capsys, f"{name}: the file changed while it was read", source, shuffle)


DISK = namedtuple("DISK", "total used free")


def test_a_full_disk_is_found_before_the_second_pass(tmp_path, capsys, monkeypatch):
    np.save(tmp_path / "set.npy", whole())
    monkeypatch.setattr(table.Table, "pieces", failing_second(table.Table.pieces))
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: DISK(10**9, 0, 70_000))
    assert main(["quantize", str(tmp_path / "set.npy"), "--out", str(tmp_path / "out.npz")]) == 1
    message = re.fullmatch(
        r"bitstep quantize: error: \S+out\.npz cannot be written: (\S+) bytes are needed \(for the "
        r"file\), and 70,000 are free in \S+; make room, or write to another folder\n",
        capsys.readouterr().err)
    assert message
    monkeypatch.undo()
    assert main(["quantize", str(tmp_path / "set.npy"), "--out", str(tmp_path / "out.npz")]) == 0
    size = (tmp_path / "out.npz").stat().st_size
    assert size < int(message[1].replace(",", "")) < size + 70_000


@pytest.mark.parametrize("options", [
    ["--bit-planes"], ["--model", "linreg", "--bits", "4", "--scaler", "quantile"],
    ["--model", "linreg", "--bits", "4", "--levels", "optimal"]], ids=str)
def test_no_file_is_larger_than_what_is_asked_for(tmp_path, monkeypatch, options):
    """Also of many columns, which have more than rows."""
    features = np.random.default_rng(0).standard_normal((101, 400))
    features[3, :-1] = 1e5
    features[:, -1] = features[:, -1] > 0
    np.save(tmp_path / "set.npy", features)
    needed = []
    monkeypatch.setattr(streaming, "_HEADER_BYTES", 3000)
    monkeypatch.setattr(streaming, "check_space", lambda path, n_bytes, _: needed.append(n_bytes))
    out = tmp_path / "out.npz"
    assert main(["quantize", str(tmp_path / "set.npy"), "--out", str(out), "--no-shuffle",
                 *options]) == 0
    assert out.stat().st_size <= needed[0] < out.stat().st_size + 3000


def failing_second(pieces):
    """No second pass may begin."""
    calls = []

    def once(self, chosen=None):
        calls.append(chosen)
        assert len(calls) == 1
        return pieces(self, chosen)
    return once


def test_space_for_rows_that_wait(tmp_path, capsys, monkeypatch, small_pieces):
    np.save(tmp_path / "set.npy", whole())
    waiting = N_ROWS * N_FEATURES * 4
    for free, shuffle, fits in ((80_000, "--shuffle", False), (80_000, "--no-shuffle", True),
                                (74_000 + waiting, "--shuffle", True)):
        monkeypatch.setattr(shutil, "disk_usage", lambda folder, free=free: DISK(10**9, 0, free))
        out = tmp_path / "out.npz"
        assert main(["quantize", str(tmp_path / "set.npy"), "--out", str(out), shuffle,
                     "--model", "ls-svm"]) == \
            (0 if fits else 1)
        if not fits:
            assert f"{waiting:,} for rows that wait for their turn, because shuffling reorders" in \
                capsys.readouterr().err


@pytest.mark.parametrize("after", [0, 3000, 6000])
def test_a_disk_that_becomes_full(tmp_path, capsys, monkeypatch, small_pieces, after):
    np.save(tmp_path / "set.npy", whole())
    write, written = archive._write_some, []

    def fill(file, offset, content):
        written.append(len(content))
        if sum(written) > after:
            raise OSError(28, "No space left on device")
        return write(file, offset, content)
    monkeypatch.setattr(archive, "_write_some", fill)
    refuse(capsys, "out.npz cannot be written (No space left on device)", tmp_path / "set.npy")


@pytest.mark.parametrize(("content", "message"), [
    (np.zeros((0, 3)), "the file has no rows; X must have at least one"),
    (np.zeros((3, 1)), "found 1 columns; a row must have a label and at least one feature"),
    (np.zeros(3), "The array must hold numbers in shape (rows, columns), not float64 of shape (3,"),
    (np.zeros((1, (1 << 20) + 2), bool), "1 to 1048576 columns, not shape (1, 1048577)"),
    (np.array([["a", "b"]]), "The array must hold numbers in shape (rows, columns), not <U1"),
    (np.array([[{}, 1]], object), "an array of Python objects cannot be read"),
])
def test_bad_arrays(tmp_path, capsys, content, message):
    np.save(tmp_path / "set.npy", content, allow_pickle=True)
    refuse(capsys, message, tmp_path / "set.npy")


def test_cut_array_files(tmp_path, capsys):
    path = tmp_path / "set.npy"
    np.save(path, whole())
    content = path.read_bytes()
    path.write_bytes(content[:-8])
    refuse(capsys, f"found {len(content) - 8:,} bytes; a file of shape (400, 12) must have "
           f"{len(content):,}", path)
    path.write_bytes(content[:50])
    refuse(capsys, "the file cannot be read (", path)
    path.write_bytes(b"")
    refuse(capsys, "the file cannot be read (", path)


def test_damaged_compressed_members(tmp_path, capsys):
    path = tmp_path / "set.npz"
    np.savez_compressed(path, X=FEATURES, y=LABELS)
    content = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as zipped:
        at = zipped.getinfo("X.npy").header_offset + 400
    content[at:at + 40] = bytes(40)
    path.write_bytes(content)
    refuse(capsys, "set.npz: the file cannot be read (", path)


def test_arrow_errors(tmp_path, capsys):
    arrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    path = tmp_path / "set.parquet"
    numbers = [1.0, 2.0, 3.0]
    for columns, message in (
            ({"a": numbers}, "found 1 columns; a row must have a label and at least one"),
            ({"a": ["x", "y", "z"], "b": numbers}, "column 'a' holds string; every column must"),
            ({"a": arrow.nulls(3), "b": numbers}, "column 'a' holds null"),
            ({"a": [], "b": arrow.array([], arrow.float64())}, "the file has no rows"),
            ({"a": arrow.array([], arrow.float64()), "b": arrow.array([], arrow.float64())},
             "the file has no rows"),
            ({"a": [1.0, 2.0, None], "b": numbers}, "found nothing in row 2, column 0 (counted"),
            ({"a": numbers, "b": [1, None, 2]}, "found nothing in row 1, column 1 (counted"),
            ({"a": [1.0, np.nan, 2.0], "b": numbers}, "must be finite, not nan (row 1, column 0,")):
        parquet.write_table(arrow.table(columns), path)
        refuse(capsys, message, path, "--model", "linreg")
    path.write_bytes(path.read_bytes()[:-30])
    refuse(capsys, "set.parquet: the file cannot be read (", path)
    path = tmp_path / "set.arrow"
    path.write_bytes(b"ARROW1 and nothing")
    refuse(capsys, "set.arrow: the file cannot be read (", path)


def test_without_pyarrow(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    (tmp_path / "set.parquet").write_bytes(b"PAR1")
    refuse(capsys, "read by pyarrow, which is not installed; run: pip install 'bitstep[arrow]'",
           tmp_path / "set.parquet")


def test_survey_of_growing_libsvm_text(tmp_path, small_pieces):
    """Columns that begin late were 0 before; index 0 that comes late shifts all."""
    lines = ["1 2:5", "0 2:-3", "1 3:7", *["0 1:1"] * 50, "1 0:4 9:-2"]
    (tmp_path / "set.svm").write_text("\n".join(lines))
    rows = open_table(str(tmp_path / "set.svm"))
    survey = rows.survey()
    features = load(tmp_path / "set.svm").features
    np.testing.assert_array_equal(survey.low, features.min(axis=0))
    np.testing.assert_array_equal(survey.high, features.max(axis=0))
    chosen = np.array([0, 2, 10])
    survey = rows.survey(chosen)
    np.testing.assert_array_equal(survey.low, features[chosen].min(axis=0))
    np.testing.assert_array_equal(survey.high, features[chosen].max(axis=0))
    assert len(survey.labels) == 54


def test_counts_of_rows(tmp_path, small_pieces):
    for name in ("set.csv", "set.svm", "set.csv.gz"):
        WRITERS[name](tmp_path / name)
        rows = open_table(str(tmp_path / name))
        assert rows.count_rows() == N_ROWS == len(rows.survey().labels)


def test_broken_gzip(tmp_path):
    path = tmp_path / "set.csv.gz"
    path.write_bytes(gzip.compress(b"1,2,3\n" * 9999)[:-30])
    with pytest.raises(DataError, match=r"set\.csv\.gz: the file cannot be read"):
        open_table(str(path)).survey()
    with pytest.raises(DataError, match=r"set\.csv\.gz: the file cannot be read"):
        open_table(str(path)).count_rows()


def test_quantize_and_train_are_train(tmp_path):
    """The same model from the quantized file as from the text, test rows left out."""
    write_svm(tmp_path / "set.svm")
    common = ["--bits", "2", "--train-rows", "250", "--seed", "3"]
    assert main(["quantize", str(tmp_path / "set.svm"), *common, "--copies", "2",
                 "--out", str(tmp_path / "q.npz")]) == 0
    for source, options in (("q.npz", []), ("set.svm", [*common, "--copies", "2"])):
        assert main(["train", str(tmp_path / source), *options, "--epochs", "3", "--device",
                     "golden", "--out", str(tmp_path / f"{source}.model.npz")]) == 0
    with np.load(tmp_path / "q.npz.model.npz") as one, \
            np.load(tmp_path / "set.svm.model.npz") as other:
        for name in ("coef", "intercept", "classes"):
            np.testing.assert_array_equal(one[name], other[name])
        assert one["coef"].any()
