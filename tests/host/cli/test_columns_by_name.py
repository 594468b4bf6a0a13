"""Columns by their names, and rows without labels: ``bitstep predict`` and ``--init``."""

import json
import re
from typing import Any

import numpy as np
import pytest
from command_line import train

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.cli import main
from bitstep.data import load
from bitstep.training.files.model_file import KIND, load_model

pd = pytest.importorskip("pandas")

NAMES = ["age", "size", "mass"]
WIDTHS = [1.0, 100.0, 0.01]         # so different that an exchanged column shows
RNG = np.random.default_rng(3)
ROWS = RNG.uniform(0, 1, (80, 3)) * WIDTHS
VALUES = ROWS @ [3.0, 0.02, -100.0] + 1
KINDS = np.where(np.median(VALUES) < VALUES, "rich", "poor")
FRAME = pd.DataFrame(ROWS, columns=NAMES)


def write(path, frame, **columns):
    """A file of a frame and further columns; its suffix says which kind."""
    frame = frame.assign(**columns)
    if path.suffix == ".csv":
        frame.to_csv(path, index=False)
    else:
        pytest.importorskip("pyarrow")
        frame.to_parquet(path, index=False) if path.suffix == ".parquet" \
            else frame.to_feather(path)
    return path


@pytest.fixture
def model(tmp_path):
    """A regression on named columns, by the command line, and its data."""
    data, out = write(tmp_path / "data.csv", FRAME, value=VALUES), tmp_path / "model.npz"
    assert train(data, "--model", "linreg", "--out", out) == 0
    return out


def regressor(path) -> Any:
    """The estimator of a file."""
    return LowPrecisionRegressor.load(path)


def predicted(model, data, *options):
    """Predictions of a file."""
    out = data.parent / "predictions.txt"
    assert main(["predict", str(model), str(data), "--out", str(out), *map(str, options)]) == 0
    return out.read_text().split()


def refused(capsys, model, data, *options):
    """The last line of an error."""
    capsys.readouterr()
    try:
        code = main(["predict", str(model), str(data), *map(str, options)])
    except SystemExit as stop:      # wrong use, after a line of usage
        code = stop.code
    assert code in (1, 2)
    return capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".arrow"])
def test_train_writes_the_names_of_columns(tmp_path, suffix):
    data, out = write(tmp_path / f"data{suffix}", FRAME, value=VALUES), tmp_path / "model.npz"
    assert train(data, "--model", "linreg", "--epochs", 1, "--out", out) == 0
    assert load_model(out).feature_names == tuple(NAMES)
    assert regressor(out).feature_names_in_.tolist() == NAMES


def test_a_model_of_columns_without_names_has_none(tmp_path):
    np.save(tmp_path / "data.npy", np.column_stack([ROWS, VALUES]))
    assert train(tmp_path / "data.npy", "--model", "linreg", "--out", tmp_path / "m.npz") == 0
    assert load_model(tmp_path / "m.npz").feature_names is None
    assert not hasattr(regressor(tmp_path / "m.npz"), "feature_names_in_")
    # Data with names are as any other for it.
    data = write(tmp_path / "data.csv", FRAME, value=VALUES)
    assert len(predicted(tmp_path / "m.npz", data)) == len(ROWS)


def test_columns_are_taken_by_their_names(tmp_path, model, capsys):
    expected = predicted(model, tmp_path / "data.csv")
    capsys.readouterr()
    for order in (["mass", "age", "size"], ["size", "mass", "age"]):
        for suffix in (".csv", ".parquet"):
            data = write(tmp_path / f"other{suffix}", FRAME[order], value=VALUES)
            assert predicted(model, data) == expected
            assert "R2 0.9998 on 80 rows" in capsys.readouterr().out
    # Of rows far from all others the number stays one that can be read.
    predicted(model, write(tmp_path / "far.csv", FRAME * 1e60, value=VALUES))
    assert re.search(r"R2 -\d\.\d{1,3}e\+1\d\d on 80 rows", capsys.readouterr().out)
    # The one column that is no feature is the label, wherever it stands.
    frame = FRAME.assign(value=VALUES)[["value", "mass", "age", "size"]]
    assert predicted(model, write(tmp_path / "first.csv", frame)) == expected
    said = capsys.readouterr()
    assert "R2 0.9998 on 80 rows" in said.out
    assert said.err.count("note: the label is column 'value', which is no feature") == 1


def test_a_file_of_an_estimator_has_names_too(tmp_path, capsys):
    fitted = LowPrecisionRegressor(random_state=0, device="golden").fit(FRAME, VALUES)
    fitted.save(tmp_path / "model.npz")
    data = write(tmp_path / "data.csv", FRAME[["mass", "size", "age"]], value=VALUES)
    found = np.array(predicted(tmp_path / "model.npz", data), float)
    assert found == pytest.approx(fitted.predict(FRAME), rel=1e-12)
    assert regressor(tmp_path / "model.npz").predict(FRAME).tolist() \
        == fitted.predict(FRAME).tolist()


