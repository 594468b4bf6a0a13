# amaranth: UnusedElaboratable=no

import random

import pytest
from support import (
    DITHER_CORNERS,
    NEAREST,
    random_dithers,
    signed_number,
    signed_numbers,
    trace,
)

from bitstep.golden.rounding import fits
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.parts.widths import MAX_SHIFT
from bitstep.pipeline.registers import Loss
from bitstep_hw.pipeline.update.linear_solver import LinearSolver
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once


def row_step(derivative_step, dither):
    """K, of 16 fraction bits, rounded by the dither of a row."""
    return derivative_step + dither >> 16


def solve(rows, *, mantissa, shift, label_shift, loss=Loss.LEAST_SQUARES, derivative_step=0,
          bound=0, idle_rows=0):
    """c of every row, one after the other: the recursion as it is written in docs/pipeline.md,
    the losses as in docs/number-formats.md. A row without a dither is rounded to nearest. The first
    product is with the row ``idle_rows`` + 1 before. Steps of a row's own stand in its ``steps``.
    """
    history = []
    for row in rows:
        own = row.get("steps", {})
        mantissa, bound = own.get("mantissa", mantissa), own.get("bound", bound)
        derivative_step = own.get("derivative_step", derivative_step)
        z = row["dot"] - sum(history[-d] * product
                             for d, product in enumerate(row["products"], start=idle_rows + 1)
                             if d <= len(history))
        target = row["label"] << label_shift
        dither = row.get("dither", NEAREST)
        added = (2 * dither + 1) * 2 ** (8 * shift) // 2 ** 17      # dither + 1/2, in 2^-16
        c = (mantissa * (z - target) + added) // 2 ** (8 * shift)
        active = z < target if target > 0 else z > target
        if loss == Loss.HINGE:
            c = row_step(derivative_step, dither) * (-1 if target > 0 else 1)
        if loss == Loss.HUBER and abs(mantissa * (z - target)) > bound:
            c = row_step(derivative_step, dither) * (1 if z > target else -1)
        counts = loss in (Loss.LEAST_SQUARES, Loss.HUBER) or active
        history.append(c if counts and not row["idle_row"] else 0)
    return history


def record(config, rows, distances, outputs, *, steps_late=0, **constant):
    """Outputs in the cycle in which each row's c leaves, which must be the right one.

    Rows take their dither with their dot product: not idle ones, and none while ``discard`` is 1.

    Parameters
    ----------
    rows : list of dict
        Inputs of each row; ``dot_margin``, ``undecided``, ``replay_alone`` and ``discard`` only
        with refetch. Without ``dither``, a row is rounded to nearest. ``steps``: with
        ``row_weights`` its mantissa, and what comes ``steps_late`` cycles later.
    distances : list of int
        Cycles from the row before.
    """
    starts, now = [], 0
    for distance in distances:
        now += distance
        starts.append(now)
    rng = random.Random(0)
    dotted = config.stages.solver.lead
    decided = dotted + config.stages.solver.cycles - 1
    late = {"overflowed": 1} if config.clock.fast else {}      # cycles after ``o``
    length = now + decided + 1
    cycles = [{"valid": 0, "idle_row": rng.getrandbits(1), "label": rng.getrandbits(31),
               "dot": rng.getrandbits(30), "dither": rng.getrandbits(16),
               "products": signed_numbers(rng, config.rows.gram_width,
                                          config.stages.solver.correlated_rows)}
              for _ in range(length)]
    for start, row in zip(starts, rows, strict=True):
        cycles[start] |= {"valid": 1, "idle_row": row["idle_row"], "label": row["label"]}
        cycles[start + config.stages.solver.products]["products"] = row["products"]
        cycles[start + dotted] |= {"dot": row["dot"], "dither": row.get("dither", NEAREST)}
        for name, cycle in (("dot_margin", dotted), ("undecided", dotted + 1),
                            ("replay_alone", decided), ("discard", decided)):
            if name in row:
                cycles[start + cycle][name] = row[name]
        for name, value in row.get("steps", {}).items():
            cycles[start + (0 if name == "mantissa" else steps_late)][name] = value
    choices = {"steps_late": steps_late} if steps_late else {}
    recorded = trace(once(LinearSolver, config=config, **choices), cycles,
                     ["o_valid", "take", *outputs], **constant)
    discard = 0
    for cycle, (put, found) in enumerate(zip(cycles, recorded, strict=False)):
        discard = put.get("discard", discard)
        row = rows[starts.index(cycle - dotted)] if cycle - dotted in starts else None
        assert found["take"] == (row is not None and not row["idle_row"] and not discard)
    assert not any(found["take"] for found in recorded[length:])
    ends = [cycle for cycle, found in enumerate(recorded) if found["o_valid"]]
    assert ends == [start + decided + 1 for start in starts]
    for name in set(outputs) & {"overflowed", "o_decided", "o_undecided", "o_replay"}:
        at = {end + late.get(name, 0) for end in ends}
        assert not any(found[name] for cycle, found in enumerate(recorded) if cycle not in at), name
    return [tuple(recorded[end + late.get(name, 0)][name] for name in outputs) for end in ends]


