"""Data as people have them: class names, separators, the label's column, weights of classes."""

import json
from argparse import ArgumentTypeError
from collections.abc import Sequence

import numpy as np
import pytest
from command_line import train

from bitstep import LowPrecisionClassifier
from bitstep.cli import main
from bitstep.cli.options import class_text
from bitstep.data import load, split
from bitstep.options.table import weights_of
from bitstep.quantization import load_quantized
from bitstep.training.files.model_file import load_model

NAMES = np.array(["zoë", "a b", "M"])
ROWS = np.random.default_rng(0).standard_normal((90, 3)).round(3)
KINDS = NAMES[np.digitize(ROWS[:, 0], [-0.4, 0.9])]


def write(path, separator=",", label=3, quote="", rows=ROWS, kinds=KINDS,
          names: Sequence[str] = "uvw"):
    """A file with a line of names, and the label in one of the columns."""
    lines = [[*names], *[[f"{value:g}" for value in row] for row in rows]]
    for line, kind in zip(lines, ["kind", *kinds], strict=True):
        line.insert(label, kind)
    path.write_text("\n".join(separator.join(f"{quote}{field}{quote}" for field in line)
                              for line in lines), encoding="utf-8")
    return path


@pytest.fixture
def table(tmp_path):
    return write(tmp_path / "set.csv")


def facts(capsys):
    """Names and values that ``bitstep info`` shows."""
    return [line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines()]


def code_of(*arguments):
    try:
        return main([str(argument) for argument in arguments])
    except SystemExit as stop:      # wrong use, after a line of usage
        return stop.code


def error_of(capsys, *arguments):
    """The one line that a command ends with."""
    capsys.readouterr()
    assert code_of(*arguments) in (1, 2)
    lines = capsys.readouterr().err.rstrip("\n").splitlines()
    assert len(lines) == 1 or lines[0].startswith("usage: ")
    return lines[-1].partition("error: ")[2]


def test_class_names_from_training_to_predictions(table, tmp_path, capsys):
    model, report, out = (tmp_path / name for name in ("m.npz", "r.json", "p.txt"))
    assert train(table, "--epochs", 3, "--out", model, "--report", report) == 0
    assert "Classes: M, a b, zoë\n" in capsys.readouterr().out
    assert json.loads(report.read_text())["dataset"]["classes"] == sorted(NAMES)
    assert load_model(model).classes.tolist() == sorted(NAMES)
    other = write(tmp_path / "other.tsv", "\t", 1, '"', ROWS[:40], KINDS[:40])
    assert main(["predict", str(model), str(other), "--label-column", "kind", "--out",
                 str(out)]) == 0
    predicted = out.read_text(encoding="utf-8").splitlines()
    right = int((np.array(predicted) == KINDS[:40]).sum())
    assert right > 20
    assert f"on 40 rows ({right} of them right)" in capsys.readouterr().out
    assert main(["info", str(model)]) == 0
    assert ["classes", "M, a b, zoë"] in facts(capsys)
    assert train(table, "--epochs", 1, "--init", model) == 0


@pytest.mark.parametrize("shuffle", ["--shuffle", "--no-shuffle"])
def test_quantized_class_names(table, tmp_path, capsys, shuffle):
    stored, first, second = (str(tmp_path / name) for name in ("q.npz", "1.npz", "2.npz"))
    options = ["--model", "ls-svm", "--train-rows", "70", shuffle]
    assert main(["quantize", str(table), "--out", stored, *options]) == 0
    assert set(load_quantized(stored).label_values()) == set(NAMES)
    assert train(stored, "--model", "ls-svm", "--epochs", 2, "--out", first) == 0
    assert train(table, "--epochs", 2, "--out", second, *options) == 0
    one, other = load_model(first), load_model(second)
    np.testing.assert_array_equal(one.coef, other.coef)
    assert one.classes.tolist() == other.classes.tolist()
    assert main(["predict", first, stored]) == 0
    assert main(["info", stored]) == 0
    assert ["classes", "M, a b, zoë"] in facts(capsys)
    assert "needs features, and" in error_of(capsys, "train", stored, "--class-weight", "balanced")
    assert "needs a file of features" in error_of(capsys, "predict", first, stored,
                                                  "--label-column", "0")


