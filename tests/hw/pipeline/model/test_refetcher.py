# amaranth: UnusedElaboratable=no

import random
from dataclasses import dataclass, replace
from types import SimpleNamespace

import numpy as np
import pytest
from beside_store import (
    beside_store,
    pairs_of,
    read_words,
    set_shape,
    stop_at,
    write_words,
)
from support import put, put_all_of, signed_number, signed_numbers

from bitstep.golden.integer import IntegerEpoch
from bitstep.golden.steps import Overflowed
from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.pipeline.model.refetcher import Refetcher
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import simulate

CONFIGS = [PipelineConfig(bits=bits, max_features=features, lookahead=0, refetch=True)
           for bits, features in ((8, 24), (3, 63), (1, 128), (2, 64))]
EIGHT, ODD, ONE, _ = CONFIGS
FAST = replace(EIGHT, update_interval=4)
LOWEST, HIGHEST = -1 << 31, (1 << 31) - 1
BASE = 0x12_3456_7000


@dataclass(kw_only=True)
class Case:
    """Rows of fine precision and what else a run is made of; ``words`` has ``capacity`` words."""

    config: PipelineConfig
    n_features: int
    rows: list
    words: list
    intercept: int = 0
    derivative_step: int = 1
    label_shift: int = 0
    level: int = 0

    def memory(self):
        """The rows as 64-bit beats by address (docs/memory-layout.md)."""
        beats = {}
        stride = self.config.rows.fine_words(self.n_features)
        for row, values in enumerate(self.rows):
            packed = np.zeros(stride, "<i2")
            for feature, value in enumerate(values):
                beat, lane = divmod(feature, self.config.rows.lanes)
                packed[beat * self.config.rows.model_lanes + lane] = value
            for at, word in enumerate(packed.view("<u8").tolist()):
                beats[BASE + 2 * stride * row + 8 * at] = word
        return beats

    def epoch(self):
        """The golden model's epoch, before its first row."""
        job = SimpleNamespace(
            config=self.config, intercept_level=self.level, fine_rows=np.array(self.rows, np.int16),
            coefficients=np.zeros(0, np.int32))
        return IntegerEpoch(job, None, np.array(self.words[:self.n_features], np.int64),
                            self.intercept)

    def refetch(self, epoch, row, positive):
        """A row through the golden model; whether it was active, and whether a word overflowed."""
        updates = []

        def hinge(dot, target, dither):
            active = dot < target if positive else dot > target
            step = -self.derivative_step if positive else self.derivative_step
            updates.append(step if active else 0)
            return updates[-1]

        try:
            epoch.refetch(row, (1 if positive else -1) << self.label_shift, 0, hinge)
        except Overflowed:
            return True, True
        return updates[-1] != 0, False


async def prepare(ctx, dut, access, case):
    """Set the constants and the model, and begin an epoch."""
    set_shape(ctx, dut, case.config, case.n_features)
    put_all_of(ctx, dut, {"derivative_step": case.derivative_step, "label_shift": case.label_shift,
                           "intercept_level": case.level, "address": BASE})
    await write_words(ctx, access, case.config, case.words, case.intercept)
    put(ctx, dut.epoch_start, 1)
    await ctx.tick()
    put(ctx, dut.epoch_start, 0)


