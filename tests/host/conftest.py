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
