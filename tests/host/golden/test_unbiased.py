"""Updates far below 1 are not lost: over many keys the mean model is that of float64 SGD."""

from dataclasses import replace

import numpy as np
import pytest
from fakes import make_job

from bitstep.golden import sgd
from bitstep.golden.dither import epoch_key
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.memory import pack_floats
from bitstep.pipeline.registers import LabelFormat, Loss

N_KEYS = 400
TARGET = 1 << 13                # of a label 1, in words times levels
FACTOR = 400 / 2**24            # of a derivative, in updates
NODES = np.arange(-8, 8.25, 0.25)

DERIVATIVES = {                 # times the target
    Loss.LEAST_SQUARES: lambda z, y: z - y * TARGET,
    Loss.SQUARED_HINGE: lambda z, y: (z - y * TARGET) * (y * z < TARGET),
    Loss.HINGE: lambda z, y: -y * TARGET * (y * z < TARGET),
    Loss.LOGISTIC: lambda z, y: -y * TARGET * np.interp(
        -y * z / TARGET, NODES, 1 / (1 + np.exp(-NODES))),
    Loss.HUBER: lambda z, y: np.clip(z - y * TARGET, -TARGET, TARGET),
}


def tiny_job(row_format, loss):
    """A job whose updates are all below 1/2 in magnitude, and its levels and labels; no row is so
    near to its hinge that chance decides on which side it is.
    """
    rng, limit = np.random.default_rng(0), 1 if row_format == "float32" else 7
    levels = rng.integers(-limit, limit + 1, (400, 3))
    model = np.array([500, -300, 800]) * (7 // limit)
    labels = rng.choice([-1, 1], 400)
    rows = np.abs(labels * (levels @ model + 40 * limit) - TARGET) > 1500
    levels, labels = levels[rows][:120], labels[rows][:120]
    options = {"loss_family": "logistic", "update_interval": 6} if loss == Loss.LOGISTIC else {}
    # A unit of a dot product is a word times a level, or 2^-22 words of a floating-point row.
    scale, shift, config = 0, 3, PipelineConfig(bits=4, **options)
    changes = {"model": model.astype(np.int32), "intercept": 40, "intercept_level": limit,
               "derivative_bound": int(loss == Loss.HUBER)}
    if row_format == "float32":
        scale, shift = 22, 6
        config = PipelineConfig(bits=32, row_format="float32", lookahead=0, **options)
        changes["rows"] = (pack_floats(levels.astype(np.float32), config.bus_width),)
    mantissa = round(FACTOR * 2 ** (8 * shift - scale))
    job = make_job(levels, labels, config=config, loss=loss, label_format=LabelFormat.SIGN,
                   label_shift=13 + scale, epochs=(EpochSteps(mantissa, shift),), **changes)
    return job, levels, labels


def exact_sgd(job, levels, labels, loss):
    """float64 SGD: the change of model and intercept, and the largest update."""
    rows = np.hstack([levels, np.full((len(levels), 1), job.intercept_level)])
    start = np.append(job.model, job.intercept).astype(float)
    model, largest = start.copy(), 0.0
    for row, label in zip(rows, labels, strict=True):
        update = FACTOR * DERIVATIVES[loss](row @ model, label)
        model, largest = model - update * row, max(largest, abs(update))
    return model - start, largest


def changes_of(job):
    """The change of model and intercept in the only epoch."""
    epoch, = train(job)
    assert not epoch.overflow
    return np.append(epoch.model - job.model, epoch.intercept - job.intercept)


@pytest.mark.by_day(2)
@pytest.mark.covering(1)
@pytest.mark.parametrize("row_format", ["one_level", "float32"])
@pytest.mark.parametrize("loss", Loss)
def test_the_mean_is_that_of_float64(monkeypatch, row_format, loss):
    job, levels, labels = tiny_job(row_format, loss)
    expected, largest = exact_sgd(job, levels, labels, loss)
    assert 0.15 < largest < 0.49
    with monkeypatch.context() as patch:        # to nearest, nothing is left
        patch.setattr(sgd, "dithers", lambda key, n_rows: np.full(n_rows, 0x8000))
        assert not changes_of(job).any()
    found = np.array([
        changes_of(replace(job, epochs=(replace(job.epochs[0], key=epoch_key(0, number)),)))
        for number in range(N_KEYS)])
    error = found.std(axis=0) / N_KEYS ** 0.5
    np.testing.assert_array_less(np.abs(found.mean(axis=0) - expected), 4 * error)
    # That says something: what is to be found is many errors away from no change at all.
    assert np.abs(expected / error).max() > 15
