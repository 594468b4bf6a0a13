"""Makes the helpers beside the tests importable: pytest's importlib mode does not."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import pytest

from bitstep.devices.pynq import left


@pytest.fixture(autouse=True)
def _marks(tmp_path, monkeypatch):
    """The mark of an open device is no other test's business, nor this machine's."""
    monkeypatch.setattr(left, "MARK", tmp_path / "mark.json")


@pytest.fixture(params=["portions", "decoded"])
def short_portions(request, monkeypatch):
    """Device cpu with portions of 64 rows at most and three threads; its rows are transposed in
    every pass, or decoded once.
    """
    codes = pytest.importorskip("bitstep.devices.cpu.codes")
    if request.param == "portions":
        monkeypatch.setattr(codes, "ROOM", 0.0)
    monkeypatch.setattr(codes, "PORTION_VALUES", 1 << 10)
    monkeypatch.setattr("bitstep.devices.cpu.portions.PORTION_ROWS", 64)
    monkeypatch.setattr("bitstep.devices.cpu.device.available_cores", lambda: 3)
