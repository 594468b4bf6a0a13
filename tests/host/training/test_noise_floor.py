"""The estimate of the noise floor, against float64 SGD with the same steps."""

from typing import Any

import numpy as np
import pytest

from bitstep import LowPrecisionRegressor
from bitstep.cli import main
from bitstep.devices import open_device
from bitstep.pipeline.registers import Loss
from bitstep.quantization import quantize
from bitstep.training.choices import resolve_training
from bitstep.training.losses import squared_losses
from bitstep.training.noise_floor import NoiseFloor, advice, noise_floor
from bitstep.training.objective import Objective
from bitstep.training.pipelines import pipeline_of
from bitstep.training.train import train_model
from bitstep_lab.float_sgd import sgd


def shares(seed, *, signal, bits=4, n_rows=3000, encoding="compensated", **options):
    """Losses of codes over those of float SGD minus 1, and the estimate of that."""
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n_rows, 24))
    clean = features @ rng.standard_normal(24)
    labels = clean + clean.std() / signal * rng.standard_normal(n_rows)
    data = quantize(features, labels, bits=bits, seed=seed, encoding=encoding)
    objective = Objective()
    training = resolve_training(data.rows, objective, epochs=5, **options)
    config = pipeline_of(data.rows, objective)
    with open_device("cpu", config) as device:
        model = train_model([data], device, config, objective, training)
    weights, offsets = sgd(data.scaler.transform(features), labels[:, None], model.steps[:, None],
                           loss=Loss.LEAST_SQUARES, batch=training.batch)
    coef, intercept = data.scaler.unscale_model(weights[-1, 0], offsets[-1, 0])
    losses = squared_losses(features, labels[:, None],
                            np.array([model.coefs[-1], coef]),
                            np.array([model.intercepts[-1], intercept]))
    found: Any = noise_floor(data.rows, objective, training, weights=model.weights[-1],
                             steps=model.steps, loss=losses[0])
    return losses[0] / losses[1] - 1, found


@pytest.mark.by_day(1)
@pytest.mark.parametrize("options", [
    {"bits": 4}, pytest.param({"bits": 3}, marks=pytest.mark.slow), {"bits": 4, "batch": 16},
    {"bits": 4, "encoding": "double-symmetric"}, {"bits": 4, "schedule": "constant"}], ids=str)
def test_clean_sets_are_estimated_within_a_factor(options):
    """R2 is 0.98; a run differs by its draws, so the mean of some counts."""
    runs = [shares(seed, signal=7, **options) for seed in range(50, 54)]
    measured = np.mean([run[0] for run in runs])
    estimated = np.mean([run[1].share for run in runs])
    assert measured > 0.005
    assert measured / 3 < estimated < 3 * measured
    text = advice(runs[0][1], options["bits"])
    assert text is not None
    assert f"the noise of {options['bits']} bits adds about" in text


def test_noisy_sets_need_no_sentence():
    runs = [shares(seed, signal=1) for seed in range(60, 64)]
    for _, found in runs:
        assert found is not None
        assert found.share < 0.005
        assert advice(found, 4) is None
    assert abs(np.mean([run[0] for run in runs])) < 0.005


def test_advice_by_hand():
    # From 4 bits (7 levels a side) to 5 (15) the variance falls 4.6 times, to 7 (63) 81 times.
    assert advice(NoiseFloor(0.2, 0.1), 4) == (
        "the noise of 4 bits adds about 10 % to the loss of float SGD (0.2, an estimate); 7 bits "
        "would leave about 0.12 %, and smaller last steps leave less")
    assert str(advice(NoiseFloor(0.2, 0.02), 4)).count("5 bits would leave about 0.44 %") == 1
    assert "would leave about" not in str(advice(NoiseFloor(0.2, 0.02), 8))
    # As it is read: one bit, and no powers of ten.
    assert "noise of 1 bit adds about 250 % to" in str(advice(NoiseFloor(9.0, 2.512), 1))
    assert "noise of 1 bit adds about 12,000 % to" in str(advice(NoiseFloor(9.0, 123.4), 1))
    assert advice(None, 4) is None


@pytest.mark.parametrize("objective, encoding", [
    (Objective(l2=0.1), "compensated"), (Objective(loss=Loss.HINGE), "nearest"),
    (Objective(), "nearest")])
def test_no_estimate(objective, encoding):
    data = quantize(np.eye(4), np.arange(4.0), bits=4, encoding=encoding)
    training = resolve_training(data.rows, objective, epochs=1)
    model = train_of(data)
    assert noise_floor(data.rows, objective, training, weights=model.weights[-1],
                       steps=model.steps, loss=1.0) is None


def train_of(data):
    objective = Objective()
    training = resolve_training(data.rows, objective, epochs=1)
    config = pipeline_of(data.rows, objective)
    with open_device("golden", config) as device:
        return train_model([data], device, config, objective, training)


@pytest.mark.parametrize(("signal", "matters"), [(7, True), (1, False)])
def test_command_line_and_estimator_say_it(tmp_path, capsys, signal, matters):
    rng = np.random.default_rng(8)
    features = rng.standard_normal((1500, 10))
    clean = features @ rng.standard_normal(10)
    labels = clean + clean.std() / signal * rng.standard_normal(1500)
    np.savez(tmp_path / "set.npz", X=features, y=labels)
    assert main(["train", str(tmp_path / "set.npz"), "--epochs", "5"]) == 0
    assert ("Noise: the noise of 4 bits adds about" in capsys.readouterr().out) == matters
    model: Any = LowPrecisionRegressor(epochs=5, random_state=0).fit(features, labels)
    assert (model.noise_floor_ > 0.005) == matters
    assert LowPrecisionRegressor(epochs=1, bits=32).fit(features, labels).noise_floor_ is None
