"""Files by suffix, named sets from a folder or a (fake) download, split, synthetic sets."""

import bz2
import gzip
import hashlib
import io
import lzma
import subprocess
import sys
import zipfile
from types import SimpleNamespace

import numpy as np
import pytest

from bitstep.data import DataError, Dataset, dataset_names, load, open_table, split, synthetic
from bitstep.data.dataset import first_not_finite, noisy
from bitstep.data.npz import has_arrays
from bitstep.data.tables.files import open_file
from bitstep.data.tables.memory import to_dataset

TEXT = b"1 1:2 2:3\n-1 2:4\n"


def small(n_rows=10):
    features = np.arange(2.0 * n_rows).reshape(n_rows, 2)
    return Dataset("small", features, features[:, 0] / 2, "regression")


# Files

@pytest.mark.parametrize(("suffix", "pack"), [
    (".svm", bytes), (".libsvm", bytes), (".txt", bytes), (".SVM", bytes),
    (".svm.bz2", bz2.compress), (".txt.gz", gzip.compress), (".libsvm.xz", lzma.compress)])
def test_libsvm_suffixes(tmp_path, suffix, pack):
    path = tmp_path / f"my.set{suffix}"
    path.write_bytes(pack(TEXT))
    for source in (path, str(path)):
        dataset = load(source)
        assert dataset.features.tolist() == [[2, 3], [0, 4]]
        assert (dataset.name, dataset.task) == ("my.set", "classification")
        assert dataset.features.dtype == dataset.labels.dtype == np.float64


def test_csv_gz(tmp_path):
    path = tmp_path / "set.csv.gz"
    path.write_bytes(gzip.compress(b"1,2\n3,4\n"))
    assert load(path).labels.tolist() == [2, 4]


@pytest.mark.parametrize(("kind", "kept"), [("f4", "f4"), ("f8", "f8"), ("i8", "f8"), ("f2", "f8")])
def test_npz(tmp_path, kind, kept):
    path = tmp_path / "set.npz"
    np.savez(path, X=np.array([[1, 2], [3, 4]], kind), y=np.array([5, 6]))
    dataset = load(path)
    assert dataset.features.tolist() == [[1, 2], [3, 4]]
    assert dataset.features.dtype == kept
    assert dataset.labels.tolist() == [5, 6]


@pytest.mark.parametrize(("arrays", "message"), [
    ({"X": np.ones((2, 2))}, "found the arrays X; there must be X"),
    ({"X": np.ones(2), "y": np.ones(2)}, "X must hold numbers in shape (rows, columns), not float"),
    ({"X": np.ones((2, 2)), "y": np.ones((2, 1))}, "y must hold numbers or text in shape (rows,)"),
    ({"X": np.ones((2, 2)), "y": np.ones(2, complex)}, "y must hold numbers or text in shape"),
    ({"X": np.ones((2, 2)), "y": np.array(["a", " "])}, "found no label in row 1"),
    ({"X": np.ones((2, 2)), "y": np.array([b"a", b"\xff"])}, "row 1 (counted from 0) that is no"),
    ({"X": np.ones((3, 2)), "y": np.array(["3", "no", "4"])}, "found 'no' (row 1) and '3' (row 0"),
    ({"X": np.ones((2, 2)), "y": np.array(["3", "nan"])}, "labels must be finite, not nan (row 1"),
    ({"X": np.ones((257, 1)), "y": np.array([f"c{number}" for number in range(257)])},
     "found more than 256 different labels ('c0', 'c1', 'c2', ...)"),
    ({"X": np.array([["a"]]), "y": np.ones(1)}, "X must hold numbers in shape"),
    ({"X": np.ones((2, 2)), "y": np.ones(3)}, "a label for each row of X, shape (2,), not (3,)"),
    ({"X": np.ones((0, 2)), "y": np.ones(0)}, "the file has no rows"),
    ({"X": np.ones((2, 0)), "y": np.ones(2)}, "a row must have at least one feature"),
    ({"X": np.array([[1, np.nan]]), "y": np.ones(1)}, "not nan (row 0, column 1, counted from 0)"),
    ({"X": np.array([[1], [np.inf]]), "y": np.ones(2)}, "not inf (row 1, column 0, counted from"),
    ({"X": np.ones((2, 1)), "y": np.array([1, np.nan])}, "labels must be finite, not nan (row 1"),
    ({"X": np.array([[None]]), "y": np.ones(1)}, "X and y must be arrays of numbers"),
])
def test_npz_errors(tmp_path, arrays, message):
    path = tmp_path / "set.npz"
    np.savez(path, **arrays)
    for read in (load, lambda path: open_table(path).survey()):
        with pytest.raises(DataError) as error:
            read(path)
        assert message in str(error.value)