async def refetch(ctx, dut, memory, positive, *, rng=None, stall=0.0, together=False):
    """Refetch a row; return the cycles from ``start`` to ``done`` and whether a word overflowed.

    The row has passed with its start if ``together``, and else when it is done. K and the label
    count with ``start`` alone.
    """
    rng = rng or random.Random(0)
    update = ctx.get(dut.derivative_step)
    put_all_of(ctx, dut, {"start": 1, "positive": positive, "row_passed": together})
    await ctx.tick()
    put_all_of(ctx, dut, {"start": 0, "positive": not positive, "row_passed": 0,
                           "derivative_step": update ^ rng.getrandbits(31)})
    waiting, overflowed = [], 0
    for cycle in range(1, 20_000):
        put(ctx, dut.job.ready, rng.random() >= stall)
        offered = bool(waiting) and rng.random() >= stall
        put(ctx, dut.i.valid, offered)
        put(ctx, dut.i.payload, waiting[0] if offered else rng.getrandbits(64))
        if offered and ctx.get(dut.i.ready):
            waiting.pop(0)
        if ctx.get(dut.job.valid) and ctx.get(dut.job.ready):
            assert not waiting
            job = ctx.get(dut.job.payload)
            waiting = [memory[job.address + 8 * beat] for beat in range(job.beats)]
        assert ctx.get(dut.busy)
        overflowed |= ctx.get(dut.overflowed)
        done = ctx.get(dut.done)
        put(ctx, dut.row_passed, done and not together)
        await ctx.tick()
        put(ctx, dut.row_passed, 0)
        if done:
            put(ctx, dut.derivative_step, update)
            assert not ctx.get(dut.busy)
            assert not waiting, "not every beat was taken"
            return cycle, bool(overflowed | ctx.get(dut.overflowed))
    raise TimeoutError("The row is not done")


def cycles_of(case, active):
    """Cycles of a row that never waits for its beats."""
    pairs, beats = pairs_of(case.config, case.n_features), case.config.rows.beats(case.n_features)
    waits = beats * (2 if case.config.clock.fast else 1)        # for words of another beat
    return 3 * pairs + 2 * waits + 6 if active else pairs + waits + 6


async def compare(ctx, access, case, epoch):
    """The store must hold the golden model, and nothing else may have changed."""
    found, intercept = await read_words(ctx, access, case.config)
    np.testing.assert_array_equal(found[:case.n_features], epoch.model)
    np.testing.assert_array_equal(found[case.n_features:], case.words[case.n_features:])
    assert intercept == epoch.intercept


def check(case, signs, *, stall=0.0):
    """Rows in order; a sign of None passes by. The last row may overflow.

    Returns whether the rows were active, and whether the last one overflowed.
    """
    dut, m, access = beside_store(Refetcher, case.config)
    outcomes = []

    async def testbench(ctx):
        rng = random.Random(0)
        await prepare(ctx, dut, access, case)
        epoch, memory = case.epoch(), case.memory()
        for row, positive in enumerate(signs):
            if positive is None:
                put(ctx, dut.row_passed, 1)
                await ctx.tick()
                put(ctx, dut.row_passed, 0)
                continue
            active, wrong = case.refetch(epoch, row, positive)
            cycles, overflowed = await refetch(ctx, dut, memory, positive, rng=rng, stall=stall,
                                              together=row % 2 == 1)
            assert overflowed == wrong
            if not stall:
                assert cycles == cycles_of(case, active)
            outcomes.append(active)
            if wrong:
                outcomes.append("overflowed")
                return
            await compare(ctx, access, case, epoch)

    simulate(m, testbench, limit=200_000)
    return outcomes


def model_of(config, n_features, rng, width):
    """A random model of ``capacity`` words, 0 where there is no feature."""
    words = signed_numbers(rng, width, n_features)
    return words + [0] * (config.rows.capacity - n_features)


def values_of(config, count, rng):
    """Values of a row, from -1 to 1."""
    limit = config.rows.level_limit << config.rows.fine_fraction
    return [rng.choice([limit, -limit, 0, 1, -1, *(rng.randint(-limit, limit) for _ in range(5))])
            for _ in range(count)]


@pytest.mark.by_day(10)
@pytest.mark.covering(1)
@pytest.mark.parametrize("config, n_features", [
    *((EIGHT, count) for count in (1, 2, 3, 7, 8, 9, 16, 23, 24)),
    *((ODD, count) for count in (1, 20, 21, 22, 42, 43, 63)),
    *((FAST, count) for count in (1, 8, 9, 23, 24)),
    (ONE, 1), (ONE, 67), (CONFIGS[3], 33),
    *(pytest.param(ONE, count, marks=pytest.mark.slow) for count in (64, 128))],
    ids=lambda value: getattr(value, "name", str(value)))
