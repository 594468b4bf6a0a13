"""Refetching: the bounds by hand, and every decision against the fine row."""

import functools
from fractions import Fraction

import numpy as np
import pytest
from fakes import make_job, words
from hypothesis import given, settings
from hypothesis import strategies as st

from bitstep.golden.dither import dithers
from bitstep.golden.sgd import train
from bitstep.golden.steps import derivative_step
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import LabelFormat, Loss


def refetch_job(levels, labels, values, *, bits=4, cell=1, label_shift=4, mantissa=64, shift=1,
                **changes):
    """A hinge job; ``values`` are fine rows in levels. K = 4 as it stands."""
    config = PipelineConfig(bits=bits, refetch=True, lookahead=0)
    return make_job(levels, labels, config=config, label_format=LabelFormat.SIGN, loss=Loss.HINGE,
                    label_shift=label_shift, cell_half_levels=cell, mantissa=mantissa, shift=shift,
                    fine_rows=(np.array(values) * 2 ** config.rows.fine_fraction).astype(np.int16),
                    **changes)


def outcome(job):
    """Model, intercept and refetched rows of the only epoch."""
    epoch, = train(job)
    assert not epoch.overflow
    return epoch.model.tolist(), epoch.intercept, epoch.refetched_rows


# By hand: q = (3, -2) and x = (5, -3), so Z = 21, and with cells of half a level to each side
# 2 Z lies within 8 of 42. Twice the target is 32; an intercept of level 1 shifts Z.

@pytest.mark.parametrize("intercept, kind", [
    (-1, "inactive"),       # low = 34 - 2 = 32: not below the target
    (-2, "refetched"),      # low = 30
    (-9, "refetched"),      # high = 50 - 18 = 32: one value of the cell is not below the target
    (-10, "active")])       # high = 30
@pytest.mark.parametrize("label", [1, -1])
def test_bounds_are_exact(intercept, kind, label):
    job = refetch_job([[label * 3, label * -2]], [label], [[label * 3, label * -2]],
                      model=words(5, -3), intercept=label * intercept, intercept_level=1)
    model, found, refetched = outcome(job)
    assert refetched == (kind == "refetched")
    if kind == "inactive":
        assert (model, found) == ([5, -3], -label)
    if kind == "active":                        # c = -4 label, on q
        assert (model, found) == ([5 + 12, -3 - 8], label * (-10 + 4))


@pytest.mark.parametrize("intercept, values, mantissa, expected", [
    # 12.5 + 4.5 - 2 = 15 < 16: c = -4, on v
    (-2, (2.5, -1.5), 64, ([5 + 10, -3 - 6], 2)),
    # K = 1: c v = (-2.5, 1.5), and ties go up: (-2, 2)
    (-2, (2.5, -1.5), 16, ([5 + 2, -3 - 2], -1)),
    # 17.5 + 7.5 - 2 = 23: inactive
    (-2, (3.5, -2.5), 64, ([5, -3], -2)),
    # 25 - 9 = 16, exactly the target: inactive, though z = 12 of the codes is not
    (-9, (3.5, -2.5), 64, ([5, -3], -9)),
    # 2^-12 of a level less: active; c v = (-13.999, 10)
    (-9, (3.5 - 2**-12, -2.5), 64, ([5 + 14, -3 - 10], -5)),
])
def test_refetched_row(intercept, values, mantissa, expected):
    job = refetch_job([[3, -2]], [1], [values], model=words(5, -3), intercept=intercept,
                      intercept_level=1, mantissa=mantissa)
    assert outcome(job) == (*expected, 1)


@pytest.mark.parametrize("bits, cell, levels, model, refetched", [
    # 2 Z = 76; nothing is above level 7, so from 76 - 8 to 76 + 3
    (4, 1, (7, 1), (5, 3), range(-23, -18)),
    # 2 Z = -64; x = -5 turns the ends around: from -64 - 3 to -64 + 8
    (4, 1, (7, 1), (-5, 3), range(44, 50)),
    (4, 1, (-7, 1), (5, 3), range(44, 50)),
    # A cell of a whole level to each side: from 76 - 16 to 76 + 6
    (4, 2, (7, 1), (5, 3), range(-25, -14)),
    # One bit: +1 stands for 0 to 1 and -1 for -1 to 0; 2 Z = 4, from 4 - 10 to 4 + 6
    (1, 2, (1, -1), (5, 3), range(11, 19)),
    # and with stochastic rounding for -1 to 1: from 4 - 20 to 4 + 12
    (1, 4, (1, -1), (5, 3), range(8, 24)),
    # A word 0 does not count, even at an end.
    (4, 1, (7, 2), (0, 2), range(11, 13)),      # 2 Z = 8, +- 2
    (4, 1, (0, 2), (0, 2), range(11, 13)),
])
def test_ends_of_the_grid(bits, cell, levels, model, refetched):
    """low < 32 <= high holds for exactly these intercepts."""
    assert list(refetched) == [
        intercept for intercept in range(-60, 60)
        if outcome(refetch_job([levels], [1], [levels], bits=bits, cell=cell, model=words(*model),
                               intercept=intercept, intercept_level=1))[2]]


def test_rows_meet_the_model_of_the_rows_before():
    # Row 1: z = 0, all bounds 0 < 32: active, c = -4, x = (12, -8).
    # Row 2: 2 Z = 2 (12 - 0) within 20: fetched. v = (1.5, 0.25): 18 - 2 = 16, inactive.
    # Row 3: 2 Z = 2 (24 + 8) within 20: from 44, inactive. Row 4 as row 2, v = (1, 0.5): 8,
    # active, c v = (-4, -2), x = (16, -6).
    job = refetch_job([[3, -2], [1, 0], [2, -1], [1, 0]], [1] * 4,
                      [[3, -2], [1.5, 0.25], [2, -1], [1, 0.5]])
    assert outcome(job) == ([16, -6], 0, 2)


