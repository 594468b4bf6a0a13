"""Endings of trainings of several outputs: errors that name one, and what Ctrl-C leaves."""

import numpy as np

from bitstep.pipeline.results import RangeOverflowError, RunResult, TrainingInterrupted


def named(error: RangeOverflowError, number: int, count: int) -> RangeOverflowError:
    """The error, which names the output with this number, from 0, if there are several."""
    if count > 1:
        error.args = (f"Class {number + 1} of {count}: {error.args[0]}",)
    return error


def nothing_kept(number: int, count: int, result: RunResult | None = None) -> TrainingInterrupted:
    """The exception of a training that was interrupted in output ``number`` of ``count``, before
    every one of them had an epoch.
    """
    text = "interrupted in the first epoch: there is no model yet, so none was kept"
    if count > 1:
        text = (f"interrupted in class {max(number, 1)} of {count}: no model was kept, because a "
                "one-vs-rest model needs all of them")
    return TrainingInterrupted(
        [result or RunResult(np.zeros((0, 0), np.int32), np.zeros(0, np.int32))], text)