@pytest.mark.parametrize(("name", "content"), [
    ("set.npz", b"PK\x03\x04 cut"), ("set.svm.gz", gzip.compress(TEXT, mtime=0)[:-9]),
    ("set.svm.gz", TEXT), ("set.svm.bz2", TEXT), ("set.csv.xz", TEXT)])
def test_broken_file(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"set\.\S+: the file cannot be read \(.*copy or create"):
        load(tmp_path / name)


@pytest.mark.parametrize("save, mark, place, value", [
    (np.save, b"False, 'shape'", 0, b"("), (np.savez, b"False, 'shape'", 0, b"("),
    # In the list of the archive: the version that it needs, a password, the kind of compression.
    (np.savez_compressed, b"PK\1\2", 6, b"\xfd"), (np.savez_compressed, b"PK\1\2", 8, b"\1"),
    (np.savez_compressed, b"PK\1\2", 10, b"\x5d")])
def test_arrays_that_python_cannot_read(tmp_path, save, mark, place, value):
    path = tmp_path / ("set.npy" if save is np.save else "set.npz")
    save(path, np.ones((3, 2))) if save is np.save else save(path, X=np.ones((3, 2)), y=np.ones(3))
    content = path.read_bytes()
    place += content.index(mark)
    path.write_bytes(content[:place] + value + content[place + 1:])
    for read in (load, open_table):
        with pytest.raises(DataError, match=rf"{path.name}: the file cannot be read \(.*copy or c"
                           ) as found:
            read(path)
        assert ("(the header of the array is damaged)" in str(found.value)) == (value == b"(")
    assert not has_arrays(path, "Z")


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
@pytest.mark.parametrize("array", ["X", "y"])
def test_values_that_changed_in_an_archive(tmp_path, save, array):
    """Values that are read where they are have no checksum of their own."""
    path = tmp_path / "set.npz"
    save(path, X=np.ones((3, 2)), y=np.ones(3))
    with zipfile.ZipFile(path) as archive:
        after = {"X": archive.getinfo("y.npy").header_offset, "y": archive.start_dir}
    content = bytearray(path.read_bytes())
    content[after[array] - 4] ^= 1          # of the last value, or of what it is packed in
    path.write_bytes(content)
    for read in (load, open_table):
        with pytest.raises(DataError, match=r"set\.npz: the file cannot be read \(.*copy or c"):
            read(path)


def test_labels_of_no_bytes(tmp_path):
    """Texts that are all empty, as no version of NumPy writes them by itself."""
    np.savez(tmp_path / "set.npz", X=np.ones((2, 1)))
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(header, {"descr": "<U0", "fortran_order": False,
                                                  "shape": (2,)})
    with zipfile.ZipFile(tmp_path / "set.npz", "a") as archive:
        archive.writestr("y.npy", header.getvalue())
    with pytest.raises(DataError, match=r"y must hold numbers or text in shape \(rows,\), not <U0"):
        open_table(tmp_path / "set.npz")


@pytest.mark.parametrize("column, place", [(1, 1), ("1", 1), (-2, 1), (-3, 0), ("first", 0),
                                           ("last", 2)])
