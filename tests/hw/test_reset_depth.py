# amaranth: UnusedElaboratable=no
"""What registers without a reset hold has left them before the top's own reset ends."""

import json
import re
from dataclasses import replace

import pytest
from amaranth import Module, Signal
from amaranth._toolchain.yosys import find_yosys
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep_hw.parts.reset import SETTLE
from bitstep_hw.top import Top

PACKED = PipelineConfig(max_features=3, lookahead=0, models=3, packed=True)
BIT_PLANE_LOGISTIC = PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=256, lookahead=2,
                                update_interval=6, loss_family="logistic")
CONFIGS = [
    replace(PACKED, models=2),      # two have all that three have
    *(pytest.param(config, marks=pytest.mark.slow) for config in (
        PACKED, replace(PACKED, row_weights=True),
        BIT_PLANE_LOGISTIC,
        PipelineConfig(bits=1, max_features=80, lookahead=8),
        PipelineConfig(bits=8, max_features=512, lookahead=2, update_interval=4),
        PipelineConfig(bits=4, max_features=60, lookahead=2, refetch=True, proximal=True,
                       update_interval=4, row_weights=True),
        PipelineConfig(bits=32, row_format="float32", max_features=6, lookahead=6, proximal=True),
        PipelineConfig(bits=4, max_features=100, lookahead=4, model_bits=8, rounded_updates=True,
                       codebooks=True, proximal=True),
        PipelineConfig(bits=4, max_features=256, lookahead=1, models=2, loss_family="logistic",
                       update_interval=6),
        PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=272, lookahead=4,
                       update_interval=4, proximal=True),
        PipelineConfig(bits=8, max_features=40, lookahead=19, loss_family="logistic",
                       update_interval=1, row_weights=True),
        PipelineConfig(bits=1, bus_width=512, max_features=1024, lookahead=2))),
]
PLAIN, RESET = {"$dff", "$dffe"}, {"$sdff", "$sdffe", "$sdffce"}


def module_of(top):
    """The netlist of a top, in one module, as Yosys has it in JSON."""
    text = rtlil.convert(top, name="top", emit_src=False)
    yosys = find_yosys(lambda version: version >= (0, 40))
    found = yosys.run(["-q", "-"], f"read_rtlil <<rtlil\n{text}\nrtlil\nproc -norom; flatten; "
                      "opt_expr; opt_clean; opt_dff; opt_clean; write_json", ignore_warnings=True)
    return json.loads(found[found.index("{"):])["modules"]["top"]


def depth_of(top):
    """Registers without a reset that may follow each other at most.

    A memory ends a path: what it holds counts only with a flag that says so. A register that
    follows itself alone holds or adds up data, which a row's first slot begins anew. Words that are
    forwarded from earlier slots (``ModelStore._chosen``) end a path, too: their flags are 0 while
    there is no slot (``test_slots_in_every_cycle``), and count as registers like all others.

    Raises
    ------
    AssertionError
        If there is no limit, since several of them follow each other in a ring.
    """
    module = module_of(top)
    forwards = {bit for name, net in module["netnames"].items()
                if re.search(r"\.store\.choice_\d+_\d+$", name) for bit in net["bits"]}
    cells = {name: _unforwarded(cell, forwards) for name, cell in module["cells"].items()
             if not cell["type"].startswith("$mem")}
    drivers, sources = {}, {}
    for name, cell in cells.items():
        for port, direction in cell["port_directions"].items():
            if direction == "output":
                drivers.update(dict.fromkeys(cell["connections"][port], name))
    for name, cell in cells.items():
        sources[name] = {drivers[bit] for port, direction in cell["port_directions"].items()
                         if direction == "input" for bit in cell["connections"][port]
                         if bit in drivers}
    assert {cell["type"] for cell in cells.values() if "dff" in cell["type"]} <= PLAIN | RESET
    registers = {name for name, cell in cells.items() if cell["type"] in PLAIN}
    before = {name: _registers_before(name, cells, sources) - {name} for name in registers}
    depth, done = 0, set()
    while done != registers:
        ready = {name for name in registers - done if before[name] <= done}
        assert ready, f"a ring of registers: {sorted(registers - done)[:5]}"
        depth, done = depth + 1, done | ready
    return depth


def _unforwarded(cell, forwards):
    """The cell, without the input that one of these flags selects if it is a choice by it."""
    if cell["type"] != "$mux" or cell["connections"]["S"][0] not in forwards:
        return cell
    return cell | {"connections": cell["connections"] | {"B": []}}


def _registers_before(name, cells, sources):
    """Registers without a reset that the next value of one depends on."""
    found, seen, stack = set(), set(), list(sources[name])
    while stack:
        cell = stack.pop()
        if cell in seen or cells[cell]["type"] in RESET:
            continue
        seen.add(cell)
        if cells[cell]["type"] in PLAIN:
            found.add(cell)
        else:
            stack += sources[cell]
    return found


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_reset_is_long_enough(config):
    assert 8 <= depth_of(Top(config)) < SETTLE // 2


class Chain(wiring.Component):
    """Registers without a reset, one after the other, in a ring if asked to."""

    def __init__(self, length, *, ring=False):
        self.length, self.ring = length, ring
        super().__init__({"i": In(1), "o": Out(1)})

    def elaborate(self, platform):
        m = Module()
        value = first = Signal()
        for number in range(self.length):
            register = Signal(name=f"late_{number}", reset_less=True)
            m.d.sync += register.eq(value)
            value = ~register
        m.d.comb += [self.o.eq(value), first.eq(self.i ^ (value if self.ring else 0))]
        return m


def test_depth_of_a_chain():
    for length in (1, 5, 70):
        assert depth_of(Chain(length)) == length
    with pytest.raises(AssertionError, match="a ring of registers"):
        depth_of(Chain(3, ring=True))
