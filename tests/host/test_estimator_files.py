"""Estimators in model files: to and from the files of the command line, with the same predictions.
"""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.cli import main
from bitstep.devices.golden import GoldenDevice
from bitstep.training.files.model_file import LinearModel, ModelFileError, load_model
from bitstep.training.pipelines import pipeline_for

RNG = np.random.default_rng(3)
X = RNG.uniform(-2, 9, (80, 5))
VALUES = X @ RNG.normal(size=5) + 7
CLASSES = np.digitize(VALUES, np.quantile(VALUES, [0.3, 0.7]))
TWO = np.where(np.median(VALUES) < VALUES, 12, -3)


def fit(estimator, y) -> Any:
    new: Any = clone(estimator)
    return new.fit(X, y)


def saved(estimator, tmp_path):
    path = tmp_path / "model.npz"
    estimator.save(path)
    return path


ESTIMATORS: dict[str, Any] = {
    "regression": (LowPrecisionRegressor(epochs=4, random_state=1, l2=0.01, copies=2), VALUES),
    "floats": (LowPrecisionRegressor(bits=32, epochs=3, batch=8, schedule=[0.1, 0.05, 0.02, 0.01],
                                     step=None, random_state=1), VALUES),
    "no intercept": (LowPrecisionRegressor(fit_intercept=False, scaler="maxabs", epochs=2,
                                           random_state=1), VALUES),
    "two classes": (LowPrecisionClassifier(epochs=3, random_state=1), TWO),
    "hinge": (LowPrecisionClassifier(loss="hinge", epochs=3, box=4.0, random_state=1), CLASSES),
    "hinge, large batch": (LowPrecisionClassifier(loss="hinge", epochs=3, refetch=False, batch=256,
                                                  random_state=1), CLASSES),
    "logistic": (LowPrecisionClassifier(loss="log_loss", l1=0.001, step=np.float32(0.5), epochs=3,
                                        random_state=np.int64(1)), CLASSES.astype(np.uint8)),
    "truth": (LowPrecisionClassifier(loss="squared_hinge", random_state=1), TWO > 0),
}


@pytest.mark.parametrize("name", ESTIMATORS)
def test_round_trip(tmp_path, name):
    estimator, y = ESTIMATORS[name]
    fitted = fit(estimator, y)
    loaded = type(estimator).load(saved(fitted, tmp_path))
    assert loaded.get_params() == fitted.get_params()
    assert vars(loaded).keys() == vars(fitted).keys()
    np.testing.assert_equal(dict(vars(loaded)), dict(vars(fitted)))
    found, expected = loaded.predict(X), fitted.predict(X)
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)
    if hasattr(fitted, "predict_proba"):
        np.testing.assert_array_equal(loaded.predict_proba(X), fitted.predict_proba(X))
    # Both go on alike, and are saved alike.
    for one in (loaded, fitted):
        one.partial_fit(X, y)
    np.testing.assert_array_equal(loaded.coef_, fitted.coef_)
    assert loaded.history_ == fitted.history_
    assert len(loaded.history_) == loaded.n_iter_


@pytest.mark.parametrize("name, model", [
    ("regression", "linreg"), ("floats", "linreg"), ("two classes", "ls-svm"), ("hinge", "svm"),
    ("logistic", "logistic"), ("truth", "l2-svm")])
def test_the_command_line_reads_it(tmp_path, capsys, name, model):
    estimator, y = ESTIMATORS[name]
    fitted = fit(estimator, y)
    path, data, out = saved(fitted, tmp_path), tmp_path / "data.csv", tmp_path / "out.txt"
    np.savetxt(data, np.column_stack([X, y]), delimiter=",", fmt="%.17g")
    assert main(["predict", str(path), str(data), "--out", str(out)]) == 0
    np.testing.assert_array_equal(np.loadtxt(out), fitted.predict(X).astype(float))
    stored = tmp_path / "quantized.npz"
    rows = fitted._rows
    codes = ["--bit-planes"] if rows.encoding == "bit_planes" \
        else ["--bits", str(rows.bits), "--encoding", rows.encoding]
    assert main(["quantize", str(data), *codes, "--scaler", rows.scaler, "--model", model, "--out",
                 str(stored)]) == 0
    assert main(["predict", str(path), str(stored)]) == 0
    assert main(["train", str(data), "--model", model, "--init", str(path), "--epochs", "1",
                 "--device", "golden"]) == 0
    capsys.readouterr()
    assert main(["info", str(path)]) == 0
    shown = capsys.readouterr().out
    assert "features" in shown
    assert "estimator" not in shown