def test_label_column_of_arrays(tmp_path, column, place):
    table = np.random.default_rng(0).random((20, 3))
    np.save(tmp_path / "set.npy", table)
    for dataset in (load(tmp_path / "set.npy", label_column=column),
                    to_dataset(open_table(tmp_path / "set.npy", label_column=column))):
        np.testing.assert_array_equal(dataset.labels, table[:, place])
        np.testing.assert_array_equal(dataset.features, np.delete(table, place, axis=1))
    np.save(tmp_path / "single.npy", table.astype(np.float32))
    single = next(open_table(tmp_path / "single.npy", label_column=column).pieces())
    assert (single.features.dtype, single.labels.dtype) == (np.float32, np.float64)
    with pytest.raises(DataError, match="found 3 columns with no line of names"):
        load(tmp_path / "set.npy", label_column="age")
    for beyond in (-4, 3):
        with pytest.raises(DataError, match=f"column must be from -3 to 2, not {beyond}"):
            load(tmp_path / "set.npy", label_column=beyond)


def test_label_column_of_a_parquet_file(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"a": [1.0, 2], "b": [0.5, 1.5], "c": [3.0, 4]}
    parquet.write_table(arrow.table(columns), tmp_path / "set.parquet")
    for asked in ("b", 1, "-2"):
        dataset = load(tmp_path / "set.parquet", label_column=asked)
        assert dataset.labels.tolist() == [0.5, 1.5]
        assert dataset.feature_names == ("a", "c")


NAMES = ["wild", "tame ", "wild", "café", "tame"]
ORDER = ("café", "tame", "wild")


def named_file(path, names, kind="plain"):
    """A file of 5 rows of two columns whose labels are text; its features."""
    features = np.arange(10.0).reshape(5, 2)
    if path.suffix == ".npz":
        save = np.savez_compressed if kind == "compressed" else np.savez
        save(path, X=features, y=np.array([name.encode() for name in names])
             if kind == "bytes" else np.array(names))
        return features
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    if kind == "view" and not hasattr(arrow, "string_view"):
        pytest.skip("this version of pyarrow has no views of text")
    column = arrow.array(names, arrow.large_string() if kind == "large" else
                         arrow.string_view() if kind == "view" else arrow.string())
    table = arrow.table({"a": features[:, 0], "kind": column.dictionary_encode()
                         if kind == "categories" else column, "b": features[:, 1]})
    if path.suffix == ".parquet":
        parquet.write_table(table, path, row_group_size=2)
    else:
        with arrow.OSFile(str(path), "wb") as sink, arrow.ipc.new_file(sink, table.schema) as file:
            file.write_table(table, max_chunksize=2)
    return features


@pytest.mark.parametrize("name, kind", [
    ("set.npz", "plain"), ("set.npz", "bytes"), ("set.npz", "compressed"),
    ("set.parquet", "plain"), ("set.parquet", "large"), ("set.parquet", "categories"),
    ("set.arrow", "plain"), ("set.arrow", "categories"), ("set.arrow", "view"),
    ("set.parquet", "view")])
def test_labels_that_are_names(tmp_path, name, kind):
    """As in a text: numbers of names in alphabetical order, in memory and in pieces."""
    path = tmp_path / name
    features = named_file(path, NAMES, kind)
    column = -1 if path.suffix == ".npz" else "kind"
    table = open_table(path, label_column=column)
    for dataset in (load(path, label_column=column), to_dataset(table)):
        assert (dataset.task, dataset.class_names) == ("classification", ORDER)
        assert dataset.labels.tolist() == [2, 1, 2, 0, 1]
        np.testing.assert_array_equal(dataset.features, features)
    survey = table.survey(np.array([1, 3]))
    assert survey.labels.tolist() == [2, 1, 2, 0, 1]
    assert np.concatenate([piece.labels for piece in table.pieces(np.array([1, 3, 4]))]).tolist() \
        == [1, 0, 1]
    with pytest.raises(DataError, match=r"labels are names \(café, tame, wild\), not 'regression'"):
        load(path, task="regression", label_column=column)


