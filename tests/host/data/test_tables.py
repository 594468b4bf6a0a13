"""Tables of text, read in chunks and pieces of every size, against the rows that were written."""

import os

import numpy as np
import pytest

from bitstep.data import DataError, load, open_table, text
from bitstep.data.libsvm import WidthError
from bitstep.data.tables import arrays, table
from bitstep.data.tables.files import open_file


def sparse(seed, first):
    """Rows with few values, and their LIBSVM text, whose columns count from ``first``."""
    rng = np.random.default_rng(seed)
    rows = np.where(rng.random((23, 6)) < 0.3, np.round(rng.normal(size=(23, 6)), 3), 0)
    rows[rng.integers(23), 0] = rows[rng.integers(23), 5] = 1.5     # the ends are there once
    labels = rng.integers(1, 9, 23).astype(float)
    spaces, lines = [" ", "\t", "  "], ["# 0:1 is no value", ""]
    for row, label in zip(rows, labels, strict=True):
        pairs = [f"{rng.choice(spaces)}{'0' * rng.integers(2)}{first + place}:{row[place]}"
                 for place in np.flatnonzero(row)]
        lines += [f"{label}{''.join(pairs)} # 0:9", *["# remark: 7:1"] * rng.integers(2)]
    return rows, labels, "\n".join(lines) + "\n"


@pytest.mark.parametrize("chunk, piece", [(1, 1), (200, 12), (10_000, 30), (10_000, 10_000)])
@pytest.mark.parametrize("first", [0, 1])
def test_libsvm_text(tmp_path, monkeypatch, chunk, piece, first):
    monkeypatch.setattr(text, "CHUNK_BYTES", chunk)
    monkeypatch.setattr(table, "PIECE_VALUES", piece)
    for seed in range(4):
        rows, labels, content = sparse(seed, first)
        path = tmp_path / f"{seed}.svm"
        path.write_text(content)
        whole = load(path)
        assert whole.features.tolist() == rows.tolist()
        assert whole.labels.tolist() == labels.tolist()
        found = open_table(path)
        survey = found.survey()
        assert (found.n_features, found.count_rows()) == (6, 23)
        assert survey.low.tolist() == rows.min(axis=0).tolist()
        assert survey.high.tolist() == rows.max(axis=0).tolist()
        assert survey.labels.tolist() == labels.tolist()
        known = open_file(path)
        known.fix_columns(6)                # type: ignore[attr-defined]  # in place of a survey
        assert known.base == first          # type: ignore[attr-defined]
        for one in (found, known):
            for chosen in ([0], [22], [4, 5, 21], range(23), *([0, last] for last in range(1, 22))):
                check(one, np.array(chosen), rows, labels)


def check(found, chosen, rows, labels):
    pieces = list(found.pieces(chosen))
    assert np.concatenate([piece.rows for piece in pieces]).tolist() == chosen.tolist()
    assert np.vstack([piece.features for piece in pieces]).tolist() == rows[chosen].tolist()
    assert np.concatenate([piece.labels for piece in pieces]).tolist() == labels[chosen].tolist()


@pytest.mark.parametrize("chunk", [1, 64, 10_000])
@pytest.mark.parametrize("names", [False, True])
def test_comma_separated_text(tmp_path, monkeypatch, chunk, names):
    monkeypatch.setattr(text, "CHUNK_BYTES", chunk)
    rng = np.random.default_rng(0)
    rows, labels = np.round(rng.normal(size=(23, 3)), 3), rng.integers(0, 3, 23).astype(float)
    written = np.array(["a b", "c", "d"])[labels.astype(int)] if names else labels.astype(str)
    head = "x,y,z,label\n" * names
    (tmp_path / "set.csv").write_text(head + "\n" + "\n\n".join(
        ",".join([*map(str, row.tolist()), label])
        for row, label in zip(rows, written, strict=True)))
    whole, found = load(tmp_path / "set.csv"), open_table(tmp_path / "set.csv")
    assert whole.features.tolist() == rows.tolist()
    assert whole.labels.tolist() == labels.tolist()
    assert found.count_rows() == 23
    assert found.survey().labels.tolist() == labels.tolist()
    assert found.class_names == whole.class_names == (("a b", "c", "d") if names else None)
    assert found.feature_names == (("x", "y", "z") if names else None)
    assert found.task == ("classification" if names else None)
    asked = open_file(tmp_path / "set.csv", task="classification")
    asked.survey()
    assert asked.task == "classification"
    for chosen in ([0], [22], [4, 5, 21], range(23), *([0, last] for last in range(1, 22))):
        check(found, np.array(chosen), rows, labels)


