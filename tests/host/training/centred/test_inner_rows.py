"""Inner passes of bit-centred training over the first rows alone."""

from typing import Any

import numpy as np
import pytest
from tests.host.fakes import DEVICES
from tests.host.sharded import make_parts, train_parts

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.devices import default_device, open_device
from bitstep.pipeline.losses import DERIVATIVE_FRACTION
from bitstep.pipeline.registers import Loss
from bitstep.pipeline.results import Overflow, RangeOverflowError, RunResult
from bitstep.quantization import QuantizedDataset, quantize_bit_planes, quantize_labels, sign_labels
from bitstep.training import schedules
from bitstep.training.centred.least_squares import BitCentredRun
from bitstep.training.centred.passes import WORD_LIMIT, BitCentred
from bitstep.training.centred.smooth import SmoothRun
from bitstep.training.objective import Objective
from bitstep.training.pipelines import pipeline_of
from bitstep.training.schedules import centred_step, first_inner_rows

LOSS_LIST = (Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.LOGISTIC)


@pytest.fixture(autouse=True)
def _few(monkeypatch):
    """What needs more than 131,072 rows otherwise."""
    monkeypatch.setattr(schedules, "INNER_ROWS", 32)
    monkeypatch.setattr(schedules, "INNER_ROWS_OF_A_FEATURE", 4)


def make(loss, n_rows=300, n_features=5, *, weighted=False):
    rng = np.random.default_rng(5)
    features = rng.standard_normal((n_rows, n_features))
    outputs = features @ rng.standard_normal(n_features) + 0.5 * rng.standard_normal(n_rows)
    weights = rng.integers(1, 1 << 16, n_rows).astype(np.uint16) if weighted else None
    rows = quantize_bit_planes(features, weights=weights)
    return QuantizedDataset(rows, quantize_labels(outputs, n_rows) if loss == Loss.LEAST_SQUARES
                            else sign_labels(np.where(outputs > 0, 1.0, -1.0)))


def run_of(data, loss, device, **options):
    objective = Objective(loss=loss, l2=1e-2)
    choice = BitCentred(**{"planes": [4] * 30, "step": centred_step(data.rows, loss), "tol": 1e-6}
                        | options)
    kind = BitCentredRun if loss == Loss.LEAST_SQUARES else SmoothRun
    return kind(data, device, device.config, objective, choice)


def opened(data, loss, name=None):
    return open_device(name or default_device(), pipeline_of(data.rows, Objective(loss=loss)))


def noted(device, method="train"):
    """Jobs and options with which a device's method is called from now on."""
    found, call = [], getattr(device, method)

    def note(job, **options):
        found.append((job, options))
        return call(job, **options)
    setattr(device, method, note)
    return found


def test_how_many(monkeypatch):
    monkeypatch.undo()
    assert [first_inner_rows(n_rows, 1024) for n_rows in (1, 131_072, 131_073, 10 ** 9)] == [
        1, 131_072, 65_536, 65_536]
    assert [first_inner_rows(n_rows, 4096) for n_rows in (524_288, 524_289)] == [524_288, 262_144]


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("loss", LOSS_LIST)
def test_devices_agree_and_reach_the_optimum_of_all_rows(loss, weighted):
    data, found = make(loss, weighted=weighted), []
    for name in {"golden", default_device()} & set(DEVICES):
        with opened(data, loss, name) as device:
            run, jobs = run_of(data, loss, device), noted(device)
            found.append(list(run.steps()))
            assert jobs[0][0].n_rows == 32
            weights = data.rows.weights
            assert (weights is not None) == weighted
            np.testing.assert_array_equal(jobs[0][0].weights,
                                          None if weights is None else weights[:32])
    for steps in found:
        assert steps[-1].gradient < 1e-6
        np.testing.assert_array_equal(steps[-1].point, found[0][-1].point)
    with opened(data, loss) as device:
        all_rows = list(run_of(data, loss, device, inner_rows=300).steps())
    np.testing.assert_allclose(found[0][-1].point, all_rows[-1].point, atol=2e-5)


def test_devices_agree_on_several_classes():
    rng = np.random.default_rng(7)
    features = rng.standard_normal((300, 4))
    labels = (features[:, :3] + 0.5 * rng.standard_normal((300, 3))).argmax(axis=1)
    found = [LowPrecisionClassifier(device=name, random_state=1, tol=1e-6).fit(features, labels)
             for name in ("golden", default_device())]
    assert all(one.multinomial_ for one in found)
    np.testing.assert_array_equal(found[0].coef_, found[1].coef_)
    assert found[0].history_[-1]["gradient"] < 1e-6


def test_bytes_that_are_read():
    data = make(Loss.LEAST_SQUARES)
    with opened(data, Loss.LEAST_SQUARES) as device:
        first = next(run_of(data, Loss.LEAST_SQUARES, device).steps())
    # Planes of 300 rows of 8 bits, of which beats of 64 bytes are read, and of 32 rows.
    assert first.bytes_read == 2 * 16 * 320 + 2 * 4 * 64


