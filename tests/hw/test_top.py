# amaranth: UnusedElaboratable=no

import dataclasses
import hashlib
import os
import subprocess
import sys
from threading import Thread

import pytest
from amaranth import Module, tracer
from amaranth.back import rtlil
from amaranth.hdl import _ir
from amaranth.lib import wiring
from amaranth.lib.wiring import Out

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw import top
from bitstep_hw.shell import register_bank
from bitstep_hw.top import (
    IDENTITY_BITS,
    Top,
    cells,
    identity,
    rtlil_of,
    to_rtlil,
    verilog_of,
)

CONFIG = PipelineConfig(bits=8, max_features=40, lookahead=0, minibatch=False, corrections=False)


@pytest.fixture(autouse=True)
def fresh():
    """Tests change what netlists are made of."""
    top._netlist_of.cache_clear()


def test_identity_has_128_bits_and_is_the_same_in_every_process():
    """Also where Python orders sets and dictionaries in another way."""
    code = ("from bitstep.pipeline.config import PipelineConfig\n"
            "from bitstep_hw.top import identity\n"
            f"print(identity(PipelineConfig(**{CONFIG.to_dict()!r})))")
    for seed in ("1", "2"):
        shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True,
                               check=True, env={**os.environ, "PYTHONHASHSEED": seed})
        assert int(shown.stdout) == identity(CONFIG)
    assert 0 <= identity(CONFIG) < 1 << IDENTITY_BITS


@pytest.mark.parametrize("change", [{"bits": 5}, {"max_features": 300}, {"proximal": True}])
def test_another_pipeline_has_another_identity(change):
    assert identity(dataclasses.replace(CONFIG, **change)) != identity(CONFIG)


def test_a_constant_of_the_library_that_the_hardware_has_changes_the_identity(monkeypatch):
    monkeypatch.setattr(register_bank, "MAP_VERSION", register_bank.MAP_VERSION + 1)
    assert identity.__wrapped__(CONFIG) != identity(CONFIG)


def test_the_identity_is_that_of_the_top_without_a_number():
    assert cells(Top(CONFIG)) == cells(Top(CONFIG, number=0))
    assert cells(Top(CONFIG, number=1)) != cells(Top(CONFIG))


def test_names_of_signals_change_no_identity(monkeypatch):
    """Amaranth reads them from Python's bytecode, which other versions of Python have otherwise."""
    expected, text, name_of = identity(CONFIG), to_rtlil(Top(CONFIG)), tracer.get_var_name

    def name_nothing(depth=2, default=None):
        return name_of(depth + 1) if default is None else default

    monkeypatch.setattr(tracer, "get_var_name", name_nothing)
    assert to_rtlil(Top(CONFIG)) != text
    assert identity.__wrapped__(CONFIG) == expected


@pytest.mark.parametrize("config", [CONFIG, dataclasses.replace(CONFIG, models=2)])
def test_a_netlist_has_its_identity(config):
    """As if it were generated again with the identity that the first netlist gave."""
    number = int.from_bytes(hashlib.sha256(cells(Top(config)).encode()).digest()[:16], "little")
    assert identity(config) == number
    assert rtlil_of(config) == to_rtlil(Top(config, number=number))
    assert "module bitstep_top(" in verilog_of(config)


class Numbered(wiring.Component):
    """A system that asks for its pipeline's identity while it is elaborated, if for none other."""

    o: Out(IDENTITY_BITS)

    def __init__(self, number=None):
        self.number = number
        super().__init__()

    def elaborate(self, platform):
        m = Module()
        number = identity.__wrapped__(CONFIG) if self.number is None else self.number
        m.d.comb += self.o.eq(number)
        return m


def test_an_identity_is_asked_for_during_elaboration():
    number = identity(CONFIG)
    top._netlist_of.cache_clear()
    assert cells(Numbered()) == cells(Numbered(number)) != cells(Numbered(number ^ 1))


def test_another_thread_converts_meanwhile(monkeypatch):
    """By Amaranth's own functions, behind no lock of ours."""
    build, threads = _ir.build_netlist, []

    def build_and_let_another(*args, **options):
        netlist = build(*args, **options)
        if not threads:
            threads.append(Thread(target=rtlil.convert, args=(Numbered(2),)))
            threads[0].start()
            threads[0].join()
        return netlist

    expected = cells(Numbered(1))
    monkeypatch.setattr(_ir, "build_netlist", build_and_let_another)
    assert cells(Numbered(1)) == expected != cells(Numbered(2))
    assert threads
