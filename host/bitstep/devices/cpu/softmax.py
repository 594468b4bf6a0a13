"""Passes of all classes of a multinomial model: :mod:`bitstep.golden.softmax` for machine integers.

A row is decoded once, and all models take it.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bitstep.compiling import compiled, kernel, uncounted
from bitstep.devices.cpu import words
from bitstep.devices.cpu.arithmetic import (
    LOW_MASK,
    PAIR_BITS,
    dither_addend,
    rule_of_row,
    scaled,
)
from bitstep.devices.cpu.bit_planes import BitPlaneModel
from bitstep.devices.cpu.codes import Portion, write_levels
from bitstep.devices.cpu.decoding import padded
from bitstep.devices.cpu.numbers import epoch_numbers, rule_of, weights_of
from bitstep.devices.cpu.portions import dithers_of
from bitstep.devices.cpu.rows import Arrays, Epoch, correct, epoch_of
from bitstep.golden import softmax
from bitstep.golden.sgd import EpochModel
from bitstep.pipeline.bit_planes import PLANES
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.losses import DERIVATIVE_FRACTION
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.registers import LabelFormat, Overflow
from bitstep.pipeline.results import UPDATES_LIMIT, ClassSums, GradientSum
from bitstep.pipeline.shapes import WEIGHT_BITS

_NODES, _BOWS = np.array(softmax.NODES, np.int64), np.array(softmax.BOWS, np.int64)
_ARGUMENT, _SEGMENT, _EXPONENT = softmax.ARGUMENT, softmax.SEGMENT, softmax.EXPONENT
_LIMIT = softmax.RANGE << softmax.ARGUMENT
_LOG2, _LOG2_SHIFT = softmax.LOG2, softmax.ARGUMENT + softmax.LOG2_E - softmax.EXPONENT
_FINE_VALUE = softmax.FINE_VALUE
_SHARED_SHIFT = 2 * softmax.FINE_VALUE - softmax.SHARED


@compiled
def _exponential(argument):
    """:func:`bitstep.golden.softmax.exponential`."""
    exponent = (min(argument, _LIMIT) * _LOG2 + (1 << _LOG2_SHIFT - 1)) >> _LOG2_SHIFT
    halvings, rest = exponent >> _EXPONENT, exponent & (1 << _EXPONENT) - 1
    piece, within = rest >> _SEGMENT, rest & (1 << _SEGMENT) - 1
    rise = (_NODES[piece + 1] - _NODES[piece]) << _SEGMENT
    bow = _BOWS[piece] * ((1 << _SEGMENT) - within)
    half = np.int64(1) << 2 * _SEGMENT - 1
    power = _NODES[piece] + ((within * (rise + bow) + half) >> 2 * _SEGMENT)
    return (power + (np.int64(1) << halvings >> 1)) >> halvings


@compiled
def _probabilities(values, label_shift, fraction):
    """Overwrite dot products of all classes by :func:`bitstep.golden.softmax.softmax`."""
    largest = values[0]
    for k in range(1, values.size):
        largest = max(largest, values[k])
    total = np.int64(0)
    for k in range(values.size):
        # The difference of two dot products may have 65 bits.
        high = (largest >> PAIR_BITS) - (values[k] >> PAIR_BITS)
        low = (largest & LOW_MASK) - (values[k] & LOW_MASK)
        values[k] = _exponential(scaled(np.int64(1) << _ARGUMENT + 1, high, low,
                                        np.int64(1) << label_shift, label_shift + 1))
        total += values[k]
    for k in range(values.size):
        values[k] = ((values[k] << fraction + 1) + total) // (2 * total)


class ClassSum(NamedTuple):
    """Sums of a pass over some rows for all classes, and a row of what it works on; the sums of
    several parts of the rows are added.

    Attributes
    ----------
    sums : ndarray of int64, shape (n_classes, padded(n_features) + 2)
        Of updates times levels, of updates, and of their magnitudes.
    shared : ndarray of int64, shape (n_classes, n_classes)
        See :class:`bitstep.pipeline.results.ClassSums`; up to the diagonal.
    levels : ndarray of int32, shape (padded(n_features),)
    values : ndarray of int64, shape (n_classes,)
        Dot products, which become probabilities.
    """

    sums: np.ndarray
    shared: np.ndarray
    levels: np.ndarray
    values: np.ndarray

    @classmethod
    def zeros(cls, count: int, length: int) -> "ClassSum":
        """Sums over no rows."""
        return cls(np.zeros((count, length + 2), np.int64), np.zeros((count, count), np.int64),
                   np.zeros(length, np.int32), np.zeros(count, np.int64))


@kernel
def add_class_gradients(codes, place, drop, rule, level, models, intercepts, found, signs, dithers,
                        weights, key, first, planes, written):
    """Add the gradients of rows, one for each of the dithers.

    Parameters
    ----------
    codes, place, drop, rule, level, dithers, weights, key, first, planes
        See :func:`bitstep.devices.cpu.bit_planes.add_gradients`.
    models : ndarray of int32, shape (n_classes, padded(n_features))
    intercepts : ndarray of int64, shape (n_classes,)
    found : ClassSum
        Changed.
    signs : ndarray of int64, shape (rows, n_classes)
        Labels.
    written : ndarray of int64, shape (at most rows, n_classes)
        Overwritten by labels that hold derivatives, of the first ones.

    Returns
    -------
    int
        0, or the Overflow of the row that left a range.
    """
    codes, models, values = uncounted(codes), uncounted(models), uncounted(found.values)
    levels, sums, shared = uncounted(found.levels), uncounted(found.sums), uncounted(found.shared)
    n_features, drop, left = codes.shape[1], np.int32(drop), np.int32(16 - planes)
    weights = uncounted(weights)
    for i in range(dithers.size):
        write_levels(codes, place + i, drop, n_features, levels)
        for k in range(values.size):
            values[k] = words.dot(levels, models[k]) + level * intercepts[k]
        _probabilities(values, rule.label_shift, _FINE_VALUE)
        addend = dither_addend(dithers[i], 16 + _FINE_VALUE)
        of_row = rule_of_row(rule, weights, first + i, key)
        if of_row.derivative_step < 0:
            return words.UPDATE
        for k in range(values.size):
            for other in range(k + 1):
                product = values[k] * values[other] >> _SHARED_SHIFT
                if weights.size:
                    product = product * np.int64(weights[first + i]) >> WEIGHT_BITS
                shared[k, other] += product
            change = values[k] - ((1 if signs[i, k] > 0 else 0) << _FINE_VALUE)
            update = scaled(of_row.derivative_step, 0, change, addend, 16 + _FINE_VALUE)
            if update < -words.UPDATE_LIMIT or update >= words.UPDATE_LIMIT:
                return words.UPDATE
            own = sums[k]
            own[levels.size] += update
            own[levels.size + 1] += abs(update)
            if own[levels.size + 1] >= UPDATES_LIMIT:
                return words.UPDATE
            for j in range(levels.size):
                own[j] += update * np.int64(levels[j])
        if i < len(written):
            # The first planes of a code are the code of fewer bits.
            write_levels(codes, place + i, left, n_features, levels)
            for k in range(values.size):
                values[k] = words.dot(levels, models[k]) + (level >> left - drop) * intercepts[k]
            _probabilities(values, rule.label_shift - (left - drop), DERIVATIVE_FRACTION)
            for k in range(values.size):
                own_row = 1 if signs[i, k] > 0 else 0
                written[i, k] = 2 * (values[k] - (own_row << DERIVATIVE_FRACTION)) + own_row
    return 0


class ClassArrays(NamedTuple):
    """Arrays of the models of all classes: one row of each array of :class:`Arrays`, whose levels
    and weights are common; ``epochs`` are rows of :class:`Epoch`, ``values`` see :class:`ClassSum`.
    """

    model: np.ndarray
    pending: np.ndarray
    coefficients: np.ndarray
    constants: np.ndarray
    levels: np.ndarray
    lookup: np.ndarray
    codebooks: np.ndarray
    weights: np.ndarray
    state: np.ndarray
    epochs: np.ndarray
    values: np.ndarray


@compiled
def _arrays(all_of, k):
    return Arrays(
        uncounted(all_of.model[k]), uncounted(all_of.model[k]), uncounted(all_of.pending[k]),
        uncounted(all_of.coefficients[k]), uncounted(all_of.constants[k]),
        uncounted(all_of.levels), uncounted(all_of.levels), uncounted(all_of.lookup),
        uncounted(all_of.codebooks), uncounted(all_of.state[k]), uncounted(all_of.weights))


@kernel
def take_class_rows(codes, place, drop, rule, all_of, labels, dithers, first):
    """Let the models of all classes take rows from ``first`` on, one for each label.

    Parameters
    ----------
    codes, place, drop, rule, dithers, first
        See :func:`bitstep.devices.cpu.bit_planes.take_bit_plane_rows`.
    all_of : ClassArrays
        Changed.
    labels : ndarray of int64, shape (rows, n_classes)
        Derivatives at a centre.

    Returns
    -------
    int
        0, or the Overflow of the row that left a range.
    """
    codes, values, levels = uncounted(codes), uncounted(all_of.values), uncounted(all_of.levels)
    n_features, drop = codes.shape[1], np.int32(drop)
    epochs, common = uncounted(all_of.epochs), epoch_of(all_of.epochs[0])
    weights = uncounted(all_of.weights)
    for i in range(dithers.size):
        row = first + i
        if common.correction_period and row % common.correction_period == 0:
            for k in range(values.size):
                wrong = correct(epoch_of(epochs[k]), _arrays(all_of, k), row)
                if wrong:
                    return wrong
        write_levels(codes, place + i, drop, n_features, levels)
        for k in range(values.size):
            values[k] = words.dot(levels, all_of.model[k]) \
                + common.level * all_of.state[k, words.INTERCEPT]
        _probabilities(values, rule.label_shift, DERIVATIVE_FRACTION)
        addend = dither_addend(dithers[i], 32)
        of_row = rule_of_row(rule, weights, row, common.key)
        if of_row.derivative_step < 0:
            return words.UPDATE
        for k in range(values.size):
            label = labels[i, k]
            change = values[k] - ((label & 1) << DERIVATIVE_FRACTION) - (label >> 1)
            update = scaled(of_row.derivative_step, 0, change, addend, 32)
            wrong = words.apply(common, uncounted(all_of.model[k]), levels, update,
                                uncounted(all_of.state[k]))
            if wrong:
                return wrong
    return 0


def class_sums(jobs: Sequence[TrainingJob], derivative_planes: int, derivative_rows: int,
               each: Callable[[Callable[[Portion], Any]], Iterator[Any]]) -> ClassSums:
    """:func:`bitstep.golden.softmax.gradients`.

    Parameters
    ----------
    jobs, derivative_planes, derivative_rows
        See there.
    each : callable
        Yields the results of a function for each portion of the rows.
    """
    job, count = jobs[0], len(jobs)
    steps, length = job.epochs[0], padded(job.n_features)
    then = job.at(steps)
    models = np.zeros((count, length), np.int32)
    models[:, :job.n_features] = [one.model for one in jobs]
    intercepts = np.array([one.intercept for one in jobs], np.int64)
    n_written = (derivative_rows or job.n_rows) if derivative_planes else 0
    written = np.zeros((n_written, count), np.int64)
    rule, weights, overflow = rule_of(then, steps), weights_of(job), int(Overflow.UPDATE)

    def add(portion: Portion) -> tuple[int, ClassSum]:
        codes, place, first, n_rows = portion
        found = ClassSum.zeros(count, length)
        return add_class_gradients(
            codes, place, PLANES - steps.planes, rule, then.intercept_level, models, intercepts,
            found, _labels(jobs, first, n_rows), dithers_of(steps.key, first, n_rows), weights,
            steps.key, first, derivative_planes, written[first:first + n_rows]), found

    total = ClassSum.zeros(count, length)
    for overflow, part in each(add) if rule else ():
        total.sums[:] += part.sums
        total.shared[:] += part.shared
        overflow = overflow or Overflow.UPDATE * (total.sums[:, -1].max() >= UPDATES_LIMIT)
        if overflow:
            break
    if overflow:
        none = GradientSum(np.zeros(job.n_features, np.int64), 0, Overflow.UPDATE)
        return ClassSums([none] * count, np.zeros((count, count), np.int64))
    return ClassSums([
        GradientSum(own[:job.n_features].copy(), int(own[length]) * then.intercept_level,
                    derivatives=pack_labels(written[:, number], LabelFormat.INT32)
                    if derivative_planes else None)
        for number, own in enumerate(total.sums)], total.shared + np.tril(total.shared, -1).T)


def compile_passes(jobs: Sequence[TrainingJob]) -> None:
    """Compile what inner passes need, or load it from the cache, by taking no rows."""
    none, steps, count = np.empty(0, np.int64), jobs[0].epochs[0], len(jobs)
    if rule := rule_of(jobs[0].at(steps), steps):
        take_class_rows(np.empty((0, jobs[0].n_features), np.int16), 0, PLANES - steps.planes, rule,
                        _class_arrays(jobs), np.empty((0, count), np.int64), none, 0)


def _class_arrays(jobs: Sequence[TrainingJob]) -> ClassArrays:
    models = [BitPlaneModel(job) for job in jobs]
    one = models[0].arrays
    return ClassArrays(
        **{name: np.stack([getattr(each.arrays, name) for each in models])
           for name in ("model", "pending", "coefficients", "constants", "state")},
        levels=one.dot_levels, lookup=one.lookup, codebooks=one.codebooks, weights=one.weights,
        epochs=np.zeros((len(jobs), len(Epoch._fields)), np.int64),
        values=np.zeros(len(jobs), np.int64))


def train_classes(jobs: Sequence[TrainingJob], portions_of: Callable[..., Iterator[Portion]]
                  ) -> Iterator[list[EpochModel] | None]:
    """:func:`bitstep.golden.softmax.train`; None after every portion, of
    :meth:`bitstep.devices.cpu.codes.DecodedRows.portions`.
    """
    all_of = _class_arrays(jobs)
    job = jobs[0]
    for number, steps in enumerate(job.epochs):
        rule, overflow = rule_of(job.at(steps), steps), int(Overflow.UPDATE)
        all_of.state[:, [words.BOUND, words.PENDING]] = words.LIMIT, 0
        all_of.epochs[:] = [epoch_numbers(each.at(steps), steps) for each in jobs]
        for codes, place, first, n_rows in portions_of(
                job, number % len(job.rows), steps.planes) if rule else ():
            overflow = take_class_rows(
                codes, place, PLANES - steps.planes, rule, all_of, _labels(jobs, first, n_rows),
                dithers_of(steps.key, first, n_rows), first)
            if overflow:
                break
            yield None
        yield [EpochModel(model[:job.n_features].copy(), int(state[words.INTERCEPT]),
                          Overflow(overflow))
               for model, state in zip(all_of.model, all_of.state, strict=True)]
        if overflow:
            return


def _labels(jobs: Sequence[TrainingJob], first: int, n_rows: int) -> np.ndarray:
    return np.stack([job.stored_labels(first, n_rows) for job in jobs], axis=1)