def test_refetched_rows_are_rounded_by_their_dither():
    # 2 Z = 36, within the sum of all words: fetched. v x = 15 < 16: active. K = 4.5 is 4, and with
    # the fourth row's dither of 0.601 it is 5: x = 6 + 10 and 6 + 12.5, where ties go down.
    job = refetch_job(3 * np.eye(4, dtype=int), [1] * 4, 2.5 * np.eye(4), mantissa=72,
                      model=words(6, 6, 6, 6))
    assert outcome(job) == ([16, 16, 16, 18], 0, 4)


# Every decision

def cell_of(level, cell, limit):
    """Lowest and highest value, in levels, that a code of this level may have been."""
    half = Fraction(cell, 2)
    return max(level - half, Fraction(-limit)), min(level + half, Fraction(limit))


def margin_of(features, *, model, constant, label):
    """y Z, exactly, of features in levels."""
    return label * (sum(u * x for u, x in zip(features, model, strict=True)) + constant)


def trajectory(job, levels, labels, values):
    """Models of the epochs and refetched rows, from the meaning of refetching; every decision by
    codes is checked against the fine row.
    """
    limit, cell = job.config.rows.level_limit, job.cell_half_levels
    fraction, level = job.config.rows.fine_fraction, job.intercept_level
    model, intercept = [int(word) for word in job.model], job.intercept
    for steps in job.epochs:
        refetched = 0
        for row, label, exact, dither in zip(levels, labels, values,
                                             dithers(steps.key, len(levels)).tolist(), strict=True):
            rounded = derivative_step(job, steps) + dither >> 16
            target = 1 << job.label_shift
            margin = functools.partial(margin_of, model=model, constant=level * intercept,
                                       label=label)
            ends = [cell_of(q, cell, limit) for q in row]
            worst = [low if x * label > 0 else high
                     for (low, high), x in zip(ends, model, strict=True)]
            best = [high if x * label > 0 else low
                    for (low, high), x in zip(ends, model, strict=True)]
            truth = margin([Fraction(v, 1 << fraction) for v in exact]) < target
            if (margin(worst) < target) != (margin(best) < target):
                refetched += 1
                change = [-label * rounded * v for v in exact]
                change = [c + (1 << fraction - 1) >> fraction for c in change]
            else:
                assert (margin(row) < target) == truth
                change = [-label * rounded * q for q in row]
            if truth:
                model = [x - c for x, c in zip(model, change, strict=True)]
                intercept += label * rounded * level
        yield model, intercept, refetched


@given(data=st.data(), bits=st.integers(1, 8), stochastic=st.booleans(),
       n_features=st.integers(1, 6), n_rows=st.integers(1, 12), intercept=st.booleans())
@settings(max_examples=150)
def test_every_row_is_decided_as_its_fine_row(data, bits, stochastic, n_features, n_rows,
                                                   intercept):
    config = PipelineConfig(bits=bits, refetch=True, lookahead=0)
    limit, fine_level = config.rows.level_limit, 1 << config.rows.fine_fraction
    cell = (1 + stochastic) * (1 + (bits == 1))
    drawn = st.sampled_from([-1, 1]) if bits == 1 else st.integers(-limit, limit)
    levels = data.draw(st.lists(st.lists(drawn, min_size=n_features, max_size=n_features),
                                min_size=n_rows, max_size=n_rows))
    values = [[data.draw(st.integers(*(int(end * fine_level) for end in cell_of(q, cell, limit))))
               for q in row] for row in levels]
    labels = data.draw(st.lists(st.sampled_from([1, -1]), min_size=n_rows, max_size=n_rows))
    label_shift = data.draw(st.integers(6, 14))
    reach = (1 << label_shift + 2) // limit
    start = data.draw(st.lists(st.integers(-reach, reach), min_size=n_features + 1,
                               max_size=n_features + 1))
    job = refetch_job(levels, labels, np.array(values) / fine_level, bits=bits, cell=cell,
                      label_shift=label_shift, epochs=2, mantissa=data.draw(st.integers(1, 200)),
                      model=words(*start[1:]), intercept=start[0] * intercept,
                      intercept_level=limit * intercept)
    assert [(epoch.model.tolist(), epoch.intercept, epoch.refetched_rows) for epoch in train(job)] \
        == list(trajectory(job, levels, labels, values))


@pytest.mark.parametrize("bits, cell", [(1, 2), (1, 4), (2, 1), (3, 2), (4, 2), (8, 1)])
def test_decisions_of_many_rows(bits, cell):
    """As above for 400 rows of 8 features, some of them fetched."""
    rng = np.random.default_rng(bits)
    config = PipelineConfig(bits=bits, refetch=True, lookahead=0)
    limit, fine_level = config.rows.level_limit, 1 << config.rows.fine_fraction
    u = rng.uniform(-1, 1, (400, 8))
    labels = np.where(u @ rng.uniform(-1, 1, 8) < 0, -1, 1)
    values = np.rint(u * limit * fine_level).astype(int)
    nearest = np.where(values < 0, -1, 1) if bits == 1 else np.rint(values / fine_level).astype(int)
    job = refetch_job(nearest, labels, values / fine_level, bits=bits, cell=cell, label_shift=24,
                      mantissa=round(0.1 / 8 / limit ** 2 * 2 ** 24), shift=3, epochs=2)
    found = [(epoch.model.tolist(), epoch.intercept, epoch.refetched_rows) for epoch in train(job)]
    assert found == list(trajectory(job, nearest.tolist(), labels.tolist(), values.tolist()))
    assert 0 < found[0][2] < 400
