# amaranth: UnusedElaboratable=no

import random
from dataclasses import replace

import numpy as np
import pytest
from support import load_coefficients, put, put_all_of, signed_numbers, take, ticks

from bitstep.golden.rounding import fits
from bitstep.golden.steps import correction
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.parts.widths import MAX_SHIFT
from bitstep_hw.pipeline.model.corrections import CorrectionEngine
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate

CONFIGS = [
    PipelineConfig(bits=8, max_features=24),
    PipelineConfig(bits=3, max_features=63),                    # 21 lanes, 11 groups of 2
    PipelineConfig(bits=1, max_features=128),                   # 64 lanes, 16 groups of 4
    PipelineConfig(bits=3, bus_width=128, max_features=84),     # 42 lanes, 10 groups of 4 and 2
    PipelineConfig(bits=7, bus_width=512, max_features=73),     # 73 lanes, 12 groups of 6 and 2
    PipelineConfig(bits=4, max_features=40, lookahead=3, update_interval=4),
    PipelineConfig(bits=4, max_features=40, lookahead=3, update_interval=1),
]
BIT_PLANE_CONFIGS = [PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=40, lookahead=1,
                                update_interval=cycles) for cycles in (2, 4)]
OVERHEAD = 12       # a bound of the cycles of a walk that are not its groups


async def sample(ctx, dut, words):
    """A row of slots, one a cycle, with the words to sample a cycle after they are answered."""
    slots = [{"valid": 1, "sample": 1, "index": index, "first": index == 0,
              "last": index == len(words) - 1} for index in range(len(words))]
    late = dut.answer + 1
    wait = dut.config.stages.corrections.wait       # until they are stored
    for now in range(len(words) + late + wait):
        put(ctx, dut.slot, slots[now] if now < len(slots) else {"valid": 0})
        if late <= now < len(words) + late:
            put(ctx, dut.sampled, words[now - late])
        await ctx.tick()


async def corrections(ctx, dut, beats):
    """The corrections of each beat, as slots get them."""
    found = []
    for index in range(beats):
        put(ctx, dut.slot, {"valid": 1, "correct": 1, "index": index})
        await ctx.tick()
        put(ctx, dut.slot, {"valid": 0})
        await ticks(ctx, dut.answer - 1)
        found.append(take(ctx, dut.correction))
    return found


async def walk(ctx, dut, limit=500):
    """Wait for ``done``; cycles, and whether a correction did not fit."""
    overflowed = 0
    for cycle in range(limit):
        overflowed |= ctx.get(dut.overflowed)
        if ctx.get(dut.done):
            return cycle, bool(overflowed | ctx.get(dut.overflowed))
        await ctx.tick()
    raise TimeoutError(f"The walk took more than {limit} cycles")


def expected(words, coefficients, steps):
    flat = np.ravel(words)
    return correction(flat, coefficients, steps).reshape(np.shape(words)).tolist()


@pytest.mark.by_day(4)
@pytest.mark.parametrize("config", [*CONFIGS, replace(CONFIGS[0], update_interval=4)],
                         ids=lambda config: config.name)
@each("mantissa, shift", [(1, 1), ((1 << 18) - 1, 5), (777, 3), (0, 1),
                          ((1 << 18) - 1, 7), (1 << 17, 2), (70_001, 4),
                          ((1 << 18) - 1, 6)])
def test_corrections(config, mantissa, shift):
    rng = random.Random(f"{config.name}-{mantissa}-{shift}")
    dut = once(CorrectionEngine, config=config)
    steps = EpochSteps(1, 1, mantissa, shift)
    largest = max(mantissa << 17 >> 8 * shift, 1).bit_length()

    async def testbench(ctx):
        put_all_of(ctx, dut, {"mantissa": mantissa, "shift": shift})
        for beats in (config.rows.max_beats, 1, config.rows.max_beats):
            coefficients = np.array(signed_numbers(rng, 18, beats * config.rows.lanes))
            await load_coefficients(ctx, dut, config, coefficients)
            put(ctx, dut.beats, beats)
            words = [signed_numbers(rng, 32 - largest, config.rows.lanes) for _ in range(beats)]
            await sample(ctx, dut, words)
            cycles, overflowed = await walk(ctx, dut)
            assert cycles <= beats * dut.groups + OVERHEAD
            assert not overflowed
            assert await corrections(ctx, dut, beats) == expected(words, coefficients, steps)

    simulate(dut, testbench)


