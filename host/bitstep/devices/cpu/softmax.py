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
    scaled_in_64,
    write_dithers,
)
from bitstep.devices.cpu.bit_planes import BLOCK, BitPlaneModel, block_products
from bitstep.devices.cpu.codes import Portion, write_levels
from bitstep.devices.cpu.numbers import epoch_numbers, rule_of, weights_of
from bitstep.devices.cpu.portions import dithers_of
from bitstep.devices.cpu.products import ROWS, add_rows, share_rows, whole
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
_RANGE = softmax.RANGE
_LOG2, _LOG2_SHIFT = softmax.LOG2, softmax.ARGUMENT + softmax.LOG2_E - softmax.EXPONENT
_FINE_VALUE = softmax.FINE_VALUE
_SHARED_SHIFT = 2 * softmax.FINE_VALUE - softmax.SHARED
_DITHER, _STEP, _UPDATE, _WEIGHT, _ROOM = range(5)      # rows of what belongs to some rows


@compiled
def _exponential(argument):
    """:func:`bitstep.golden.softmax.exponential`, of an argument in its range."""
    exponent = (argument * _LOG2 + (1 << _LOG2_SHIFT - 1)) >> _LOG2_SHIFT
    halvings, rest = exponent >> _EXPONENT, exponent & (1 << _EXPONENT) - 1
    piece, within = rest >> _SEGMENT, rest & (1 << _SEGMENT) - 1
    rise = (_NODES[piece + 1] - _NODES[piece]) << _SEGMENT
    bow = _BOWS[piece] * ((1 << _SEGMENT) - within)
    half = np.int64(1) << 2 * _SEGMENT - 1
    power = _NODES[piece] + ((within * (rise + bow) + half) >> 2 * _SEGMENT)
    return (power + (np.int64(1) << halvings >> 1)) >> halvings


@compiled
def _distance(largest, value, label_shift):
    """Argument of the exponential: how far a dot product is below the largest one, with a label
    shift of 58 at most.
    """
    # It may have 64 bits and no sign, of which no more are needed than are in the range.
    most = np.uint64(_RANGE) << np.uint64(label_shift)
    distance = min(np.uint64(largest) - np.uint64(value), most)
    if label_shift > _ARGUMENT:
        shift = np.uint64(label_shift - _ARGUMENT)
        return np.int64((distance + (np.uint64(1) << shift - np.uint64(1))) >> shift)
    return np.int64(distance << np.uint64(_ARGUMENT - label_shift))


@compiled
def _quotient(dividend, divisor):
    """``dividend // divisor``, of 31 bits at most, in a fraction of the time; neither is below 0.
    """
    found = np.int64(np.int32(np.float64(dividend) / np.float64(divisor)))
    rest = dividend - found * divisor       # floats are wrong by 1 at most
    return found + (rest >= divisor) - (rest < 0)


@compiled
def _probabilities(values, room, label_shift, fraction):
    """Overwrite dot products of all classes, one row a column, by
    :func:`bitstep.golden.softmax.softmax`; ``room`` of shape (2, columns) by anything.
    """
    columns, largest, totals = values.shape[1], room[0], room[1]
    for r in range(columns):
        largest[r], totals[r] = values[0, r], 0
    for k in range(1, values.shape[0]):
        own = values[k]
        for r in range(columns):
            largest[r] = max(largest[r], own[r])
    for k in range(values.shape[0]):
        own = values[k]
        for r in range(columns):
            own[r] = _exponential(_distance(largest[r], own[r], label_shift))
            totals[r] += own[r]
    for k in range(values.shape[0]):
        own = values[k]
        for r in range(columns):
            own[r] = _quotient((own[r] << fraction + 1) + totals[r], 2 * totals[r])


class ClassSum(NamedTuple):
    """Sums of a pass over some rows for all classes, and what it works on; the sums of several
    parts of the rows are added.

    Attributes
    ----------
    features : ndarray of int64, shape (n_classes, whole(n_features))
        Of updates times codes.
    updates : ndarray of int64, shape (n_classes, 2)
        Of updates, and of their magnitudes.
    shared : ndarray of int64, shape (n_classes, whole(n_classes))
        See :class:`bitstep.pipeline.results.ClassSums`; beyond the diagonal anything.
    values : ndarray of int64, shape (n_classes, BLOCK)
        Dot products, which become probabilities.
    shares : ndarray of uint32, shape (BLOCK, whole(n_classes))
        Those.
    of_rows : ndarray of int64, shape (6, BLOCK)
        Dithers, steps, updates and weights of some rows, and the room of :func:`_probabilities`.
    """

    features: np.ndarray
    updates: np.ndarray
    shared: np.ndarray
    values: np.ndarray
    shares: np.ndarray
    of_rows: np.ndarray

    @classmethod
    def zeros(cls, count: int, n_features: int) -> "ClassSum":
        """Sums over no rows."""
        width = whole(count)
        return cls(features=np.zeros((count, whole(n_features)), np.int64),
                   updates=np.zeros((count, 2), np.int64),
                   shared=np.zeros((count, width), np.int64),
                   values=np.zeros((count, BLOCK), np.int64),
                   shares=np.zeros((BLOCK, width), np.uint32),
                   of_rows=np.zeros((6, BLOCK), np.int64))