def test_an_older_file_of_an_estimator_keeps_its_names(tmp_path):
    fitted = LowPrecisionRegressor(random_state=0, device="golden").fit(FRAME, VALUES)
    fitted.save(tmp_path / "model.npz")
    header, arrays = KIND.read(tmp_path / "model.npz")
    del header["feature_names"]
    header["config"]["estimator"]["learned"]["feature_names_in_"] = {
        "array": NAMES, "type": "object"}
    KIND.write(tmp_path / "old.npz", {name: header[name] for name in ("n_features", "config")},
               arrays)
    assert load_model(tmp_path / "old.npz").feature_names == tuple(NAMES)
    assert regressor(tmp_path / "old.npz").feature_names_in_.tolist() == NAMES


@pytest.mark.parametrize("columns, missing, unknown", [
    (["age", "size", "weight"], "the data lack 'mass'", "the model does not know 'weight'"),
    (["age", "size"], "the data lack 'mass'", None),
    (["age", "size", "mass", "weight"], None, "the model does not know 'weight'")])
def test_other_names_are_refused(tmp_path, model, capsys, columns, missing, unknown):
    frame = FRAME.assign(weight=1.0)[columns]
    told = refused(capsys, model, write(tmp_path / "other.csv", frame, value=VALUES))
    assert "other.csv: the columns must have the names of the model's features" in told
    assert [text in told for text in (missing, unknown) if text] == [True] * bool(missing) + \
        [True] * bool(unknown)
    assert ("lack" in told, "not know" in told) == (bool(missing), bool(unknown))


def test_an_index_of_pandas_is_named(tmp_path, model, capsys):
    FRAME.assign(value=VALUES).to_csv(tmp_path / "index.csv")
    told = refused(capsys, model, tmp_path / "index.csv")
    assert "the model does not know ''" in told
    assert "pandas index" in told
    FRAME.to_csv(tmp_path / "index.csv")        # never taken for the label
    assert "pandas index" in refused(capsys, model, tmp_path / "index.csv", "--out",
                                     tmp_path / "p.txt")


@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
@pytest.mark.parametrize("name, told", [(None, False), ("__null_dask_index__", False),
                                        ("day", True)])
def test_an_index_in_a_file_of_columns_is_none(tmp_path, model, capsys, suffix, name, told):
    """pandas and Dask write it as the last column, where the label is."""
    arrow = pytest.importorskip("pyarrow")
    frame = FRAME.assign(value=VALUES)
    frame.index = pd.Index(3 * np.arange(80), name=name)
    path, out = tmp_path / f"index.{suffix}", tmp_path / "other.npz"
    if suffix == "parquet":
        frame.to_parquet(path)
    else:
        table = arrow.Table.from_pandas(frame)
        with arrow.OSFile(str(path), "wb") as file, arrow.ipc.new_file(file, table.schema) as text:
            text.write_table(table)
    assert train(path, "--model", "linreg", "--out", out) == 0
    text = capsys.readouterr().err
    assert ("is the index of a DataFrame" in text) == told
    assert ("column 'day' is the index of a DataFrame and is left out" in text) == told
    np.testing.assert_allclose(load_model(out).coef, load_model(model).coef)
    assert load_model(out).feature_names == tuple(NAMES)
    if name == "day":
        days = load(path, label_column="day")
        assert days.labels.tolist() == frame.index.tolist()
        assert days.feature_names == (*NAMES, "value")
        frame.index = pd.MultiIndex.from_arrays([frame.index, -frame.index], names=["day", "hour"])
        frame.to_parquet(tmp_path / "two.parquet")
        with pytest.warns(UserWarning, match="column 'day' is the index of a DataFrame"):
            hours = load(tmp_path / "two.parquet", label_column="hour")
        assert hours.labels.tolist() == (-days.labels).tolist()
        np.testing.assert_array_equal(hours.features, days.features)


def test_names_that_are_there_twice_keep_their_order(tmp_path, capsys):
    lines = ["a,a,b,y", *(",".join(f"{value:.6g}" for value in (*row, value))
                          for row, value in zip(ROWS, VALUES, strict=True))]
    (tmp_path / "twice.csv").write_text("\n".join(lines))
    assert train(tmp_path / "twice.csv", "--model", "linreg", "--out", tmp_path / "m.npz") == 0
    capsys.readouterr()
    predicted(tmp_path / "m.npz", tmp_path / "twice.csv")
    assert "R2 0.999" in capsys.readouterr().out
    (tmp_path / "other.csv").write_text("\n".join(["a,b,a,y", *lines[1:]]))
    assert "in the same order, since some names are there twice" in refused(
        capsys, tmp_path / "m.npz", tmp_path / "other.csv")