def run(config, rows, distances, *, shift, label_shift=0, **constant):
    """What leaves the solver, as (c, overflowed)."""
    return record(config, rows, distances, ["o", "overflowed"], shift=shift,
                  label_shift=label_shift, **constant)


def random_rows(config, rng, count, *, idle=0.0):
    limit = 1 << config.rows.gram_width - 1
    return [{"idle_row": rng.random() < idle, "label": rng.randrange(-30000, 30000),
             "dot": signed_number(rng, config.rows.dot_width), "dither": dither,
             "products": [rng.randrange(-limit, limit) for _ in range(config.lookahead)]}
            for dither in random_dithers(rng, count)]


@pytest.mark.parametrize("loss", [Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE, Loss.HUBER])
@each("spread", [0, 1, 3])
def test_a_row_in_every_cycle(loss, spread):
    """Each with its own label, dither and dot product."""
    config = PipelineConfig(bits=4, max_features=48, lookahead=15, update_interval=1)
    rng = random.Random(f"{loss}-{spread}")
    rows = random_rows(config, rng, 60, idle=0.15)
    for row in rows:
        row["dot"] >>= 12
        row["products"] = []
    steps = {"mantissa": 150, "shift": 2, "label_shift": 3, "loss": loss,
             "derivative_step": (5 << 16) + 40_000, "bound": 150 << 14}
    expected = solve(rows, **steps)
    assert len(set(expected)) > (40 if loss == Loss.LEAST_SQUARES else 2)
    distances = [1 + rng.randint(0, spread) for _ in rows]
    assert run(config, rows, distances, **steps) == [(c, 0) for c in expected]


@each("idle_rows, apart", [(8, 1), (10, 1), (4, 2), (2, 3), (1, 5), (0, 9)])
@each("spread", [0, 1, 5])
def test_rows_that_look_ahead_of_a_batch(idle_rows, apart, spread):
    """They see every c of the rows before the last ``idle_rows``; the nearest is just in time."""
    config = PipelineConfig(bits=4, max_features=48, lookahead=15, update_interval=1,
                            batch_lookahead=5)
    rng = random.Random(f"{idle_rows}-{apart}-{spread}")
    rows = random_rows(config, rng, 60, idle=0.15 if spread else 0.0)
    for row in rows:
        row["products"] = row["products"][:5]
    steps = {"mantissa": 150, "shift": 3, "label_shift": 12, "idle_rows": idle_rows}
    expected = solve(rows, **steps)
    assert any(abs(c) > 1 << 20 for c in expected)
    distances = [3 + apart, *(apart + rng.randint(0, spread) for _ in rows[1:])]
    assert run(config, rows, distances, **steps) == [(c, 0) for c in expected]


@pytest.mark.parametrize("steps_late", [0, 1])
@each("loss", [Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE, Loss.HUBER])
def test_steps_of_each_row_that_looks_ahead(steps_late, loss):
    """Its mantissa as it enters, and its K and bound with it or a cycle later."""
    config = PipelineConfig(bits=4, max_features=48, lookahead=15, update_interval=1,
                            batch_lookahead=2, row_weights=True)
    rng = random.Random(f"{loss}-{steps_late}")
    rows = random_rows(config, rng, 80, idle=0.15)
    for row in rows:
        row["products"] = [rng.randrange(-90, 90) for _ in range(2)]
        row["dot"] >>= 12
        row["steps"] = {"mantissa": rng.randrange(300), "bound": rng.randrange(150 << 14),
                        "derivative_step": rng.randrange(9 << 16),
                        "step_too_large": rng.random() < 0.1}
    expected = solve(rows, mantissa=0, shift=2, label_shift=3, loss=loss, idle_rows=8)
    left = [bool(row["steps"]["step_too_large"] and not row["idle_row"]
                 and loss in (Loss.HINGE, Loss.HUBER)) for row in rows]
    assert len(set(expected)) > (40 if loss == Loss.LEAST_SQUARES else 5)
    found = run(config, rows, [1 + rng.randint(0, 2) for _ in rows], shift=2, label_shift=3,
                loss=loss, idle_rows=8, steps_late=steps_late)
    assert found == list(zip(expected, left, strict=True))


@pytest.mark.by_day(12)
@pytest.mark.covering(2)
@pytest.mark.parametrize("update_interval", [2, 4])
@pytest.mark.parametrize("lookahead", [0, 1, 2, 3, 5, 8])
@pytest.mark.parametrize("spread", [0, 1, 5, 20])
def test_recursion(update_interval, lookahead, spread):
    """Rows at any distance, of at least ``update_interval`` cycles, see every c before them."""
    config = PipelineConfig(bits=4, max_features=48, lookahead=lookahead,
                            update_interval=update_interval)
    rng = random.Random(f"{update_interval}-{lookahead}-{spread}")
    rows = random_rows(config, rng, 40, idle=0.15 if spread else 0.0)
    distances = [update_interval + rng.randint(0, rng.choice([0, 1, spread])) for _ in rows]
    steps = {"mantissa": 150, "shift": 3, "label_shift": 12}
    expected = solve(rows, **steps)
    assert any(abs(c) > 1 << 20 for c in expected)
    assert run(config, rows, distances, **steps) == [(c, 0) for c in expected]


