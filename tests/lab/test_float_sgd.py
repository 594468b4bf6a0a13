"""SGD in float64: by hand, and beside the pipeline of floating-point rows."""

import numpy as np
import pytest

from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.registers import Loss
from bitstep.quantization import fit_scaler, quantize
from bitstep.training.objective import Objective, Training, loss_of
from bitstep.training.pipelines import pipeline_for
from bitstep.training.train import train_model
from bitstep_lab.float_sgd import sgd


def test_two_rows_by_hand():
    rows, targets = np.array([[1.0], [2.0]]), np.array([[1.0], [0.0]])
    weights, intercepts = sgd(rows, targets, np.array([[0.5, 0.25], [0.25, 0.125]]),
                              loss=Loss.LEAST_SQUARES)
    # Step 1/2: residual -1 gives 1/2 and 1/2; then 3/2 gives 1/2 - 3/2 = -1, 1/2 - 3/4 = -1/4.
    assert weights[0, 0, 0, 0] == -1.0
    assert intercepts[0, 0, 0] == -0.25
    alone, _ = sgd(rows, targets, np.array([[0.25], [0.125]]), loss=Loss.LEAST_SQUARES)
    assert (weights[:, 1] == alone[:, 0]).all()


def test_penalties_by_hand():
    rows, targets = np.array([[1.0], [1.0]]), np.array([[4.0], [0.0]])
    options = {"steps": np.array([[0.5]]), "loss": Loss.LEAST_SQUARES}
    # Residual -4: weight and intercept 2. Residual 4: 0 and 0, from which l2 takes 1/2 x 1/4 x 2.
    weights, intercepts = sgd(rows, targets, l2=0.25, **options)
    assert (weights.item(), intercepts.item()) == (-0.25, 0.0)
    # Proximal steps after both rows: 2 becomes 2 - 1/2 x 1; then residual 3.5, -1/4, and 0.
    weights, intercepts = sgd(rows, targets, l1=1.0, period=1, **options)
    assert (weights.item(), intercepts.item()) == (0.0, 0.25)
    # One step for both: 0 stays 0. A box of 1/2 after the first: 1/2 and 2, then -3/4 and 3/4.
    weights, intercepts = sgd(rows, targets, l1=1.0, period=2, **options)
    assert (weights.item(), intercepts.item()) == (0.0, 0.0)
    weights, intercepts = sgd(rows, targets, box=0.5, period=1, **options)
    assert (weights.item(), intercepts.item()) == (-0.5, 0.75)


def test_last_batch_may_be_shorter():
    rows, targets = np.ones((3, 1)), np.ones((3, 1))
    weights, _ = sgd(rows, targets, np.array([[0.5]]), batch=2, loss=Loss.HINGE)
    assert weights.item() == 0.5        # both rows are active, then the third has margin 1


@pytest.mark.parametrize("loss", list(Loss))
@pytest.mark.parametrize("batch", [1, 16])
def test_the_pipeline_of_float_rows_does_the_same(loss, batch):
    """What steps are tuned with trains as the pipeline does, up to rounding."""
    rng = np.random.default_rng(3)
    features = rng.uniform(-1, 1, (200, 5))
    labels = np.where(features @ rng.standard_normal(5) + 0.3 > 0, 1.0, -1.0)
    data = quantize(features, labels, bits=32, encoding="float", task="classification")
    config = pipeline_for(n_features=5, bits=32, encoding="float", loss=loss)
    steps = 0.2 / np.arange(1, 4)
    with GoldenDevice(config) as device:
        model = train_model([data], device, config, Objective(loss=loss),
                            Training(steps=steps, batch=batch))
        rule = loss_of(Objective(loss=loss), [data])
    scaler = fit_scaler(features)
    rows = (features - scaler.centre) / scaler.scale
    start = np.median(labels) if loss == Loss.HUBER else 0.0
    weights, intercepts = sgd(rows, labels[:, None] - start, steps[:, None], batch=batch, loss=rule)
    np.testing.assert_allclose(model.weights, weights[:, 0], atol=0.04 if loss in (
        Loss.HINGE, Loss.LOGISTIC) else 5e-3)
    np.testing.assert_allclose(model.scaled_intercepts, start + intercepts[:, 0], atol=0.04)
