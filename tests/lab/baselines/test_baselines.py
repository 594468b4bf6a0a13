"""CPU baselines against SGD written down in float64, and against each other."""

import platform
import re
from functools import partial

import numba
import numpy as np
import pytest

from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import Loss
from bitstep.quantization import encode
from bitstep.training.losses import mean_losses
from bitstep_lab.baselines import DivergedError, train_cpu, train_sklearn

TRAINED = [loss for loss in Loss if not LOSSES[loss].clipped]
STEPS = [0.05, 0.025, 0.0125]


def problem(loss, n_rows=203, n_features=37, seed=0):
    """Scaled rows and targets, float32; 37 features leave a tail to every vector loop."""
    rng = np.random.default_rng(seed)
    features = rng.uniform(-1, 1, (n_rows, n_features)).astype(np.float32)
    values = features @ rng.standard_normal(n_features) / 2 + 0.3 * rng.standard_normal(n_rows)
    targets = values if loss == Loss.LEAST_SQUARES else np.where(values > 0, 1, -1)
    return features, targets.astype(np.float32)


def reference(features, targets, *, loss, steps, batch=1, l2=0.0, fit_intercept=True):
    """Weights and intercepts after each epoch, in float64, from the definition of the losses."""
    features, targets = features.astype(np.float64), targets.astype(np.float64)
    weights, intercept, models = np.zeros(features.shape[1]), 0.0, []
    for step in steps:
        for first in range(0, len(features), batch):
            rows, y = features[first:first + batch], targets[first:first + batch]
            z = rows @ weights + intercept
            slopes = {Loss.LEAST_SQUARES: z - y,
                      Loss.SQUARED_HINGE: -y * np.maximum(0, 1 - y * z),
                      Loss.HINGE: -y * (y * z < 1),
                      Loss.LOGISTIC: -y / (1 + np.exp(y * z))}[loss]
            weights = weights - step / batch * (slopes @ rows + len(rows) * l2 * weights)
            intercept -= step / batch * slopes.sum() * fit_intercept
        models.append((weights, intercept))
    return np.array([w for w, _ in models]), np.array([b for _, b in models])


def check(run, expected, rtol=2e-4):
    weights, intercepts = expected
    assert run.weights.dtype == run.intercepts.dtype == np.float64
    np.testing.assert_allclose(run.weights, weights, rtol=rtol, atol=rtol / 10)
    np.testing.assert_allclose(run.intercepts, intercepts, rtol=rtol, atol=rtol / 10)


@pytest.mark.covering(2)
@pytest.mark.parametrize("loss", TRAINED)
@pytest.mark.parametrize("l2, fit_intercept", [(0.0, True), (0.1, False)])
@pytest.mark.parametrize("method, batch", [
    ("sgd", 1), ("sgd", 16), ("hogwild", 1), ("hogwild", 7), ("minibatch", 1), ("minibatch", 16),
    ("minibatch", 500)])
def test_float_methods(method, batch, loss, l2, fit_intercept):
    features, targets = problem(loss)       # 203 rows: a shorter last batch
    options = {"loss": loss, "steps": STEPS, "batch": batch, "l2": l2,
               "fit_intercept": fit_intercept}
    run = train_cpu(features, targets, method=method, **options)
    check(run, reference(features, targets, **options))
    assert (run.method, run.loss, run.batch, run.threads) == (method, loss, batch, 1)


@pytest.mark.parametrize("loss", TRAINED)
@pytest.mark.parametrize("encoding", ["nearest", "stochastic"])
@pytest.mark.parametrize("batch, l2", [(1, 0.0), (16, 0.1)])
def test_codes(loss, encoding, batch, l2):
    features, targets = problem(loss)
    codes = encode(features, bits=8, encoding=encoding, rng=np.random.default_rng(1))
    options = {"loss": loss, "steps": STEPS, "batch": batch, "l2": l2}
    expected = reference(codes.view(np.int8) / 127, targets, **options)
    run = train_cpu(codes, targets, method="lowprec", **options)
    check(run, expected)
    signed = train_cpu(codes.view(np.int8), targets, method="lowprec", **options)
    np.testing.assert_array_equal(signed.weights, run.weights)
    assert run.bytes_per_epoch == 203 * (37 + 4)


