"""Scaler ``quantile``: outliers in estimators, on the command line and in files."""

import re
import warnings

import numpy as np
import pytest
import scipy.sparse

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.cli import main
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import Loss
from bitstep.quantization import load_quantized, quantize_rows
from bitstep.quantization.bounds import ClippingWarning
from bitstep.quantization.scaling import RangeWarning
from bitstep.training.files.model_file import ModelFileError, load_model
from bitstep.training.losses import code_accuracies
from bitstep.training.scores import clipping
from bitstep.training.scores.clipping import beyond_clip, costly_clipping
from bitstep.training.train import class_outputs

RNG = np.random.default_rng(5)
CLEAN = RNG.standard_normal((1200, 6))
LABELS = (CLEAN @ [1, -2, 0.5, 1, 0, 3] > 0).astype(int)
ROWS = CLEAN.copy()
ROWS[17] = 100.0


def fitted(**options):
    model = LowPrecisionClassifier(solver="sgd", random_state=0, **options)
    return model.fit(ROWS[:600], LABELS[:600])


def test_an_outlier_costs_nothing():
    model = fitted()
    assert model.clip_range_ is not None
    assert np.abs(model.clip_range_).max() < 6
    assert model.clipped_["features"] == 12         # a value at each end of each column
    score = model.score(CLEAN[600:], LABELS[600:])
    clean = LowPrecisionClassifier(solver="sgd", random_state=0).fit(CLEAN[:600], LABELS[:600])
    assert clean.clip_range_ is None
    assert score > clean.score(CLEAN[600:], LABELS[600:]) - 0.01
    # The rows as clipped give the same model, and the outlier counts as the end.
    same = LowPrecisionClassifier(solver="sgd", random_state=0, scaler="minmax").fit(
        np.clip(ROWS[:600], *model.clip_range_), LABELS[:600])
    np.testing.assert_array_equal(model.coef_, same.coef_)
    assert model.decision_function(ROWS[17:18]) == same.decision_function(
        model.clip_range_[1:])
    assert model.history_ == same.history_