@pytest.mark.parametrize("suffix", [".csv", ".npz"])
def test_as_many_classes_as_there_can_be(tmp_path, suffix):
    path, names = tmp_path / f"set{suffix}", [f"n{number:03d}" for number in range(256)]
    if suffix == ".csv":
        path.write_text("".join(f"1,{name}\n" for name in names[::-1]))
    else:
        np.savez(path, X=np.ones((256, 1)), y=np.array(names[::-1]))
    whole, found = load(path), open_table(path)
    assert whole.labels.tolist() == found.survey().labels.tolist() == [*range(255, -1, -1)]
    assert whole.class_names == found.class_names == tuple(names)


def test_more_columns_than_are_known(tmp_path):
    path = tmp_path / "set.svm"
    path.write_text("1 1:2\n2 3:1 4:1\n")
    found = open_file(path)
    found.fix_columns(3)                    # type: ignore[attr-defined]
    with pytest.raises(WidthError, match="found 4 features, but n_features is 3") as error:
        list(found.pieces())
    assert error.value.found == 4


def test_columns_that_are_known(tmp_path):
    path = tmp_path / "set.svm"
    path.write_text("1 1:2\n2 3:1\n")
    found = open_file(path, 9)
    found.fix_columns(4)                    # type: ignore[attr-defined]
    assert found.n_features == 9
    path.write_text("1 1:-0 2:5\n2 1:-0 2:4 3:-1\n")
    survey = open_file(path, 5).survey()
    assert (survey.low.tolist(), survey.high.tolist()) == ([0, 4, -1, 0, 0], [0, 5, 0, 0, 0])
    assert not np.signbit([survey.low[0], *survey.high]).any()      # zero has no sign
    for content in ("1\t0:2\n", "1 1:3\n2 00:2\n"):
        path.write_text(content)
        (again := open_file(path)).fix_columns(4)   # type: ignore[attr-defined]
        assert again.base == 0                      # type: ignore[attr-defined]
    path.write_text("1\n2 # 1:2\n")
    with pytest.raises(DataError, match="found labels only: no row has an index:value pair"):
        open_file(path).fix_columns(4)      # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["set.svm", "set.csv", "set.npy"])
def test_a_file_that_changes_in_a_pass(tmp_path, name):
    path = tmp_path / name
    if name == "set.npy":
        np.save(path, np.ones((3, 2)))
    else:
        path.write_text("1 1:2\n2 1:3\n" if name == "set.svm" else "1,2\n3,4\n")
    found = open_table(path)
    with pytest.raises(DataError, match=f"{name}: the file changed while it was read; it must"):
        found.survey(progress=lambda done: os.utime(path, ns=(1, 1)))


@pytest.mark.parametrize("name", ["set.npz", "set.csv"])
def test_names_that_are_new_in_a_later_pass(tmp_path, name):
    """Though size, time and place of the file are what they were."""
    def wrote(names):
        if name == "set.npz":
            np.savez(tmp_path / name, X=np.ones((3, 1)), y=np.array(names))
        else:
            (tmp_path / name).write_text("".join(f"1,{one}\n" for one in names))

    wrote(["a", "b", "a"])
    found = open_table(tmp_path / name)
    assert found.survey().labels.tolist() == [0, 1, 0]
    wrote(["a", "c", "a"])
    found._state = found._found()
    with pytest.raises(DataError, match=f"{name}: the file changed while it was read"):
        list(found.pieces())


def test_first_rows_of_names_with_blanks(tmp_path):
    np.savez(tmp_path / "set.npz", X=np.ones((3, 1)), y=np.array(["a ", "7", "a"]))
    with pytest.raises(DataError, match=r"found 'a' \(row 0\) and '7' \(row 1, counted from 0\)"):
        open_table(tmp_path / "set.npz")


def test_progress_and_rows_of_a_set_in_memory(tmp_path):
    """Of text all rows are read, whichever are chosen."""
    (tmp_path / "set.csv").write_text("1,2\n3,4\n5,6\n")
    for chosen, name in ((None, "set.csv"), (np.array([0]), "set.csv"), (None, "synthetic-2"),
                         (np.array([5, 7]), "synthetic-2")):
        found, told = open_table(tmp_path / name if "." in name else name), []
        survey = found.survey(chosen, told.append)
        assert told[-1] == (3 if "." in name else 20_000 if chosen is None else 2)
        assert len(survey.labels) == found.count_rows()
    data = load("synthetic-2")
    check(open_table("synthetic-2"), np.array([5, 7, 19_999]), data.features, data.labels)


