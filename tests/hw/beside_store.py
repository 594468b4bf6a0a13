"""A model store whose access a unit under test and the bench share."""

from types import SimpleNamespace

import numpy as np
from amaranth import Module, Mux, Signal
from support import put, read_model, ticks, write_model

from bitstep.pipeline.config import ceil_div
from bitstep_hw.pipeline.model.store import ModelStore


def beside_store(config, unit):
    """The unit and a store, connected as in the pipeline.

    Returns
    -------
    module, access
        ``access`` has a store's ``access`` ports, which count while the unit is not busy.
    """
    m = Module()
    m.submodules.unit = unit
    m.submodules.store = store = ModelStore(config=config)
    access = SimpleNamespace()
    for name in ("index", "pair", "shown", "write", "intercept", "i"):
        port = getattr(store, f"access_{name}")
        outer = Signal(port.shape(), name=f"outer_{name}")
        inner = getattr(unit, {"i": "o", "shown": "pair"}.get(name, name), 0)
        m.d.comb += port.eq(Mux(unit.busy, inner, outer))
        setattr(access, f"access_{name}", outer)
    access.access_o = store.access_o
    m.d.comb += unit.data.eq(store.access_o)
    return m, access


def set_shape(ctx, unit, config, n_features):
    """Set ``beats`` and ``last_lanes`` of a unit."""
    beats = config.beats(n_features)
    put(ctx, unit.beats, beats)
    put(ctx, unit.last_lanes, n_features - (beats - 1) * config.lanes)


def pairs_of(config, n_features):
    """Pairs of model words that hold features."""
    full = config.beats(n_features) - 1
    return full * config.model_lanes // 2 + ceil_div(n_features - full * config.lanes, 2)


async def write_words(ctx, access, config, words, intercept):
    """Write ``capacity`` model words and the intercept."""
    await write_model(ctx, access, config, np.reshape(words, (-1, config.lanes)), intercept)


async def read_words(ctx, access, config):
    """The store's ``capacity`` model words as an array, and the intercept."""
    model, intercept = await read_model(ctx, access, config, config.max_beats)
    return np.ravel(model).astype(np.int64), intercept


async def stop_at(ctx, unit, cycle):
    """Stop a unit that was started, ``cycle`` cycles after ``start``; it must be idle at once."""
    await ticks(ctx, cycle - 1)
    put(ctx, unit.stop, 1)
    await ctx.tick()
    put(ctx, unit.stop, 0)
    assert not ctx.get(unit.busy)
    assert not ctx.get(unit.write)