@pytest.mark.parametrize("name", ["set.npz", "set.parquet"])
def test_text_of_numbers(tmp_path, name):
    named_file(tmp_path / name, ["1", "2.5", "1", "-3", "1e1"])
    dataset = load(tmp_path / name, label_column=-1 if name == "set.npz" else 1)
    assert (dataset.task, dataset.class_names) == ("regression", None)
    assert dataset.labels.tolist() == [1, 2.5, 1, -3, 10]


def test_text_in_columns(tmp_path):
    """Names where numbers must be, and names that are missing."""
    path = tmp_path / "set.parquet"
    named_file(path, NAMES)
    with pytest.raises(DataError, match=r"column 'kind' holds string; every column must hold "
                                        r"numbers, but for the label's"):
        load(path, label_column="a")
    named_file(path, ["a", "b", "a", None, "b"])
    with pytest.raises(DataError, match="found nothing in row 3, column 1"):
        load(path, label_column="kind")
    named_file(path, ["a", "b", "a", "7", "b"])
    with pytest.raises(DataError, match=r"found 'a' \(row 0\) and '7' \(row 3"):
        load(path, label_column="kind")
    arrow, parquet = (pytest.importorskip(name) for name in ("pyarrow", "pyarrow.parquet"))
    kinds = arrow.DictionaryArray.from_arrays([1, 2, 0], ["a", "b", "7"])   # the first row has b
    parquet.write_table(arrow.table({"x": [1.0, 2, 3], "kind": kinds}), path)
    with pytest.raises(DataError, match=r"found 'b' \(row 0\) and '7' \(row 1"):
        load(path)


def test_names_are_no_regression(tmp_path):
    (tmp_path / "set.csv").write_text("1,no\n2,yes\n")
    assert load(tmp_path / "set.csv").task == "classification"
    with pytest.raises(DataError, match=r"labels are names \(no, yes\), not 'regression'"):
        load(tmp_path / "set.csv", task="regression")


def test_noisy():
    dataset, same = load("noisy-3"), to_dataset(open_table("noisy-3"))
    assert dataset.features.shape == (10_000, 3)
    best = np.linalg.lstsq(dataset.features, dataset.labels, rcond=None)[0]
    assert (dataset.labels - dataset.features @ best).std() == pytest.approx(0.5, rel=0.05)
    np.testing.assert_array_equal(dataset.labels, same.labels)
    np.testing.assert_array_equal(dataset.labels, noisy(3).labels)
    assert (dataset.labels != noisy(3, seed=1).labels).any()


def test_task_of_a_file(tmp_path):
    path = tmp_path / "set.svm"
    path.write_bytes(TEXT + b"3 1:1\n")
    assert load(path).task == "regression"      # three values
    assert load(path, task="classification").task == "classification"
    with pytest.raises(DataError, match="task must be one of regression, classification, not 'x'"):
        load(path, task="x")


def test_missing_file(tmp_path):
    (tmp_path / "link.csv").symlink_to(tmp_path / "gone.csv")
    with pytest.raises(DataError, match=r"link to .*gone\.csv, where there is no file; check"):
        load(tmp_path / "link.csv")
    with pytest.raises(DataError, match=r"none\.svm: there is no such file; check the path"):
        load(tmp_path / "none.svm")


