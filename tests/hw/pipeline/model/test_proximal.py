# amaranth: UnusedElaboratable=no

import random

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
from support import put, put_all_of, signed_numbers

from bitstep.golden.steps import proximal_step
from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.pipeline.model.proximal import Proximal
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import simulate

CONFIGS = [PipelineConfig(bits=8, max_features=24, proximal=True),
           PipelineConfig(bits=3, max_features=63, proximal=True),
           PipelineConfig(bits=8, max_features=24, proximal=True, update_interval=4)]
LOWEST, HIGHEST = -1 << 31, (1 << 31) - 1


async def step(ctx, dut):
    """Make a step and return the cycles from ``start`` to ``done``."""
    put(ctx, dut.start, 1)
    await ctx.tick()
    put(ctx, dut.start, 0)
    for cycle in range(1, 1000):
        assert ctx.get(dut.busy)
        done = ctx.get(dut.done)
        await ctx.tick()
        if done:
            assert not ctx.get(dut.busy)
            return cycle
    raise TimeoutError("The step does not end")


def expected_words(config, n_features, words, threshold, limit):
    """The model after a step: pairs without a feature stay as they are."""
    place = np.arange(config.rows.capacity)
    held = place < n_features + n_features % config.rows.lanes % 2
    last = (n_features - 1) // config.rows.lanes
    held[n_features:] &= place[n_features:] // config.rows.lanes == last
    return np.where(held, proximal_step(np.array(words), threshold, limit), words)


def check(config, n_features, steps):
    """Steps of (words, threshold, limit), each on a model of its own."""
    dut, m, access = beside_store(Proximal, config)
    pairs = pairs_of(config, n_features)

    async def testbench(ctx):
        set_shape(ctx, dut, config, n_features)
        for words, threshold, limit in steps:
            put_all_of(ctx, dut, {"threshold": threshold, "limit": limit})
            await write_words(ctx, access, config, words, -12345)
            cycles = await step(ctx, dut)
            # Words of another beat take a cycle to come, two with a fast clock.
            per_beat = 2 if config.clock.fast else 1
            assert cycles == 2 * pairs + config.rows.beats(n_features) * per_beat
            found, intercept = await read_words(ctx, access, config)
            np.testing.assert_array_equal(
                found, expected_words(config, n_features, words, threshold, limit))
            assert intercept == -12345

    simulate(m, testbench, limit=20_000)


@each("threshold, limit", [
    (0, HIGHEST), (0, 0), (0, 1), (0, HIGHEST - 1), (1, HIGHEST), (1, 0), (5, 7), (5, 1),
    (HIGHEST, HIGHEST), (HIGHEST, 0), (HIGHEST, 1), (HIGHEST - 1, 1), (1 << 30, 1 << 30)])
def test_extremes(threshold, limit):
    words = [LOWEST, LOWEST + 1, HIGHEST, HIGHEST - 1, 0, 1, -1, 2, -2]
    for bound in (threshold, limit, threshold + limit):
        words += [sign * word for word in (bound - 1, bound, bound + 1) for sign in (1, -1)
                  if 0 <= word <= HIGHEST]
    words = (words * 3)[:48]
    check(CONFIGS[0], 24, [(words[at:at + 24], threshold, limit) for at in (0, 24)])


@pytest.mark.by_day(12)
@pytest.mark.parametrize("config, n_features", [
    *((CONFIGS[0], count) for count in (1, 2, 3, 7, 8, 9, 16, 23, 24)),
    *((CONFIGS[1], count) for count in (1, 2, 20, 21, 22, 41, 42, 43, 63)),
    *((CONFIGS[2], count) for count in (1, 8, 9, 23, 24))],
    ids=lambda value: getattr(value, "name", str(value)))
def test_matches_golden(config, n_features):
    """Only pairs with features change, and nothing else does."""
    rng = random.Random(n_features)
    check(config, n_features, [
        (signed_numbers(rng, 32, config.rows.capacity), rng.getrandbits(rng.randint(0, 31)),
         rng.getrandbits(rng.randint(0, 31))) for _ in range(3)])


def test_steps_one_after_the_other():
    """A step on what the step before wrote, as soon as it is done."""
    config, (threshold, limit) = CONFIGS[1], (1000, 1 << 29)
    dut, m, access = beside_store(Proximal, config)
    words = signed_numbers(random.Random(0), 32, config.rows.capacity)

    async def testbench(ctx):
        set_shape(ctx, dut, config, 43)
        put_all_of(ctx, dut, {"threshold": threshold, "limit": limit})
        await write_words(ctx, access, config, words, 0)
        expected = words
        for _ in range(3):
            await step(ctx, dut)
            expected = expected_words(config, 43, expected, threshold, limit)
        found, _ = await read_words(ctx, access, config)
        np.testing.assert_array_equal(found, expected)

    simulate(m, testbench)


def test_stop():
    """Stopped in any cycle, the component is idle, and the next step is whole."""
    config, n_features = CONFIGS[0], 11
    dut, m, access = beside_store(Proximal, config)
    words = signed_numbers(random.Random(0), 32, config.rows.capacity)
    cycles = 2 * pairs_of(config, n_features) + config.rows.beats(n_features)

    async def testbench(ctx):
        set_shape(ctx, dut, config, n_features)
        put_all_of(ctx, dut, {"threshold": 7, "limit": 1 << 20})
        for cycle in range(1, cycles + 1):
            await write_words(ctx, access, config, words, 0)
            put(ctx, dut.start, 1)
            await ctx.tick()
            put(ctx, dut.start, 0)
            await stop_at(ctx, dut, cycle)
            await write_words(ctx, access, config, words, 0)
            assert await step(ctx, dut) == cycles
            found, _ = await read_words(ctx, access, config)
            np.testing.assert_array_equal(
                found, expected_words(config, n_features, words, 7, 1 << 20))

    simulate(m, testbench, limit=20_000)
