# amaranth: UnusedElaboratable=no
"""Solvers whose updates have few bits are golden's, at every distance of rows."""

import random

import pytest
from support import random_dithers, signed_number, trace

from bitstep.golden.dither import round_floating
from bitstep.golden.rounding import fits, round_shift
from bitstep.golden.sigmoid import sigmoid
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.stages import ROUNDING_STAGES
from bitstep.pipeline.registers import Loss
from bitstep_hw.pipeline.update.linear_solver import LinearSolver
from bitstep_hw.pipeline.update.logistic_solver import LogisticSolver
from bitstep_sim.testing.cases import each

MAX_STEP = ((1 << 31) - 1 << 16) - 1


def random_rows(rng, count, dots, label):
    """Rows, one in seven of them without data."""
    return [{"idle_row": int(rng.random() < 1 / 7), "label": label(), "dot": dots(),
             "dither": dither} for dither in random_dithers(rng, count)]


def decide_by_the_last_bit(row, value, shift):
    """Give a row a dither with which the first bit behind it rounds the value up."""
    row["dither"] = 0xFFFF - (value << 16 >> shift & 0xFFFF)


def run(dut, rows, rng, **constant):
    """What leaves a solver for rows at random distances, as (c, overflowed)."""
    config = dut.config
    quiet = {"valid": 0, "idle_row": 1, "label": -1, "dot": 77, "dither": 0xFFFF}
    starts, cycles = [], []
    for _ in rows:
        cycles += [dict(quiet) for _ in range(rng.choice([0, 0, 1, 5]))]
        starts.append(len(cycles))
        cycles += [dict(quiet) for _ in range(config.update_interval)]
    cycles += [dict(quiet) for _ in range(config.stages.solver.lead)]
    for start, row in zip(starts, rows, strict=True):
        cycles[start] |= {"valid": 1, "idle_row": row["idle_row"], "label": row["label"]}
        cycles[start + config.stages.solver.lead] |= {"dot": row["dot"], "dither": row["dither"]}
    found = trace(dut, cycles, ["o_valid", "o", "overflowed"], **constant)
    late = config.stages.solver.lead + config.stages.solver.cycles + ROUNDING_STAGES
    assert [cycle for cycle, outputs in enumerate(found) if outputs["o_valid"]] \
        == [start + late for start in starts]
    return [(found[start + late]["o"], found[start + late]["overflowed"]) for start in starts]


def check(found, rows, expected):
    """Updates that fit; a flag beside all others."""
    for (c, overflowed), row, update in zip(found, rows, expected, strict=True):
        update = 0 if row["idle_row"] else update
        assert overflowed == (not fits(update, 32))
        assert overflowed or c == update
    assert len(set(expected)) > 1


@pytest.mark.covering(2)
@pytest.mark.parametrize("update_interval", [2, 4])
@pytest.mark.parametrize("bits", [0, 2, 7, 16])
@pytest.mark.parametrize("loss", [Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE, Loss.HUBER])
@pytest.mark.parametrize("mantissa, shift", [(150, 3), ((1 << 18) - 1, 1), ((1 << 18) - 1, 7)])
def test_linear(update_interval, bits, loss, mantissa, shift):
    config = PipelineConfig(bits=4, max_features=48, lookahead=3, rounded_updates=True,
                            update_interval=update_interval)
    rng = random.Random(f"{update_interval}-{bits}-{loss}-{shift}")
    label_shift, derivative_step = 20, rng.choice([MAX_STEP, 70_000 << 16 | 0x7FFF])
    bound = mantissa << 30
    rows = random_rows(rng, 40, lambda: signed_number(rng, config.rows.dot_width - 1) >> rng.choice(
        [0, 0, 8, 15, 25]), lambda: rng.choice([-1, 1]))
    expected = []
    for number, row in enumerate(rows):
        target = row["label"] << label_shift
        change = row["dot"] - target
        if number % 3 == 0:
            decide_by_the_last_bit(row, mantissa * change, 8 * shift)
        update = round_floating(mantissa * change, 8 * shift, row["dither"], bits)
        if loss == Loss.HINGE:
            update = -row["label"] * round_floating(derivative_step, 16, row["dither"], bits)
        if loss == Loss.HUBER and abs(mantissa * change) > bound:
            update = round_floating(derivative_step, 16, row["dither"], bits)
            update = update if change > 0 else -update
        active = change < 0 if target > 0 else change > 0
        expected.append(update if active or loss in (Loss.LEAST_SQUARES, Loss.HUBER) else 0)
    found = run(LinearSolver(config=config), rows, rng, mantissa=mantissa, shift=shift,
                label_shift=label_shift, loss=loss, update_bits=bits,
                derivative_step=derivative_step, bound=bound)
    check(found, rows, expected)


@pytest.mark.parametrize("bits", [0, 2, 7, 16])
@each("derivative_step", [0xC000, 70_000 << 16 | 0x7FFF, MAX_STEP])
def test_logistic(bits, derivative_step):
    config = PipelineConfig(bits=4, max_features=80, lookahead=2, rounded_updates=True,
                            update_interval=6, loss_family="logistic")
    rng = random.Random(f"{bits}-{derivative_step}")
    rows = random_rows(rng, 60, lambda: rng.randrange(-9 << 20, 9 << 20),
                       lambda: rng.choice([-1, 1]))
    expected = []
    for number, row in enumerate(rows):
        exact = derivative_step * sigmoid(round_shift(-row["label"] * row["dot"], 20 - 12))
        if number % 3 == 0:
            decide_by_the_last_bit(row, exact, 32)
        expected.append(-row["label"] * round_floating(exact, 32, row["dither"], bits))
    found = run(LogisticSolver(config=config), rows, rng, label_shift=20, update_bits=bits,
                derivative_step=derivative_step)
    check(found, rows, expected)
