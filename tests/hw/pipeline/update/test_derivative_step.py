# amaranth: UnusedElaboratable=no

import random
from dataclasses import replace

from support import put_all_of, take, ticks

from bitstep.golden.steps import derivative_step
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.parts.widths import MAX_SHIFT
from bitstep.pipeline.registers import Loss
from bitstep_hw.pipeline.update.derivative_step import DerivativeStep
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import simulate
from bitstep_sim.testing.random_jobs import random_job

LARGEST = (1 << 18) - 1
JOB = random_job(PipelineConfig(bits=32, row_format="float32"), n_features=1, n_rows=1,
                 loss=Loss.HINGE)


HUBER = random_job(JOB.config, n_features=1, n_rows=1, loss=Loss.HUBER)


def expected(mantissa, shift, label_shift, bound=0):
    """K of the golden model, with 16 fraction bits; None if it is too large."""
    job = replace(HUBER, derivative_bound=bound) if bound else JOB
    exact = derivative_step(replace(job, label_shift=label_shift), EpochSteps(mantissa, shift))
    return exact if exact < (1 << 31) - 1 << 16 else None


def run(cases):
    """K of each case, taken two cycles after its inputs; None if it is too large."""
    results, dut = [], DerivativeStep()

    async def testbench(ctx):
        for mantissa, shift, label_shift in cases:
            put_all_of(ctx, dut, {"mantissa": mantissa, "shift": shift,
                                  "label_shift": label_shift})
            await ticks(ctx, 2)
            results.append(None if take(ctx, dut.too_large) else take(ctx, dut.value))

    simulate(dut, testbench, limit=3 * len(cases) + 10)
    return results


@each("shift", range(1, MAX_SHIFT + 1))
def test_every_shift(shift):
    """Every label shift, with mantissas of every length, so on both sides of 0 and of 2^47."""
    cases = [(mantissa, shift, label_shift)
             for label_shift in range(JOB.config.rows.max_label_shift + 1)
             for mantissa in (0, 1, 3, 128, 1 << 17, LARGEST)]
    wanted = [expected(*case) for case in cases]
    assert 0 in wanted
    assert shift == MAX_SHIFT or None in wanted
    assert run(cases) == wanted


@each("stages", [1, 2])
@each("decoded", [False, True])
def test_bounds(stages, decoded):
    """K of the Huber loss and the bound of its products, a case a cycle, but B a cycle before the
    rest; a bound beyond its bits is the largest number.
    """
    rng, width, found = random.Random(1), 40, []
    cases = [(LARGEST, 1, 0, (1 << 26) - 1), (LARGEST, 7, 40, (1 << 26) - 1), (1, 1, 0, 1),
             (1, 1, 39, 1), (1, 1, 40, 1), (0, 3, 20, 77), (5, 1, 12, 0)]
    cases += [(rng.getrandbits(rng.randint(1, 18)), rng.randint(1, MAX_SHIFT), rng.randint(0, 40),
               rng.getrandbits(rng.randint(1, 26))) for _ in range(300)]
    dut = DerivativeStep(bound_width=width, product_stages=stages, decoded=decoded)
    bounds = [bound for *_, bound in cases]

    async def testbench(ctx):
        put_all_of(ctx, dut, {"factor": bounds[0]})
        await ticks(ctx, 1)
        later = [*bounds[1:], *[1] * dut.latency]
        for (mantissa, shift, label_shift, _), bound in zip(
                cases + cases[:dut.latency - 1], later, strict=False):
            put_all_of(ctx, dut, {"mantissa": mantissa, "shift": shift, "label_shift": label_shift,
                                  "factor": bound})
            await ticks(ctx, 1)
            found.append((None if take(ctx, dut.too_large) else take(ctx, dut.value),
                          take(ctx, dut.bound)))

    simulate(dut, testbench, limit=4 * len(cases) + 10)
    del found[:dut.latency - 1]
    assert found == [(expected(*case), min(case[0] * max(case[3], 1) << case[2], (1 << width) - 1))
                     for case in cases]
    assert any(k is None for k, _ in found)


def test_random():
    rng = random.Random(0)
    cases = [(rng.getrandbits(rng.randint(1, 18)), rng.randint(1, MAX_SHIFT),
              rng.randint(0, JOB.config.rows.max_label_shift)) for _ in range(500)]
    assert run(cases) == [expected(*case) for case in cases]


@each("mantissa, shift, label_shift, wanted", [
    (1, 1, 7, 1 << 15), (1, 3, 7, 1), (1, 3, 6, 0),         # a tie goes up
    (3, 3, 7, 2), (5, 4, 15, 3), (LARGEST, 1, 0, LARGEST << 8), (LARGEST, 2, 0, LARGEST),
    (LARGEST, 3, 24 + 13, LARGEST << 29),                   # 2^47 - 2^29
    (1 << 17, 3, 24 + 14, None),                            # 2^47
    (1 << 17, 4, 0, 2), (LARGEST, 5, 7, 2), (LARGEST, 6, 14, 1), (LARGEST, 6, 13, 0),
    (1, 1, 38, 1 << 46), (1, 1, 39, None), (1, 7, 62, 1 << 22), (LARGEST, 1, 62, None),
])
def test_by_hand(mantissa, shift, label_shift, wanted):
    assert expected(mantissa, shift, label_shift) == wanted
    assert run([(mantissa, shift, label_shift)]) == [wanted]