@pytest.mark.parametrize("suffix", [".npz", ".parquet"])
def test_class_names_of_other_files(table, tmp_path, suffix):
    """The models, codes and predictions of the same rows as text."""
    path = tmp_path / f"set{suffix}"
    if suffix == ".npz":
        np.savez(path, X=ROWS, y=KINDS)
    else:
        arrow = pytest.importorskip("pyarrow")
        pytest.importorskip("pyarrow.parquet").write_table(arrow.table(
            {**dict(zip("uvw", ROWS.T, strict=True)), "kind": arrow.array(KINDS.tolist())}), path)
    found = []
    for source in (path, table):
        model, stored, out = (str(tmp_path / name) for name in ("m.npz", "q.npz", "p.txt"))
        assert train(source, "--epochs", 2, "--train-rows", 70, "--out", model) == 0
        assert main(["quantize", str(source), "--out", stored, "--train-rows", "70"]) == 0
        assert main(["predict", model, str(source), "--out", out]) == 0
        rows, kept = load_quantized(stored), load_model(model)
        with open(out, encoding="utf-8") as file:
            found.append((kept.coef.tolist(), kept.classes.tolist(), rows.rows.stored[0].tolist(),
                          rows.label_values().tolist(), file.read()))
    assert found[0] == found[1]
    assert set(found[0][3]) == set(NAMES)


def test_label_column_of_every_command(tmp_path, capsys):
    """A name, or a number from the front or the end; other files have the same rows."""
    table = str(write(tmp_path / "set.csv", ";", 1))
    model, stored = str(tmp_path / "m.npz"), str(tmp_path / "q.npz")
    for asked in ("kind", "1", "-3"):
        column = ["--label-column", asked]
        assert train(table, "--epochs", 1, "--out", model, *column) == 0
        assert main(["quantize", table, "--out", stored, *column]) == 0
        assert main(["predict", model, table, *column]) == 0
        assert main(["info", table, *column]) == 0
        assert load_quantized(stored).n_features == 3
    assert "4 columns with the names 'u', 'kind', 'v', 'w'" in error_of(
        capsys, "predict", model, table, "--label-column", "nobody")
    assert "say so (--label-column 1)" in error_of(capsys, "train", table)
    assert "say so (--label-column 1)" in error_of(capsys, "quantize", table, "--out", stored)


@pytest.mark.parametrize("options, message", [
    ([], "the data have 4: use the data set it was trained for, and say which column is the label"),
    (["--label-column", "1"], "the data have 4: use the data set it was trained for"),
    (["--no-label"], "the data have 5: use the data set it was trained for, and leave --no-label"),
])
def test_predict_with_other_columns(tmp_path, capsys, options, message):
    model = str(tmp_path / "m.npz")
    rows = np.column_stack([ROWS, ROWS[:, 0] > 0])
    for name, columns in (("three", [0, 1, 2, 3]), ("four", [0, 1, 2, 2, 3])):
        np.savetxt(tmp_path / f"{name}.csv", rows[:, columns], delimiter=",")
    assert train(tmp_path / "three.csv", "--epochs", 1, "--out", model) == 0
    assert message in error_of(capsys, "predict", model, tmp_path / "four.csv", *options)


def test_names_and_numbers_are_not_mistaken_for_each_other(table, tmp_path, capsys):
    names, numbers = str(tmp_path / "names.npz"), str(tmp_path / "numbers.npz")
    coded = write(tmp_path / "coded.csv", kinds=np.where(KINDS == "M", "True", "False"))
    values = write(tmp_path / "values.csv", kinds=ROWS[:, 0].astype(str))
    assert train(table, "--epochs", 1, "--out", names) == 0
    assert train(values, "--epochs", 1, "--out", numbers) == 0
    assert "classes M, a b, zoë apart, the labels of" in error_of(capsys, "predict", names, coded)
    assert "are False, True" in error_of(capsys, "predict", names, coded)
    assert "predicts values, the labels of" in error_of(capsys, "predict", numbers, table)
    assert "the labels are names (M, a b, zoë), and linreg is" in error_of(
        capsys, "train", table, "--model", "linreg")
    assert "the data are those of 2 classes, False, True" in error_of(
        capsys, "train", coded, "--init", names)


