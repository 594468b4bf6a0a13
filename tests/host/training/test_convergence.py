"""Real data through the golden device: losses against float64 SGD with the same steps."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bitstep.data import load, split
from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.registers import Loss
from bitstep.quantization import quantize
from bitstep.training.losses import mean_losses, squared_losses
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_for
from bitstep.training.schedules import automatic_step, schedule_steps
from bitstep.training.train import train_model
from bitstep_lab.float_sgd import sgd

STEPS = schedule_steps("inverse", step=0.05, epochs=20)


@pytest.fixture(scope="module")
def cadata():
    default = Path(__file__).resolve().parents[3].parent / "shared" / "data"
    path = Path(os.environ.get("BITSTEP_DATA", default)) / "cadata.svm"
    if not path.is_file():
        pytest.skip(f"there is no {path}; set BITSTEP_DATA to a folder with cadata.svm")
    return split(load(path), None, True, 0)[0]


def loss_of_float(cadata):
    """Training loss of float64 SGD: same scaling, order and steps."""
    scaler = quantize(cadata.features, cadata.labels, bits=8).scaler
    rows = scaler.transform(cadata.features)
    middle = (cadata.labels.min() + cadata.labels.max()) / 2
    targets = cadata.labels[:, None] - middle
    weights, intercepts = sgd(rows, targets, STEPS[:, None], loss=Loss.LEAST_SQUARES)
    return squared_losses(rows, targets, weights[-1], intercepts[-1])[0]


@pytest.fixture(scope="module")
def float_loss(cadata):
    return loss_of_float(cadata)


def loss(cadata, bits, encoding, steps: np.ndarray | None = STEPS):
    data = quantize(cadata.features, cadata.labels, bits=bits, encoding=encoding)
    config = pipeline_for(n_features=8, bits=bits, encoding=encoding)
    if steps is None:
        steps = schedule_steps("inverse", step=automatic_step(data.rows), epochs=20)
    model = train_model([data], GoldenDevice(config), config, Objective(),
                        Training(steps=steps))
    return squared_losses(cadata.features, cadata.labels[:, None], model.coefs,
                          model.intercepts)[-1]


@pytest.mark.slow
@pytest.mark.parametrize("bits, encoding", [
    (4, "compensated"), (8, "compensated"), (5, "double-symmetric")])
def test_cadata_is_within_one_and_a_half_per_cent_of_float(cadata, float_loss, bits, encoding):
    assert loss(cadata, bits, encoding) <= 1.015 * float_loss


@pytest.mark.slow
@pytest.mark.parametrize("encoding", [
    "nearest", pytest.param("stochastic", marks=pytest.mark.slow)])
def test_biased_encodings_show_it(cadata, float_loss, encoding):
    assert loss(cadata, 3, encoding) > 1.1 * float_loss


@pytest.mark.parametrize("rows", [5000, pytest.param(None, marks=pytest.mark.slow)])
def test_automatic_step(cadata, rows):
    """Of so few rows, too, a tenth or thrice of it would not do."""
    some = replace(cadata, features=cadata.features[:rows], labels=cadata.labels[:rows])
    assert loss(some, 4, "compensated", None) <= 1.015 * loss_of_float(some)


def test_floating_point_rows_are_within_a_tenth_of_a_per_cent(cadata):
    rows = 1000
    data = quantize(cadata.features[:rows], cadata.labels[:rows], bits=32, encoding="float")
    config = pipeline_for(n_features=8, bits=32, encoding="float")
    steps = schedule_steps("inverse", step=0.05, epochs=3)
    model = train_model([data], GoldenDevice(config), config, Objective(),
                        Training(steps=steps))
    scaled = data.scaler.transform(cadata.features[:rows])
    targets = cadata.labels[:rows, None] - data.label_offset
    weights, intercepts = sgd(scaled, targets, steps[:, None], loss=Loss.LEAST_SQUARES)
    exact = squared_losses(scaled, targets, weights[-1], intercepts[-1])[0]
    found = squared_losses(cadata.features[:rows], cadata.labels[:rows, None], model.coefs[-1:],
                           model.intercepts[-1:])[0]
    assert found == pytest.approx(exact, rel=1e-3)


@pytest.mark.parametrize("encoding", ["nearest", "stochastic"])
def test_refetching_ends_where_float_does(encoding):
    rng = np.random.default_rng(0)
    features = rng.standard_normal((1500, 8))
    signs = np.where(features @ rng.standard_normal(8) + rng.standard_normal(1500) > 0, 1.0, -1.0)
    data = quantize(features, signs, bits=8, encoding=encoding, fine_rows=True,
                    task="classification")
    steps = schedule_steps("inverse", step=automatic_step(data.rows, loss=Loss.HINGE), epochs=8)
    config = pipeline_for(n_features=8, bits=8, encoding=encoding, refetch=True)
    model = train_model([data], GoldenDevice(config), config,
                        Objective(loss=Loss.HINGE, refetch=True), Training(steps=steps))
    scaled = data.scaler.transform(features)
    weights, intercepts = sgd(scaled, signs[:, None], steps[:, None], loss=Loss.HINGE)
    exact = mean_losses(Loss.HINGE, scaled, signs[:, None], weights[-1], intercepts[-1])[0]
    found = mean_losses(Loss.HINGE, features, signs[:, None], model.coefs[-1:],
                        model.intercepts[-1:])[0]
    assert found == pytest.approx(exact, rel=0.02)
    refetched = model.counters["refetched_rows"]
    assert refetched is not None
    assert 0 < refetched < 0.15 * 8 * 1500


def test_strong_l1_leaves_the_best_constant():
    # All weights are cut to 0, and what is left is the intercept alone.
    dataset = split(load("breast_cancer"))[0]
    signs = np.where(dataset.labels > 0, 1.0, -1.0)
    data = quantize(dataset.features, signs, bits=8, encoding="nearest", task="classification")
    steps = schedule_steps("inverse", step=automatic_step(data.rows, loss=Loss.HINGE), epochs=20)
    config = pipeline_for(n_features=30, bits=8, encoding="nearest", loss=Loss.HINGE,
                          proximal=True)
    model = train_model([data], GoldenDevice(config), config,
                        Objective(loss=Loss.HINGE, l1=1.0), Training(steps=steps))
    best = 2 * min(np.mean(signs > 0), np.mean(signs < 0))
    found = mean_losses(Loss.HINGE, dataset.features, signs[:, None], model.coefs[-1:],
                        model.intercepts[-1:])[0]
    assert not model.coefs[-1].any()
    assert found < 1.05 * best
