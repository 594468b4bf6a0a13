"""LIBSVM and CSV text: values by hand, agreement with scikit-learn, one test an error message."""

import os
import time
from pathlib import Path

import numpy as np
import pytest

from bitstep.data import DataError, load
from bitstep.data import text as text_module

SHARED = Path(os.environ.get("BITSTEP_DATA")
              or Path(__file__).resolve().parents[3].parent / "shared/data")


def write(tmp_path, text, name="set.svm"):
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def read(tmp_path, text, name="set.svm", **options):
    dataset = load(write(tmp_path, text, name), **options)
    return dataset.features.tolist(), dataset.labels.tolist()


@pytest.mark.parametrize(("text", "features", "labels"), [
    ("1 1:2\n", [[2]], [1]),
    ("1 1:2", [[2]], [1]),                                      # no newline at the end
    ("-1.5 2:3e-1\n+2 1:-.5 3:7.\n", [[0, .3, 0], [-.5, 0, 7]], [-1.5, 2]),
    ("1\n2 1:1 2:2\n3 2:5\n", [[0, 0], [1, 2], [0, 5]], [1, 2, 3]),
    ("# title\n\n 1\t1:2  # remark: 3:4\r\n\r\n2 1:3\r\n", [[2], [3]], [1, 2]),
    ("1 0:5 2:6\n2 1:7\n", [[5, 0, 6], [0, 7, 0]], [1, 2]),     # an index 0: counted from 0
    ("1 1:5\n2 0:7\n", [[0, 5], [7, 0]], [1, 2]),               # in a later line, too
    (b"\xef\xbb\xbf1 1:2\n", [[2]], [1]),                       # byte order mark
    ("1 1:0.1234567890123456789e2\n", [[12.345678901234567]], [1]),
])
def test_libsvm_by_hand(tmp_path, text, features, labels):
    assert read(tmp_path, text) == (features, labels)


@pytest.mark.parametrize("chunk", [1, 7, 64])
def test_libsvm_chunks_do_not_show(tmp_path, monkeypatch, chunk):
    rng = np.random.default_rng(1)
    lines = []
    for row in range(40):
        used = np.flatnonzero(rng.random(9) < 0.6) + 1
        lines.append(" ".join([str(row), *(f"{at}:{rng.normal():.17g}" for at in used)]))
    path = write(tmp_path, "\n".join(lines))
    whole = load(path)
    monkeypatch.setattr(text_module, "CHUNK_BYTES", chunk)
    pieces = load(path)
    np.testing.assert_array_equal(pieces.features, whole.features)
    np.testing.assert_array_equal(pieces.labels, np.arange(40))


def test_libsvm_n_features_pads(tmp_path):
    assert read(tmp_path, "1 1:2\n", n_features=3) == ([[2, 0, 0]], [1])
    assert read(tmp_path, "1\n", n_features=2) == ([[0, 0]], [1])


@pytest.mark.parametrize("name", ["cadata", "cpusmall"])
def test_libsvm_agrees_with_sklearn(name):
    datasets = pytest.importorskip("sklearn.datasets")
    path = SHARED / f"{name}.svm"
    if not path.is_file():
        pytest.skip(f"{path} is not here; set BITSTEP_DATA to its folder")
    features, labels = datasets.load_svmlight_file(str(path))
    start = time.perf_counter()
    dataset = load(path)
    assert time.perf_counter() - start < 2      # 0.1 s on an idle machine
    np.testing.assert_array_equal(dataset.features, features.toarray())
    np.testing.assert_array_equal(dataset.labels, labels)
    assert dataset.name == name
    assert dataset.task == "regression"


@pytest.mark.parametrize(("text", "line", "message"), [
    ("1 1:2\n1 1:x\n", 2, "found '1:x'; a line must be a label"),
    ("1 1:2\n\n1 2\n", 3, "found '2'; a line must be a label followed by pairs"),
    ("1:2 2:3\n", 1, "found '1:2'; a line must be a label"),
    ("1 1:2:3\n", 1, "found '1:2:3'; a line must be a label"),
    ("1 1: 2\n", 1, "found '2'; a line must be a label"),
    ("1 1:\n", 1, "found '1:'; a value must follow the colon"),
    ("1 :2\n", 1, "found ':2'; an index must be a whole number"),
    ("1 -1:2\n", 1, "found '-1:2'; an index must be a whole number"),
    ("1 1.5:2\n", 1, "found '1.5:2'; an index must be a whole number"),
    ("# x\n1 1:2 2:1-2\n", 2, "found '2:1-2'; a value must be a number"),
    ("1 1:2\n1e 1:3\n", 2, "found '1e'; a label must be a number"),
    ("1 1:2 2:1e999\n", 1, "found '2:1e999'; values must be finite in 64-bit"),
    ("1e999 1:2\n", 1, "found '1e999'; values must be finite in 64-bit"),
    ("1 1:2\n2 1:3 2:nan\n", 2, "found '2:nan'; values must be finite; remove the row"),
    ("1 1:-Inf\n", 1, "found '1:-Inf'; values must be finite; remove the row"),
    ("nan 1:1\n", 1, "found 'nan'; values must be finite; remove the row"),
    ("1 1:1 3:1 2:1\n", 1, "found '2:1'; the indices of a line must increase"),
    ("1 1:1\n1 2:1 2:1\n", 2, "found '2:1'; the indices of a line must increase"),
    ("1 0:1 0:1\n", 1, "found '0:1'; the indices of a line must increase"),
    ("1 1:1\n1 qid:3 1:1\n", 2, "found 'qid:3'; query ids are for ranking"),
    ("1 99999999999999999999:1\n", 1, "an index must be at most 1048576"),
    ("1 1_0:1\n", 1, "found '1_0:1'; a line must be a label"),
])
def test_libsvm_line_errors(tmp_path, text, line, message):
    with pytest.raises(DataError) as error:
        read(tmp_path, text)
    assert f"set.svm, line {line}: " in str(error.value)
    assert message in str(error.value)