@pytest.mark.parametrize("scaler", ["minmax", "maxabs"])
def test_other_scalers_warn(scaler):
    features = CLEAN.copy()
    features[3, 4] = -5000
    with pytest.warns(RangeWarning, match=r"column 4 \(counted from 0\) is from -5000 to .*"
                      "take 99.9 % of its levels; scaler='quantile' clips it"):
        LowPrecisionRegressor(scaler=scaler, epochs=1, random_state=0).fit(features, LABELS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LowPrecisionRegressor(epochs=1, random_state=0).fit(features, LABELS)


def test_chunks_keep_the_clip_of_the_first_rows():
    model = LowPrecisionClassifier(random_state=0, schedule="constant")
    model.partial_fit(ROWS[:600], LABELS[:600])
    clip = model.clip_range_
    far = CLEAN[600:].copy()
    far[0, 0] = 1e9
    with warnings.catch_warnings():
        warnings.simplefilter("error")      # of columns that are clipped there is no news
        model.partial_fit(far, LABELS[600:])
    assert model.clip_range_ is clip
    assert model.clipped_["features"] > 12
    np.testing.assert_array_equal(model.feature_range_, clip)


def test_a_given_range_is_not_clipped():
    model = fitted(feature_range=(-100, 100))
    assert model.clip_range_ is None
    assert model.feature_range_[0].tolist() == [-100] * 6


def test_files_keep_the_clip(tmp_path):
    model = fitted()
    model.save(tmp_path / "model.npz")
    again = LowPrecisionClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(again.clip_range_, model.clip_range_)
    np.testing.assert_array_equal(again.decision_function(ROWS), model.decision_function(ROWS))
    stored = load_model(tmp_path / "model.npz")
    np.testing.assert_array_equal(stored.predict(ROWS), model.predict(ROWS))
    with pytest.raises(ModelFileError, match=r"clip must have shape \(2, 6\)"):
        type(stored)(stored.coef, stored.intercept, stored.classes, {}, np.zeros((2, 5)))


def test_a_model_without_ranges_goes_on_with_its_clip():
    """As the model of a file of the command line, whose weights are those of clipped columns."""
    model = fitted()
    clip = model.clip_range_
    for name in ("feature_range_", "clipped_", "n_samples_seen_", "first_rows_"):
        delattr(model, name)
    model.partial_fit(CLEAN[:600], LABELS[:600])
    assert model.clip_range_ is clip


@pytest.mark.parametrize("suffix", ["csv", "svm", "npz"])
def test_command_line(tmp_path, capsys, suffix):
    """Train, quantize in two passes, train on the codes: one model."""
    data, stored = tmp_path / f"data.{suffix}", tmp_path / "quantized.npz"
    features, labels = np.round(ROWS[:600], 3), LABELS[:600]
    if suffix == "csv":
        np.savetxt(data, np.column_stack([features, labels]), "%.3f", delimiter=",")
    elif suffix == "svm":
        data.write_text("".join(f"{label} " + " ".join(
            f"{column + 1}:{value:.3f}" for column, value in enumerate(row)) + "\n"
            for row, label in zip(features, labels, strict=True)))
    else:
        np.savez(data, X=features, y=labels)
    out = [tmp_path / "a.npz", tmp_path / "b.npz"]
    assert main(["train", str(data), "--out", str(out[0]), "--epochs", "3"]) == 0
    assert main(["quantize", str(data), "--out", str(stored)]) == 0
    assert main(["train", str(stored), "--out", str(out[1]), "--epochs", "3"]) == 0
    first, second = map(load_model, out)
    assert first.config["model"] == "logistic"
    assert first.config["scaler"] == load_quantized(stored).scaler.kind == "quantile"
    assert first.clip is not None
    np.testing.assert_array_equal(first.clip, second.clip)
    np.testing.assert_array_equal(first.coef, second.coef)
    capsys.readouterr()
    assert main(["predict", str(out[0]), str(data)]) == 0
    text = capsys.readouterr().out
    share = np.mean(first.predict(features) == labels)
    assert f"accuracy {100 * share:.2f} % on 600 rows" in text
    assert share > 0.95
    far = features.copy()
    far[0, 3] = 5000
    np.savez(data.with_suffix(".npz"), X=far, y=labels)
    for command in (["train", "--epochs", "1"], ["quantize", "--out", str(stored)]):
        assert main([command[0], str(data.with_suffix(".npz")), "--scaler", "minmax",
                     *command[1:]]) == 0
        assert "warning: column 3 (counted from 0) is from" in capsys.readouterr().err


def test_command_line_chooses_the_model_by_labels_and_encoding(tmp_path):
    data, stored = tmp_path / "data.npz", tmp_path / "quantized.npz"
    np.savez(data, X=CLEAN[:200], y=LABELS[:200])
    out = tmp_path / "model.npz"
    assert main(["train", str(data), "--encoding", "compensated", "--epochs", "1", "--out",
                 str(out)]) == 0
    assert load_model(out).config["model"] == "ls-svm"
    assert main(["quantize", str(data), "--encoding", "compensated", "--bits", "4", "--out",
                 str(stored)]) == 0
    assert main(["train", str(stored), "--epochs", "1", "--out", str(out)]) == 0
    assert load_model(out).config["model"] == "ls-svm"
    assert main(["quantize", str(data), "--out", str(stored)]) == 0
    found = load_quantized(stored)
    assert (found.bits, found.encoding) == (8, "stochastic")


@pytest.mark.parametrize("options", [{}, {"loss": "squared_error"}, {"bits": 32}], ids=str)
def test_golden_and_cpu_agree_bit_for_bit(options):
    rows, labels = ROWS[:150], LABELS[:150]
    found = [LowPrecisionClassifier(device=name, epochs=2, random_state=0, **options).fit(
        rows, labels) for name in ("golden", "cpu")]
    assert found[0].clip_range_ is not None
    np.testing.assert_array_equal(found[0].coef_, found[1].coef_)
    assert found[0].counters_ is not None


def test_accuracy_of_codes_is_that_of_what_they_stand_for():
    classes = np.digitize(CLEAN[:300] @ [1, -2, 0.5, 1, 0, 3], [-3, 3])
    rows = quantize_rows(CLEAN[:300], bits=3, encoding="nearest")
    weights = RNG.standard_normal((2, 3, 6))
    offsets = RNG.standard_normal((2, 3))
    found = code_accuracies(class_outputs(rows, classes, np.arange(3)), weights, offsets)
    values = np.einsum("rf,eof->ero", rows.levels(slice(0, 300))[0], weights) + offsets[:, None]
    expected = (values.argmax(axis=2) == classes).mean(axis=1)
    np.testing.assert_array_equal(found, expected)
    two = code_accuracies(class_outputs(rows, LABELS[:300], np.arange(2)), weights[:, :1],
                          offsets[:, :1])
    np.testing.assert_array_equal(two, ((values[:, :, 0] > 0) == LABELS[:300]).mean(axis=1))


# The first column decides, by a few large values.
HEAVY = np.random.default_rng(1).standard_normal((2, 3000)).T
HEAVY[:, 0] = np.exp(2 * HEAVY[:, 0])
SUMS = 3 * HEAVY[:, 0] / HEAVY[:, 0].std() + HEAVY[:, 1]
COST = r"of 3,000 rows have values that scaler 'quantile' clips, and \d+ % of the training loss"


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("bits", [8, 32])
def test_clipping_that_costs_most_of_the_loss_is_named(bits, dtype):
    features = HEAVY.astype(dtype)
    with pytest.warns(ClippingWarning, match=COST + "; scaler 'minmax' clips none"):
        model = LowPrecisionRegressor(bits=bits, random_state=0).fit(features, SUMS)
    with pytest.warns(ClippingWarning, match=COST):
        LowPrecisionRegressor(bits=bits, random_state=0).fit(scipy.sparse.csr_array(features), SUMS)
    whole = LowPrecisionRegressor(bits=bits, scaler="minmax", random_state=0).fit(features, SUMS)
    assert whole.score(features, SUMS) > model.score(features, SUMS) + 0.1


def test_clipping_that_costs_much_on_the_command_line(tmp_path, capsys):
    np.savetxt(tmp_path / "rows.csv", np.column_stack([HEAVY, SUMS]), "%.17g", delimiter=",")
    for options, said in (["--bits", "8"], True), (["--bits", "8", "--scaler", "minmax"], False), \
            ([], False):
        assert main(["train", str(tmp_path / "rows.csv"), "--train-rows", "3000", *options]) == 0
        assert bool(re.search(COST, capsys.readouterr().err)) == said


def test_cost_of_clipping_by_hand():
    """Row 0 of 41 is clipped from 7 to 5: the model, x itself, is 2 below its label then."""
    features, clip = np.r_[7.0, np.zeros(40)][:, None], np.array([[-np.inf], [5.0]])

    def cost(loss, *, rows=features, weights=None):
        targets = np.r_[7.0, np.zeros(40)][:, None]
        rule = LOSSES[Loss.LEAST_SQUARES]
        return costly_clipping(beyond_clip(rows, clip, rule), targets, weights, rule,
                               np.ones((1, 1)), np.zeros(1), loss)

    named = "1 of 41 rows have values that scaler 'quantile' clips, and {} % of the training loss"
    assert str(cost(2 / 41)).startswith(named.format(100))
    assert str(cost(3.9 / 41)).startswith(named.format(51))
    assert cost(4 / 41) is None             # half of all
    # Values of 9.9 and 9.8 have 2.9^2 / 2 = 4.2 and 2.8^2 / 2 = 3.9, where twice as much is 4.
    assert cost(2 / 41, rows=features * 9.9 / 7) is None
    assert cost(2 / 41, rows=features * 9.8 / 7) is not None
    weights = np.r_[3, np.ones(40)].astype(np.uint16)
    assert str(cost(6 / 43, weights=weights)).startswith(named.format(100))
    assert cost(2 / 41, rows=np.where(np.arange(41)[:, None] < 5, 7.0, 0.0)) is None    # an eighth
    assert cost(2 / 41, rows=features - 2) is None


def test_cost_of_clipping_beside_the_best_constant():
    """Labels of 7 in every row: 41 rows lose 0, where all but one could be far off."""
    features, clip = np.r_[7.0, np.full(40, 5.0)][:, None], np.array([[-np.inf], [5.0]])
    targets = np.r_[7.0, np.where(np.arange(40) % 2, 60.0, -50.0)][:, None]
    rule = LOSSES[Loss.LEAST_SQUARES]
    assert costly_clipping(beyond_clip(features, clip, rule), targets, None, rule,
                           np.ones((1, 1)), np.zeros(1), 2 / 41) is None


def test_few_rows_are_kept_as_they_were(monkeypatch):
    """Of data larger than memory a tenth would be too much."""
    rows, clip = np.zeros((50, 3)), np.array([[-np.inf, -1, -np.inf], [np.inf, 1, np.inf]])
    rows[[4, 9], 1] = 2, -2
    squares = LOSSES[Loss.LEAST_SQUARES]
    found = beyond_clip(rows, clip, squares)
    assert found is not None
    assert found.rows.tolist() == [4, 9]
    assert found.features[:, 1].tolist() == [2, -2]
    assert beyond_clip(rows, clip, LOSSES[Loss.HINGE]) is None
    for values, kept in ((6, True), (5, False)):
        monkeypatch.setattr(clipping, "VALUES", values)
        assert (beyond_clip(rows, clip, squares) is not None) == kept