@pytest.mark.parametrize("options, parameters", [([], {}), (["--model", "svm"], {"loss": "hinge"})],
                         ids=["default", "svm"])
def test_class_weights_are_those_of_the_estimator(table, tmp_path, options, parameters):
    weights = {"balanced": "balanced", "a b=2.5,M=0.5": {"a b": 2.5, "M": 0.5}}
    train_set, _ = split(load(table), 60, seed=4)
    labels = np.array(sorted(NAMES))[train_set.labels.astype(int)]
    for asked, weight in weights.items():
        model = tmp_path / "m.npz"
        assert train(table, "--epochs", 2, "--train-rows", 60, "--seed", 4, "--class-weight", asked,
                     "--out", model, *options) == 0
        # These rows are shuffled.
        expected = LowPrecisionClassifier(epochs=2, random_state=4, class_weight=weight,
                                          shuffle=False, **parameters)
        expected.fit(train_set.features, labels)
        loaded = LowPrecisionClassifier.load(model)
        np.testing.assert_array_equal(loaded.coef_, expected.coef_)
        assert loaded.class_weight == weight


def test_class_weights_of_numbers_and_resuming(numbers, tmp_path, capsys):
    state, report = tmp_path / "c.ck", tmp_path / "r.json"
    options = [numbers[1], "--epochs", 2, "--class-weight", "5=3"]
    assert train(*options, "--checkpoint", state, "--report", report) == 0
    data, found = load(numbers[1]), json.loads(report.read_text())
    assert found["dataset"]["train_rows"] == 60         # weights go along with the rows
    right = (data.features @ found["coef"][0] + found["intercept"][0] > 0) == (data.labels == 5)
    weights = np.where(data.labels == 5, 3, 1)
    assert found["history"][-1]["train_accuracy"] == pytest.approx(
        weights[right].sum() / weights.sum())
    assert found["config"]["class_weight"] == {"5": 3.0}
    assert train(*options, "--resume", state) == 0
    assert "--class-weight is 5=2, the checkpoint's 5=3" in error_of(
        capsys, "train", *options[:-1], "5=2", "--device", "golden", "--resume", state)


def test_class_weights_of_packed_rows(tmp_path):
    """They go along with the rows, so a packed row is read once an epoch, as others are."""
    model, report = tmp_path / "m.npz", tmp_path / "r.json"
    found = []
    for more in ([], ["--packed"]):
        assert train("breast_cancer", "--model", "svm", "--no-refetch", "--bits", 2, "--epochs", 3,
                     "--class-weight", "0=2.5,1=0.5", "--seed", 1, "--solver", "sgd",
                     "--train-rows", 100, "--out", model, "--report", report, *more) == 0
        found.append((json.loads(report.read_text()),
                      LowPrecisionClassifier.load(model).coef_.tolist()))
    (padded, coef), (packed, same) = found
    assert coef == same
    assert padded["dataset"]["train_rows"] == packed["dataset"]["train_rows"] == 100


@pytest.mark.parametrize("weight, message", [
    ("even", "must be balanced, or each class once with its weight"),
    ("M=1,M=2", "each class once"), ("=2", "each class once"), ("M=-1", "a number of at least 0"),
    ("x=2", "--class-weight must name classes of the data, M, a b, zoë, not 'x'"),
    ("M=0,zoë=0", "must leave at least two classes with a weight above 0, not 1")])
def test_bad_class_weights(table, capsys, weight, message):
    assert message in error_of(capsys, "train", table, "--class-weight", weight)


def test_class_weights_of_names_with_commas():
    assert weights_of("a,b=2,c=1") == {"a,b": 2, "c": 1}
    assert weights_of(" no =1, yes, or so=0.5") == {"no": 1, "yes, or so": 0.5}
    for text in ("a=1,b", "a=1,", "a,b"):
        with pytest.raises(ArgumentTypeError, match="each class once with its weight"):
            weights_of(text)