@pytest.mark.parametrize("model, y, options", [
    ("linreg", VALUES, ["--copies", "3", "--bits", "6"]),
    ("svm", CLASSES, ["--l1", "0.001", "--step", "0.5"]),
    ("logistic", TWO, ["--schedule", "constant"]), ("ls-svm", TWO, [])])
def test_it_reads_those_of_the_command_line(tmp_path, model, y, options):
    data, path, out = tmp_path / "data.csv", tmp_path / "m.npz", tmp_path / "out.txt"
    np.savetxt(data, np.column_stack([X, y]), delimiter=",", fmt="%.17g")
    assert main(["train", str(data), "--model", model, "--epochs", "3", *options, "--device",
                 "golden", "--out", str(path)]) == 0
    assert main(["predict", str(path), str(data), "--out", str(out)]) == 0
    kind: Any = LowPrecisionRegressor if model == "linreg" else LowPrecisionClassifier
    loaded = kind.load(path)
    np.testing.assert_array_equal(loaded.predict(X), np.loadtxt(out))
    config = load_model(path).config
    for name in ("bits", "encoding", "batch", "l1", "copies", "scaler", "schedule", "step"):
        assert getattr(loaded, name) == config[name]
    assert (loaded.n_iter_, loaded.history_, loaded.step_) == (3, [], config["step"])
    if model != "linreg":
        assert loaded.loss == config["loss"]
    again = kind.load(saved(loaded, tmp_path))
    np.testing.assert_array_equal(again.predict(X), loaded.predict(X))


def test_steps_of_a_file_are_not_those_of_a_schedule(tmp_path):
    data, path, steps = tmp_path / "data.csv", tmp_path / "m.npz", tmp_path / "steps.txt"
    np.savetxt(data, np.column_stack([X, VALUES]), delimiter=",", fmt="%.17g")
    steps.write_text("0.1\n0.05\n")
    assert main(["train", str(data), "--schedule", str(steps), "--device", "golden", "--out",
                 str(path)]) == 0
    loaded = LowPrecisionRegressor.load(path)
    assert (loaded.schedule, loaded.step, loaded.step_) == ("auto", "auto", None)


def test_names_of_features(tmp_path):
    fitted = LowPrecisionRegressor(random_state=0, epochs=2).fit(X, VALUES)
    names = np.array(list("abcde"), object)
    vars(fitted)["feature_names_in_"] = names       # as of a data frame
    loaded = vars(LowPrecisionRegressor.load(saved(fitted, tmp_path)))["feature_names_in_"]
    assert loaded.dtype == object
    assert loaded.tolist() == names.tolist()


def test_an_opened_device_is_not_saved(tmp_path):
    device = GoldenDevice(pipeline_for(n_features=5, bits=4, encoding="compensated"))
    fitted = LowPrecisionRegressor(device=device, random_state=np.random.RandomState(0),
                                   epochs=20).fit(X, VALUES)
    loaded = LowPrecisionRegressor.load(saved(fitted, tmp_path))
    assert (loaded.device, loaded.random_state) == (
        LowPrecisionRegressor().device, None)
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))


def test_wrong_files(tmp_path):
    path = saved(LowPrecisionRegressor(epochs=1).fit(X, VALUES), tmp_path)
    with pytest.raises(ModelFileError, match=r"the model of a regression \(linreg\), not of a "
                       r"classification; load it with LowPrecisionRegressor\.load"):
        LowPrecisionClassifier.load(path)
    LowPrecisionClassifier(loss="hinge", epochs=1).fit(X, TWO).save(path)
    with pytest.raises(ModelFileError, match=r"the model of a classification \(svm\), not of a "
                       r"regression; load it with LowPrecisionClassifier\.load"):
        LowPrecisionRegressor.load(path)
    path.write_text("x")
    with pytest.raises(ModelFileError, match="this is not a model file"):
        LowPrecisionRegressor.load(path)
    with pytest.raises(ModelFileError, match="there is no such file"):
        LowPrecisionRegressor.load(tmp_path / "none")
    with pytest.raises(NotFittedError):
        LowPrecisionRegressor().save(path)


