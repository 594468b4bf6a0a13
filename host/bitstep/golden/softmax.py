"""Softmax of several classes, and the passes of their models together: rows that all of them take.

The models of a multinomial logistic regression have one job each, which differ in labels, model and
constants alone (:func:`bitstep.pipeline.softmax.check_classes`). With Z_k the dot product of class
k, a row's derivative for class k is p_k - [y_k = 1], where p is the softmax of all Z_k, in place of
the sigmoid of Z_k alone. All else is as of the logistic loss, each model by itself
(docs/number-formats.md).
"""

import math
from collections.abc import Iterator, Sequence
from itertools import pairwise

import numpy as np

from bitstep.golden.dither import dithers, round_dithered
from bitstep.golden.integer import IntegerEpoch
from bitstep.golden.levels import levels_of
from bitstep.golden.sgd import EpochModel
from bitstep.golden.steps import (
    MAX_DERIVATIVE_STEP,
    STEP_FRACTION,
    Overflowed,
    derivative_step,
    update_rules,
)
from bitstep.pipeline.bit_planes import PLANES
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.losses import DERIVATIVE_FRACTION
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.registers import LabelFormat, Overflow
from bitstep.pipeline.results import UPDATES_LIMIT, ClassSums, GradientSum
from bitstep.pipeline.shapes import WEIGHT_BITS

ARGUMENT = 22               # fraction bits of the distance to the largest dot product
RANGE = 32                  # distances beyond count as this: e^-32 is below the last bit
EXPONENT = 24               # fraction bits of the exponent of 2
LOG2_E = 30                 # fraction bits of log2 e
VALUE = 30                  # fraction bits of an exponential
SEGMENT = EXPONENT - 6      # fraction bits of the place in a piece: 64 pieces between powers of 2
FINE_VALUE = 24             # fraction bits of a probability in the pass over all rows
SHARED = 30                 # fraction bits of the product of two of them

LOG2 = round(math.log2(math.e) * (1 << LOG2_E))
_LIMIT = RANGE << ARGUMENT


def _node(place: float) -> int:
    return round((1 << VALUE) * 2.0 ** -place)


NODES = tuple(_node(node / 64) for node in range(65))
# Four times the height of the power of 2 over the middle of a chord; below 0.
BOWS = tuple(4 * _node((node + 0.5) / 64) - 2 * (low + high)
             for node, (low, high) in enumerate(pairwise(NODES)))


def error_bound(n_classes: int) -> float:
    """Largest error of a probability of the pass over all rows, for any real dot products."""
    return 1.3e-7 + 5e-10 * n_classes


def exponential(argument: int) -> int:
    """Exponential of a distance below the largest.

    Parameters
    ----------
    argument : int
        T, for t = T / 2^22; at least 0.

    Returns
    -------
    int
        E in [0, 2^30], for e^-t = E / 2^30.
    """
    argument = min(argument, _LIMIT)
    shift = ARGUMENT + LOG2_E - EXPONENT
    exponent = (argument * LOG2 + (1 << shift - 1)) >> shift
    halvings, rest = exponent >> EXPONENT, exponent & (1 << EXPONENT) - 1
    piece, within = rest >> SEGMENT, rest & (1 << SEGMENT) - 1
    rise = (NODES[piece + 1] - NODES[piece]) << SEGMENT
    bow = BOWS[piece] * ((1 << SEGMENT) - within)
    power = NODES[piece] + ((within * (rise + bow) + (1 << 2 * SEGMENT - 1)) >> 2 * SEGMENT)
    return (power + (1 << halvings >> 1)) >> halvings


