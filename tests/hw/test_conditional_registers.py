# amaranth: UnusedElaboratable=no

from dataclasses import replace

import pytest
from amaranth import Elaboratable, Module, Signal
from conditions import registers_in_conditions

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.boards.ecp5.clock_harness import ClockHarness
from bitstep_hw.boards.ecp5.ulx3s import Ulx3s
from bitstep_hw.boards.serial.system import SerialSystem, SystemConfig
from bitstep_hw.parts.arithmetic import delay
from bitstep_hw.top import Top

SMALL = PipelineConfig(bits=8, max_features=40, lookahead=2)
FLOAT = PipelineConfig(bits=32, row_format="float32", max_features=6, lookahead=6, proximal=True)
CONFIGS = [
    PipelineConfig(bits=8, max_features=40, lookahead=2, update_interval=4),
    PipelineConfig(bits=3, max_features=63, lookahead=8),
    PipelineConfig(bits=4, bus_width=128, row_format="two_levels", max_features=64, lookahead=6,
                   update_interval=4),
    PipelineConfig(bits=2, max_features=64, lookahead=3, minibatch=False, corrections=False),
    PipelineConfig(bits=3, max_features=60, lookahead=7, refetch=True, proximal=True),
    PipelineConfig(bits=4, max_features=60, lookahead=7, refetch=True, update_interval=4,
                   row_weights=True),
    PipelineConfig(bits=32, row_format="float32", max_features=6, lookahead=2, update_interval=4),
    PipelineConfig(bits=4, max_features=48, lookahead=3, loss_family="logistic", update_interval=6,
                   proximal=True),
    PipelineConfig(bits=4, max_features=48, lookahead=15, update_interval=1, proximal=True),
    PipelineConfig(bits=8, max_features=40, lookahead=19, loss_family="logistic",
                   update_interval=1, row_weights=True),
    PipelineConfig(max_features=3, lookahead=0, models=2, packed=True, row_weights=True),
    # Each part of these is in one of the others.
    *(pytest.param(config, marks=pytest.mark.slow) for config in (
        SMALL, FLOAT, PipelineConfig(bits=1, max_features=128, lookahead=0, update_interval=4),
        PipelineConfig(bits=32, row_format="float32", max_features=6, lookahead=3,
                       loss_family="logistic", update_interval=6))),
]


@pytest.mark.by_day(3)
@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
def test_no_register_is_made_inside_a_condition(config):
    assert registers_in_conditions(Top(config)) == []


@pytest.mark.parametrize("config", [SMALL, pytest.param(FLOAT, marks=pytest.mark.slow)],
                         ids=lambda config: config.name)
def test_nor_on_boards(config, monkeypatch):
    """Whatever the pipeline's identity is, which takes longer to find."""
    monkeypatch.setattr("bitstep_hw.boards.serial.system.identity", lambda _: 1)
    system = SystemConfig(pipeline=config, clock_hz=40_000_000)
    sdram = replace(system, memory="sdram", memory_bytes=1 << 25)
    assert registers_in_conditions(SerialSystem(system), Ulx3s(system), Ulx3s(sdram),
                                   ClockHarness(Top(config))) == []


class Example(Elaboratable):
    """A module that ``build`` makes."""

    def __init__(self, build):
        self.build = build

    def elaborate(self, platform):
        m = Module()
        self.build(m, Signal(name="condition"), Signal(4, name="value"))
        return m


def delayed_in_a_condition(m, condition, value):
    with m.If(condition), m.Switch(delay(m, value, 1, name="late")), m.Case(3):
        m.d.comb += Signal(name="result").eq(1)


def made_in_an_outer_condition(m, condition, value):
    with m.If(condition):
        late = Signal(4, name="late")
        with m.If(value == 3):
            m.d.sync += late.eq(value)


def made_in_an_alternative(m, condition, value):
    with m.If(condition):
        m.d.sync += value.eq(1)
    with m.Elif(value == 1):
        m.d.sync += Signal.like(value, name="late")[:2].eq(value)


def made_in_a_state(m, condition, value):
    with m.FSM():
        with m.State("Idle"):
            m.next = "Busy"
        with m.State("Busy"):
            delay(m, value, 2, name="late")
            m.next = "Idle"


@pytest.mark.parametrize("build", [delayed_in_a_condition, made_in_an_outer_condition,
                                   made_in_an_alternative, made_in_a_state])
def test_registers_in_conditions_are_found(build):
    found = registers_in_conditions(Example(build))
    assert found
    assert all(": late" in line and ".py:" in line for line in found)


def made_in_front(m, condition, value):
    late = delay(m, value, 1, name="late")
    with m.If(condition), m.Switch(late), m.Case(3):
        m.d.sync += value.eq(1)


def only_combinational(m, condition, value):
    with m.If(condition):
        m.d.comb += Signal(4).eq(value)


def beside_the_states(m, condition, value):
    with m.FSM():
        delay(m, value, 1, name="late")
        with m.State("Idle"):
            m.d.sync += value.eq(1)


def written_after_its_condition(m, condition, value):
    with m.If(condition):
        late = Signal(4, name="late")
    m.d.sync += late.eq(value)


@pytest.mark.parametrize("build", [made_in_front, only_combinational, beside_the_states,
                                   written_after_its_condition])
def test_other_registers_are_not(build):
    assert registers_in_conditions(Example(build)) == []