@pytest.mark.parametrize("stall", [0.0, 0.6])
def test_matches_golden(config, n_features, stall):
    """Rows of either label, some of which pass by, at targets where both sides occur."""
    rng = random.Random(f"{config.name}-{n_features}-{stall}")
    width = 26
    case = Case(config=config, n_features=n_features,
                rows=[values_of(config, n_features, rng) for _ in range(12)],
                words=model_of(config, n_features, rng, width),
                intercept=signed_number(rng, width), derivative_step=rng.getrandbits(18),
                label_shift=width + config.bits - 3, level=rng.randint(0, config.rows.level_limit))
    signs = [rng.choice([True, False, None]) if row else True for row in range(12)]
    outcomes = check(case, signs, stall=stall)
    assert outcomes
    assert "overflowed" not in outcomes


@each("positive", [True, False])
@each("apart", [-1, 0, 1])
def test_a_row_on_the_hinge_is_inactive(positive, apart):
    """y Z' must be less than the target, in units of 2**-F."""
    fraction, sign = EIGHT.rows.fine_fraction, 1 if positive else -1
    target = sign << 10 + fraction
    # The row's part is target + apart - level X_c 2**F.
    case = Case(config=EIGHT, n_features=9, level=3, intercept=5, derivative_step=77,
                label_shift=10,
                rows=[[0] * 8 + [1]], words=[0] * 8 + [target + apart - (15 << fraction)]
                + [0] * 15)
    assert check(case, [positive]) == [sign * apart < 0]


@each("positive", [True, False])
@pytest.mark.parametrize("config", [EIGHT, pytest.param(ONE, marks=pytest.mark.slow)],
                         ids=lambda config: config.name)
@each("word", [LOWEST, HIGHEST])
@each("value", [1, -1])
def test_extreme_sums_fit(config, positive, word, value):
    """The largest sums, with the largest label shift."""
    fine = value * config.rows.level_limit << config.rows.fine_fraction
    case = Case(config=config, n_features=config.rows.capacity,
                rows=[[fine] * config.rows.capacity],
                words=[word] * config.rows.capacity, intercept=word if value > 0 else -1 - word,
                level=config.rows.level_limit, derivative_step=1, label_shift=40)
    total = fine * word * config.rows.capacity \
        + (config.rows.level_limit * case.intercept << config.rows.fine_fraction)
    active = (total if positive else -total) < 1 << 40 + config.rows.fine_fraction
    assert check(case, [positive])[0] == active


@each("positive", [True, False])
@each("value", [(1 << 15) - 1, -1 << 15, 0])
def test_every_value_of_16_bits(positive, value):
    """Values that no encoding makes, with the largest update."""
    case = Case(config=EIGHT, n_features=3, rows=[[value, 1, -1]], words=[0, 1, -1] + [0] * 21,
                derivative_step=(1 << 31) - 1, label_shift=40)
    outcome = check(case, [positive])
    assert outcome == ([True, "overflowed"] if value else [True])


@each("derivative_step, value, change", [
    (1, 128, 1), (1, 127, 0), (1, -128, 0), (1, -129, -1), (3, 128, 2), (3, -128, -1),
    (1, 255, 1), (1, 256, 1), (5, 256, 5), (5, -256, -5)])
def test_rounding_by_hand(derivative_step, value, change):
    """A row of label -1 is subtracted: round(K v / 256), ties towards plus infinity."""
    case = Case(config=EIGHT, n_features=1, rows=[[value]], words=[100] + [0] * 23,
                derivative_step=derivative_step, label_shift=40)
    dut, m, access = beside_store(Refetcher, EIGHT)

    async def testbench(ctx):
        await prepare(ctx, dut, access, case)
        await refetch(ctx, dut, case.memory(), False)
        found, _ = await read_words(ctx, access, EIGHT)
        assert found[0] == 100 - change

    simulate(m, testbench)