def softmax(dots: Sequence[int], label_shift: int, fraction: int) -> list[int]:
    """Probability of every class.

    Parameters
    ----------
    dots : sequence of int
        Z_k, for z_k = Z_k / 2^label_shift.
    label_shift : int
        At least 0.
    fraction : int
        Fraction bits of the result.

    Returns
    -------
    list of int
    """
    largest = max(dots)
    powers = [exponential(((largest - dot << ARGUMENT + 1) + (1 << label_shift)) >> label_shift + 1)
              for dot in dots]
    total = sum(powers)
    return [((power << fraction + 1) + total) // (2 * total) for power in powers]


def gradients(jobs: Sequence[TrainingJob], derivative_planes: int = 0,
              derivative_rows: int = 0) -> ClassSums:
    """Sum the updates of all rows for the model of every class, without making them.

    Parameters
    ----------
    jobs : sequence of TrainingJob
        One for each class; see :meth:`bitstep.pipeline.device.Device.class_gradients`.
    derivative_planes, derivative_rows : int

    Returns
    -------
    ClassSums
    """
    first, count = jobs[0], len(jobs)
    steps = first.epochs[0]
    level = first.at(steps).intercept_level
    failed = ClassSums([GradientSum(np.zeros(first.n_features, np.int64), 0, Overflow.UPDATE)]
                       * count, np.zeros((count, count), np.int64))
    updates: list[list[int]] = []
    shared = np.zeros((count, count), object)
    try:
        step_of = update_rules(first.at(steps), steps, _derivative_step)
        for row, (signs, dither, found) in enumerate(zip(
                _signs(jobs), dithers(steps.key, first.n_rows).tolist(),
                _probabilities(jobs, steps.planes, FINE_VALUE), strict=True)):
            updates.append([round_dithered(step_of(row) * (one - ((sign > 0) << FINE_VALUE)),
                                           STEP_FRACTION + FINE_VALUE, dither)
                            for one, sign in zip(found, signs, strict=True)])
            if steps.planes == PLANES:
                shared += [[_of_row(first, row, one * other >> 2 * FINE_VALUE - SHARED)
                            for other in found] for one in found]
    except Overflowed:
        return failed
    by_class = list(zip(*updates, strict=True))
    if any(sum(map(abs, own)) >= UPDATES_LIMIT for own in by_class):
        return failed
    labels: list[np.ndarray | None] = [None] * count
    if derivative_planes:
        labels = [pack_labels(np.array(own[:derivative_rows or first.n_rows]), LabelFormat.INT32)
                  for own in zip(*_derivative_labels(jobs, derivative_planes), strict=True)]
    levels, _ = levels_of(first, first.rows[0], steps.planes)
    return ClassSums([GradientSum(np.array(own, np.int64) @ levels, sum(own) * level,
                                  derivatives=stored)
                      for own, stored in zip(by_class, labels, strict=True)],
                     shared.astype(np.int64))


def train(jobs: Sequence[TrainingJob]) -> Iterator[list[EpochModel]]:
    """Run the jobs of all classes together; yield their models after each epoch.

    Labels are derivatives at a centre. The run ends after an epoch in which a value of any class
    leaves its range.
    """
    first = jobs[0]
    states = [(job.model.astype(np.int64), int(job.intercept)) for job in jobs]
    for number, steps in enumerate(first.epochs):
        parts = [IntegerEpoch(job.at(steps), steps, *state)
                 for job, state in zip(jobs, states, strict=True)]
        overflow = Overflow(0)
        try:
            _take_rows(jobs, parts, steps, first.rows[number % len(first.rows)])
        except Overflowed as overflowed:
            overflow = overflowed.kind
        states = [(part.model, part.intercept) for part in parts]
        yield [EpochModel(model.astype(np.int32), intercept, overflow)
               for model, intercept in states]
        if overflow:
            return


def _take_rows(jobs: Sequence[TrainingJob], parts: list[IntegerEpoch], steps: EpochSteps,
               stored: np.ndarray) -> None:
    then = parts[0].job
    period, level = then.correction_period, then.intercept_level
    step_of = update_rules(then, steps, _derivative_step)
    centres = np.stack([job.stored_labels(0, job.n_rows) for job in jobs], axis=1).tolist()
    pending: list[np.ndarray | None] = [None] * len(parts)
    for row, (levels, labels, dither) in enumerate(zip(
            levels_of(then, stored, steps.planes)[0], centres,
            dithers(steps.key, then.n_rows).tolist(), strict=True)):
        if period and row % period == 0:
            for place, part in enumerate(parts):
                if (due := pending[place]) is not None:
                    part.model += due
                    part.check()
                    part.move_intercept(part.constant())
                pending[place] = part.next_correction(row)
        found = softmax([int(levels.dot(part.model)) + level * part.intercept for part in parts],
                        then.label_shift, DERIVATIVE_FRACTION)
        for part, one, label in zip(parts, found, labels, strict=True):
            change = one - ((label & 1) << DERIVATIVE_FRACTION) - (label >> 1)
            update = round_dithered(step_of(row) * change, STEP_FRACTION + DERIVATIVE_FRACTION,
                                    dither)
            if update:
                part.subtract(update * levels, update)


def _derivative_step(job: TrainingJob, steps: EpochSteps) -> int:
    """The step of a derivative of 1, which must fit; then updates do, of derivatives within 1."""
    step = derivative_step(job, steps)
    if step >= MAX_DERIVATIVE_STEP:
        raise Overflowed(Overflow.UPDATE)
    return step


def _of_row(job: TrainingJob, row: int, product: int) -> int:
    """A product of two probabilities as it is summed: times the row's weight."""
    return product if job.weights is None else product * int(job.weights[row]) >> WEIGHT_BITS


def _signs(jobs: Sequence[TrainingJob]) -> list[list[int]]:
    """Label of each class, +1 or -1, for every row."""
    return np.stack([job.stored_labels(0, job.n_rows) for job in jobs], axis=1).tolist()


def _probabilities(jobs: Sequence[TrainingJob], planes: int, fraction: int) -> Iterator[list[int]]:
    """Softmax of every row at the first planes of its code."""
    first = jobs[0].at(EpochSteps(0, 1, planes=planes))
    words = [(job.model.astype(np.int64), first.intercept_level * int(job.intercept))
             for job in jobs]
    for levels in levels_of(jobs[0], jobs[0].rows[0], planes)[0]:
        yield softmax([int(levels.dot(model)) + offset for model, offset in words],
                      first.label_shift, fraction)


def _derivative_labels(jobs: Sequence[TrainingJob], planes: int) -> Iterator[list[int]]:
    """Labels of every row that hold y and the derivative at a centre, one for each class."""
    for signs, found in zip(_signs(jobs), _probabilities(jobs, planes, DERIVATIVE_FRACTION),
                            strict=True):
        yield [2 * (one - ((sign > 0) << DERIVATIVE_FRACTION)) + (sign > 0)
               for one, sign in zip(found, signs, strict=True)]