@kernel
def add_class_gradients(codes, place, drop, rule, level, models, intercepts, found, signs, weights,
                        key, first, planes, written):
    """Add the gradients of rows, one for each label of a class.

    Parameters
    ----------
    codes, place, drop, rule, level, weights, key, first, planes
        See :func:`bitstep.devices.cpu.bit_planes.add_gradients`.
    models : ndarray of int32, shape (n_classes, whole(n_features))
        Zeros beyond the features.
    intercepts : ndarray of int64, shape (n_classes,)
    found : ClassSum
        Changed.
    signs : ndarray of int32, shape (n_classes, rows)
        Labels.
    written : ndarray of int32, shape (n_classes, at most rows)
        Overwritten by labels that hold derivatives, of the first ones.

    Returns
    -------
    int
        0, or the Overflow of the row that left a range.
    """
    codes, models, weights = uncounted(codes), uncounted(models), uncounted(weights)
    signs, written, left = uncounted(signs), uncounted(written), 16 - planes
    found = ClassSum(uncounted(found.features), uncounted(found.updates), uncounted(found.shared),
                     uncounted(found.values), uncounted(found.shares), uncounted(found.of_rows))
    dithers, steps, updates = (found.of_rows[_DITHER], found.of_rows[_STEP],
                               found.of_rows[_UPDATE])
    room = found.of_rows[_ROOM:]
    for start in range(0, signs.shape[1], BLOCK):
        count = min(BLOCK, signs.shape[1] - start)
        row, last = place + start, place + start + count - 1
        _class_products(codes, row, last, drop, models, intercepts, level, found.values)
        _probabilities(found.values, room, rule.label_shift, _FINE_VALUE)
        if drop == 0:           # of fewer planes nothing needs them
            _share(found, count, weights, first + start)
        write_dithers(key, first + start, dithers)
        for r in range(count):
            of_row = rule_of_row(rule, weights, first + start + r, key)
            if of_row.derivative_step < 0:
                return words.UPDATE
            steps[r] = of_row.derivative_step
        for k in range(len(models)):
            _block_updates(found, k, count, signs, start)
            for r in range(0, count, ROWS):
                add_rows(codes, row + r, last, drop, updates, r, found.features[k])
        if start < written.shape[1]:
            # The first planes of a code are the code of fewer bits.
            _class_products(codes, row, last, left, models, intercepts, level >> left - drop,
                            found.values)
            _probabilities(found.values, room, rule.label_shift - (left - drop),
                           DERIVATIVE_FRACTION)
            for k in range(len(models)):
                for r in range(min(count, written.shape[1] - start)):
                    own_row = 1 if signs[k, start + r] > 0 else 0
                    change = found.values[k, r] - (own_row << DERIVATIVE_FRACTION)
                    written[k, start + r] = 2 * change + own_row
    return 0


@compiled
def _class_products(codes, row, last, drop, models, intercepts, level, values):
    """Dot products of levels, of the rows up to the last and all classes."""
    for k in range(len(models)):
        model, always = models[k], level * intercepts[k]
        for j in range(model.size):
            always += np.int64(model[j])
        block_products(codes, row, last, drop, model, always, values[k])


@compiled
def _share(found, count, weights, first):
    """Add the products of two probabilities of some rows, for each two classes."""
    shares, own = found.shares, found.of_rows[_WEIGHT]
    for r in range(BLOCK):
        own[r] = (weights[first + r] if weights.size else 1 << WEIGHT_BITS) if r < count else 0
    for k in range(len(found.values)):
        for r in range(BLOCK):
            shares[r, k] = found.values[k, r]
    for k in range(len(found.values)):
        for r in range(0, BLOCK, ROWS):
            share_rows(shares, r, k, _SHARED_SHIFT, own, found.shared[k])


@compiled
def _block_updates(found, k, count, signs, start):
    """Updates of a block's rows for a class. Each is in its range: a step has no more than
    MANTISSA_WIDTH bits before its last zeros, so one that fits is smaller by more than rounding.
    """
    dithers, steps, updates = (found.of_rows[_DITHER], found.of_rows[_STEP],
                               found.of_rows[_UPDATE])
    values, totals = found.values[k], found.updates[k]
    for r in range(count):
        change = values[r] - ((1 if signs[k, start + r] > 0 else 0) << _FINE_VALUE)
        updates[r] = scaled_in_64(change, steps[r] >> PAIR_BITS, steps[r] & LOW_MASK,
                                  dither_addend(dithers[r], 16 + _FINE_VALUE), 16 + _FINE_VALUE)
    for r in range(count, BLOCK):
        updates[r] = 0
    for r in range(count):
        totals[0] += updates[r]
        totals[1] += abs(updates[r])