@pytest.mark.parametrize("left_out", ["M", "a b"])
def test_test_rows_of_a_class_that_is_not_trained_count_as_wrong(tmp_path, capsys, left_out):
    """As `predict` counts them, of two classes and of three."""
    model, report = tmp_path / "m.npz", tmp_path / "r.json"
    kinds = np.where(ROWS[:, 1] > 0.8, "z", KINDS) if left_out == "M" else KINDS
    names, numbers = np.unique(kinds, return_inverse=True)
    for found, asked in ((kinds, left_out), (numbers.astype(str),
                                             str(names.tolist().index(left_out)))):
        source = write(tmp_path / "train.csv", kinds=found)
        assert train(source, "--model", "logistic", "--train-rows", 50, "--no-shuffle",
                     "--class-weight", f"{asked}=0", "--out", model, "--report", report) == 0
        others = (kinds[50:] == left_out).sum()
        assert others > 5
        told = capsys.readouterr().err
        assert f"{others} of 40 test rows are of classes that are not trained ({asked})" in told
        share = json.loads(report.read_text())["history"][-1]["test_metric"]
        write(tmp_path / "test.csv", rows=ROWS[50:], kinds=found[50:])
        assert main(["predict", str(model), str(tmp_path / "test.csv")]) == 0
        assert f"accuracy {100 * share:.2f} % on 40 rows" in capsys.readouterr().out
        assert share <= 1 - others / 40


def test_class_weights_need_classes(numbers, capsys):
    assert "a regression has no classes; leave --class-weight out" in error_of(
        capsys, "train", numbers[0], "--class-weight", "balanced")


def test_synthetic_sets_of_races(capsys):
    assert train("noisy-4", "--train-rows", 50, "--epochs", 1) == 0
    assert "noisy-4: linreg, 50 rows of 4 features" in capsys.readouterr().out
    for name in ("noisy-x", "noisy-0"):
        assert "did you mean 'noisy-N'?" in error_of(capsys, "train", name)


def test_libsvm_files_of_labels_only(tmp_path, capsys):
    model = str(tmp_path / "m.npz")
    (tmp_path / "set.svm").write_text("1 1:1 3:2\n-1 2:1\n" * 5)
    (tmp_path / "wide.svm").write_text("1 1:1 5:2\n-1 2:1\n" * 5)
    (tmp_path / "labels.svm").write_text("1\n-1\n# 1:1\n" * 5)
    assert train(tmp_path / "set.svm", "--epochs", 1, "--out", model) == 0
    for arguments in (["train"], ["predict", model], ["quantize", "--out", tmp_path / "q.npz"]):
        assert "found labels only: no row has an index:value pair; give" in error_of(
            capsys, *arguments, tmp_path / "labels.svm")
    assert "trained on 3 features, the data have at least 5: use the data set" in error_of(
        capsys, "predict", model, tmp_path / "wide.svm")
    assert "has 3 features, the data have 5; --init needs" in error_of(
        capsys, "train", tmp_path / "wide.svm", "--init", model)


def test_folder(tmp_path, capsys):
    assert "this is a folder; give a file of data in it" in error_of(capsys, "info", tmp_path)


@pytest.mark.parametrize("options, message", [
    (["--sweep", "box=1,2"], "--packed does not go together with --box 1:"),
    (["--bits", 8], "80 bits, on a bus of 64 (128 or 256 or 512 are enough): a")])
def test_what_excludes_packed_rows(capsys, options, message):
    assert message in error_of(capsys, "train", "diabetes", "--packed", *options)


@pytest.mark.parametrize("options, message", [
    (["breast_cancer"], "--packed does not go together with --model logistic (by default):"),
    (["breast_cancer", "--model", "svm"],
     "with --refetch (by default): the pipeline for packed rows"),
    (["synthetic-65", "--train-rows", 9], "with 65 features: it is for up to 64 features")])
def test_data_that_exclude_packed_rows(capsys, options, message):
    assert message in error_of(capsys, "train", *options, "--packed")


def indexed(path, index, name="", rows=ROWS):
    """A file as pandas writes it with its index."""
    return write(path, rows=np.column_stack([index, rows]), names=[name, *"uvw"], label=4,
                 kinds=rows[:, 0].astype(str))


INDEX = "it is a pandas index, and is read as a feature; write the file without it"


