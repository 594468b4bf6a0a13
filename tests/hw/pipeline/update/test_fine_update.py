# amaranth: UnusedElaboratable=no

import random

from support import random_dithers, trace

from bitstep.golden.dither import round_dithered
from bitstep.golden.rounding import round_shift
from bitstep.golden.sigmoid import fine_sigmoid
from bitstep.golden.steps import MAX_DERIVATIVE_STEP
from bitstep_hw.pipeline.update.fine_update import LATENCY, FineUpdate
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once

WIDTH = 60
# A step of more bits than a mantissa has is never so large.
MAX_STEP = MAX_DERIVATIVE_STEP - (1 << 29)


def run(rows, **constant):
    """c of rows, one every 6 cycles, whose inputs change when they need not stay any more."""
    rng, cycles = random.Random(0), []
    for margin, positive, dither in rows:
        row = {"valid": 1, "margin": margin, "positive": positive, "dither": dither}
        cycles += [row, {"valid": 0, "positive": rng.getrandbits(1),
                         "dither": rng.getrandbits(16)}, *[{}] * 4]
    recorded = trace(once(FineUpdate, margin_width=WIDTH), cycles, ["o"], **constant)
    return [recorded[6 * number + LATENCY]["o"] for number in range(len(rows))]


def expected(rows, derivative_step, label_shift):
    """c by the golden model's parts."""
    return [(-1 if positive else 1) * round_dithered(
        derivative_step * fine_sigmoid(round_shift(margin, label_shift - 16)), 40, dither)
        for margin, positive, dither in rows]


@each("label_shift", [17, 20, 40])
@each("derivative_step", [1, 70_000 << 16 | 0x7FFF, MAX_STEP])
def test_margins(label_shift, derivative_step):
    """Both sides of nodes, of the ends of the range and of ties in rounding, and any others."""
    rng, unit = random.Random(f"{label_shift}-{derivative_step}"), 1 << label_shift - 16
    corners = [place * unit + (unit >> 1) + near for near in (-1, 0, 1) for place in (
        -(16 << 16), (16 << 16) - 1, (16 << 16) - 2, -1, 0, 5 << 14, (5 << 14) - 1, -7 << 13)]
    margins = [*corners, (1 << WIDTH - 1) - 1, -1 << WIDTH - 1,
               *(rng.randrange(-17 << label_shift, 17 << label_shift) for _ in range(60)),
               *(rng.randrange(-2 << label_shift, 2 << label_shift) for _ in range(60))]
    rows = [(margin, rng.getrandbits(1), dither)
            for margin, dither in zip(margins, random_dithers(rng, len(margins)), strict=True)]
    found = run(rows, derivative_step=derivative_step, label_shift=label_shift)
    assert found == expected(rows, derivative_step, label_shift)
    assert derivative_step == 1 or len(set(found)) > 60


@each("positive, dither, c", [
    (0, 0x0000, 1), (0, 0x7FFF, 1), (0, 0x8000, 2), (1, 0x8000, -2), (1, 0x7FFF, -1)])
def test_by_hand(positive, dither, c):
    """sigmoid(0) is 1/2; of a step of 3 it is rounded by the dither, magnitude first."""
    assert run([(0, positive, dither)], derivative_step=3 << 16, label_shift=30) == [c]
