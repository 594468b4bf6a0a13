"""LIBSVM and CSV text: values by hand, agreement with scikit-learn, one test an error message."""

import contextlib
import os
import time
from pathlib import Path

import numpy as np
import pytest

from bitstep.data import DataError, load, open_table
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
    start = time.process_time()     # a busy machine takes longer
    dataset = load(path)
    assert time.process_time() - start < 2      # 0.1 s on an idle machine
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
    with pytest.raises(DataError, match="found labels only: no row has an index:value pair"):
        read(tmp_path, "1\n2\n")


def test_libsvm_too_many_features(tmp_path):
    with pytest.raises(DataError, match="found 3 features, but n_features is 2; all indices must"):
        read(tmp_path, "1 3:1\n", n_features=2)


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_a_mark_of_byte_order_begins_a_text_alone(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(text_module, "CHUNK_BYTES", chunk)
    assert read(tmp_path, "\ufeff1 1:2\n2 1:3\n") == ([[2], [3]], [1, 2])
    with pytest.raises(DataError, match="line 2: found"):
        read(tmp_path, "1 1:2\n\ufeff2 1:3\n")


def test_line_numbers_across_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr(text_module, "CHUNK_BYTES", 16)
    with pytest.raises(DataError, match=r"line 21: found '1:y'"):
        read(tmp_path, "1 1:2\n" * 20 + "1 1:y\n")


@pytest.mark.parametrize(("text", "features", "labels"), [
    ("1,2,3\n4,5,6\n", [[1, 2], [4, 5]], [3, 6]),
    ("1,2\r\n\r\n -3.5e1 , 4 ", [[1], [-35]], [2, 4]),
    ("a,b\n1,2\n", [[1]], [2]),
    ("1,2\r", [[1]], [2]),
    ('1,2\r\r\n"3","4"\r\r\n', [[1], [3]], [2, 4]),       # as a text that was converted twice
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
    ("a,b\n1,2\n3,x\n", "line 3, column 2: found 'x'; every label must be a finite number, as"),
    ("1,x\n3,4\n", "found 'x' (line 1) and '4' (line 2) as labels; all must be finite numbers, or"),
    ("1,x\n3,nan\n", "found 'x' (line 1) and 'nan' (line 2) as labels"),
    ("1,2\n,4\n", "line 2, column 1: found ''; every feature must be a finite"),
    ("1,2\n3,nan\n", "line 2, column 2: found 'nan'; every label must be a finite"),
    ("1,2\ninf,2\n", "line 2, column 1: found 'inf'; every feature must be a finite"),
    ("1,2\n1_0,3\n", "line 2, column 1: found '1_0'; every feature must be a finite"),
    ("1,2\n10,3_0\n", "line 2, column 2: found '3_0'; every label must be a finite"),
    ("name,2020,2021\n1,2,3\n", "; if the line holds the names of the columns, none may be a num"),
    ("1,a,2\n3,b,4\n", "line 1, column 2: found 'a'; every feature must be a finite number"),
    ("1,a,2\n3,b,4\n", "or the column, or, if it is the label, say so (label_column=1)"),
    ("1,5;2,5;a\n", "'1,5'; every feature must be a finite number; write a decimal point"),
    ("1,a\n2,\n", "line 2, column 2: found no label; every row must have one"),
    ("1|2\n3|4\n", "line 1: found one column; a row must have a label and at least one feature"),
    ('1,"a\n2",b\n', "line 1: found a field in quotes that cannot be read"),
    ('1,b\n"2",b\n3,"a\n', "line 3: found a field in quotes that cannot be read"),
    ('1,b\n"2,b\n3",a\n4,a\n', "line 2: found a field in quotes that cannot be read"),
    ("1\0,\0002\0\n", "line 1: found bytes that are no text in UTF-8"),
    ("".join(f"1,n{row}\n" for row in range(300)), "line 257, column 2: found more than 256 "),
    ("", "set.csv: the file has no rows; each line must hold numbers separated by commas"),
    ("a,b\n", "set.csv: the file has no rows below the line of names"),
])
def test_csv_errors(tmp_path, text, message):
    with pytest.raises(DataError) as error:
        read(tmp_path, text, "set.csv")
    assert message in str(error.value)


def test_names_of_columns_are_utf8(tmp_path):
    """Bytes of another encoding would be one name for several columns."""
    path = tmp_path / "set.csv"
    path.write_bytes("a,h\xe4,h\xf6,y\n1,2,3,4\n".encode("latin-1"))
    with pytest.raises(DataError, match="line 1, column 2: found a name that is no text in UTF-8"):
        load(path)


@pytest.mark.parametrize("column, message", [
    ("middle", r"a number, first or last, not 'middle'; found 3 columns with the names 'x', 'x'"),
    ("x", r"found 2 columns of the name 'x'; give the number"),
    (3, r"must be from -3 to 2, not 3: a row has 3 columns"), ("-4", r"from -3 to 2, not -4")])
def test_csv_bad_label_column(tmp_path, column, message):
    with pytest.raises(DataError, match=message):
        read(tmp_path, "x,x,y\n1,2,3\n", "set.csv", label_column=column)


@pytest.mark.parametrize("text", [
    "a,first,b\n1,no,2.5\n3,yes,4\n5,no,6\n",
    "\ufeffa;first;b\r\n\r\n1;no;2.5\r\n3; yes ;4\r\n5;no;6",
    "a\tfirst\tb\n1\tno\t2.5\n3\tyes\t4\n5\tno\t6\n",
    '"a","first","b"\n"1","no","2.5"\n3,yes,4\n 5, "no",6\n',
    'a;"first";b, "c"\n1;no;2.5\n3;"yes";4\n5;no;6\n'])
@pytest.mark.parametrize("column", ["first", 1, "1", -2, "-2"])
@pytest.mark.parametrize("chunk", [8, 1 << 20])
def test_class_names_and_separators(tmp_path, monkeypatch, text, column, chunk):
    """A column that is called "first" comes before the first column."""
    monkeypatch.setattr(text_module, "CHUNK_BYTES", chunk)
    dataset = load(write(tmp_path, text, "set.csv"), label_column=column)
    assert dataset.features.tolist() == [[1, 2.5], [3, 4], [5, 6]]
    assert dataset.class_names == ("no", "yes")
    assert dataset.labels.tolist() == [0, 1, 0]
    assert dataset.task == "classification"


def test_names_are_in_alphabetical_order(tmp_path):
    path = write(tmp_path, "1\tz\n2\té\n3\ta, b\n4\tz\n", "set.tsv")
    dataset = load(path)
    assert dataset.class_names == ("a, b", "z", "é")
    assert dataset.labels.tolist() == [1, 2, 0, 1]


def test_separator_between_numbers_with_commas_is_no_comma(tmp_path):
    with pytest.raises(DataError, match=r"found '3,5'; .* a decimal point in place of the comma"):
        read(tmp_path, "1,5;2,5;3,5\n", "set.csv")
    with pytest.raises(DataError, match=r"found '1,5'; .* a decimal point in place of the comma"):
        read(tmp_path, "1,5;2,5;3\n", "set.csv")
    found = load(write(tmp_path, "1;red, green, blue\n2;none\n", "set.csv"))
    assert (found.features.tolist(), found.class_names) == ([[1], [2]],
                                                            ("none", "red, green, blue"))


def test_first_lines_that_are_names_and_others(tmp_path, monkeypatch):
    found = load(write(tmp_path, '"a;b;c;d",e\n1,2\n', "set.csv"))        # no semicolon separates
    assert found.feature_names == ("a;b;c;d",)
    with pytest.raises(DataError, match="line 1, column 1: found 'a'; every feature must be a fin"):
        read(tmp_path, "a,1,2\n1,2,3\n", "set.csv")        # two numbers are no line of names
    monkeypatch.setattr(text_module, "CHUNK_BYTES", 1)
    path = write(tmp_path, "5,6,7,x\n0,1,2,y\n", "set.csv")
    assert open_table(path).count_rows() == load(path).n_rows == 2


def test_columns_after_the_label_keep_their_numbers(tmp_path):
    path = write(tmp_path, "1,2,3\n4,5,x\n", "set.csv")
    for column in ("first", 1):
        with pytest.raises(DataError, match="line 2, column 3: found 'x'"):
            load(path, label_column=column)


def test_numbers_of_columns_are_names(tmp_path):
    """As pandas writes a frame without names of its own beside a label."""
    dataset = load(write(tmp_path, "0,1,2,kind\n7,8,9,a\n7,8,8,b\n", "set.csv"))
    assert dataset.class_names == ("a", "b")
    assert dataset.feature_names == ("0", "1", "2")
    assert read(tmp_path, "0,1,2,3\n1,1,2,3\n", "set.csv") == ([[0, 1, 2], [1, 1, 2]], [3, 3])


@pytest.mark.parametrize("chunk", [1, 1 << 20])
def test_an_index_is_told_from_its_first_row_to_its_last(tmp_path, monkeypatch, chunk):
    monkeypatch.setattr(text_module, "CHUNK_BYTES", chunk)
    with pytest.warns(UserWarning, match="counts the rows, from 3 to 9: it is a pandas index"):
        read(tmp_path, ",a,b\n3,1,2\n4,1,3\n9,2,1\n", "set.csv")


def test_an_index_is_the_first_column_alone(tmp_path):
    """None behind the label: a warning would be an error here."""
    path = write(tmp_path, "y,,a\n5,0,1\n6,1,2\n", "set.csv")
    assert load(path, label_column="y").features.tolist() == [[0, 1], [1, 2]]


def test_folder(tmp_path):
    with pytest.raises(DataError, match="this is a folder; give a file of data in it"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["set.svm", "set.npz", "digits", "noisy-10"])
def test_label_column_of_what_has_none(tmp_path, name):
    source = tmp_path / name if "." in name else name
    if "." in name:
        source.write_text("1 1:1\n")
    with pytest.raises(DataError, match=r"the label's column cannot be 0, since .* leave it out"):
        load(source, label_column=0)
    if name != "set.npz":
        assert len(load(source, label_column="last").labels) == load(source).n_rows


@pytest.mark.parametrize("labels", [["2,38", "0,5"], ["no", "-2,3e5"], ["0", "2,381"]])
def test_labels_with_a_decimal_comma(tmp_path, labels):
    """They are no names of classes."""
    path = tmp_path / "set.csv"
    path.write_text("a;b\n" + "".join(f"{row};{label}\n" for row, label in enumerate(labels)))
    bad = next(row for row, label in enumerate(labels) if "," in label)
    with pytest.raises(DataError, match=rf"line {bad + 2}, column 2: found '{labels[bad]}'; .* "
                       "write a decimal point in place of the comma, or nothing between thou"):
        load(path)


@pytest.mark.parametrize("labels, warned", [
    (["label", "no", "yes", "no"], True), (["yes", "no", "yes", "no"], False),
    (["a", "b", "c", "d"], False), (["label", "no"], False)])
def test_a_line_of_names_with_numbers_is_a_row_with_a_warning(tmp_path, labels, warned):
    """Its label is then the only one of its kind, among others that repeat."""
    path = tmp_path / "set.csv"
    path.write_text("".join(f"{2019 + row},3,{label}\n" for row, label in enumerate(labels)))
    with pytest.warns(UserWarning, match="line 1 has numbers, so it is read as a row, and no other "
                      "row has its label, 'label'") if warned else contextlib.nullcontext():
        assert load(path).class_names == tuple(sorted(set(labels)))
    with pytest.warns(UserWarning, match="read as a row") if warned else contextlib.nullcontext():
        found = open_table(path)
        found.survey()
    found.survey()              # again, with the names that are known
