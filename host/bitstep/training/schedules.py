"""Step sizes: one for each epoch, in scaled feature space."""

import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from bitstep.checks import is_integer

SCHEDULES = ("constant", "inverse", "inverse-sqrt")


def schedule_steps(schedule: str | os.PathLike | Sequence[float], *, step: float | None,
                   epochs: int) -> np.ndarray:
    """Step of every epoch.

    Parameters
    ----------
    schedule : {"constant", "inverse", "inverse-sqrt"}, sequence of float, or path
        ``step``, ``step / epoch`` or ``step / sqrt(epoch)``, with epochs counted from 1; or the
        steps themselves, as a sequence or as a text file with one number a line. A sequence may
        be longer than ``epochs``; the rest is not used.
    step : float or None
        First step of a named schedule, positive; must be None for a sequence or a file, which
        hold the steps themselves.
    epochs : int
        Number of epochs, at least 1.

    Returns
    -------
    ndarray of float64, shape (epochs,)

    Raises
    ------
    ValueError
        If a step is not a positive number, a sequence is too short or a file cannot be read.

    Examples
    --------
    >>> schedule_steps("inverse", step=0.5, epochs=3).round(3).tolist()
    [0.5, 0.25, 0.167]
    """
    if not is_integer(epochs, 1):
        raise ValueError(f"epochs must be an integer of at least 1, not {epochs!r}")
    if isinstance(schedule, str) and schedule in SCHEDULES:
        if step is None or not (math.isfinite(step) and step > 0):
            raise ValueError(f"step must be a positive number, not {step!r}")
        epoch = np.arange(1, epochs + 1)
        return step / {"constant": np.ones(epochs), "inverse": epoch,
                       "inverse-sqrt": np.sqrt(epoch)}[schedule]
    if isinstance(schedule, (str, os.PathLike)):
        steps, source = read_steps(Path(schedule)), f"The schedule file {schedule}"
    else:
        steps, source = np.asarray(schedule, dtype=np.float64), "The schedule"
    if step is not None:
        raise ValueError(f"step must not be given together with a list of steps, not {step!r}")
    if steps.ndim != 1 or len(steps) < epochs:
        raise ValueError(f"{source} must hold at least {epochs} steps, one an epoch, "
                         f"not {steps.size}")
    if not (np.isfinite(steps) & (steps > 0)).all():
        raise ValueError(f"{source} must hold positive numbers only")
    return steps[:epochs].copy()


def read_steps(path: Path) -> np.ndarray:
    """Numbers of a text file, one a line; empty lines and ``#`` comments are skipped.

    Raises
    ------
    ValueError
        If the file cannot be read or a line is no number.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"The schedule must be {', '.join(SCHEDULES)} or a readable text file of "
                         f"steps, not '{path}' ({error})") from error
    steps = []
    for number, line in enumerate(text.splitlines(), start=1):
        line = line.partition("#")[0].strip()
        if not line:
            continue
        try:
            steps.append(float(line))
        except ValueError:
            raise ValueError(f"{path}, line {number}: expected one number, not {line!r}") from None
    return np.array(steps, dtype=np.float64)
