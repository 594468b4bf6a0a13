# amaranth: UnusedElaboratable=no

import random

import pytest
from support import NEAREST, random_dithers, signed_numbers, trace

from bitstep.golden.dither import round_dithered
from bitstep.golden.rounding import round_shift
from bitstep.golden.sigmoid import fine_sigmoid, sigmoid
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.parts.stages import FINE_STAGES
from bitstep_hw.pipeline.update.logistic_solver import LogisticSolver
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once

CYCLES = 6


def make_config(lookahead=0, **changes):
    return PipelineConfig(**{"bits": 4, "max_features": 80, "lookahead": lookahead,
                             "update_interval": CYCLES, "loss_family": "logistic"} | changes)


MAX_STEP = ((1 << 31) - 1 << 16) - 1


def update(z, *, label, derivative_step, label_shift, dither):
    """c of a row, as docs/number-formats.md has it; ``derivative_step`` has 16 fraction bits."""
    exact = derivative_step * sigmoid(round_shift(-label * z, label_shift - 12))
    return -label * ((exact + (2 * dither + 1) * 2 ** 15) // 2 ** 32)   # dither + 1/2, in 2^-16


def rows_for(margins, config, rng, *, derivative_step, label_shift, idle=0.0, idle_rows=0):
    """Rows that meet these z, whatever the rows before did, and the c that they must give. The
    first product is with the row ``idle_rows`` + 1 before.
    """
    largest = (derivative_step >> 16) + 1
    reach = max(1, (1 << config.rows.dot_width - 3) // largest // max(config.lookahead, 1))
    limit = min(1 << config.rows.gram_width - 1, reach)
    rows, history = [], []
    for z, dither in zip(margins, random_dithers(rng, len(margins)), strict=True):
        products = [rng.randrange(-limit, limit)
                    for _ in range(config.stages.solver.correlated_rows)]
        seen = history[:max(len(history) - idle_rows, 0)]
        dot = z + sum(c * product
                      for c, product in zip(reversed(seen), products, strict=False))
        assert abs(dot) < 1 << config.rows.dot_width - 1
        row = {"idle_row": rng.random() < idle, "label": rng.choice([1, -1]), "dot": dot,
               "products": products, "dither": dither}
        rows.append(row)
        history.append(0 if row["idle_row"] else
                       update(z, label=row["label"], derivative_step=derivative_step,
                              label_shift=label_shift, dither=dither))
    return rows, history


def run(config, rows, distances, **constant):
    """What leaves the solver, as (c, overflowed). Rows that are not idle take their dither with
    their dot product.
    """
    starts, now, lead = [], 0, config.stages.solver.lead
    for distance in distances:
        now += distance
        starts.append(now)
    rng = random.Random(0)
    cycles = [{"valid": 0, "idle_row": rng.getrandbits(1), "label": rng.choice([1, -1]),
               "dot": rng.getrandbits(30), "dither": rng.getrandbits(16),
               "products": signed_numbers(rng, config.rows.gram_width,
                                          config.stages.solver.correlated_rows)}
              for _ in range(now + lead + 1)]
    for start, row in zip(starts, rows, strict=True):
        cycles[start] |= {"valid": 1, "idle_row": row["idle_row"], "label": row["label"]}
        cycles[start + config.stages.solver.products]["products"] = row["products"]
        cycles[start + lead] |= {"dot": row["dot"], "dither": row.get("dither", NEAREST)}
    recorded = trace(once(LogisticSolver, config=config), cycles,
                     ["o_valid", "o", "overflowed", "take"], **constant)
    assert [cycle for cycle, outputs in enumerate(recorded) if outputs["take"]] == [
        start + lead for start, row in zip(starts, rows, strict=True) if not row["idle_row"]]
    ends = [cycle for cycle, outputs in enumerate(recorded) if outputs["o_valid"]]
    latency = lead + config.stages.solver.cycles
    assert ends == [start + latency for start in starts]
    assert not any(outputs["overflowed"] for outputs in recorded if not outputs["o_valid"])
    return [(recorded[end]["o"], recorded[end]["overflowed"]) for end in ends]


@each("spread", [0, 1, 3])
def test_a_row_in_every_cycle(spread):
    """Each with its own label and dither, without a row before that it would see."""
    config = make_config(14, update_interval=1)
    rng = random.Random(spread)
    steps = {"derivative_step": (123_456_789 << 16) + 12_345, "label_shift": 20}
    margins = [rng.randrange(-9 << 20, 9 << 20) for _ in range(60)]
    rows, expected = rows_for(margins, config, rng, idle=0.15, **steps)
    distances = [1 + rng.randint(0, spread) for _ in rows]
    assert len(set(expected)) > 40
    assert run(config, rows, distances, **steps) == [(c, 0) for c in expected]


@each("idle_rows, apart", [(12, 1), (14, 1), (6, 2), (1, 7), (0, 13)])
@each("spread", [0, 1, 5])
def test_rows_that_look_ahead_of_a_batch(idle_rows, apart, spread):
    """They see every c of the rows before the last ``idle_rows``."""
    config = make_config(19, update_interval=1, batch_lookahead=4)
    rng = random.Random(f"{idle_rows}-{apart}-{spread}")
    steps = {"derivative_step": (123_456_789 << 16) + 12_345, "label_shift": 20}
    margins = [rng.randrange(-9 << 20, 9 << 20) for _ in range(60)]
    rows, expected = rows_for(margins, config, rng, idle=0.15 if spread else 0.0,
                              idle_rows=idle_rows, **steps)
    distances = [3 + apart, *(apart + rng.randint(0, spread) for _ in rows[1:])]
    assert len(set(expected)) > 40
    assert run(config, rows, distances, idle_rows=idle_rows, **steps) == [
        (c, 0) for c in expected]


@pytest.mark.parametrize("lookahead", [0, 1, 2, 3, 5, 8])
@each("spread", [0, 1, 5, 20])
def test_recursion(lookahead, spread):
    """Rows at any distance, of at least six cycles, see every c before them."""
    config = make_config(lookahead)
    rng = random.Random(f"{lookahead}-{spread}")
    steps = {"derivative_step": (123_456_789 << 16) + 12_345, "label_shift": 20}
    margins = [rng.randrange(-9 << 20, 9 << 20) for _ in range(60)]
    rows, expected = rows_for(margins, config, rng, idle=0.15 if spread else 0.0, **steps)
    distances = [CYCLES + rng.randint(0, rng.choice([0, 1, spread])) for _ in rows]
    assert len(set(expected)) > 40
    assert run(config, rows, distances, **steps) == [(c, 0) for c in expected]


@pytest.mark.parametrize("config", [
    make_config(3, bits=1), make_config(2, bits=8), make_config(2, bits=32, row_format="float32"),
    make_config(4, bits=5, row_format="two_levels")], ids=lambda config: config.name)
@each("derivative_step", [0, 1, 70_000, 70_000 << 16 | 0x7FFF, MAX_STEP])
@each("shift_from_widest", [0, 8])
def test_widths(config, derivative_step, shift_from_widest):
    """Every row format and size of K, with margins up to the width of a dot product."""
    rng = random.Random(f"{config.name}-{derivative_step}")
    label_shift = min(config.rows.max_label_shift, config.rows.dot_width - 6) - shift_from_widest
    steps = {"derivative_step": derivative_step, "label_shift": label_shift}
    limit = 1 << config.rows.dot_width - 2
    margins = [limit - 1, -limit, *(rng.randrange(-limit, limit) >> rng.randint(0, 12)
                                    for _ in range(30))]
    rows, expected = rows_for(margins, config, rng, **steps)
    assert run(config, rows, [CYCLES] * len(rows), **steps) == [(c, 0) for c in expected]


@pytest.mark.parametrize("label_shift, labels", [
    (13, 1), (20, 1), *(pytest.param(label_shift, 2, marks=pytest.mark.slow)
                        for label_shift in (13, 14, 20, 33))])
def test_corner_arguments(label_shift, labels):
    """Both sides of every node, of the ends of the table and of the ties in rounding; rows have
    either label in turn, or both.
    """
    one = 1 << label_shift
    half = one >> 13                        # half a unit of the argument
    nodes = [node * one // 4 for node in range(-33, 34)]
    margins = [node + off for node in nodes
               for off in (0, 1, -1, half, -half, half + 1, half - 1, -half - 1, 1 - half)]
    margins += [0, 1, -1, 8 * one - half, half - 8 * one, 9 * one, -9 * one,
                (1 << 38) - 1, -1 << 38, 16 * one, -16 * one, 32 * one + 5, -32 * one - 5]
    steps = {"derivative_step": MAX_STEP, "label_shift": label_shift}
    rows, _ = rows_for(margins, config := make_config(), random.Random(0), **steps)
    rows = [row | {"label": label} for number, row in enumerate(rows)
            for label in ((1, -1) if labels == 2 else (1 - number % 2 * 2,))]
    expected = [(update(row["dot"], label=row["label"], dither=row["dither"], **steps), 0)
                for row in rows]
    assert run(config, rows, [CYCLES] * len(rows), **steps) == expected


@each("label", [1, -1])
@each("derivative_step, dither, c", [
    # sigmoid(0) = 1/2: K / 2, rounded before the sign
    (4 << 16, 0, 2), (4 << 16, 0xFFFF, 2), (5 << 16, 0x7FFF, 2), (5 << 16, 0x8000, 3),
    (1 << 16, 0x7FFF, 0), (1 << 16, 0x8000, 1), (0, 0, 0), (0, 0xFFFF, 0),
    # K = 2^-16: half of 2^-16, which the middle of the last dither's interval meets
    (1, 0xFFFE, 0), (1, 0xFFFF, 1), (2, 0xFFFE, 0), (2, 0xFFFF, 1), (3, 0xFFFE, 1),
    (3, 0xFFFD, 0),
    # 2^30 - 1/2 - 2^-17, and a dither stands for 2^-17 more than its bits
    (MAX_STEP, 0x7FFF, (1 << 30) - 1), (MAX_STEP, 0x8000, 1 << 30)])
def test_by_hand(derivative_step, dither, label, c):
    row = {"idle_row": 0, "label": label, "dot": 0, "products": [], "dither": dither}
    assert run(make_config(), [row], [1], derivative_step=derivative_step,
               label_shift=18) == [(-label * c, 0)]


@each("idle_row", [0, 1])
def test_unit_too_large(idle_row):
    row = {"idle_row": idle_row, "label": 1, "dot": 7, "products": [0]}
    (c, overflowed), = run(make_config(1), [row], [1], derivative_step=9 << 16, step_too_large=1,
                          label_shift=13)
    assert overflowed == (not idle_row)
    assert c == 0 or not idle_row


@pytest.mark.parametrize("lookahead", [1, 2, 5])
def test_clear_forgets_the_rows_before(lookahead):
    config, rng = make_config(lookahead), random.Random(lookahead)
    steps = {"derivative_step": (1 << 40) + 5, "label_shift": 18}
    halves = [rows_for([rng.randrange(-1 << 20, 1 << 20) for _ in range(6)], config, rng, **steps)
              for _ in range(2)]
    cycles = []
    for number, (rows, _) in enumerate(halves):
        for row in rows:
            start = {"valid": 1, **{name: row[name] for name in ("idle_row", "label", "products")}}
            dot = {"valid": 0, "dot": row["dot"], "dither": row["dither"]}
            cycles += [start, dot, *[{}] * (CYCLES - 2)]
        if not number:
            cycles += [*[{}] * 8, {"clear": 1}, {"clear": 0}]
    recorded = trace(once(LogisticSolver, config=config), cycles, ["o_valid", "o"], **steps)
    assert [outputs["o"] for outputs in recorded if outputs["o_valid"]] \
        == halves[0][1] + halves[1][1]


def test_wrong_solver():
    with pytest.raises(ValueError, match=r"^Solver must be 'logistic', not 'linear'$"):
        LogisticSolver(config=PipelineConfig(bits=4))


@pytest.mark.parametrize("lookahead", [0, 3])
@each("derivative_step", [1, 70_000 << 16 | 0x7FFF, MAX_STEP])
@each("derivatives", [0, 1])
def test_derivatives(lookahead, derivative_step, derivatives):
    """A label that is a derivative at a centre is subtracted from that of the row."""
    config = make_config(lookahead, row_format=BIT_PLANES, bits=16)
    rng = random.Random(f"{lookahead}-{derivative_step}")
    margins = [rng.randrange(-9 << 20, 9 << 20) for _ in range(30)] + [40 << 20, -40 << 20] * 2
    rows, expected = [], []
    for z, dither in zip(margins, random_dithers(rng, len(margins)), strict=True):
        sign = rng.choice([1, -1])
        size = rng.choice([0, 1 << 16, rng.randrange(1 << 16)])
        row = {"idle_row": 0, "dot": z, "products": [0] * lookahead, "dither": dither,
               "label": -2 * sign * size + (sign > 0) if derivatives else sign}
        rows.append(row)
        change = -sign * (sigmoid(round_shift(-sign * z, 20 - 12)) - size)
        expected.append((derivative_step * change + (2 * dither + 1) * 2 ** 15) // 2 ** 32
                        if derivatives else update(
                            z, label=sign, derivative_step=derivative_step, label_shift=20,
                            dither=dither))
    assert run(config, rows, [CYCLES] * len(rows), derivative_step=derivative_step,
               label_shift=20, derivatives=derivatives) == [(c, 0) for c in expected]


@each("idle", [0.0, 0.3])
def test_full_pass(idle):
    """With ``fine`` updates have the finer sigmoid, and come later."""
    config = make_config(2, row_format=BIT_PLANES, bits=16)
    rng, steps = random.Random(str(idle)), {"derivative_step": 70_000 << 16, "label_shift": 20}
    rows, expected, cycles = [], [], []
    for dither in random_dithers(rng, 40):
        z, sign, idle_row = rng.randrange(-9 << 20, 9 << 20), rng.choice([1, -1]), \
            rng.random() < idle
        rows.append({"idle_row": idle_row, "label": sign, "dot": z, "products": [0, 0],
                     "dither": dither})
        exact = steps["derivative_step"] * fine_sigmoid(round_shift(-sign * z, 20 - 16))
        expected.append(0 if idle_row else -sign * round_dithered(exact, 40, dither))
        cycles += [{"valid": 1, "idle_row": idle_row, "label": sign, "products": [0, 0]},
                   {"valid": 0, "dot": z, "dither": dither}, {}, {}, {}, {}]
    recorded = trace(once(LogisticSolver, config=config), cycles, ["o_valid", "o"], fine=1, **steps)
    ends = [cycle for cycle, outputs in enumerate(recorded) if outputs["o_valid"]]
    assert ends == [6 * row + 1 + 7 + FINE_STAGES for row in range(40)]
    assert [recorded[end]["o"] for end in ends] == expected


def test_rows_beside_their_updates():
    """Which rows have data, and the signs of their labels."""
    config, rng = make_config(0, row_format=BIT_PLANES, bits=16), random.Random(3)
    rows, cycles = [(rng.getrandbits(1), rng.choice([1, -1])) for _ in range(30)], []
    for idle_row, label in rows:
        cycles += [{"valid": 1, "idle_row": idle_row, "label": label}, {"valid": 0}, *[{}] * 4]
    recorded = trace(once(LogisticSolver, config=config), cycles,
                     ["o_valid", "o_with_data", "o_positive"], derivative_step=1, label_shift=20)
    assert [(outputs["o_with_data"], outputs["o_positive"])
            for outputs in recorded if outputs["o_valid"]] \
        == [(1 - idle_row, label > 0) for idle_row, label in rows]