@pytest.mark.parametrize("update_interval", [2, 4])
@each("mantissa, shift", [(1, 1), ((1 << 18) - 1, 2), ((1 << 18) - 1, 7),
                              (0, 1), (3, 5)])
def test_steps(update_interval, mantissa, shift):
    config = PipelineConfig(bits=2, max_features=32, lookahead=3,
                            update_interval=update_interval)
    rng = random.Random(f"{mantissa}-{shift}")
    rows = random_rows(config, rng, 20)
    for row in rows:
        row["dot"] >>= 12
        if mantissa >> 8 * (shift - 1) > 3:     # else the recursion itself would leave the range
            row["products"] = [0] * 3
    steps = {"mantissa": mantissa, "shift": shift, "label_shift": 3}
    expected = solve(rows, **steps)
    assert all(fits(c, 32) for c in expected)
    assert run(config, rows, [update_interval] * 20, **steps) == [(c, 0) for c in expected]


@pytest.mark.parametrize("update_interval", [2, 4])
@each("shift", range(1, MAX_SHIFT + 1))
@each("dither", [0x0100, 0x4200, NEAREST, 0xFF00])
def test_threshold_of_every_shift(update_interval, shift, dither):
    """A value goes up with this dither, not with the one before it; the next smaller value does
    not go up with it either. Beyond 16 bits, half of 2^-16 is added to the dither.
    """
    config = PipelineConfig(bits=8, max_features=4096, lookahead=1,
                            update_interval=update_interval)
    whole = 1 << 8 * shift
    lowest = whole - (dither >> 8 if shift == 1 else (2 * dither + 1 << 8 * shift - 16) // 2)
    mantissa = 1 if shift < 6 else 1 << 17
    assert lowest % mantissa == 0
    rows, expected = [], []
    for times in (0, 2, -1, -3):
        dot = (lowest + times * whole) // mantissa
        for less, before in ((0, 0), (0, 1), (1, 0)):
            rows.append({"idle_row": 0, "label": 0, "dot": dot - less, "products": [0],
                         "dither": dither - before})
            expected.append((times + (not less and not before), 0))
    assert run(config, rows, [update_interval] * len(rows), mantissa=mantissa,
               shift=shift) == expected


@pytest.mark.parametrize("update_interval", [2, 4])
@each("shift", range(1, MAX_SHIFT + 1))
def test_whole_numbers_stay(update_interval, shift):
    config = PipelineConfig(bits=8, max_features=4096, lookahead=1,
                            update_interval=update_interval)
    mantissa = 1 << min(17, 8 * shift)
    one = (1 << 8 * shift) // mantissa
    rows = [{"idle_row": 0, "label": 0, "dot": dot, "products": [0], "dither": dither}
            for dot in (0, one, -one, -5 * one) for dither in DITHER_CORNERS]
    assert run(config, rows, [update_interval] * len(rows), mantissa=mantissa, shift=shift) == [
        (c, 0) for c in (0, 1, -1, -5) for _ in DITHER_CORNERS]


@pytest.mark.parametrize("update_interval", [2, 4])
@each("label_shift", [0, 8, 40])
def test_labels(update_interval, label_shift):
    config = PipelineConfig(bits=8, max_features=4096, lookahead=1,
                            update_interval=update_interval)
    labels = [1, -1, (1 << 10) - 1, -1 << 10]
    rows = [{"idle_row": 0, "label": label, "dot": 5, "products": [0], "dither": dither}
            for label in labels for dither in DITHER_CORNERS]
    steps = {"mantissa": 7, "shift": 4, "label_shift": label_shift}
    assert run(config, rows, [update_interval] * 16,
               **steps) == [(c, 0) for c in solve(rows, **steps)]


@pytest.mark.parametrize("update_interval", [2, 4])
@pytest.mark.parametrize("lookahead", [0, 2])
@each("mantissa, dot, dither, c", [     # c is None: out of range
    (256, 2**31 - 1, 0xFFFF, 2**31 - 1), (256, 2**31, 0, None),
    (256, -2**31, 0, -2**31), (256, -2**31 - 1, 0xFFFF, None),
    (128, 2**32 - 2, 0xFFFF, 2**31 - 1), (128, 2**32 - 1, 0x7FFF, 2**31 - 1),
    (128, 2**32 - 1, 0x8000, None),
    (128, -2**32 - 1, 0x8000, -2**31), (128, -2**32 - 1, 0x7FFF, None),
    (128, -2**32 - 2, 0xFFFF, None),
    (128, 5, 0x7FFF, 2), (128, 5, 0x8000, 3), (128, -5, 0x7FFF, -3), (128, -5, 0x8000, -2),
    (1, 127, 0x80FF, 0), (1, 127, 0x8100, 1), (1, -1, 0x00FF, -1), (1, -1, 0x0100, 0),
    (1, -129, 0x8000, -1), (1, -129, 0x80FF, -1), (1, -129, 0x8100, 0),
])
def test_range_and_rounding(update_interval, lookahead, mantissa, dot, dither, c):
    config = PipelineConfig(bits=4, max_features=80, lookahead=lookahead,
                            update_interval=update_interval)
    row = {"idle_row": 0, "label": 0, "dot": dot, "products": [0] * lookahead, "dither": dither}
    (o, flag), = run(config, [row], [1], mantissa=mantissa, shift=1)
    assert flag == (c is None)
    assert c is None or o == c


def test_idle_row_is_never_out_of_range():
    config = PipelineConfig(bits=4, max_features=80, lookahead=2)
    row = {"idle_row": 1, "label": 0, "dot": 2**40, "products": [0] * 2}
    assert run(config, [row], [1], mantissa=256, shift=1) == [(0, 0)]


@pytest.mark.covering(1)
@pytest.mark.parametrize("update_interval", [2, 4])
@pytest.mark.parametrize("lookahead", [1, 2, 5])
def test_clear_forgets_the_rows_before(update_interval, lookahead):
    config = PipelineConfig(bits=4, max_features=48, lookahead=lookahead,
                            update_interval=update_interval)
    rng = random.Random(update_interval)
    before, after = (random_rows(config, rng, 8) for _ in range(2))
    cycles, dots = [], {}
    for number, rows in enumerate((before, after)):
        for row in rows:
            start = {"valid": 1, **{name: row[name] for name in ("idle_row", "label", "products")}}
            cycles += [start, {"valid": 0}, *[{} for _ in range(update_interval - 2)]]
            dots[len(cycles) - update_interval + config.stages.solver.lead] = \
                {"dot": row["dot"], "dither": row["dither"]}
        if not number:
            cycles += [*[{} for _ in range(12)], {"clear": 1}, {"clear": 0}]
    cycles += [{} for _ in range(config.stages.solver.lead)]
    for cycle, dot in dots.items():
        cycles[cycle] |= dot
    steps = {"mantissa": 150, "shift": 3, "label_shift": 12}
    recorded = trace(once(LinearSolver, config=config), cycles, ["o_valid", "o"], **steps)
    assert [outputs["o"] for outputs in recorded if outputs["o_valid"]] \
        == solve(before, **steps) + solve(after, **steps)


HINGES = (Loss.SQUARED_HINGE, Loss.HINGE)


def sign_rows(config, rng, count, *, label_shift, idle=0.0):
    """Rows with labels +1 and -1, many of them just on one side of the hinge."""
    limit = 1 << 5      # the recursion itself must not leave the range
    rows = []
    for dither in random_dithers(rng, count):
        label = rng.choice([-1, 1])
        near = label * (1 << label_shift) + rng.choice([-1, 0, 1])
        rows.append({"idle_row": rng.random() < idle, "label": label, "dither": dither,
                     "dot": rng.choice([near, signed_number(rng, label_shift + 3)]),
                     "products": [rng.randrange(-limit, limit) for _ in range(config.lookahead)]})
    return rows


@pytest.mark.covering(1)
@pytest.mark.parametrize("update_interval", [2, 4])
@pytest.mark.parametrize("lookahead", [0, 1, 2, 5])
@each("loss", HINGES)
def test_hinge(update_interval, lookahead, loss):
    config = PipelineConfig(bits=4, max_features=48, lookahead=lookahead,
                            update_interval=update_interval)
    rng = random.Random(f"{update_interval}-{lookahead}")
    rows = sign_rows(config, rng, 60, label_shift=18, idle=0.1)
    steps = {"mantissa": 200, "shift": 2, "label_shift": 18, "loss": loss,
             "derivative_step": 75 << 16 | 0x6ACE}
    expected = solve(rows, **steps)
    assert 0 < sum(c == 0 for c in expected) < 50
    assert loss != Loss.HINGE or {abs(c) for c in expected} == {0, 75, 76}
    distances = [update_interval + rng.choice([0, 0, 1, 7]) for _ in rows]
    assert run(config, rows, distances, step_too_large=0, **steps) == [(c, 0) for c in expected]


@pytest.mark.covering(1)
@pytest.mark.parametrize("update_interval", [2, 4])
@pytest.mark.parametrize("lookahead", [0, 1, 2, 5])
def test_huber(update_interval, lookahead):
    """Rows on both sides of their targets, within the bound and beyond it."""
    config = PipelineConfig(bits=4, max_features=48, lookahead=lookahead,
                            update_interval=update_interval)
    rng = random.Random(f"{update_interval}-{lookahead}")
    rows = sign_rows(config, rng, 80, label_shift=18, idle=0.1)
    steps = {"mantissa": 200, "shift": 2, "label_shift": 18, "loss": Loss.HUBER,
             "derivative_step": 600 << 16 | 0x6ACE, "bound": 200 << 18}
    expected = solve(rows, **steps)
    assert {600, 601, -600, -601} < set(expected)
    assert sum(abs(c) < 600 for c in expected) > 15
    distances = [update_interval + rng.choice([0, 0, 1, 7]) for _ in rows]
    assert run(config, rows, distances, step_too_large=0, **steps) == [(c, 0) for c in expected]


@pytest.mark.parametrize("update_interval", [2, 4])
@each("mantissa, bound", [(1, 0), (1, 9), (3, 27), (3, 28), ((1 << 18) - 1, (1 << 55) + 5)])
def test_exactly_at_the_bound(update_interval, mantissa, bound):
    """The mantissa times z - t may be the bound, or its negative, and no more."""
    config = PipelineConfig(bits=4, max_features=48, lookahead=0,
                            update_interval=update_interval)
    edge = bound // mantissa
    rows = [{"idle_row": 0, "label": 5, "dot": (5 << 12) + sign * (edge + beyond), "products": [],
             "dither": dither} for sign in (1, -1) for beyond in (-1, 0, 1)
            for dither in DITHER_CORNERS]
    steps = {"mantissa": mantissa, "shift": 7, "label_shift": 12, "loss": Loss.HUBER,
             "derivative_step": 77 << 16 | 0x8000, "bound": bound}
    expected = solve(rows, **steps)
    beyond = [c for c, row in zip(expected, rows, strict=True)
              if abs(row["dot"] - (5 << 12)) > edge]
    assert {abs(c) for c in beyond} == {77, 78}
    if 0 < bound < 1 << 55:         # what is within rounds to 0 and 1
        assert {77, 78}.isdisjoint(abs(c) for c in expected[:4])
    assert run(config, rows, [update_interval] * len(rows), step_too_large=0, **steps) \
        == [(c, 0) for c in expected]


@pytest.mark.parametrize("update_interval", [2, 4])
@each("loss", HINGES)
@each("mantissa, shift", [(1, 7), ((1 << 18) - 1, 1)])
def test_exactly_at_the_hinge(update_interval, loss, mantissa, shift):
    """y z = 2^label_shift is inactive; one less is active, however small the step."""
    config = PipelineConfig(bits=4, max_features=48, lookahead=0,
                            update_interval=update_interval)
    rows = [{"idle_row": 0, "label": label, "dot": label * ((1 << 12) + beyond), "products": [],
             "dither": dither}
            for label in (1, -1) for beyond in (-1, 0, 1) for dither in DITHER_CORNERS]
    steps = {"mantissa": mantissa, "shift": shift, "label_shift": 12, "loss": loss,
             "derivative_step": 9 << 16 | 0x8000}
    expected = solve(rows, **steps)
    if loss == Loss.HINGE:
        assert expected[:4] == [-9, -9, -10, -10]
        assert expected[12:16] == [9, 9, 10, 10]
    assert expected[4:12] == expected[16:] == [0] * 8
    assert run(config, rows, [update_interval] * 24, **steps) == [(c, 0) for c in expected]


@pytest.mark.parametrize("update_interval", [2, 4])
@each("derivative_step, dither, c", [
    (0, 0xFFFF, 0), (1, 0xFFFE, 0), (1, 0xFFFF, 1), (0xFFFF, 0, 0), (0xFFFF, 1, 1),
    (9 << 16, 0xFFFF, 9), (9 << 16 | 0x7FFF, 0x8000, 9), (9 << 16 | 0x7FFF, 0x8001, 10),
    (((1 << 31) - 1 << 16) - 1, 0, (1 << 31) - 2), (((1 << 31) - 1 << 16) - 1, 1, (1 << 31) - 1)])
@each("label", [1, -1])
def test_rounding_of_the_unit(update_interval, derivative_step, dither, c, label):
    config = PipelineConfig(bits=4, max_features=48, lookahead=0,
                            update_interval=update_interval)
    row = {"idle_row": 0, "label": label, "dot": 0, "products": [], "dither": dither}
    assert run(config, [row], [1], mantissa=3, shift=2, label_shift=12, loss=Loss.HINGE,
               derivative_step=derivative_step) == [(-label * c, 0)]


def test_look_ahead_moves_a_row_across_the_hinge():
    """z = 4096 - 9 G: G = -1 makes an active row inactive, G = 1 the other way round."""
    config = PipelineConfig(bits=4, max_features=48, lookahead=1)
    first = {"idle_row": 0, "label": -1, "dot": 0, "products": [0]}     # active, c = 9
    steps = {"mantissa": 1, "shift": 7, "label_shift": 12, "loss": Loss.HINGE,
             "derivative_step": 9 << 16}
    for dot, product, c in ((4095, -1, 0), (4095, 0, -9), (4096, 0, 0), (4096, 1, -9),
                            (4104, 1, -9), (4105, 1, 0)):
        rows = [first, {"idle_row": 0, "label": 1, "dot": dot, "products": [product]}]
        assert run(config, rows, [2, 2], **steps) == [(9, 0), (c, 0)]


@each("loss, dot, expected", [
    (Loss.HINGE, 0, 1), (Loss.HINGE, 1 << 20, 1),       # K is too large for any row
    (Loss.HUBER, 0, 1), (Loss.HUBER, 1 << 20, 1),
    (Loss.SQUARED_HINGE, 0, 0), (Loss.LEAST_SQUARES, 0, 0),
    (Loss.SQUARED_HINGE, -1 << 40, 1), (Loss.SQUARED_HINGE, 1 << 40, 0),    # inactive: c = 0
    (Loss.LEAST_SQUARES, 1 << 40, 1)])
@each("idle", [0, 1])
def test_range_with_losses(loss, dot, expected, idle):
    config = PipelineConfig(bits=4, max_features=80, lookahead=0)
    row = {"idle_row": idle, "label": 1, "dot": dot, "products": []}
    (_, overflowed), = run(config, [row], [1], mantissa=256, shift=1, label_shift=5, loss=loss,
                          derivative_step=5 << 16, step_too_large=1)
    assert overflowed == (expected and not idle)


@pytest.mark.parametrize("update_interval", [2, 4])
def test_a_clipped_row_is_never_out_of_range(update_interval):
    """What least squares would give it does not fit 32 bits."""
    config = PipelineConfig(bits=4, max_features=80, lookahead=0,
                            update_interval=update_interval)
    rows = [{"idle_row": 0, "label": 0, "dot": sign << 40, "products": []} for sign in (1, -1)]
    assert run(config, rows, [update_interval] * 2, mantissa=256, shift=1, loss=Loss.HUBER,
               bound=256 << 39, derivative_step=7 << 16, step_too_large=0) == [(7, 0), (-7, 0)]


# Refetching

FLAGS = ["o", "o_decided", "o_replay", "o_undecided", "o_positive", "overflowed"]


def refetching(lookahead, update_interval=2):
    return PipelineConfig(bits=4, max_features=48, lookahead=lookahead,
                          update_interval=update_interval, refetch=True)


@pytest.mark.parametrize("update_interval", [2, 4])
@pytest.mark.parametrize("lookahead", [0, 3])
@each("mantissa", [1, (1 << 18) - 1])
def test_rows_that_look_ahead_leaves_open(update_interval, lookahead, mantissa):
    """Open is 2 |z - target| <= dot_margin + lookahead_margin, exactly."""
    config, rng = refetching(lookahead, update_interval), random.Random(update_interval)
    lookahead_margin, rows, expected = (1 << 36) + 1, [], []
    for number, dither in enumerate(random_dithers(rng, 80)):
        label = rng.choice([-1, 1])
        dot_margin = rng.choice([0, 1, (1 << config.rows.dot_margin_width) - 1,
                                 rng.getrandbits(20)])
        beyond = rng.choice([0, 0, 1, rng.getrandbits(30)]) * (number % 2)
        away = (dot_margin + lookahead_margin) // 2 + beyond
        dot = label * (1 << 12) + rng.choice([-1, 1]) * away
        rows.append({"idle_row": number % 10 == 9, "label": label, "dot": dot, "dither": dither,
                     "dot_margin": dot_margin, "products": [0] * lookahead,
                     "undecided": rng.getrandbits(1), "replay_alone": 0, "discard": 0})
        replay = 2 * away <= dot_margin + lookahead_margin
        active = label * dot < 1 << 12
        c = -label * (7 + (dither >= 0x4000)) if active and not replay else 0
        counts = not rows[-1]["idle_row"]
        expected.append((c * counts, counts and not replay, counts and replay, 0, label > 0, 0))
    assert {flags[2] for flags in expected} == {0, 1}
    found = record(config, rows, [update_interval] * 80, FLAGS, mantissa=mantissa, shift=7,
                   label_shift=12, loss=Loss.HINGE, derivative_step=7 << 16 | 0xC000, refetching=1,
                   lookahead_margin=lookahead_margin)
    assert found == expected


@each("refetches", [0, 1])
@pytest.mark.parametrize("update_interval", [2, 4])
def test_what_becomes_of_a_row(refetches, update_interval):
    """Every combination of flags; K that is too large is reported of every row."""
    config, rows, expected = refetching(1, update_interval), [], []
    for number in range(1 << 5):
        replay_alone, discard, undecided, is_open, active = (number >> bit & 1 for bit in range(5))
        dot = (1 << 12) + (-1 if active else 1) * (3 if is_open else 100)
        rows.append({"idle_row": 0, "label": 1, "dot": dot, "dot_margin": 20, "products": [0],
                     "undecided": undecided, "replay_alone": replay_alone, "discard": discard})
        replay = refetches and is_open and not replay_alone and not discard
        refetch = replay_alone and undecided and not discard
        decided = not (discard or replay or refetch)
        expected.append((-7 if active and decided else 0, decided, replay, refetch, 1, 1))
    found = record(config, rows, [update_interval] * len(rows), FLAGS, mantissa=5, shift=7,
                   label_shift=12, loss=Loss.HINGE, derivative_step=7 << 16, step_too_large=1,
                   refetching=refetches, lookahead_margin=30)
    assert found == expected


@each("fate", ["replay", "refetch", "discard"])
def test_later_rows_see_no_update_of_a_row_without_one(fate):
    config = refetching(1)
    first = {"idle_row": 0, "label": 1, "dot": (1 << 12) - 100, "products": [0], "dot_margin": 0,
             "replay_alone": fate == "refetch", "undecided": fate == "refetch",
             "discard": fate == "discard"}
    first["dot_margin"] = 400 if fate == "replay" else 0
    # z = dot + c 2^8 of the first
    second = first | {"dot": (1 << 12) - 10, "products": [-1 << 8], "dot_margin": 0,
                      "replay_alone": 0, "undecided": 0, "discard": 0}
    decided = first | {"dot_margin": 0, "replay_alone": 0, "undecided": 0, "discard": 0}
    options = {"mantissa": 5, "shift": 7, "label_shift": 12, "loss": Loss.HINGE,
               "derivative_step": 7 << 16, "refetching": 1}
    assert record(config, [first, second], [2, 2], ["o"], **options) == [(0,), (-7,)]
    far = second | {"dot": (1 << 12) + 7 * 256 - 1}
    assert record(config, [decided, far], [2, 2], ["o"], **options) == [(-7,), (-7,)]
    far = second | {"dot": (1 << 12) + 7 * 256}
    assert record(config, [decided, far], [2, 2], ["o"], **options) == [(-7,), (0,)]
    assert record(config, [first, far], [2, 2], ["o"], **options) == [(0,), (0,)]


@pytest.mark.parametrize("update_interval", [2, 4])
@each("spread", [0, 1, 5])
def test_unit_of_the_row_that_is_fetched_again(update_interval, spread):
    """Its own dither rounds K, at the closest distance and at random ones."""
    config, rng = refetching(3, update_interval), random.Random(update_interval)
    derivative_step, rows, expected = 1000 << 16 | 0x7654, [], []
    for number, dither in enumerate(random_dithers(rng, 60)):
        rows.append({"idle_row": 0, "label": 1 - 2 * (number % 2), "dot": rng.getrandbits(14),
                     "dither": dither, "dot_margin": 0, "products": [0] * 3, "replay_alone": 1,
                     "undecided": number % 3 != 0, "discard": 0})
        expected.append((number % 3 != 0, row_step(derivative_step, dither)))
    assert {found for _, found in expected} == {1000, 1001}
    distances = [update_interval + rng.randint(0, spread) for _ in rows]
    assert record(config, rows, distances, ["o_undecided", "o_derivative_step"], mantissa=5,
                  shift=7,
                  label_shift=12, loss=Loss.HINGE, derivative_step=derivative_step,
                  refetching=1) == expected


@pytest.mark.parametrize("update_interval", [2, 4])
def test_no_dither_is_taken_under_discard(update_interval):
    """``discard`` counts in the cycle of the dot product; ``record`` checks ``take``."""
    config, rng = refetching(0, update_interval), random.Random(update_interval)
    rows = [{"idle_row": rng.random() < 0.2, "label": 1, "dot": 0, "products": [], "dot_margin": 0,
             "undecided": 0, "replay_alone": 0, "discard": rng.getrandbits(1)} for _ in range(60)]
    distances = [update_interval + rng.choice([0, 0, 1, 9]) for _ in rows]
    found = record(config, rows, distances, ["o", "take"], mantissa=5, shift=7, label_shift=12,
                   loss=Loss.HINGE, derivative_step=7 << 16, refetching=1)
    assert [c for c, _ in found] == [0 if row["discard"] or row["idle_row"] else -7 for row in rows]


@each("name", ["discard", "replay"])
def test_a_row_that_does_not_count_is_never_out_of_range(name):
    config = refetching(0)
    for loss in (Loss.LEAST_SQUARES, Loss.SQUARED_HINGE):
        row = {"idle_row": 0, "label": 1, "dot": -1 << 38, "products": [], "replay_alone": 0,
               "undecided": 0, "discard": name == "discard",
               "dot_margin": (1 << 40) * (name == "replay")}
        (c, flag), = record(config, [row], [1], ["o", "overflowed"], mantissa=256, shift=1,
                            label_shift=5, loss=loss, refetching=1)
        assert (c, flag) == (0, 0)


def solve_centred(rows, *, mantissa, shift, label_shift):
    """:func:`solve` of the squared hinge whose labels hold derivatives at a centre."""
    history = []
    for row in rows:
        z = row["dot"] - sum(history[-d] * product
                             for d, product in enumerate(row["products"], start=1)
                             if d <= len(history))
        positive = row["label"] & 1
        target = (1 if positive else -1) << label_shift
        change = z - target if (z < target if positive else z > target) else 0
        change -= row["label"] >> 1 << label_shift - 16
        added = (2 * row["dither"] + 1) * 2 ** (8 * shift) // 2 ** 17
        history.append(0 if row["idle_row"] else (mantissa * change + added) // 2 ** (8 * shift))
    return history


def centred_config(update_interval, lookahead):
    return PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=64, lookahead=lookahead,
                          update_interval=update_interval)


@pytest.mark.covering(1)
@pytest.mark.parametrize("update_interval", [2, 4])
@pytest.mark.parametrize("lookahead", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("spread", [0, 5])
@pytest.mark.parametrize("label_shift", [16, 25, 40])
def test_derivatives(update_interval, lookahead, spread, label_shift):
    """Rows on both sides of the hinge, at any distance, see every c before them."""
    config = centred_config(update_interval, lookahead)
    rng = random.Random(f"{update_interval}-{lookahead}-{spread}-{label_shift}")
    # c has about 12 bits, and the recursion stays small.
    steps = {"label_shift": label_shift, **{
        16: {"mantissa": (1 << 12) - 5, "shift": 2}, 25: {"mantissa": (1 << 11) + 3, "shift": 3},
        40: {"mantissa": (1 << 12) + 1, "shift": 5}}[label_shift]}
    rows, reach = [], 1 << label_shift - 16
    for dither in random_dithers(rng, 40):
        size = rng.choice([0, rng.getrandbits(17), rng.getrandbits(20)])
        positive = rng.getrandbits(1)
        rows.append({"idle_row": spread and rng.random() < 0.15, "dither": dither,
                     "label": (-2 * size if positive else 2 * size) + positive,
                     "dot": rng.randrange(-3 << label_shift, 3 << label_shift),
                     "products": [rng.randrange(-reach, reach + 1) for _ in range(lookahead)]})
    distances = [update_interval + rng.randint(0, rng.choice([0, 1, spread])) for _ in rows]
    expected = solve_centred(rows, **steps)
    assert all(fits(c, 32) for c in expected)
    assert len(set(expected)) > 20
    assert run(config, rows, distances, loss=Loss.SQUARED_HINGE, derivatives=1, **steps) \
        == [(c, 0) for c in expected]


@pytest.mark.parametrize("update_interval", [2, 4])
@each("size, overflowed", [((1 << 29) - 1, 0), (1 << 29, 1), (5, 0)])
@each("positive", [0, 1])
def test_range_beyond_the_hinge(update_interval, size, overflowed, positive):
    """The derivative alone, times 4, as the update of a row that is not active."""
    config = centred_config(update_interval, 1)
    label = (-2 * size if positive else 2 * size) + positive
    row = {"idle_row": 0, "label": label, "dot": (9 if positive else -9) << 20, "products": [0],
           "dither": NEAREST}
    (found, flag), = run(config, [row], [1], mantissa=4 << 4, shift=1, label_shift=20,
                         loss=Loss.SQUARED_HINGE, derivatives=1)
    exact = 4 * size * (1 if positive else -1)
    assert flag == (not fits(exact, 32))
    assert flag == (overflowed and positive)
    assert flag or found == exact


@pytest.mark.parametrize("update_interval", [2, 4])
@each("c", [-7, 7])
def test_derivative_too_large_of_an_active_row(update_interval, c):
    """Only the update, that of the way to the target less the derivative, must fit."""
    config = centred_config(update_interval, 1)
    row = {"idle_row": 0, "label": (-1 << 30) + 1, "products": [0], "dither": NEAREST,
           "dot": (1 << 20) - (1 << 29 + 4) + 16 * c}
    assert run(config, [row], [1], mantissa=4 << 4, shift=1, label_shift=20,
               loss=Loss.SQUARED_HINGE, derivatives=1) == [(4 * c, 0)]


@pytest.mark.parametrize("update_interval", [2, 4])
@each("label_shift", [16, 17, 30])
def test_derivatives_to_nearest(update_interval, label_shift):
    """Without dither, with the step of a run that writes derivatives; which rows have data, and
    the signs of their labels, come beside the updates.
    """
    config, rng = centred_config(update_interval, 0), random.Random(label_shift)
    left = label_shift - 16
    shift = max(-(-left // 8), 1)
    rows, unit, half = [], 1 << left, 1 << left >> 1
    for dither in random_dithers(rng, 60):
        near = rng.choice([0, rng.randrange(4 << label_shift), half, half - (half > 0), unit - 1])
        away = rng.randrange(1 << 16) * unit + near
        rows.append({"label": rng.choice([1, -1]), "idle_row": rng.random() < 0.2, "products": [],
                     "dither": dither, "dot": (1 << label_shift) - rng.choice([-1, 1]) * away})
    for row in rows:
        row["dot"] *= row["label"]
    names = ["o", "overflowed", "o_with_data", "o_positive"]
    found = record(config, rows, [update_interval] * len(rows), names,
                   mantissa=1 << 8 * shift - left, shift=shift, label_shift=label_shift,
                   loss=Loss.SQUARED_HINGE, to_nearest=1)
    for row, (c, overflowed, with_data, positive) in zip(rows, found, strict=True):
        short = max(0, (1 << label_shift) - row["label"] * row["dot"])
        exact = (-row["label"] * short * 2 + unit) // (2 * unit)
        assert (c, overflowed) == (0 if row["idle_row"] else exact, 0)
        assert (with_data, positive) == (not row["idle_row"], row["label"] > 0)