@pytest.mark.parametrize("kind", [str, object])
def test_classes_that_are_strings(tmp_path, kind):
    labels = np.array(["né", "yes"], kind)[(TWO > 0).astype(int)]
    fitted = LowPrecisionClassifier(epochs=1, class_weight={"yes": 2}).fit(X, labels)
    loaded = LowPrecisionClassifier.load(saved(fitted, tmp_path))
    assert loaded.classes_.dtype == fitted.classes_.dtype
    np.testing.assert_array_equal(loaded.predict(X), fitted.predict(X))
    assert loaded.class_weight == {"yes": 2}


def labelled(path, labels):
    """A file of the rows with labels of any type, as its format has them."""
    if path.suffix == ".csv":
        pd.DataFrame(X, columns=list("abcde")).assign(t=labels).to_csv(path, index=False)
    else:
        np.savez(path, X=X, y=np.asarray(labels))
    return str(path)


@pytest.mark.parametrize("file", ["data.csv", "data.npz"])
@pytest.mark.parametrize("classes", [[" no", "yes "], ["0", "1"], ["007", "8"], [False, True],
                                     [" <=50K", " >50K"], [2, 5]], ids=str)
def test_classes_as_a_file_has_them(tmp_path, capsys, file, classes):
    """Without spaces around them, digits as numbers, and of truths what CSV files have."""
    labels = np.array(classes)[(TWO > 0).astype(int)]
    fitted = LowPrecisionClassifier(epochs=1, random_state=0).fit(X, labels)
    right = int((fitted.predict(X) == labels).sum())
    path, data = saved(fitted, tmp_path), labelled(tmp_path / file, labels)
    assert main(["predict", str(path), data]) == 0
    assert f"on 80 rows ({right} of them right)" in capsys.readouterr().out
    assert main(["train", data, "--init", str(path), "--epochs", "1", "--device", "golden"]) == 0


def test_classes_that_a_file_does_not_tell_apart(tmp_path, capsys):
    labels = np.array(["a", "a ", "b"])[np.resize([0, 1, 2], 80)]
    path = saved(LowPrecisionClassifier(epochs=1, random_state=0).fit(X, labels), tmp_path)
    data = labelled(tmp_path / "data.npz", labels)
    assert main(["predict", str(path), data]) == 1
    assert "The model tells classes 'a' and 'a ' apart, which are the same label in a file" \
        in capsys.readouterr().err
    assert main(["predict", str(path), data, "--no-label", "--out", str(tmp_path / "out")]) == 0
    assert len((tmp_path / "out").read_text().splitlines()) == 80


def test_a_class_of_two_lines(tmp_path, capsys):
    """Else the lines of --out would not be those of the rows."""
    labels = np.array(["a\nb", "c"])[(TWO > 0).astype(int)]
    path = saved(LowPrecisionClassifier(epochs=1, random_state=0).fit(X, labels), tmp_path)
    data, out = labelled(tmp_path / "data.npz", labels), tmp_path / "out"
    assert main(["predict", str(path), data, "--out", str(out)]) == 1
    assert r"one line of the file of --out, and the model has the class 'a\nb': predict in Python" \
        in capsys.readouterr().err
    assert not out.exists()
    assert main(["predict", str(path), data]) == 0


def test_class_weights_of_numbers(tmp_path):
    weights = {int(one): 1 + 0.5 * at for at, one in enumerate(np.unique(CLASSES))}
    fitted = LowPrecisionClassifier(epochs=1, class_weight=weights, random_state=0).fit(X, CLASSES)
    loaded = LowPrecisionClassifier.load(saved(fitted, tmp_path))
    assert loaded.class_weight == weights
    np.testing.assert_array_equal(loaded.fit(X, CLASSES).coef_, fitted.coef_)


@pytest.mark.parametrize("classes", [
    [2 ** 53, 2 ** 53 + 1], np.array([1, 2 ** 64 - 1], np.uint64),
    np.array(["no", "yes\0"], object)])
