"""Only where pynq is installed, as `make test-pynq` does, are there tests in this folder."""

from importlib.util import find_spec

import pytest

from bitstep.devices.pynq import left

if find_spec("pynq") is None:
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(autouse=True)
def _marks(tmp_path, monkeypatch):
    """The mark of an open device is no other test's business, nor this machine's."""
    monkeypatch.setattr(left, "MARK", tmp_path / "mark.json")