@pytest.mark.parametrize("loss", TRAINED)
@pytest.mark.parametrize("l2, fit_intercept", [(0.0, True), (0.1, False)])
def test_sklearn_takes_the_same_steps(loss, l2, fit_intercept):
    features, targets = problem(loss)
    options = {"loss": loss, "steps": STEPS, "l2": l2, "fit_intercept": fit_intercept}
    run = train_sklearn(features, targets, **options)
    check(run, reference(features, targets, **options))
    assert run.method == "sklearn"


@pytest.mark.parametrize("n_features", [1, 7, 8, 15, 16, 17, 31, 32, 63, 64, 65, 96, 784])
@pytest.mark.parametrize("batch", [1, 4])
def test_widths(n_features, batch):
    features, targets = problem(Loss.LEAST_SQUARES, 50, n_features)
    options = {"loss": Loss.LEAST_SQUARES, "steps": [0.2 / n_features] * 2, "batch": batch}
    check(train_cpu(features, targets, method="sgd", **options),
          reference(features, targets, **options))
    codes = encode(features, bits=8, encoding="nearest")
    check(train_cpu(codes, targets, method="lowprec", **options),
          reference(codes.view(np.int8) / 127, targets, **options))


def test_one_step_by_hand():
    features = np.array([[1.0, -0.5]], np.float32)
    targets = np.array([2.0], np.float32)
    run = train_cpu(features, targets, method="sgd", loss=Loss.LEAST_SQUARES, steps=[0.5, 0.25])
    # z = 0, then 1 + 0.25 + 1 = 2.25.
    np.testing.assert_array_equal(run.weights, [[1.0, -0.5], [0.9375, -0.46875]])
    np.testing.assert_array_equal(run.intercepts, [1.0, 0.9375])


@pytest.mark.parametrize("batch", [1, 16])
def test_hogwild_of_one_thread_is_sgd(batch):
    features, targets = problem(Loss.LOGISTIC)
    options = {"loss": Loss.LOGISTIC, "steps": STEPS, "batch": batch, "l2": 0.01}
    one, other = (train_cpu(features, targets, method=method, **options)
                  for method in ("sgd", "hogwild"))
    np.testing.assert_array_equal(one.weights, other.weights)
    np.testing.assert_array_equal(one.intercepts, other.intercepts)


@pytest.mark.covering(2)
@pytest.mark.parametrize("method", ["hogwild", "lowprec"])
@pytest.mark.parametrize("loss", TRAINED)
@pytest.mark.parametrize("batch", [1, 16])
def test_threads_reach_the_same_loss(method, loss, batch):
    features, targets = problem(loss, 20_000, 20)
    rows = encode(features, bits=8, encoding="nearest") if method == "lowprec" else features
    # Updates that threads lose count until the end is reached, and the Huber loss takes longer.
    epochs = 32 if loss == Loss.HUBER else 2

    def loss_with(threads):
        run = train_cpu(rows, targets, method=method, loss=loss, batch=batch, threads=threads,
                        steps=[0.01] * epochs + [0.005] * 2 + [0.0025] * 4)
        return mean_losses(loss, features, targets[:, None], run.weights[-1:, None],
                           run.intercepts[-1:, None])[0]

    expected = loss_with(1)
    for threads in (2, 3):
        # A thread that another program interrupts within an update overwrites, when it goes on,
        # what the others have learnt in the meantime; so many such accidents are unlikely.
        assert any(loss_with(threads) == pytest.approx(expected, rel=0.05) for _ in range(20))


@pytest.mark.parametrize("n_features", [2, 70])
def test_threads_share_one_model(n_features):
    # The first half of the rows teaches one weight, the second half another.
    features = np.zeros((4000, n_features), np.float32)
    features[:2000, 0] = features[2000:, -1] = 1
    targets = np.where(features[:, 0] == 1, 2, 3).astype(np.float32)
    run = train_cpu(features, targets, method="hogwild", loss=Loss.LEAST_SQUARES,
                    steps=[0.1] * 6, threads=2, fit_intercept=False)
    errors = np.abs(run.weights[:, [0, -1]] - [2, 3]).max(axis=1)
    assert errors.min() < 0.05