def correct(word, coefficient, mantissa, shift):
    """The correction of one word; None if it does not fit."""
    config = CONFIGS[1]
    dut, lane, found = once(CorrectionEngine, config=config), 20, []

    async def testbench(ctx):
        put_all_of(ctx, dut, {"mantissa": mantissa, "shift": shift, "beats": 1})
        await load_coefficients(ctx, dut, config, np.array([0] * lane + [coefficient]))
        await sample(ctx, dut, [[0] * lane + [word]])
        _, overflowed = await walk(ctx, dut)
        words = (await corrections(ctx, dut, 1))[0]
        assert overflowed or words[:lane] == [0] * lane
        found.append(None if overflowed else words[lane])

    simulate(dut, testbench)
    return found[0]


@each("word, coefficient, mantissa", [
    (3, 1, 128), (5, -1, 128), (-3, 1, 128), (1, 127, 1), (1, 128, 1), (-1, 128, 1), (-1, 129, 1),
    ((1 << 31) - 1, 1, 256), (-1 << 31, 1, 256), (-1 << 31, -1, 256), (1 << 30, 2, 256),
    (-1 << 30, 2, 256), (-1 << 30, -2, 256), ((1 << 31) - 1, (1 << 17) - 1, (1 << 18) - 1),
    (-1 << 31, -1 << 17, (1 << 18) - 1), (-1 << 31, (1 << 17) - 1, (1 << 18) - 1)])
def test_rounding_and_range(word, coefficient, mantissa):
    (exact,) = expected([[word]], np.array([coefficient]), EpochSteps(1, 1, mantissa, 1))[0]
    assert correct(word, coefficient, mantissa, 1) == (exact if fits(exact, 32) else None)


@pytest.mark.parametrize("config", CONFIGS[:3] + CONFIGS[5:], ids=lambda config: config.name)
def test_range_of_every_lane(config):
    """A correction that does not fit is found in whichever lane of whichever beat it is, and one
    that just fits is not.
    """
    dut, beats = once(CorrectionEngine, config=config), config.rows.max_beats
    coefficients = np.full(beats * config.rows.lanes, 2)

    async def testbench(ctx):
        put_all_of(ctx, dut, {"mantissa": 256, "shift": 1, "beats": beats})
        await load_coefficients(ctx, dut, config, coefficients)
        for lane in range(config.rows.lanes):
            for word in (1 << 30, -1 << 30):        # twice it is 2^31 or -2^31
                words = [[0] * config.rows.lanes for _ in range(beats)]
                words[lane % beats][lane] = word
                await sample(ctx, dut, words)
                _, overflowed = await walk(ctx, dut)
                assert overflowed == (word > 0), f"lane {lane}"
                await ctx.tick()

    simulate(dut, testbench, limit=50_000)


