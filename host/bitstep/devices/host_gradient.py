"""The gradient of all rows, computed by the host of a pipeline that cannot."""

import importlib.util

from bitstep.golden.gradient import gradient
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.results import GradientSum


def host_gradient(job: TrainingJob, derivative_planes: int) -> GradientSum:
    """Sum the updates of all rows as device ``cpu`` does, or without numba as ``golden`` does.

    Parameters
    ----------
    job : TrainingJob
        Its rows are read where the host has them.
    derivative_planes : int
        See :meth:`bitstep.pipeline.device.Device.gradient`.
    """
    if importlib.util.find_spec("numba") is None:
        return gradient(job, derivative_planes)
    from bitstep.devices.cpu.device import CpuDevice
    with CpuDevice(job.config) as device:
        found = device.gradient(job, derivative_planes=derivative_planes)
    found.counters.clear()      # of a pipeline, which did nothing
    return found
