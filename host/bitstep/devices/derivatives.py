"""Jobs of runs that write derivatives."""

from dataclasses import replace

from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.losses import DERIVATIVE_FRACTION
from bitstep.pipeline.parts.widths import SHIFT_UNIT


def derivative_job(job: TrainingJob, planes: int, rows: int = 0) -> TrainingJob:
    """The job of a :class:`bitstep.devices.register_device.DerivativeRun` over so many of the first
    rows, 0 for all.

    Without the dither, an update is round(mantissa 2^(-8 shift) (z - y 2^s)) of an active row, with
    s the label shift at these planes. So mantissa 2^(-8 shift) is 2^(16 - s). With the same step K
    of the logistic loss is 2^32, and an update the sigmoid, which is a whole number. A derivative
    has no weight: the run that reads it has that of its row.
    """
    left = job.at(EpochSteps(0, 1, planes=planes)).label_shift - DERIVATIVE_FRACTION
    shift = max(-(-left // SHIFT_UNIT), 1)
    steps = EpochSteps(1 << SHIFT_UNIT * shift - left, shift, planes=planes)
    return replace(job, weights=None, epochs=(steps,), bit_plane_rows=rows or job.n_rows)