def test_a_quantized_file_keeps_the_names(tmp_path, capsys):
    def quantized(name, frame):
        data = write(tmp_path / f"{name}.csv", frame, value=VALUES)
        stored = tmp_path / f"{name}.npz"
        assert main(["quantize", str(data), "--bits", "8", "--encoding", "nearest",
                     "--no-shuffle", "--out", str(stored)]) == 0
        return stored

    stored, model = quantized("data", FRAME), tmp_path / "model.npz"
    assert train(stored, "--solver", "sgd", "--epochs", 3, "--out", model) == 0
    assert load_model(model).feature_names == tuple(NAMES)
    expected = predicted(model, stored)
    assert predicted(model, quantized("other", FRAME[["mass", "age", "size"]])) == expected
    assert "lack 'mass'" in refused(
        capsys, model, quantized("wrong", FRAME.rename(columns={"mass": "weight"})))


def test_init_takes_weights_by_name(tmp_path, model, capsys):
    def first(data):
        report = tmp_path / "run.json"
        assert train(data, "--model", "linreg", "--solver", "sgd", "--bits", 32, "--epochs", 1,
                     "--step", 1e-6, "--init", model, "--report", report) == 0
        return json.loads(report.read_text())["history"][0]["train_loss"]

    data = write(tmp_path / "other.csv", FRAME[["mass", "age", "size"]], value=VALUES)
    assert first(data) == pytest.approx(first(tmp_path / "data.csv"), rel=1e-3)
    assert first(data) < 1e-3 * np.var(VALUES)
    wrong = write(tmp_path / "wrong.csv", FRAME.rename(columns={"mass": "weight"}), value=VALUES)
    assert train(wrong, "--model", "linreg", "--init", model) == 1
    told = capsys.readouterr().err
    assert "lack 'mass'" in told
    assert "--init needs a model of such data" in told


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_rows_without_labels_are_known_by_the_names(tmp_path, model, capsys, suffix):
    expected = predicted(model, tmp_path / "data.csv")
    for order in (NAMES, ["mass", "age", "size"]):
        data = write(tmp_path / f"new{suffix}", FRAME[order])
        capsys.readouterr()
        assert predicted(model, data) == expected
        assert capsys.readouterr().out.splitlines()[0] == "80 rows without labels"
    assert "--out must name a file for the predictions" in refused(capsys, model, data)


@pytest.mark.parametrize("suffix", [".csv", ".npy", ".npz", ".parquet"])
def test_no_label(tmp_path, capsys, suffix):
    np.save(tmp_path / "data.npy", np.column_stack([ROWS, VALUES]))
    model, data = tmp_path / "m.npz", tmp_path / f"new{suffix}"
    assert train(tmp_path / "data.npy", "--model", "linreg", "--out", model) == 0
    expected = predicted(model, tmp_path / "data.npy")
    if suffix == ".npz":
        np.savez(data, X=ROWS)
    elif suffix == ".npy":
        np.save(data, ROWS)
    else:
        write(data, FRAME)
    hint = "predict without labels" if suffix == ".npz" else "that there is none"
    assert f"or {hint} (--no-label)" in refused(capsys, model, data)
    capsys.readouterr()
    assert predicted(model, data, "--no-label") == expected
    assert "80 rows without labels" in capsys.readouterr().out


def test_no_label_leaves_the_column_of_the_label_unread(tmp_path, capsys):
    model = tmp_path / "m.npz"
    assert train(write(tmp_path / "data.csv", FRAME, kind=KINDS), "--out", model) == 0
    expected = predicted(model, tmp_path / "data.csv")
    for name, kind, told in (("open.csv", "?", "the labels of"), ("empty.csv", "", "no label"),
                             ("open.parquet", "?", "the labels of"),
                             ("empty.parquet", "", "no label")):
        data = write(tmp_path / name, FRAME, kind=kind)
        assert re.search(f"{told}.*--no-label", refused(capsys, model, data))
        assert predicted(model, data, "--no-label") == expected
        assert predicted(model, data, "--no-label", "--label-column", "kind") == expected
    # Without names: the column is the one that is asked for.
    assert train(write(tmp_path / "data.csv", FRAME, kind=(KINDS == "rich") * 1.0), "--out",
                 model) == 0
    np.save(tmp_path / "open.npy", np.column_stack([np.full(80, -1.0), ROWS]))
    assert predicted(model, tmp_path / "open.npy", "--no-label", "--label-column", "0") \
        == predicted(model, tmp_path / "data.csv")


def test_no_label_of_files_that_have_labels(tmp_path, capsys):
    (tmp_path / "data.svm").write_text("".join(
        f"{value} " + " ".join(f"{at}:{one}" for at, one in enumerate(row, start=1)) + "\n"
        for row, value in zip(ROWS, VALUES, strict=True)))
    model = tmp_path / "m.npz"
    assert train(tmp_path / "data.svm", "--model", "linreg", "--out", model) == 0
    expected = predicted(model, tmp_path / "data.svm")
    capsys.readouterr()
    assert predicted(model, tmp_path / "data.svm", "--no-label") == expected
    assert "80 rows without labels" in capsys.readouterr().out


def test_classes_without_labels(tmp_path):
    model = tmp_path / "m.npz"
    assert train(write(tmp_path / "data.csv", FRAME, kind=KINDS), "--out", model) == 0
    found = predicted(model, write(tmp_path / "new.csv", FRAME))
    assert found == LowPrecisionClassifier.load(model).predict(FRAME).tolist()
