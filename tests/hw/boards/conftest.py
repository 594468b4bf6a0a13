"""Verilog of a pipeline takes seconds, so that the tests of this folder make each but once."""

import pytest
from stubbed_vivado import verilog


@pytest.fixture(autouse=True)
def _once(monkeypatch):
    monkeypatch.setattr("bitstep_hw.boards.vivado.sources.verilog_of", verilog)