class ClassArrays(NamedTuple):
    """Arrays of the models of all classes: one row of each array of :class:`Arrays`, whose levels
    and weights are common; ``epochs`` are rows of :class:`Epoch`, ``values`` and ``room`` of one
    column what :func:`_probabilities` needs.
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
    room: np.ndarray


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
    labels : ndarray of int32, shape (n_classes, rows)
        Derivatives at a centre.

    Returns
    -------
    int
        0, or the Overflow of the row that left a range.
    """
    codes, values, levels = uncounted(codes), uncounted(all_of.values), uncounted(all_of.levels)
    n_features, drop = codes.shape[1], np.int32(drop)
    epochs, common = uncounted(all_of.epochs), epoch_of(all_of.epochs[0])
    weights, room = uncounted(all_of.weights), uncounted(all_of.room)
    for i in range(dithers.size):
        row = first + i
        if common.correction_period and row % common.correction_period == 0:
            for k in range(len(values)):
                wrong = correct(epoch_of(epochs[k]), _arrays(all_of, k), row)
                if wrong:
                    return wrong
        write_levels(codes, place + i, drop, n_features, levels)
        for k in range(len(values)):
            values[k, 0] = words.dot(levels, all_of.model[k]) \
                + common.level * all_of.state[k, words.INTERCEPT]
        _probabilities(values, room, rule.label_shift, DERIVATIVE_FRACTION)
        addend = dither_addend(dithers[i], 32)
        of_row = rule_of_row(rule, weights, row, common.key)
        if of_row.derivative_step < 0:
            return words.UPDATE
        for k in range(len(values)):
            label = labels[k, i]
            change = values[k, 0] - ((label & 1) << DERIVATIVE_FRACTION) - (label >> 1)
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
    steps = job.epochs[0]
    then = job.at(steps)
    models = np.zeros((count, whole(job.n_features)), np.int32)
    models[:, :job.n_features] = [one.model for one in jobs]
    intercepts = np.array([one.intercept for one in jobs], np.int64)
    n_written = (derivative_rows or job.n_rows) if derivative_planes else 0
    written = np.zeros((count, n_written), np.int32)
    rule, weights, overflow = rule_of(then, steps), weights_of(job), int(Overflow.UPDATE)

    def add(portion: Portion) -> tuple[int, ClassSum]:
        codes, place, first, n_rows = portion
        found = ClassSum.zeros(count, job.n_features)
        return add_class_gradients(
            codes, place, PLANES - steps.planes, rule, then.intercept_level, models, intercepts,
            found, _labels(jobs, first, n_rows), weights, steps.key, first, derivative_planes,
            written[:, first:first + n_rows]), found

    total = ClassSum.zeros(count, job.n_features)
    for overflow, part in each(add) if rule else ():
        total.features[:] += part.features
        total.updates[:] += part.updates
        total.shared[:] += part.shared
        overflow = overflow or Overflow.UPDATE * (total.updates[:, 1].max() >= UPDATES_LIMIT)
        if overflow:
            break
    if overflow:
        none = GradientSum(np.zeros(job.n_features, np.int64), 0, Overflow.UPDATE)
        return ClassSums([none] * count, np.zeros((count, count), np.int64))
    shared = np.tril(total.shared[:, :count])
    return ClassSums([
        GradientSum(2 * own[:job.n_features] + updates[0],
                    int(updates[0]) * then.intercept_level,
                    derivatives=pack_labels(written[number], LabelFormat.INT32)
                    if derivative_planes else None)
        for number, (own, updates) in enumerate(
            zip(total.features, total.updates, strict=True))], shared + np.tril(shared, -1).T)


def compile_passes(jobs: Sequence[TrainingJob]) -> None:
    """Compile what inner passes need, or load it from the cache, by taking no rows."""
    none, steps, count = np.empty(0, np.int64), jobs[0].epochs[0], len(jobs)
    if rule := rule_of(jobs[0].at(steps), steps):
        take_class_rows(np.empty((0, jobs[0].n_features), np.int16), 0, PLANES - steps.planes, rule,
                        _class_arrays(jobs), np.empty((count, 0), np.int32), none, 0)


def _class_arrays(jobs: Sequence[TrainingJob]) -> ClassArrays:
    models = [BitPlaneModel(job) for job in jobs]
    one = models[0].arrays
    return ClassArrays(
        **{name: np.stack([getattr(each.arrays, name) for each in models])
           for name in ("model", "pending", "coefficients", "constants", "state")},
        levels=one.dot_levels, lookup=one.lookup, codebooks=one.codebooks, weights=one.weights,
        epochs=np.zeros((len(jobs), len(Epoch._fields)), np.int64),
        values=np.zeros((len(jobs), 1), np.int64), room=np.zeros((2, 1), np.int64))


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
    """Labels of rows from ``first`` on, int32 of shape (n_classes, n_rows): of many classes, of 64
    bits they would take much memory.
    """
    labels = np.empty((len(jobs), n_rows), np.int32)
    for own, job in zip(labels, jobs, strict=True):
        own[:] = job.stored_labels(first, n_rows)
    return labels