@pytest.mark.filterwarnings("default")
def test_an_index_of_pandas_is_named(tmp_path, capsys):
    out, model = str(tmp_path / "q.npz"), str(tmp_path / "m.npz")
    for name, index in (("", range(90)), ("Unnamed: 0", np.arange(5, 905, 10))):
        table = str(indexed(tmp_path / "set.csv", index, name))
        for arguments in (["train", table, "--epochs", "1", "--device", "golden", "--out", model],
                          ["quantize", table, "--out", out], ["predict", model, table],
                          ["info", table]):
            assert main(arguments) == 0
            assert capsys.readouterr().err == (
                f"bitstep {arguments[0]}: warning: {table}: the first column has no name of its "
                f"own and counts the rows, from {index[0]} to {index[-1]}: {INDEX} "
                "(to_csv(..., index=False))\n")
    with pytest.warns(UserWarning, match="it is a pandas index"):
        load(table)


@pytest.mark.parametrize("index, name, options", [
    (range(90), "count", []), (range(90, 0, -1), "", []), (np.arange(90) / 2, "", []),
    ([3] * 90, "", []), (range(-3, 87), "", []), (range(90), "", ["--label-column", "0"])])
def test_other_columns_are_no_index(tmp_path, capsys, index, name, options):
    table = indexed(tmp_path / "set.csv", index, name)
    assert train(table, "--epochs", 1, "--model", "linreg", *options) == 0
    assert "index" not in capsys.readouterr().err


@pytest.mark.parametrize("options, message", [
    (("--step", "1e300"), "A step of 1e+300 is too large for the step registers; choose a smaller"),
    (("--solver", "bit-centred", "--step", "1e300"), "A step of 1e+300 is too large"),
    (("--solver", "sgd", "--l2", "1.7e308"), "--l2 must be smaller for these rows and epochs, not"),
    (("--step", "0.1", "--l2", "1.7e308"), "choose a smaller step or l2"),
    (("--model-range", "1e-300"), "or a larger --model-range"),
    (("--memory-gbps", "1e-6"), "must be a number between 0.01 and 1e+06, not '1e-6'"),
    (("--memory-gbps", "1e300"), "must be a number between 0.01 and 1e+06, not '1e300'"),
    (("--memory-latency", "10000000"), "must be an integer from 1 to 100000, not '10000000'")])
def test_numbers_that_nothing_can_hold(numbers, capsys, options, message):
    assert message in error_of(capsys, "train", numbers[0], *options, "--device", "cpu")


def test_weights_that_are_raised_are_said(table, capsys):
    assert train(table, "--class-weight", "M=1e-6") == 0
    assert "bitstep: warning: the weights of" in capsys.readouterr().err
    assert train(table, "--class-weight", "balanced") == 0
    assert "warning" not in capsys.readouterr().err


def test_numbers_of_classes_are_written_as_they_were_given(tmp_path):
    """A file of predictions is joined with labels by their text."""
    table, model, out = (tmp_path / name for name in ("set.csv", "m.npz", "p.txt"))
    np.savetxt(table, np.column_stack([ROWS, np.where(ROWS[:, 0] > 0, 10 ** 12, -3)]), "%.17g",
               delimiter=",")
    assert train(table, "--epochs", 3, "--out", model) == 0
    assert main(["predict", str(model), str(table), "--out", str(out)]) == 0
    assert set(out.read_text().split()) == {"-3", "1000000000000"}


@pytest.mark.parametrize("value, text", [
    (0.0, "0"), (np.float64(-3), "-3"), (np.int64(7), "7"), (0.5, "0.5"), (1234567.5, "1234567.5"),
    (1e300, "1e+300"), ("a", "a"), (np.str_("b c"), "b c")])
def test_text_of_a_class(value, text):
    assert class_text(value) == text


@pytest.mark.parametrize("name", ["set.csv", "set.npz"])
@pytest.mark.parametrize("kinds, warned", [(46, True), (45, False)])
def test_names_that_may_be_values(tmp_path, capsys, name, kinds, warned):
    """More of them than half of the rows."""
    labels = np.array([f"{row % kinds} USD" for row in range(90)])
    if name == "set.csv":
        write(tmp_path / name, kinds=labels)
    else:
        np.savez(tmp_path / name, X=ROWS, y=labels)
    assert train(tmp_path / name, "--epochs", 1) == 0
    said = "90 rows have 46 different labels ('0 USD', '1 USD', '10 USD', ...), each the name of a "
    assert (said in capsys.readouterr().err) == warned
