"""Time of bit-centred training: the pipeline's by the cycle model, the host's by a replay."""

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from bitstep.cycles import Memory, count_epochs
from bitstep.pipeline.job import TrainingJob
from bitstep_lab.races.board_profiles import Profile

REPEATS = 9                 # of the host's part; the least counts


class Clock:
    """A device whose passes over the rows are timed by the cycle model, and kept.

    Constants of corrections cost no cycle, and a full pass counts as one of SGD, with the
    recursion that it does not have.
    """

    def __init__(self, device: Any, profile: Profile):
        self.device, self.clock_hz = device, profile.clock_hz
        self.memory = Memory.of(profile.clock_hz, profile.memory_latency, profile.memory_gbps)
        self.seconds = 0.0
        self.answers: list[Any] = []

    def gradient(self, job: TrainingJob, **options: Any) -> Any:
        """Sum the gradient."""
        return self._timed(self.device.gradient, job, options)

    def train(self, job: TrainingJob, **options: Any) -> Any:
        """Run a job."""
        return self._timed(self.device.train, job, options)

    def _timed(self, call: Callable[..., Any], job: TrainingJob, options: dict[str, Any]) -> Any:
        counters, _ = count_epochs(replace(job, constants=None, constant_intercept=0),
                                   self.memory, config=self.device.config)
        assert counters["cycles"] is not None
        self.seconds += counters["cycles"] / self.clock_hz
        try:
            self.answers.append(call(job, **options))
        except Exception as error:
            self.answers.append(error)
            raise
        return self.answers[-1]


class Replay:
    """A device that gives answers again, so that what is left is the host's time."""

    def __init__(self, answers: Sequence[Any]):
        self._answers = iter(answers)

    def gradient(self, job: TrainingJob, **options: Any) -> Any:
        """The next answer."""
        del job, options
        answer = next(self._answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    train = gradient


def host_seconds(begin: Callable[[], Iterator[Any]]) -> np.ndarray:
    """Seconds of processor time to the end of every step, the least of some runs."""
    found = []
    for _ in range(REPEATS):
        started, ends = time.process_time(), []
        for _ in begin():
            ends.append(time.process_time() - started)
        found.append(ends)
    return np.min(found, axis=0)