def test_pieces_of_rows_that_are_chosen(tmp_path, monkeypatch):
    """As many values as a piece may have, however the rows lie; and the rows that errors name."""
    monkeypatch.setattr(table, "PIECE_VALUES", 12)
    monkeypatch.setattr(arrays, "PIECE_VALUES", 12)
    monkeypatch.setattr(arrays, "_GAP_BYTES", 64)
    rows = np.arange(80.0).reshape(40, 2)
    np.save(tmp_path / "set.npy", rows)
    for chosen in (np.arange(40), np.arange(0, 40, 2), np.array([0, 1, 2, 3, 4, 5, 6, 20, 39])):
        pieces = list(open_table(tmp_path / "set.npy").pieces(chosen))
        assert np.concatenate([piece.rows for piece in pieces]).tolist() == chosen.tolist()
        assert np.vstack([piece.features for piece in pieces]).tolist() == rows[chosen, :1].tolist()
        assert max(np.ptp(piece.rows) for piece in pieces) < 6      # of two values each
    labels = np.array(["a"] * 30 + ["7"] + ["a"] * 9)
    np.savez(tmp_path / "set.npz", X=rows, y=labels)
    with pytest.raises(DataError, match=r"found 'a' \(row 0\) and '7' \(row 30, counted from 0\)"):
        open_table(tmp_path / "set.npz")


def test_columns_of_several_types(tmp_path):
    """Features have 64 bits unless all have 32, and categories that no row has are none."""
    arrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    path, third = tmp_path / "set.parquet", 1 / 3
    kinds = arrow.DictionaryArray.from_arrays([2, 0], ["b", "left out", "a"])
    for types, kept in (("ff", np.float32), ("fd", np.float64), ("df", np.float64)):
        columns = {f"x{at}": arrow.array([third, 1], arrow.float32() if kind == "f" else None)
                   for at, kind in enumerate(types)}
        parquet.write_table(arrow.table({**columns, "kind": kinds}), path)
        whole, found = load(path), open_table(path)
        assert whole.features.dtype == kept
        assert whole.features[0].tolist() == [
            float(np.float32(third)) if kind == "f" else third for kind in types]
        assert (whole.class_names, whole.labels.tolist()) == (("a", "b"), [0, 1])
        assert found.survey().labels.tolist() == [0, 1]


@pytest.mark.parametrize("name", ["set.parquet", "set.arrow"])
def test_groups_of_rows(tmp_path, monkeypatch, name):
    """Those without a chosen row are skipped, and others read in pieces."""
    arrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    monkeypatch.setattr("bitstep.data.tables.arrow.PIECE_VALUES", 8)        # 2 rows
    rows, labels, path = np.arange(69.0).reshape(23, 3), np.arange(23.0), tmp_path / name
    content = arrow.table({**dict(zip("abc", rows.T, strict=True)), "y": labels})
    if name == "set.parquet":
        parquet.write_table(content, path, row_group_size=5)
    else:
        with arrow.OSFile(str(path), "wb") as file, arrow.ipc.new_file(file, content.schema) as out:
            out.write_table(content, max_chunksize=5)
    found = open_table(path)
    for chosen in ([0], [22], [4, 5, 21], [12, 13], range(23), range(7, 18), [1, 21]):
        check(found, np.array(chosen), rows, labels)


def test_first_rows_without_values(tmp_path, monkeypatch):
    monkeypatch.setattr(text, "CHUNK_BYTES", 1)
    path = tmp_path / "set.svm"
    path.write_text("5\n6 # 1:9\n7 2:-1\n")
    survey = open_table(path).survey()
    assert (survey.low.tolist(), survey.high.tolist()) == ([0, -1], [0, 0])
    assert survey.labels.tolist() == [5, 6, 7]


@pytest.mark.parametrize("content, line, message", [
    ("1 1:2\n2 1:2 1:3\n", 2, "the indices of a line must increase, each at most once"),
    ("1 1:2\n2 2:2 1:3\n", 2, "the indices of a line must increase"),
    ("1 1:2\n\n2 1048577:3\n", 3, "an index must be at most 1048576"),
    ("1 1:2\n1e999 1:3\n", 2, "values must be finite in 64-bit floating point"),
    ("1 1:2\n2 1:1e999\n", 2, "values must be finite in 64-bit floating point")])
@pytest.mark.parametrize("chunk", [1, 10_000])
def test_line_of_an_error(tmp_path, monkeypatch, content, line, message, chunk):
    monkeypatch.setattr(text, "CHUNK_BYTES", chunk)
    (tmp_path / "set.svm").write_text(content)
    for read in (load, lambda path: open_table(path).survey()):
        with pytest.raises(DataError, match=rf"set\.svm, line {line}: found .*; {message}"):
            read(tmp_path / "set.svm")
