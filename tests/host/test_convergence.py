"""Real data through the golden device: losses against float64 SGD with the same steps."""

import os
from pathlib import Path

import numpy as np
import pytest

from bitstep.data import load, split
from bitstep.devices.golden import GoldenDevice
from bitstep.driver import Driver
from bitstep.losses import squared_losses
from bitstep.planning import pipeline_for
from bitstep.quantization import quantize
from bitstep.schedules import schedule_steps
from bitstep.training import automatic_step, train_model

STEPS = schedule_steps("inverse", step=0.05, epochs=20)


@pytest.fixture(scope="module")
def cadata():
    default = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    path = Path(os.environ.get("BITSTEP_DATA", default)) / "cadata.svm"
    if not path.is_file():
        pytest.skip(f"there is no {path}; set BITSTEP_DATA to a folder with cadata.svm")
    return split(load(path), None, True, 0)[0]


@pytest.fixture(scope="module")
def float_loss(cadata):
    """Training loss of float64 SGD: same scaling, order and steps."""
    scaler = quantize(cadata.features, cadata.labels, bits=8).scaler
    rows = np.hstack([scaler.transform(cadata.features), np.ones((cadata.n_rows, 1))])
    weights = np.zeros(rows.shape[1])
    offset = (cadata.labels.min() + cadata.labels.max()) / 2
    for step in STEPS:
        for row, label in zip(rows, (cadata.labels - offset).tolist(), strict=True):
            weights -= (step * (row.dot(weights) - label)) * row
    return np.mean((rows @ weights + offset - cadata.labels) ** 2) / 2


def loss(cadata, bits, encoding, steps: np.ndarray | None = STEPS):
    data = quantize(cadata.features, cadata.labels, bits=bits, encoding=encoding)
    config = pipeline_for(n_features=8, bits=bits, encoding=encoding)
    steps = steps if steps is not None else schedule_steps("inverse", step=automatic_step(data),
                                                           epochs=20)
    model = train_model([data], Driver(GoldenDevice(config)), config, steps=steps)
    return squared_losses(cadata.features, cadata.labels[:, None], model.coefs,
                          model.intercepts)[-1]


@pytest.mark.parametrize("bits, encoding", [
    (4, "compensated"), (8, "compensated"), (5, "double-symmetric")])
def test_cadata_is_within_one_and_a_half_per_cent_of_float(cadata, float_loss, bits, encoding):
    assert loss(cadata, bits, encoding) <= 1.015 * float_loss


@pytest.mark.parametrize("encoding", ["nearest", "stochastic"])
def test_biased_encodings_show_it(cadata, float_loss, encoding):
    assert loss(cadata, 3, encoding) > 1.1 * float_loss


def test_automatic_step(cadata, float_loss):
    assert loss(cadata, 4, "compensated", None) <= 1.015 * float_loss