def test_a_load_that_was_cut_off():
    """The next one begins at the first word of the first group."""
    config = CONFIGS[2]
    dut, rng = once(CorrectionEngine, config=config), random.Random(0)
    coefficients = np.array(signed_numbers(rng, 10, config.rows.lanes))
    words = [signed_numbers(rng, 20, config.rows.lanes)]

    async def testbench(ctx):
        put_all_of(ctx, dut, {"mantissa": 5, "shift": 1, "beats": 1})
        for pairs in (1, 2, 3, config.rows.lanes // 2 - 1):
            put_all_of(ctx, dut, {"load": 1, "load_i": 77})
            await ticks(ctx, pairs)
            put(ctx, dut.load, 0)
            await load_coefficients(ctx, dut, config, coefficients)
            await sample(ctx, dut, words)
            await walk(ctx, dut)
            assert await corrections(ctx, dut, 1) \
                == expected(words, coefficients, EpochSteps(1, 1, 5, 1))

    simulate(dut, testbench, limit=5000)


@each("shift", range(1, MAX_SHIFT + 1))
def test_ties_of_every_shift(shift):
    """Halves go up, whatever is shifted away."""
    bits = 8 * shift - 1
    mantissa, coefficient = 1 << min(17, bits), 1 << max(0, min(16, bits - 17))
    half = (1 << bits) // (mantissa * coefficient)
    for word, rounded in ((3 * half, 2), (3 * half - 1, 1), (-3 * half, -1), (-3 * half - 1, -2)):
        assert correct(word, coefficient, mantissa, shift) == rounded


def test_rows_that_are_not_sampled_do_not_start_a_walk():
    config = CONFIGS[0]
    dut = once(CorrectionEngine, config=config)

    async def testbench(ctx):
        put(ctx, dut.beats, 1)
        put(ctx, dut.slot, {"valid": 1, "first": 1, "last": 1})
        for _ in range(60):
            await ctx.tick()
            assert not ctx.get(dut.done)

    simulate(dut, testbench)


@pytest.mark.parametrize("config",
                         [CONFIGS[0], replace(CONFIGS[0], update_interval=4), CONFIGS[2],
                                    CONFIGS[5]], ids=lambda config: config.name)
def test_stop(config):
    """A walk that was stopped is never done, and the next one is right, whichever group it was."""
    dut, rng = once(CorrectionEngine, config=config), random.Random(config.name)
    beats = config.rows.max_beats
    coefficients = np.array(signed_numbers(rng, 10, beats * config.rows.lanes))
    words = [signed_numbers(rng, 20, config.rows.lanes) for _ in range(beats)]

    async def testbench(ctx):
        put_all_of(ctx, dut, {"mantissa": 5, "shift": 1, "beats": beats})
        await load_coefficients(ctx, dut, config, coefficients)
        for after in range(0, beats * dut.groups - 1, 1 if dut.groups < 5 else 3):
            await sample(ctx, dut, words)
            await ticks(ctx, after)
            put(ctx, dut.stop, 1)
            for _ in range(40):
                await ctx.tick()
                assert not ctx.get(dut.done)
            put(ctx, dut.stop, 0)
            await ticks(ctx, 3)
            await sample(ctx, dut, words)
            await walk(ctx, dut)
            assert await corrections(ctx, dut, beats) \
                == expected(words, coefficients, EpochSteps(1, 1, 5, 1))

    simulate(dut, testbench, limit=50_000)


async def load_constants(ctx, dut, config, constants, intercept):
    """Load constants after the coefficients."""
    put(ctx, dut.load_constants, 1)
    await load_coefficients(ctx, dut, config, constants)
    put_all_of(ctx, dut, {"load_intercept": 1, "load_i": intercept & 0xFFFF_FFFF})
    await ctx.tick()
    put_all_of(ctx, dut, {"load_intercept": 0, "load_constants": 0})


@pytest.mark.parametrize("config", BIT_PLANE_CONFIGS, ids=lambda config: config.name)
@each("mantissa, shift", [((1 << 18) - 1, 7), (777, 3), (70_001, 4), (255, 1),
                          ((1 << 17) + 1, 3), ((1 << 18) - 1, 5)])
def test_constants(config, mantissa, shift):
    rng = random.Random(f"{config.name}-{mantissa}-{shift}")
    dut, steps = once(CorrectionEngine, config=config), EpochSteps(1, 1, mantissa, shift)
    gain = mantissa.bit_length() - 8 * shift        # bits

    async def testbench(ctx):
        put_all_of(ctx, dut, {"mantissa": mantissa, "shift": shift})
        for beats in (config.rows.max_beats, 1, config.rows.max_beats):
            put(ctx, dut.beats, beats)
            n_words = beats * config.rows.lanes
            coefficients = np.array(signed_numbers(rng, min(max(10 - gain, 2), 18), n_words))
            *constants, intercept = signed_numbers(rng, min(12 - gain, 32), n_words + 1)
            constants = np.array(constants)
            await load_coefficients(ctx, dut, config, coefficients)
            await load_constants(ctx, dut, config, constants, intercept)
            words = [signed_numbers(rng, 20, config.rows.lanes) for _ in range(beats)]
            await sample(ctx, dut, words)
            cycles, overflowed = await walk(ctx, dut)
            assert cycles <= beats * dut.groups + OVERHEAD
            assert not overflowed
            flat = np.ravel(words)
            assert await corrections(ctx, dut, beats) == correction(
                flat, coefficients, steps, constants).reshape(np.shape(words)).tolist()
            none = np.zeros(1, np.int64)
            assert ctx.get(dut.intercept) == correction(none, none, steps, none + intercept)[0]

    simulate(dut, testbench)


@pytest.mark.parametrize("config", BIT_PLANE_CONFIGS, ids=lambda config: config.name)
def test_range_of_constants(config):
    """A constant that makes a correction too large is found, in every lane and for the intercept.
    """
    dut, beats = once(CorrectionEngine, config=config), config.rows.max_beats
    steps = {"mantissa": 1 << 15, "shift": 4}       # a correction is twice the constant
    words = [[0] * config.rows.lanes for _ in range(beats)]

    async def testbench(ctx):
        put_all_of(ctx, dut, {**steps, "beats": beats})
        await load_coefficients(ctx, dut, config, np.zeros(beats * config.rows.lanes, np.int64))
        for place in [*range(0, beats * config.rows.lanes, 3), "intercept"]:
            for value in (1 << 30, -1 << 30):
                constants = np.zeros(beats * config.rows.lanes, np.int64)
                if place != "intercept":
                    constants[place] = value
                await load_constants(ctx, dut, config, constants,
                                     value if place == "intercept" else 5)
                await sample(ctx, dut, words)
                _, overflowed = await walk(ctx, dut)
                assert overflowed == (value > 0), place
                await ctx.tick()

    simulate(dut, testbench, limit=50_000)


@pytest.mark.parametrize("config", BIT_PLANE_CONFIGS, ids=lambda config: config.name)
@each("beats", [1, 2, 3])
def test_high_halves(config, beats):
    """In a run that sums, every slot reads what the slot before with its index has written, also
    in the cycle in which it is written, and no walk begins.
    """
    dut, rng = once(CorrectionEngine, config=config), random.Random(beats)
    distance = max(beats, 4 if config.clock.fast else 2)
    stored, slots, expected, written = {}, {}, {}, {}
    for row in range(12):
        for index in range(beats):
            now = row * distance + index
            slots[now] = {"valid": 1, "index": index, "first": index == 0,
                          "last": index == beats - 1}
            if row:
                expected[now + dut.answer] = stored[index]
            stored[index] = signed_numbers(rng, 32, config.rows.lanes)
            written[now + dut.answer + 1] = stored[index]

    async def testbench(ctx):
        put_all_of(ctx, dut, {"sums": 1, "beats": beats})
        for now in range(12 * distance + 8):
            put(ctx, dut.slot, slots.get(now, {"valid": 0, "index": 0}))
            if now in written:
                put(ctx, dut.sampled, written[now])
            if now in expected:
                assert take(ctx, dut.correction) == expected[now], now
            await ctx.tick()
            assert not ctx.get(dut.done)
        for index in range(beats):      # read between slots
            put(ctx, dut.index, index)
            await ticks(ctx, dut.answer)
            assert take(ctx, dut.correction) == stored[index]

    simulate(dut, testbench)
