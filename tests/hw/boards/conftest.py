"""Verilog and identity of a pipeline take seconds, so that the tests of this folder make each but
once, and take those that the cache folder has of the same code (``tests/sim/board/test_verilog.py``
compares them).
"""

import pytest
from stubbed_vivado import verilog

from bitstep_sim.board.verilog import identity


@pytest.fixture(autouse=True)
def _once(monkeypatch):
    monkeypatch.setattr("bitstep_hw.boards.vivado.sources.verilog_of", verilog)
    for module in ("sources", "flow"):
        monkeypatch.setattr(f"bitstep_hw.boards.vivado.{module}.identity", identity)