def test_classes_that_no_file_holds(tmp_path, classes):
    fitted = LowPrecisionClassifier(epochs=1).fit(X, np.array(classes)[(TWO > 0).astype(int)])
    with pytest.raises(ModelFileError, match=r"classes must be .* number them") as found:
        fitted.save(tmp_path / "m.npz")
    assert f"not {fitted.classes_.tolist()[1]!r};" in str(found.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("parameters", [
    {"bits": np.int64(4)}, {"fit_intercept": np.False_}, {"step": np.float32(0.1)},
    {"loss": "hinge", "refetch": np.True_}, {"planes": np.int64(3)}], ids=str)
def test_numbers_of_numpy_as_parameters(tmp_path, parameters):
    """Searches over arrays find such."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(60, 3))
    classes = (rows[:, 0] > 0).astype(int)
    model = LowPrecisionClassifier(random_state=0, **parameters).fit(rows, classes)
    plain = {name: value.item() if isinstance(value, np.generic) else value
             for name, value in parameters.items()}
    again = LowPrecisionClassifier(random_state=0, **plain).fit(rows, classes)
    np.testing.assert_array_equal(model.coef_, again.coef_)
    model.save(tmp_path / "model.npz")
    loaded = LowPrecisionClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.coef_, model.coef_)
    assert {name: loaded.get_params()[name] for name in plain} == plain


def test_paths_and_columns_of_data_frames_as_parameters(tmp_path):
    steps = tmp_path / "steps.txt"
    steps.write_text("0.02\n0.01\n")
    lows, highs = pd.Series(X.min(axis=0)), pd.Series(X.max(axis=0))
    model = LowPrecisionRegressor(schedule=steps, feature_range=(lows, highs), epochs=2,
                                  random_state=0).fit(X, VALUES)
    loaded = LowPrecisionRegressor.load(saved(model, tmp_path))
    assert loaded.schedule == str(steps)
    np.testing.assert_array_equal(loaded.feature_range, [lows, highs])
    np.testing.assert_array_equal(loaded.fit(X, VALUES).coef_, model.coef_)


def test_the_file_is_plain(tmp_path):
    """The command line needs nothing but NumPy and JSON."""
    path = saved(LowPrecisionClassifier(epochs=1).fit(X, CLASSES), tmp_path)
    with np.load(path, allow_pickle=False) as file:
        header = json.loads(str(file["header"]))
    assert header["config"]["model"] == "logistic"
    assert header["config"]["bits"] == 8


def test_a_file_of_planes_and_class_weights_asks_for_the_same_again(tmp_path):
    """Numbers of classes are numbers again, and 16 bits of rows in planes are no parameter."""
    path = tmp_path / "model.npz"
    assert main(["train", "breast_cancer", "--model", "logistic", "--planes", "4", "--epochs", "2",
                 "--class-weight", "0=2,1=1", "--tol", "0.01", "--out", str(path)]) == 0
    loaded: Any = LowPrecisionClassifier.load(path)
    asked = {name: getattr(loaded, name) for name in ("bits", "encoding", "planes", "tol",
                                                      "class_weight", "solver", "epochs")}
    assert asked == {"bits": "auto", "encoding": "auto", "planes": [4, 4], "tol": 0.01,
                     "class_weight": {0: 2, 1: 1}, "solver": "sgd", "epochs": 2}
    again = fit(loaded, np.median(VALUES) < VALUES)
    assert [entry["planes"] for entry in again.history_] == [4, 4]


@pytest.mark.parametrize("own", [None, {
    "parameters": {"bits": 3}, "learned": {"n_iter_": 4, "n_features_in_": 2, "step_": 0.1},
    "class_type": "float64", "rows": [3, "compensated", False, None]}])
def test_older_files(tmp_path, own):
    """They say neither solver, penalty, batch nor scaler; one of quantized rows has no shuffle."""
    config = {"model": "linreg", "bits": 3, "encoding": "compensated", "epochs": 4,
              "shuffle": None} | ({"estimator": own} if own else {})
    LinearModel(np.ones((1, 2)), np.zeros(1), np.zeros(0), config).save(tmp_path / "model.npz")
    loaded = LowPrecisionRegressor.load(tmp_path / "model.npz")
    assert (loaded.solver_, loaded.l2_, loaded.batch_, loaded.n_iter_) == ("sgd", 0.0, 1, 4)
    assert (loaded.bits, loaded.shuffle) == (3, True)
    assert LowPrecisionRegressor.load(saved(loaded, tmp_path)).batch_ == 1
    assert loaded.predict([[1, 2]]) == [3]
    loaded.fit(X, VALUES)


def test_pairs_stay_pairs(tmp_path):
    model = fit(LowPrecisionRegressor(feature_range=(-5, 20.0), label_range=(-90.0, 90)), VALUES)
    loaded = LowPrecisionRegressor.load(saved(model, tmp_path))
    assert loaded.get_params() == model.get_params()
    assert loaded.label_range_ == model.label_range_
