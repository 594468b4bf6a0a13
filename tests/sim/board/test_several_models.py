"""Several models in one run on the simulated board: each is the one that is trained alone."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from drawn_jobs import SEVERAL as CONFIG
from simulated import TestedDevice, open_board
from simulated import check_models as check

from bitstep.devices.cpu import portions
from bitstep.devices.cpu.device import CpuDevice
from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.registers import OFFSETS, Control, LabelFormat, Loss
from bitstep.pipeline.results import (
    AbortedError,
    RangeOverflowError,
    RunResult,
    TrainingInterrupted,
)
from bitstep_sim.board.device import SimBuffer, SimDevice
from bitstep_sim.testing.random_jobs import random_jobs

LOGISTIC = PipelineConfig(bits=4, max_features=256, lookahead=1, models=2, loss_family="logistic",
                          update_interval=6)
FORMATS = list(LabelFormat)


@pytest.fixture(scope="module")
def board():
    with open_board(CONFIG) as device:
        yield device


@pytest.fixture(scope="module")
def logistic_board():
    with open_board(LOGISTIC) as device:
        yield device


@pytest.mark.by_day(5)
@pytest.mark.parametrize("label_format", FORMATS, ids=lambda label_format: label_format.name)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
def test_labels_and_steps(board, count, label_format):
    jobs = random_jobs(CONFIG, count, n_features=7, n_rows=70, label_format=label_format,
                       seed=count, warm=count % 2 == 1)
    check(board, jobs)


@pytest.mark.parametrize("shared_labels", [False, True])
@pytest.mark.parametrize("batch, period", [(1, 0), (1, 2), (64, 0), (256, 256)])
def test_batches_and_corrections(board, batch, period, shared_labels):
    n_rows = 300 if batch > 1 else 90
    jobs = random_jobs(CONFIG, 4, n_features=256, n_rows=n_rows, batch=batch, warm=True,
                       seed=batch, correction_period=period, shared_labels=shared_labels)
    check(board, jobs)


@pytest.mark.parametrize("n_features, n_rows", [(1, 200), (4096, 5)])
def test_narrow_and_wide_rows(board, n_features, n_rows):
    check(board, random_jobs(CONFIG, 4, n_features=n_features, n_rows=n_rows, warm=True))


@pytest.mark.parametrize("loss", [Loss.SQUARED_HINGE, Loss.HINGE])
def test_hinges_with_proximal_steps(board, loss):
    check(board, random_jobs(CONFIG, 3, n_features=20, n_rows=80, loss=loss, proximal_period=16))


@pytest.mark.parametrize("count, batch, period", [(2, 1, 0), (3, 4, 8), (2, 64, 64)])
def test_logistic_loss(logistic_board, count, batch, period):
    check(logistic_board, random_jobs(LOGISTIC, count, n_features=100, n_rows=90, warm=True,
                                      loss=Loss.LOGISTIC, batch=batch, correction_period=period))


def outcomes(found):
    """The end of each model, its flags aside: those that follow the first are the pipeline's."""
    return [(one.result if (ended := isinstance(one, RangeOverflowError)) else one, ended)
            for one in found]


@pytest.mark.parametrize("speeds", [[0.5, 300, 0.5], [300, 0.5, 300, 0.5], [300],
                                    [0.5, 0.5, 0.5, 300]])
def test_range_of_one_model_ends_no_other(board, speeds):
    jobs = random_jobs(CONFIG, 4, n_features=30, n_rows=60, epochs=4, speeds=speeds)
    shown = []
    with board.begin(jobs) as run:
        found = outcomes(run.finish(lambda _: shown.extend(
            (number, words.tolist(), intercept) for number, words, intercept in run.words())))
    expected = outcomes(CpuDevice(CONFIG).train_models(jobs))
    assert bool(shown) == any(result.epochs_done for result, _ in found)
    for number, words, intercept in shown:
        models = found[number][0]
        assert (words, intercept) in list(
            zip(models.models.tolist(), models.intercepts.tolist(), strict=True))
    assert [ended for _, ended in found] == [ended for _, ended in expected]
    assert any(ended for _, ended in found)
    for (result, _), (other, _) in zip(found, expected, strict=True):
        assert np.array_equal(result.models, other.models)
        assert np.array_equal(result.intercepts, other.intercepts)
    for count in (1, 4):        # models that a run does not have stand still
        check(board, random_jobs(CONFIG, count, n_features=30, n_rows=60,
                                 label_format=LabelFormat.SIGN))


@pytest.mark.parametrize("n_rows", [4, 40])
def test_a_model_that_a_run_lacks_has_no_corrections(board, n_rows):
    """Its words are those of the run before, whose last correction must not be added to them."""
    options = {"n_features": 32, "batch": 4, "correction_period": 4, "warm": True}
    first, second = random_jobs(CONFIG, 2, n_rows=n_rows, epochs=1, **options)
    second = replace(second, model=np.full(32, 1 << 24, np.int32), epochs=tuple(
        EpochSteps(0, 1, (1 << 18) - 1, 2, 0, step.key) for step in second.epochs))
    board.train_models([first, second])
    check(board, random_jobs(CONFIG, 1, n_rows=40, epochs=2, **options))


@pytest.mark.parametrize("speeds", [[0.5, 300, 0.5], [300, 0.5, 300, 0.5], [80, 60, 90, 70],
                                    [0.5, 0.5, 0.5, 80]])
