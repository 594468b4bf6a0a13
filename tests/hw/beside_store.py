"""A model store whose words a component under test and the testbench share."""

import functools

import numpy as np
from amaranth import Module
from amaranth.lib import wiring
from support import put, read_model, ticks, write_model

from bitstep.pipeline.parts.widths import ceil_div
from bitstep_hw.pipeline.model.store import ModelStore
from bitstep_hw.pipeline.model.words import ModelWords, lend
from bitstep_sim.testing.harness import Elaborated


@functools.lru_cache(maxsize=8)
def beside_store(component, config):
    """A component of this class and a store, connected as in the pipeline.

    Returns
    -------
    component, module, words
        ``words`` are the store's, for a testbench that uses them while the component is not busy.
    """
    m = Module()
    m.submodules.dut = dut = component(config=config)
    m.submodules.store = store = ModelStore(config=config)
    words = ModelWords(config=config).create(path=("outer",))
    wiring.connect(m, words, store.words)
    lend(m, store.words, dut)
    return dut, Elaborated(m), words


def set_shape(ctx, dut, config, n_features):
    """Set ``beats`` and ``last_lanes`` of a component."""
    beats = config.rows.beats(n_features)
    put(ctx, dut.beats, beats)
    put(ctx, dut.last_lanes, n_features - (beats - 1) * config.rows.lanes)


def pairs_of(config, n_features):
    """Pairs of weights that hold features."""
    full = config.rows.beats(n_features) - 1
    return full * config.rows.model_lanes // 2 + ceil_div(n_features - full * config.rows.lanes, 2)


async def write_words(ctx, words, config, model, intercept):
    """Write ``capacity`` weights and the intercept."""
    await write_model(ctx, words, config, np.reshape(model, (-1, config.rows.lanes)), intercept)


async def read_words(ctx, words, config):
    """The store's ``capacity`` weights as an array, and the intercept."""
    model, intercept = await read_model(ctx, words, config, config.rows.max_beats)
    return np.ravel(model).astype(np.int64), intercept


async def stop_at(ctx, dut, cycle):
    """Stop a component ``cycle`` cycles after ``start``; it must be idle at once."""
    await ticks(ctx, cycle - 1)
    put(ctx, dut.stop, 1)
    await ctx.tick()
    put(ctx, dut.stop, 0)
    assert not ctx.get(dut.busy)
    assert not ctx.get(dut.words.write)
