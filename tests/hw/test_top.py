# amaranth: UnusedElaboratable=no

import dataclasses
import functools
import hashlib
import inspect
import os
import subprocess
import sys
from threading import Thread

import pytest
from amaranth import Module
from amaranth.back import rtlil
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import ADDRESS_WIDTH
from bitstep_hw import top
from bitstep_hw.axi.buses import AxiLite
from bitstep_hw.shell import register_bank
from bitstep_hw.top import (
    IDENTITY_BITS,
    Top,
    cells,
    identity,
    rtlil_of,
    to_rtlil,
    to_verilog,
    verilog_of,
)

CONFIG = PipelineConfig(bits=8, max_features=8, lookahead=0, minibatch=False, corrections=False)


@pytest.fixture(autouse=True)
def fresh():
    """Tests change what netlists are made of."""
    top._netlist_of.cache_clear()
    yield
    top._netlist_of.cache_clear()


@functools.cache
def plain():
    """Identity and RTLIL of the top that nothing has changed; its netlist takes seconds."""
    top._netlist_of.cache_clear()
    return identity(CONFIG), rtlil_of(CONFIG)


# Amaranth reads names of signals from Python's bytecode, which other versions have otherwise.
NAME_NOTHING = """
from amaranth import tracer
name_of = tracer.get_var_name

def name_nothing(depth=2, default=None):
    return name_of(depth + 1) if default is None else default

tracer.get_var_name = name_nothing
"""


@pytest.mark.parametrize("seed, code", [
    ("1", NAME_NOTHING), *(pytest.param(seed, code, marks=pytest.mark.slow)
                           for seed, code in (("1", ""), ("2", ""), ("0", NAME_NOTHING)))],
    ids=["1-unnamed", "1", "2", "0-unnamed"])
def test_identity_has_128_bits_and_is_the_same_in_every_process(seed, code):
    """Also where Python orders sets and dictionaries in another way, and where signals have other
    names, which the text of the netlist shows.
    """
    code += ("from bitstep.pipeline.config import PipelineConfig\n"
             "from bitstep_hw.top import identity, rtlil_of\n"
             f"config = PipelineConfig(**{CONFIG.to_dict()!r})\n"
             "print(identity(config), rtlil_of(config), sep='\\n', end='')\n")
    number, text = plain()
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                           check=True, env={**os.environ, "PYTHONHASHSEED": seed})
    found, _, its_text = shown.stdout.partition("\n")
    assert int(found) == number
    assert (its_text != text) == ("name_nothing" in code)
    assert 0 <= number < 1 << IDENTITY_BITS


@pytest.mark.slow       # by day every simulated board is found by its pipeline's identity
@pytest.mark.parametrize("change", [{"proximal": True}, {"bits": 5}, {"max_features": 300}])
def test_another_pipeline_has_another_identity(change):
    assert identity(dataclasses.replace(CONFIG, **change)) != plain()[0]


class Registers(wiring.Component):
    """A top of registers alone."""

    def __init__(self, config, *, number=0):
        self.number = number
        super().__init__({"s_axi": In(AxiLite(address_width=ADDRESS_WIDTH))})

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = register_bank.RegisterBank()
        wiring.connect(m, wiring.flipped(self.s_axi), bank.bus)
        m.d.comb += bank.identity.eq(self.number)
        return m


def check_identity(config, number, text, of_zero):
    """As if the netlist were made again with the identity that the first netlist gave."""
    assert number == int.from_bytes(hashlib.sha256(of_zero.encode()).digest()[:16], "little")
    numbered, netlist = top._emitted(top.Top(config, number=number))
    assert text == numbered
    assert top._cells(netlist) != of_zero


def test_a_netlist_has_its_identity(monkeypatch):
    """Which is that of the top without a number, and that is one with the number 0. By day of a top
    of the registers alone, where the number is; the number of a pipeline's is what the driver reads
    on every simulated board.
    """
    assert inspect.signature(Top).parameters["number"].default == 0
    monkeypatch.setattr(top, "Top", Registers)
    monkeypatch.setattr(top, "identity", identity.__wrapped__)
    check_identity(CONFIG, top.identity(CONFIG), rtlil_of(CONFIG), cells(Registers(CONFIG)))


