"""Entry points of installed packages."""

import sys

from bitstep.plugins import entry_points


def test_packages_on_another_path(tmp_path, monkeypatch):
    """What is looked up once is looked up again where modules are sought elsewhere."""
    folder = tmp_path / "other-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Name: other\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[bitstep.devices]\nother = other:Device\na = a:A\n")
    assert "other" not in entry_points("bitstep.devices")
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    found = entry_points("bitstep.devices")
    assert found["other"].value == "other:Device"
    assert list(found) == sorted(found)
    assert "a" in found
    found.clear()
    assert "other" in entry_points("bitstep.devices")
