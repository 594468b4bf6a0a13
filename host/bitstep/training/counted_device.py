"""A device whose passes are counted."""

from typing import Any

from bitstep.pipeline.device import Device
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.results import GradientSum, RunError, RunResult
from bitstep.training.counters import sum_counters


class CountedDevice(Device):
    """A device that sums the counters of all its runs.

    Parameters
    ----------
    device : Device
        What runs the jobs; what is not defined here is taken from it.
    """

    def __init__(self, device: Device):
        self.device: Any = device
        self.name, self.config, self.clock_hz = device.name, device.config, device.clock_hz
        self._runs: list[dict[str, int | None]] = []

    @property
    def counters(self) -> dict[str, int | None]:
        """Sums over the runs; None of what the device does not know of one of them."""
        return sum_counters(self._runs)

    def forget(self) -> None:
        """Make all counters unknown, since there were runs that are not counted."""
        self._runs.append({})

    def train(self, job: TrainingJob, **options: Any) -> RunResult:
        """Run a job on the device."""
        try:
            result = self.device.train(job, **options)
        except RunError as error:
            self._runs.append(error.result.counters)
            raise
        self._runs.append(result.counters)
        return result

    def gradient(self, job: TrainingJob, **options: Any) -> GradientSum:
        """Sum the gradient on the device."""
        found = self.device.gradient(job, **options)
        self._runs.append(found.counters)
        return found

    def close(self) -> None:
        """Close the device."""
        self.device.close()
