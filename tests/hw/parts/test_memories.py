# amaranth: UnusedElaboratable=no

import pytest
from amaranth import Module, Signal
from amaranth.back import rtlil
from amaranth.lib import memory

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.parts import memories
from bitstep_hw.pipeline.pipeline import Pipeline

FAST = PipelineConfig(bits=4, max_features=32, lookahead=1, update_interval=4)
SLOW = PipelineConfig(bits=4, max_features=32, lookahead=1, update_interval=2)
UNDEFINED = "COLLISION_X_MASK 1'1"


def rtl_of(*stores):
    """RTLIL of memories, each with a port that writes and one that reads."""
    m, ports = Module(), []
    for number, (name, attrs, options) in enumerate(stores):
        inner = Module()
        m.submodules[f"part_{number}"] = inner
        inner.submodules[name] = store = memory.Memory(shape=8, depth=4, init=[], attrs=attrs)
        read, write = store.read_port(**options), store.write_port()
        m.d.comb += (o := Signal(8, name=f"o_{number}")).eq(read.data)
        inputs = [Signal(2, name=f"from_{number}"), Signal(2, name=f"to_{number}")]
        m.d.comb += [read.addr.eq(inputs[0]), write.addr.eq(inputs[1]), write.en.eq(1)]
        ports += [o, *inputs]
    return rtlil.convert(m, ports=ports, name="design", emit_src=False)


def test_only_marked_memories_change():
    marked = memories.attributes(FAST)
    rtl = rtl_of(("store", {}, {}), ("store", marked, {}), ("queue", {}, {"domain": "comb"}),
                 ("other", marked, {}))
    found = memories.with_undefined_collisions(rtl)
    assert found.count(UNDEFINED) == 2
    for module in found.split("\nmodule ")[1:]:
        assert (UNDEFINED in module) == ("attribute \\no_rw_check" in module)
    assert found.replace(UNDEFINED, "COLLISION_X_MASK 1'0") == rtl


def test_without_a_fast_clock_answers_are_defined():
    assert memories.attributes(SLOW) == {}
    rtl = rtl_of(("store", memories.attributes(SLOW), {}))
    assert memories.with_undefined_collisions(rtl) == rtl


@pytest.mark.by_day(1)
@pytest.mark.parametrize("config, marked", [(SLOW, 0), (FAST, 6)], ids=["slow", "fast"])
def test_memories_of_a_pipeline(config, marked):
    """Model, batch's model, corrections, coefficients, and two rows before."""
    rtl = rtlil.convert(Pipeline(config=config), emit_src=False)
    assert UNDEFINED not in rtl
    assert memories.with_undefined_collisions(rtl).count(UNDEFINED) == marked