@pytest.mark.slow
@pytest.mark.parametrize("models", [1, 2])
def test_a_netlist_of_a_pipeline_has_its_identity(models):
    config = dataclasses.replace(CONFIG, models=models)
    check_identity(config, identity(config), rtlil_of(config), cells(Top(config)))


def test_a_constant_of_the_library_that_the_hardware_has_changes_the_identity(monkeypatch):
    """Of a top of the registers alone, where this constant is."""
    monkeypatch.setattr(top, "Top", Registers)
    number = identity.__wrapped__(CONFIG)
    top._netlist_of.cache_clear()
    assert identity.__wrapped__(CONFIG) == number
    top._netlist_of.cache_clear()
    monkeypatch.setattr(register_bank, "MAP_VERSION", register_bank.MAP_VERSION + 1)
    assert identity.__wrapped__(CONFIG) != number


def test_verilog_is_of_the_netlist_with_its_identity(monkeypatch):
    """Of that of registers, which Yosys takes a short time for."""
    monkeypatch.setattr(top, "Top", Registers)
    monkeypatch.setattr(top, "identity", identity.__wrapped__)
    number = top.identity(CONFIG)
    assert rtlil_of(CONFIG) == to_rtlil(Registers(CONFIG, number=number))
    text = verilog_of(CONFIG)
    assert "module bitstep_top(" in text
    assert all(f"32'd{number >> 32 * word & 0xFFFFFFFF}" in text for word in range(4))


def test_yosys_that_cannot_keep_its_compiled_form(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/proc/nowhere")
    with pytest.raises(RuntimeError, match="^Yosys cannot keep its compiled form in /proc/nowhere/"
                       r"wasmtime: name another cache folder \(.* XDG_CACHE_HOME\)$"):
        to_verilog("")


def test_text_that_yosys_does_not_read():
    with pytest.raises(RuntimeError, match=r"^Yosys failed: .*ERROR: "):
        to_verilog("nonsense")


def test_nothing_is_said_of_what_is_half_built_at_an_interrupt():
    """In a process of its own: nothing is said to its end."""
    program = ("import os, signal\n"
               "from amaranth import Module\n"
               "from amaranth.lib import wiring\n"
               "from bitstep_hw import top\n"
               # A shell's job in the background begins with SIGINT ignored.
               "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
               "class Stopped(wiring.Component):\n"
               "    def __init__(self): super().__init__({})\n"
               "    def elaborate(self, platform):\n"
               "        m = Module()\n"
               "        m.submodules.part = Stopped()\n"
               "        os.kill(os.getpid(), signal.SIGINT)\n"
               "        return m\n"
               "try: top.to_rtlil(Stopped())\n"
               "except KeyboardInterrupt: print('interrupted')\n")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         timeout=60)
    assert (run.returncode, run.stdout, run.stderr) == (0, "interrupted\n", "")


class Numbered(wiring.Component):
    """A system that asks for its pipeline's identity while it is elaborated, if for none other."""

    def __init__(self, number=None):
        self.number = number
        super().__init__({"o": Out(IDENTITY_BITS)})

    def elaborate(self, platform):
        m = Module()
        number = identity.__wrapped__(CONFIG) if self.number is None else self.number
        m.d.comb += self.o.eq(number)
        return m


def test_an_identity_is_asked_for_during_elaboration(monkeypatch):
    monkeypatch.setattr(top, "Top", Registers)
    number = identity.__wrapped__(CONFIG)
    top._netlist_of.cache_clear()
    assert cells(Numbered()) == cells(Numbered(number)) != cells(Numbered(number ^ 1))


def test_another_thread_converts_meanwhile(monkeypatch):
    """By Amaranth's own functions, behind no lock of ours."""
    convert, expected = rtlil.convert, cells(Numbered(1))

    def convert_and_let_another(*args, **options):
        text = convert(*args, **options)
        other = Thread(target=convert, args=(Numbered(2),))
        other.start()
        other.join()
        return text

    monkeypatch.setattr(rtlil, "convert", convert_and_let_another)
    assert cells(Numbered(1)) == expected
    monkeypatch.undo()
    assert cells(Numbered(2)) != expected
