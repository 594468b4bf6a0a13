"""The golden model as a device: no clock, no memory, the same results."""

from collections.abc import Iterator

from bitstep.devices.software import SoftwareDevice
from bitstep.golden.sgd import EpochModel, train
from bitstep.pipeline.job import TrainingJob


class GoldenDevice(SoftwareDevice):
    """The golden model in NumPy: no clock, no tools needed, the same models.

    Runs jobs on :mod:`bitstep.golden`. Models and errors are those of every other device, bit for
    bit. Of the counters it knows ``beats``, ``overflows`` and ``refetched_rows``, unless the run
    left its range; the others are None. Time is checked between epochs.

    Parameters
    ----------
    config : PipelineConfig
        Pipeline whose limits apply to the jobs.

    Attributes
    ----------
    clock_hz : None
    """

    name = "golden"

    def epochs(self, job: TrainingJob) -> Iterator[EpochModel]:
        """Compute a job; yield the model after each epoch."""
        return train(job)