@each("positive", [True, False])
@each("feature", [0, 1, 20, 21, 42])
@each("beyond", [0, 1])
def test_words_at_the_end_of_their_range(positive, feature, beyond):
    """The last word that fits and the first that does not, on either end and in either half."""
    n_features, step = 43, 1000
    values = [0] * n_features
    values[feature] = 1 << ODD.rows.fine_fraction
    # An active row of label +1 adds K, one of label -1 subtracts it.
    words = [0] * ODD.rows.capacity
    words[feature] = HIGHEST - step + beyond if positive else LOWEST + step - beyond
    case = Case(config=ODD, n_features=n_features, rows=[values], words=words,
                derivative_step=step, label_shift=40)
    assert check(case, [positive]) == [True, *["overflowed"] * beyond]


@each("positive", [True, False])
@each("beyond", [0, 1])
def test_intercept_at_the_end_of_its_range(positive, beyond):
    step, level = 1000, 127
    change = step * level
    case = Case(config=EIGHT, n_features=1, rows=[[0]], words=[0] * 24, derivative_step=step,
                level=level,
                intercept=HIGHEST - change + beyond if positive else LOWEST + change - beyond,
                label_shift=40)
    assert check(case, [positive]) == [True, *["overflowed"] * beyond]


def test_stop():
    """Stopped in any cycle, the component is idle, and the next epoch starts anew."""
    rng = random.Random(0)
    case = Case(config=EIGHT, n_features=11, rows=[values_of(EIGHT, 11, rng)],
                words=model_of(EIGHT, 11, rng, 20), intercept=55, derivative_step=4321,
                label_shift=30, level=3)
    dut, m, access = beside_store(Refetcher, EIGHT)
    cycles = cycles_of(case, True)

    async def testbench(ctx):
        memory = case.memory()
        for cycle in range(1, cycles + 1):
            await prepare(ctx, dut, access, case)
            put_all_of(ctx, dut, {"start": 1, "positive": 0})
            await ctx.tick()
            # The job is taken or not, and any beats come.
            put_all_of(ctx, dut, {"start": 0})
            put(ctx, dut.job.ready, cycle % 2)
            put(ctx, dut.i.valid, 1)
            put(ctx, dut.i.payload, rng.getrandbits(64))
            await stop_at(ctx, dut, cycle)
            assert not ctx.get(dut.job.valid)
            put(ctx, dut.job.ready, 0)
            put(ctx, dut.i.valid, 0)
            await prepare(ctx, dut, access, case)
            epoch = case.epoch()
            case.refetch(epoch, 0, True)
            assert (await refetch(ctx, dut, memory, True)) == (cycles, False)
            await compare(ctx, access, case, epoch)

    simulate(m, testbench, limit=100_000)


def test_start_just_after_a_stop():
    """Products that were under way do not count for the row after."""
    words = [1 << 20, -1 << 20, 12345] + [0] * 21
    case = Case(config=EIGHT, n_features=2, rows=[[3, 1], [-500, 20]], words=words,
                derivative_step=1, label_shift=5)
    dut, m, access = beside_store(Refetcher, EIGHT)

    async def testbench(ctx):
        memory = case.memory()
        for cycle in range(1, 8):
            await prepare(ctx, dut, access, case)
            put_all_of(ctx, dut, {"start": 1, "positive": 1})
            await ctx.tick()
            put_all_of(ctx, dut, {"start": 0})
            put(ctx, dut.job.ready, 1)
            put(ctx, dut.i.valid, 1)
            put(ctx, dut.i.payload, 0x8001)    # would make the row active
            await stop_at(ctx, dut, cycle)
            put(ctx, dut.i.valid, 0)
            epoch = case.epoch()
            active, _ = case.refetch(epoch, 0, True)
            assert await refetch(ctx, dut, memory, True) == (cycles_of(case, active), False)
            await compare(ctx, access, case, epoch)

    simulate(m, testbench)