@pytest.mark.parametrize("calm", [0, 2])
@pytest.mark.parametrize("rows", [16, 1000])
def test_range_of_one_model_ends_the_run_if_asked_to(board, monkeypatch, speeds, calm, rows):
    """All models have the epochs before it, on every device, in whatever portions."""
    monkeypatch.setattr(portions, "PORTION_ROWS", rows)
    jobs = [replace(slow, epochs=slow.epochs[:calm] + job.epochs[calm:]) for slow, job in zip(*(
        random_jobs(CONFIG, 4, n_features=30, n_rows=60, epochs=5, speeds=each)
        for each in ([0.5], speeds)), strict=True)]
    found = outcomes(board.train_models(jobs, to_the_end=False))
    expected = outcomes(CpuDevice(CONFIG).train_models(jobs, to_the_end=False))
    epochs = found[0][0].epochs_done
    assert calm <= epochs < 5
    assert any(ended for _, ended in found)
    assert [ended for _, ended in found] == [ended for _, ended in expected]
    for job, (own, _), (other, _) in zip(jobs, found, expected, strict=True):
        assert own.epochs_done == other.epochs_done == epochs
        for result in (own, other):
            assert result.models.tolist() == [
                epoch.model.tolist() for epoch, _ in zip(train(job), range(epochs), strict=False)]


def test_models_are_fetched_once(board, monkeypatch):
    """A serial line takes seconds for them."""
    fetched, fetch = [], SimBuffer.from_device
    monkeypatch.setattr(SimBuffer, "from_device",
                        lambda self: (fetched.append(self.array.size), fetch(self)))
    check(board, random_jobs(CONFIG, 3, n_features=30, n_rows=60, epochs=4))
    assert fetched == [3 * 4 * 4 * CONFIG.rows.model_words(30)]


def test_interrupt_before_the_start_arrives(board, monkeypatch):
    """Models that left their range in the run before are none of this run."""
    options: dict[str, Any] = {"n_features": 30, "n_rows": 60, "epochs": 4}
    board.train_models(random_jobs(CONFIG, 3, speeds=[0.5, 300], **options))
    write = SimDevice.write

    def interrupted(self, offset, value):
        if offset == OFFSETS["CONTROL"] and value & Control.START:
            raise KeyboardInterrupt
        write(self, offset, value)

    with monkeypatch.context() as patch:
        patch.setattr(SimDevice, "write", interrupted)
        with pytest.raises(TrainingInterrupted) as raised:
            board.train_models(random_jobs(CONFIG, 3, **options))
    outcomes: list[Any] = raised.value.outcomes
    assert [outcome.epochs_done for outcome in outcomes] == [0, 0, 0]
    check(board, random_jobs(CONFIG, 3, **options))


def test_interrupt_loses_no_model(board):
    jobs = random_jobs(CONFIG, 3, n_features=30, n_rows=400, epochs=300)

    def interrupt(done):
        assert done % 3 == 0
        raise KeyboardInterrupt

    with pytest.raises(TrainingInterrupted) as raised:
        board.train_models(jobs, on_epoch=interrupt)
    for job, result in zip(jobs, raised.value.outcomes, strict=True):
        assert isinstance(result, RunResult)
        assert 0 < result.epochs_done <= 300
        expected = next(iter(train(job)))
        assert np.array_equal(result.models[0], expected.model)
    check(board, random_jobs(CONFIG, 4, n_features=30, n_rows=60, warm=True))


@pytest.mark.parametrize("cycles", [30, 300, 900])
def test_abort(board, cycles):
    # An epoch takes 800 cycles and more; the keys of 300 epochs take a third of a second.
    jobs = random_jobs(CONFIG, 4, n_features=30, n_rows=200, epochs=4, warm=True,
                       correction_period=8)
    device = TestedDevice(board, during=lambda: device.write(0x20, 2), cycles=cycles)
    with pytest.raises(AbortedError):
        device.train_models(jobs)
    check(board, random_jobs(CONFIG, 4, n_features=30, n_rows=60, warm=True, correction_period=8))


@pytest.mark.parametrize("models", [0, 5])
def test_wrong_number_of_models_is_refused(board, models):
    jobs = random_jobs(CONFIG, 2, n_features=3, n_rows=5)
    with pytest.raises(Exception, match="refused its registers"):
        TestedDevice(board, registers={"MODELS": models}).train_models(jobs)


OTHERS = [
    PipelineConfig(bits=8, max_features=256, lookahead=0, models=2),
    PipelineConfig(bits=4, max_features=256, lookahead=3, models=3, row_format="two_levels"),
    PipelineConfig(bits=32, max_features=64, lookahead=2, models=2, row_format="float32",
                   update_interval=4),
    PipelineConfig(bits=3, max_features=256, lookahead=4, models=2, codebooks=True),
    PipelineConfig(bits=1, max_features=512, lookahead=3, models=5, bus_width=128,
                   row_ports=2, update_interval=4),
]


@pytest.mark.slow
@pytest.mark.parametrize("config", OTHERS, ids=lambda config: config.name)
def test_other_pipelines(config):
    """Every row format and look-ahead 0, with rows around the lanes, and batches."""
    features = {1, config.rows.lanes - 1, config.rows.lanes, config.rows.lanes + 1,
                config.max_features} - {0}
    with open_board(config) as device:
        for number, n_features in enumerate(sorted(features)):
            for batch, period in ((1, 0), (64, 64)):
                check(device, random_jobs(
                    config, config.models + 1, n_features=n_features, n_rows=130, batch=batch,
                    correction_period=period, seed=number, warm=number % 2 == 1))