@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n"])
def test_libsvm_no_rows(tmp_path, text):
    with pytest.raises(DataError, match=r"set\.svm: the file has no rows; each line must hold"):
        read(tmp_path, text)


def test_libsvm_no_features(tmp_path):
    with pytest.raises(DataError, match="no row has an index:value pair; if all features are zero"):
        read(tmp_path, "1\n2\n")


def test_libsvm_too_many_features(tmp_path):
    with pytest.raises(DataError, match="found 3 features, but n_features is 2; all indices must"):
        read(tmp_path, "1 3:1\n", n_features=2)


def test_line_numbers_across_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(text_module, "CHUNK_BYTES", 16)
    with pytest.raises(DataError, match=r"line 21: found '1:y'"):
        read(tmp_path, "1 1:2\n" * 20 + "1 1:y\n")


@pytest.mark.parametrize(("text", "features", "labels"), [
    ("1,2,3\n4,5,6\n", [[1, 2], [4, 5]], [3, 6]),
    ("1,2\r\n\r\n -3.5e1 , 4 ", [[1], [-35]], [2, 4]),
    ("a,b\n1,2\n", [[1]], [2]),
])
def test_csv_by_hand(tmp_path, text, features, labels):
    assert read(tmp_path, text, "set.csv") == (features, labels)


@pytest.mark.parametrize(("column", "features", "label", "names"), [
    ("last", [[1, 2]], 3, ("age", "size, in m")), ("first", [[2, 3]], 1, ("size, in m", "price"))])
def test_csv_label_column_and_names(tmp_path, column, features, label, names):
    path = write(tmp_path, 'age,"size, in m",price\n1,2,3\n', "set.csv")
    dataset = load(path, label_column=column)
    assert dataset.features.tolist() == features
    assert dataset.labels.tolist() == [label]
    assert dataset.feature_names == names


def test_csv_chunks_do_not_show(tmp_path, monkeypatch):
    numbers = np.random.default_rng(2).normal(size=(50, 4))
    path = write(tmp_path, "".join(",".join(map(repr, row)) + "\n" for row in numbers.tolist()),
                 "set.csv")
    monkeypatch.setattr(text_module, "CHUNK_BYTES", 100)
    dataset = load(path)
    np.testing.assert_array_equal(dataset.features, numbers[:, :3])
    np.testing.assert_array_equal(dataset.labels, numbers[:, 3])


@pytest.mark.parametrize(("text", "message"), [
    ("1,2,3\n4,5\n", "line 2: found 2 columns; every row must have 3"),
    ("1,2\n\n4,5,6\n", "line 3: found 3 columns; every row must have 2"),
    ("a,b\n1,2\n3,x\n", "line 3, column 2: found 'x'; every field must be a finite number"),
    ("1,x\n3,4\n", "line 1, column 2: found 'x'; every field must be a finite"),
    ("1,2\n,4\n", "line 2, column 1: found ''; every field must be a finite number"),
    ("1,2\n3,nan\n", "line 2, column 2: found 'nan'; every field must be a finite"),
    ("1,2\n1_0,3\n", "line 2, column 1: found '1_0'; every field must be a finite"),
    ("1;2\n3;4\n", "line 1: found one column; a row must have a label and at least one feature"),
    ("", "set.csv: the file has no rows"),
    ("a,b\n", "set.csv: the file has no rows"),
])
def test_csv_errors(tmp_path, text, message):
    with pytest.raises(DataError) as error:
        read(tmp_path, text, "set.csv")
    assert message in str(error.value)


def test_csv_bad_label_column(tmp_path):
    with pytest.raises(DataError, match="label_column must be one of last, first, not 'middle'"):
        read(tmp_path, "1,2\n", "set.csv", label_column="middle")
