"""What the jobs of the classes of a multinomial model must have in common."""

from collections.abc import Sequence

import numpy as np

from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.losses import has_derivatives
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.registers import Loss
from bitstep.pipeline.results import DeviceError

MAX_CLASSES = 1 << 15       # their exponentials' sum, times a probability's bits, has 64 bits
# The models' own; all else is common.
_OWN = ("labels", "model", "intercept", "constants", "constant_intercept")


def check_classes(jobs: Sequence[TrainingJob], *, derivatives: bool) -> None:
    """Raise DeviceError unless jobs are those of the classes of one multinomial model: of bit-plane
    rows and the logistic loss, batches of 1, and alike but for labels, model and constants.

    Parameters
    ----------
    jobs : sequence of TrainingJob
    derivatives : bool
        True if labels must be derivatives at a centre, False if signs.
    """
    first = jobs[0]
    if not 2 <= len(jobs) <= MAX_CLASSES or first.loss != Loss.LOGISTIC or first.batch != 1 \
            or first.config.row_format != BIT_PLANES:
        raise DeviceError(f"A softmax needs 2 to {MAX_CLASSES} classes, the logistic loss, batches "
                          "of 1 and bit-plane rows, not "
                          f"{len(jobs)}, {first.loss.name}, {first.batch} and row format "
                          f"{first.config.row_format!r}")
    if has_derivatives(first) != derivatives:
        wanted = "derivatives at a centre" if derivatives else "signs"
        raise DeviceError(f"This pass of a softmax needs labels that are {wanted}, not of format "
                          f"{first.label_format.name}")
    for job in jobs[1:]:
        for name, value in vars(first).items():
            if name not in _OWN and not _same(value, getattr(job, name)):
                raise DeviceError(f"The jobs of the classes of a softmax must have the same {name}")


def _same(one, other) -> bool:
    if isinstance(one, tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return one is other or (np.array_equal(one, other) if isinstance(one, np.ndarray)
                            else one == other)