@pytest.mark.parametrize("threads", [1, 2])
def test_blas_threads(threads):
    features, targets = problem(Loss.LEAST_SQUARES, 1000, 90)
    options = {"loss": Loss.LEAST_SQUARES, "steps": [0.01], "batch": 256}
    run = train_cpu(features, targets, method="minibatch", threads=threads, **options)
    check(run, reference(features, targets, **options))


@pytest.mark.parametrize("train", [
    train_sklearn, lambda *data, **options: train_cpu(*data, method="sgd", **options)])
def test_stopping_rule(train):
    features, targets = problem(Loss.HINGE)
    calls = []

    def stop(epoch, weights, intercept):
        calls.append((epoch, weights.copy(), intercept))
        weights[:] = 99     # must not reach the run
        return epoch == 2

    run = train(features, targets, loss=Loss.HINGE, steps=[0.01] * 5, stop=stop)
    assert [epoch for epoch, *_ in calls] == [1, 2]
    np.testing.assert_array_equal([weights for _, weights, _ in calls], run.weights)
    assert [intercept for *_, intercept in calls] == run.intercepts.tolist()
    assert run.epochs_done == 2


@pytest.mark.parametrize("train, step", [
    (train_sklearn, 1e300),     # scikit-learn clips derivatives to 1e12
    (lambda *data, **options: train_cpu(*data, method="hogwild", **options), 1e3)])
def test_divergence(train, step):
    features, targets = problem(Loss.LEAST_SQUARES)
    with pytest.raises(DivergedError, match=r"diverged in epoch 2: .* smaller step") as raised:
        train(features, targets, loss=Loss.LEAST_SQUARES, steps=[0.01, step, 0.01])
    assert raised.value.epoch == 2
    assert raised.value.run.epochs_done == 1
    assert raised.value.run.weights.shape == (1, 37)
    with pytest.raises(DivergedError, match="diverged in epoch 1: ") as raised:
        train(features, targets, loss=Loss.LEAST_SQUARES, steps=[step])
    assert raised.value.run.weights.shape == (0, 37)


def test_logistic_loss_of_a_very_wrong_row():
    features = np.ones((2, 3), np.float32)
    targets = np.array([1, -1], np.float32)
    run = train_cpu(features, targets, method="sgd", loss=Loss.LOGISTIC, steps=[1000.0])
    # First 500 each; the second row's z is 2000, exp(-2000) is 0 and its derivative 1.
    np.testing.assert_array_equal(run.weights, [[-500.0] * 3])


def test_no_huber_loss():
    features, targets = problem(Loss.LEAST_SQUARES)
    for train in (partial(train_cpu, method="sgd"), train_sklearn):
        with pytest.raises(ValueError, match=r"every loss but huber, whose bound .* choose"):
            train(features, targets, loss=Loss.HUBER, steps=STEPS)


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="reads x86 assembly")
@pytest.mark.parametrize("method", ["sgd", "lowprec"])
def test_kernels_are_vectorised(method):
    from bitstep_lab.baselines import kernels
    features, targets = problem(Loss.HINGE)
    rows = encode(features, bits=8, encoding="nearest") if method == "lowprec" else features
    train_cpu(rows, targets, method=method, loss=Loss.HINGE, steps=[0.1])
    kind = str(numba.typeof(rows.view(np.int8) if method == "lowprec" else rows))
    code, = [code for signature, code in kernels.stream.inspect_asm().items()
             if str(signature[1]) == kind]
    packed, scalar = (len(re.findall(rf"\bv?(?:mul|fn?m(?:add|sub)\d*){suffix}\b", code))
                      for suffix in ("ps", "ss"))
    assert packed > 8
    assert scalar < packed      # tails of one value, and the derivative
    if method == "lowprec":
        assert re.search(r"\bv?cvtdq2ps\b", code)


def test_timing():
    features, targets = problem(Loss.LEAST_SQUARES, 5000, 90)
    run = train_cpu(features, targets, method="hogwild", loss=Loss.LEAST_SQUARES,
                    steps=[0.001] * 4, threads=2)
    assert run.bytes_per_epoch == 5000 * 91 * 4
    assert run.seconds.shape == run.cpu_seconds.shape == (4,)
    assert (run.seconds > 0).all()
    assert (run.cpu_seconds > 0).all()
    assert (run.cpu_seconds < run.seconds + 1e-3).all()
    # Compilation takes a second; the first epoch has none of it.
    assert run.seconds[0] < 0.5
