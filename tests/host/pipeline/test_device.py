"""What all devices have in common: runs of several jobs, their progress, and how they end."""

from dataclasses import replace

import numpy as np
import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.device import Device, Run, share_labels
from bitstep.pipeline.registers import LabelFormat, Overflow
from bitstep.pipeline.results import (
    BusError,
    DeviceError,
    RangeOverflowError,
    RunResult,
    TrainingInterrupted,
    result_of,
)
from bitstep_sim.testing.random_jobs import random_job

JOB = random_job(PipelineConfig(), n_features=2, n_rows=8, epochs=3)


class Noted(Run):
    """A run that notes what is done with it."""

    def __init__(self, device, jobs):
        self.device, self.jobs, self.done = device, jobs, 0

    def epochs(self):
        while self.done < 3:
            self.done += 1
            if self.done == self.device.fails:
                raise BusError("the memory is gone", result_of(self.outcomes()[0]))
            yield self.done * len(self.jobs)

    def outcomes(self):
        result = RunResult(np.zeros((self.done, 2), np.int32), np.zeros(self.done, np.int32))
        return [RangeOverflowError(Overflow.MODEL, result)
                if any(job is one for one in self.device.wild) else result for job in self.jobs]

    def words(self):
        yield from ()

    def abort(self):
        self.device.notes.append("abort")
        if self.device.dead:
            raise DeviceError("a line that is dead")

    def close(self):
        self.device.notes.append("close")


class Pairs(Device):
    """A device that trains two jobs in a run."""

    name, config, clock_hz = "pairs", JOB.config, None

    def __init__(self, wild=(), fails=0, dead=False):
        self.wild, self.fails, self.dead, self.notes = wild, fails, dead, []

    def parts(self, jobs):
        for first in range(0, len(jobs), 2):
            yield jobs[first:first + 2]

    def begin(self, jobs, *, timeout_s=60.0, to_the_end=True):
        self.notes.append(len(jobs))
        return Noted(self, jobs)

    def close(self):
        pass


def test_progress_is_that_of_all_models():
    device, seen = Pairs(), []
    assert len(device.train_models([JOB] * 5, on_epoch=seen.append)) == 5
    assert seen == [2, 4, 6, 8, 10, 12, 13, 14, 15]
    assert device.notes == [2, "close", 2, "close", 1, "close"]


def test_first_overflow_ends_the_runs_that_follow():
    wild = replace(JOB)
    jobs = [JOB, wild, JOB]
    device = Pairs(wild=[wild])
    assert [type(one) for one in device.train_models(jobs, to_the_end=False)] == [
        RunResult, RangeOverflowError]
    assert device.notes == [2, "close"]
    assert len(device.train_models(jobs)) == 3
    with pytest.raises(RangeOverflowError):
        device.train(wild)


@pytest.mark.parametrize("dead", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_callback_that_raises(error, dead):
    """The run is aborted before it is closed; Ctrl-C keeps what the runs before have, too."""
    device = Pairs(dead=dead and error is ZeroDivisionError)

    def fail(done):
        if done == 8:
            raise error

    with pytest.raises((error, TrainingInterrupted)) as caught:
        device.train_models([JOB] * 4, on_epoch=fail)
    assert device.notes == [2, "close", 2, "abort", "close"]
    if error is KeyboardInterrupt:
        assert isinstance(caught.value, TrainingInterrupted)
        assert [one.epochs_done for one in caught.value.outcomes
                if isinstance(one, RunResult)] == [3, 3, 1, 1]


def test_run_that_failed_is_not_aborted():
    device = Pairs(fails=2)
    with pytest.raises(BusError, match="the memory is gone"):
        device.train(JOB)
    assert device.notes == [1, "close"]


def test_labels_of_another_format_are_others():
    """Though memory has the same bytes."""
    signs = replace(JOB, labels=np.zeros(8, np.uint8), label_format=LabelFormat.SIGN)
    four = random_job(PipelineConfig(), n_features=2, n_rows=4)
    numbers = replace(four, labels=np.zeros(8, np.uint8), label_format=LabelFormat.INT16)
    assert share_labels([signs, replace(signs, labels=np.zeros(8, np.uint8))])
    assert not share_labels([signs, numbers])
    assert not share_labels([signs, replace(signs, labels=np.ones(8, np.uint8))])