def test_what_is_near(tmp_path, monkeypatch):
    (tmp_path / "wine.csv").write_text("ash,hue,cultivar\n1,2,0\n3,1,1\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"wnie\.csv: there is no such file; did you mean 'wine"):
        load("wnie.csv")
    with pytest.raises(DataError, match=r"no data set 'wine\.cvs'; did you mean 'wine\.csv'\? The"):
        load("wine.cvs")
    (tmp_path / "rows.log").touch()         # no data, however near
    with pytest.raises(DataError, match=r"no data set 'rows\.lok'\. The names are"):
        load("rows.lok")
    with pytest.raises(DataError, match=r"'ash', 'hue', 'cultivar'; did you mean 'cultivar'\?$"):
        load("wine.csv", label_column="cultivr")
    with pytest.raises(DataError, match=r"with the names 'ash', 'hue', 'cultivar'$"):
        load("wine.csv", label_column="species")


def test_unknown_suffix(tmp_path):
    (tmp_path / "set.arff").write_text("")
    with pytest.raises(DataError, match=r"found the suffix '\.arff'; it must be \.svm, \.libsvm"):
        load(tmp_path / "set.arff")
    (tmp_path / "set.npy.gz").write_text("")
    with pytest.raises(DataError, match=r"found the suffix '\.gz'; it must be \.svm, \.libsvm"):
        load(tmp_path / "set.npy.gz")


def test_wrong_n_features(tmp_path):
    (tmp_path / "set.csv").write_text("1,2\n")
    with pytest.raises(DataError, match="found 1 features, but n_features is 2; leave n_features"):
        load(tmp_path / "set.csv", n_features=2)
    with pytest.raises(DataError, match="found 1 features, but n_features is 2; leave n_features"):
        open_file(tmp_path / "set.csv", 2)
    np.save(tmp_path / "set.npy", np.ones((2, 3)))
    for wrong in (1, 3):
        with pytest.raises(DataError, match=f"found 2 features, but n_features is {wrong}; leave"):
            load(tmp_path / "set.npy", n_features=wrong)
    with pytest.raises(DataError, match="synthetic-3: found 3 features, but n_features is 2"):
        load("synthetic-3", n_features=2)


# Names

@pytest.mark.parametrize(("name", "hint"), [("cadat", "did you mean 'cadata'?"),
                                        ("mnist.tt", "did you mean 'mnist.t'?"),
                                        ("synthetic-0", "did you mean 'synthetic-N'?"),
                                        ("xyzzy", "'xyzzy'. The names are breast_cancer"),
                                        ("", "''. The names are breast_cancer")])
def test_unknown_name(name, hint):
    with pytest.raises(DataError, match="There is no data set") as error:
        load(name)
    assert hint in str(error.value)
    assert all(known in str(error.value) for known in dataset_names())


@pytest.mark.parametrize(("name", "shape", "task"), [("breast_cancer", (569, 30), "classification"),
                                               ("diabetes", (442, 10), "regression"),
                                               ("digits", (1797, 64), "classification")])
def test_bundled(name, shape, task):
    pytest.importorskip("sklearn")
    dataset = load(name)
    assert dataset.features.shape == shape
    assert (dataset.name, dataset.task) == (name, task)
    assert open_table(name).task == task
    assert dataset.feature_names is not None
    assert len(dataset.feature_names) == shape[1]


def test_bundled_without_sklearn(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn", None)
    with pytest.raises(DataError, match=r"digits: .*run: pip install 'bitstep\[sklearn\]'"):
        load("digits")


@pytest.mark.parametrize("file", ["cod-rna", "cod-rna.svm", "cod-rna.txt.gz", "cod-rna.bz2"])
def test_named_set_from_folder(tmp_path, monkeypatch, file):
    pack = {"gz": gzip.compress, "bz2": bz2.compress}.get(file.rpartition(".")[2], bytes)
    (tmp_path / file).write_bytes(pack(TEXT))
    dataset = load("cod-rna", data_home=tmp_path)
    assert dataset.features.tolist() == [[2, 3, *[0] * 6], [0, 4, *[0] * 6]]
    assert (dataset.name, dataset.task) == ("cod-rna", "classification")
    monkeypatch.setenv("BITSTEP_DATA", str(tmp_path))
    assert load("cod-rna").n_rows == 2
    # As of any LIBSVM text there may be more columns, of zeros.
    assert load("cod-rna", n_features=9).features[:, 8].tolist() == [0, 0]
    monkeypatch.setenv("HOME", str(tmp_path.parent))
    assert load("cod-rna", data_home=f"~/{tmp_path.name}").n_rows == 2


def test_named_set_under_the_name_of_the_site(tmp_path):
    (tmp_path / "gisette_scale").write_bytes(TEXT)
    assert load("gisette", data_home=tmp_path).n_features == 5000


def fake_pooch(monkeypatch, content, calls):
    def retrieve(url, known_hash, fname, path, progressbar):
        calls.append((url, known_hash, progressbar))
        if isinstance(content, Exception):
            raise content
        (path / fname).write_bytes(content)
    monkeypatch.setitem(sys.modules, "pooch", SimpleNamespace(
        retrieve=retrieve, get_logger=lambda: SimpleNamespace(setLevel=lambda level: None)))


def test_download_is_kept_and_verified(tmp_path, monkeypatch):
    calls = []
    stored = bz2.compress(TEXT)
    fake_pooch(monkeypatch, stored, calls)
    home = tmp_path / "new" / "folder"
    assert load("gisette.t", data_home=home, progress=True).n_rows == 2
    assert calls == [(("https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/"
                      "gisette_scale.t.bz2"), None, True)]
    file, record = home / "gisette_scale.t.bz2", home / "gisette_scale.t.bz2.sha256"
    assert record.read_text() == hashlib.sha256(stored).hexdigest() + "\n"
    assert load("gisette.t", data_home=home).n_rows == 2
    assert len(calls) == 1
    file.write_bytes(bz2.compress(TEXT * 2))
    with pytest.raises(DataError, match=r"found SHA-256 .*delete the file and gisette_scale\.t"):
        load("gisette.t", data_home=home)


def test_table_of_a_named_set(tmp_path):
    """It has the name that was asked for, whatever its file has; its labels are no column."""
    (tmp_path / "gisette_scale.bz2").write_bytes(bz2.compress(TEXT))
    found = open_table("gisette", data_home=tmp_path)
    assert (found.name, found.task) == ("gisette", "classification")
    found.survey()
    assert found.n_features == 5000
    with pytest.raises(DataError, match="gisette: the label's column cannot be 0, since this is"):
        open_table("gisette", data_home=tmp_path, label_column=0)


def test_checksum_is_that_of_the_whole_file(tmp_path):
    path, content = tmp_path / "cod-rna", TEXT + b"#" + b" " * (2 << 20)
    path.with_name("cod-rna.sha256").write_text(hashlib.sha256(content).hexdigest() + "\n")
    path.write_bytes(content)
    assert load("cod-rna", data_home=tmp_path).n_rows == 2
    path.write_bytes(content[:-1] + b"\n")
    with pytest.raises(DataError, match=r"found SHA-256 .*as when it was downloaded"):
        load("cod-rna", data_home=tmp_path)


def test_default_folder(tmp_path, monkeypatch):
    monkeypatch.delenv("BITSTEP_DATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    fake_pooch(monkeypatch, TEXT, [])
    load("cadata")
    assert (tmp_path / "bitstep" / "cadata").read_bytes() == TEXT


def test_failing_download(tmp_path, monkeypatch):
    fake_pooch(monkeypatch, ConnectionError("no route to host"), [])
    with pytest.raises(DataError) as error:
        load("cadata", data_home=tmp_path)
    message = str(error.value)
    assert message.startswith("cadata: the download failed (no route to host); download https://")
    assert str(tmp_path) in message
    assert "BITSTEP_DATA" in message
    assert not list(tmp_path.iterdir())


def test_download_without_pooch(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pooch", None)
    with pytest.raises(DataError, match=r"downloads need pooch, which is not installed; run: pip"):
        load("mnist", data_home=tmp_path)


# Synthetic sets and splits

def test_synthetic():
    dataset = load("synthetic-10")
    assert dataset.features.shape == (20_000, 10)
    assert 0.99 < dataset.features.std() < 1.01
    for n_features in (10, 1000):       # the variance of labels does not grow with the features
        assert 0.5 < synthetic(n_features, 500).labels.std() < 1.5
    again = synthetic(10, 20_000, 0)
    np.testing.assert_array_equal(dataset.features, again.features)
    np.testing.assert_array_equal(dataset.labels, again.labels)
    assert not np.array_equal(synthetic(10, 20_000, 1).labels, dataset.labels)


@pytest.mark.parametrize("noise", [0.0, 0.5])
def test_synthetic_noise(noise):
    dataset = synthetic(5, 2000, 3, noise)
    weights = np.linalg.lstsq(dataset.features, dataset.labels, rcond=None)[0]
    rest = dataset.labels - dataset.features @ weights
    # 1995 degrees of freedom: the standard error of the estimate is 1.6 %.
    assert np.sqrt((rest ** 2).sum() / 1995) == pytest.approx(noise, rel=0.07, abs=1e-12)


@pytest.mark.parametrize("arguments", [(0, 10), (3, 0), (3, 10, 0, -1.0), (3, 10, 0, float("nan"))])
def test_synthetic_errors(arguments):
    with pytest.raises(DataError, match="must have n_features and n_rows of at least 1 and noise"):
        synthetic(*arguments)


def test_split_partitions_rows():
    train, test = split(small(), 7, seed=5)
    assert (train.n_rows, test.n_rows) == (7, 3)
    rows = np.concatenate([train.labels, test.labels])
    order = np.random.Generator(np.random.PCG64(5)).permutation(10)
    assert rows.tolist() == order.tolist()
    np.testing.assert_array_equal(train.features[:, 0], 2 * train.labels)
    assert split(small(), 7, seed=6)[0].labels.tolist() != train.labels.tolist()


def test_split_in_order_and_default():
    train, test = split(small(), 4, shuffle=False)
    assert train.labels.tolist() == [0, 1, 2, 3]
    assert test.labels.tolist() == [4, 5, 6, 7, 8, 9]
    train, test = split(small())
    assert train.labels.tolist() == np.random.Generator(np.random.PCG64(0)).permutation(10).tolist()
    assert sorted(train.labels.tolist()) == list(range(10))
    assert test.features.shape == (0, 2)


@pytest.mark.parametrize("count", [0, 11, -1])
def test_split_errors(count):
    with pytest.raises(DataError, match=f"small: train_rows must be from 1 to 10, .*not {count}"):
        split(small(), count)


def test_dataset_checks_parts():
    ones = np.ones((3, 2))
    with pytest.raises(DataError, match="features must be float32 or float64 of shape"):
        Dataset("d", ones.astype(int), np.ones(3), "regression")
    with pytest.raises(DataError, match=r"labels must be float64 of shape \(3,\)"):
        Dataset("d", ones, np.ones(2), "regression")
    with pytest.raises(DataError, match="there must be 2 feature_names, one a column, not 1"):
        Dataset("d", ones, np.ones(3), "regression", ("a",))
    with pytest.raises(DataError, match="d: a row must have at least one feature, not 0"):
        Dataset("d", ones[:, :0], np.ones(3), "regression")
    hidden = np.ma.masked_array(np.ones((3, 2)), np.array([[0, 0], [0, 1], [1, 0]], bool))
    with pytest.raises(DataError, match=r"features must have no masked values, but has 2 \(the "
                                        "first in row 1, column 1"):
        Dataset("d", hidden, np.ones(3), "regression")
    with pytest.raises(DataError, match=r"d: labels must have no masked values, but has 1 \(the "
                                        "first in row 2, counted"):
        Dataset("d", ones, hidden[:, 0], "regression")


def test_place_of_a_value_far_in_the_rows():
    for n_rows, n_features in ((700_000, 2), (2, 1 << 20)):
        features = np.zeros((n_rows, n_features), np.float32)
        features[n_rows - 1, n_features - 2] = np.inf
        assert first_not_finite(features) == (n_rows - 1, n_features - 2)
        features[n_rows - 1] = 0
        assert first_not_finite(features) is None


def test_core_needs_numpy_alone():
    program = (
        "import sys\n"
        "for name in ('sklearn', 'scipy', 'pooch', 'tqdm', 'numba', 'amaranth', 'requests'):\n"
        "    sys.modules[name] = None\n"
        "import numpy as np\n"
        "from bitstep.data import synthetic\n"
        "from bitstep.quantization import quantize\n"
        "data = synthetic(3, 10)\n"
        "assert quantize(data.features, data.labels, bits=2).n_rows == 10\n")
    subprocess.run([sys.executable, "-W", "error", "-c", program], check=True, timeout=60)