@pytest.mark.parametrize("loss", LOSS_LIST[1:])
def test_derivatives_are_written_of_twice_as_many(loss):
    """So inner passes can double their rows without another full pass."""
    data = make(loss)
    with opened(data, loss) as device:
        run, passes, jobs = run_of(data, loss, device), noted(device, "gradient"), noted(device)
        steps = run.steps()
        first = next(steps)
        assert [one["derivative_rows"] for _, one in passes] == [64] * len(passes)
        # Planes of 300 rows of 8 bits, of which beats of 64 bytes are read, and of 64 and 32 rows.
        assert first.bytes_read == len(passes) * (16 * 320 + 4 * 64) + 2 * 4 * 64
        known = len(passes)
        run.inner_rows = 64
        next(steps)
        assert jobs[-1][0].n_rows == 64
        again = len(passes) - known         # one, unless a line was searched
        assert passes[-1][1]["derivative_rows"] == 128
        run.inner_rows, known = 300, len(passes)
        next(steps)
        assert jobs[-1][0].n_rows == 300
        assert len(passes) - known > again >= 1
        assert passes[-1][1]["derivative_rows"] == 300


@pytest.mark.parametrize("loss", LOSS_LIST[1:])
def test_room_that_leaves_derivatives_no_bits(loss):
    """After many overflows words would have room for any weight, and none for a derivative."""
    data = make(loss)
    with opened(data, loss) as device:
        run = run_of(data, loss, device, planes=[4] * 8, tol=1e-3)
        run.reach = 2.0 ** 30
        assert list(run.steps())[-1].gradient < 1e-2


def test_words_have_room_for_weights_with_which_derivatives_have_no_bits():
    """There are no inner passes at weights for which 4 planes leave them no room."""
    data = make(Loss.LOGISTIC)
    with opened(data, Loss.LOGISTIC) as device:
        run: Any = run_of(data, Loss.LOGISTIC, device, planes=[4] * 3)
        run.reach = 1.0
        point = np.zeros_like(run.point)
        point[0] = most = 2.5 * WORD_LIMIT * data.label_scale * 2.0 ** (4 - DERIVATIVE_FRACTION)
        found = run._measured(point, 4)
    assert run.slow
    assert found.point[0] == pytest.approx(most, rel=1e-6)
    assert found.point[0] / found.unit < 2 ** 31


def test_slow_steps_double_them(monkeypatch):
    data = make(Loss.LOGISTIC)
    with opened(data, Loss.LOGISTIC) as device:
        run = run_of(data, Loss.LOGISTIC, device, planes=[4] * 6)
        monkeypatch.setattr(run, "outer_step", lambda planes, following: None)
        assert [run.inner_rows for _ in run.steps()] == [64, 128, 256, 300, 300, 300]


def test_all_rows_take_part_once_a_number_leaves_its_range():
    data = make(Loss.LOGISTIC)
    with opened(data, Loss.LOGISTIC) as device:
        run = run_of(data, Loss.LOGISTIC, device)
        run.reach, tried = 1.0, []
        none = RunResult(np.zeros((0, 5), np.int32), np.zeros(0, np.int32), {})

        def passes(planes):
            tried.append((planes, run.inner_rows, run.reach))
            if len(tried) < 3:
                raise RangeOverflowError(Overflow.MODEL, none)
            return np.zeros(6)
        run.tried(4, passes)
    assert tried == [(4, 32, 1.0), (4, 300, 1.0), (4, 300, 16.0)]


@pytest.mark.parametrize("loss", LOSS_LIST[1:])
def test_a_class_that_the_first_rows_lack(loss):
    rng = np.random.default_rng(0)
    features = rng.standard_normal((600, 3))
    signs = np.where(features[:, 0] + rng.standard_normal(600) > 1, 1.0, -1.0)
    signs[:64] = -1.0
    data = QuantizedDataset(quantize_bit_planes(features), sign_labels(signs))
    with opened(data, loss) as device:
        found = list(run_of(data, loss, device).steps())
    assert found[-1].gradient < 1e-6


@pytest.mark.parametrize("loss", LOSS_LIST)
def test_states_go_on_bit_for_bit(loss):
    data = make(loss)
    with opened(data, loss) as device:
        whole = run_of(data, loss, device, planes=[1, 2, 2, 4, 4])
        states = [whole.kept() for _ in whole.steps()]
        for numbers, arrays in states:
            again = run_of(data, loss, device, planes=[1, 2, 2, 4, 4])
            again.inner_rows = 299
            again.restore(numbers, arrays)
            assert again.inner_rows == numbers["inner_rows"] < 299
            list(again.steps())
            np.testing.assert_array_equal(again.found[-1].point, whole.found[-1].point)


@pytest.mark.parametrize("estimator, classes", [
    (LowPrecisionRegressor, 0), (LowPrecisionClassifier, 2), (LowPrecisionClassifier, 3)])
def test_shards_take_all_their_rows(estimator, classes, monkeypatch):
    """And several classes, which share their passes, have as few as one has."""
    rng = np.random.default_rng(2)
    features = rng.standard_normal((400, 4))
    outputs = features @ rng.standard_normal(4) + 0.3 * rng.standard_normal(400)
    labels = np.digitize(outputs, np.quantile(outputs, np.arange(1, classes) / classes)) \
        if classes else outputs
    estimator = estimator(solver="bit-centred", planes=4, random_state=1).fit(features, labels)
    few = estimator.history_[0]["bytes_read"]
    model = train_parts(estimator, make_parts(features, labels, [0, 400]))
    monkeypatch.undo()
    estimator.fit(features, labels)
    np.testing.assert_array_equal(model.coefs[-1], np.atleast_2d(estimator.coef_))
    assert few < estimator.history_[0]["bytes_read"]
