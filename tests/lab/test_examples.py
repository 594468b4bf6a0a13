"""The gallery's scripts run, and print what the page says."""

import re
import runpy
from decimal import Decimal
from pathlib import Path

import pytest

pytest.importorskip("matplotlib").use("Agg")
pytest.importorskip("distributed")

DOCS = Path(__file__).parents[2] / "docs"
LONG = ("bits", "shards", "speedup")        # each takes some 10 seconds
SCRIPTS = sorted((DOCS / "examples").glob("*.py"))
NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?")


def printed(name):
    """Lines that the gallery says a script prints; none if it says nothing."""
    text = (DOCS / "gallery.md").read_text("utf-8")
    section = next(part for part in text.split("\n## ") if f"`docs/examples/{name}.py`" in part)
    return [line[4:] for line in section.splitlines() if line.startswith("    ")]


def figures(lines):
    """Numbers of some lines, and the lines without them."""
    return ([Decimal(number.replace(",", "")) for line in lines for number in NUMBER.findall(line)],
            [NUMBER.sub("#", line).split() for line in lines])


@pytest.mark.parametrize("script", [
    pytest.param(script, id=script.stem,
                 marks=[pytest.mark.slow] if script.stem in LONG else []) for script in SCRIPTS])
def test_script(script, tmp_path, monkeypatch, capsys):
    """A figure's last digit may be another: NumPy's sums differ from machine to machine."""
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script), run_name="__main__")
    said = capsys.readouterr().out.splitlines()
    assert (tmp_path / f"{script.stem}.png").stat().st_size > 10_000
    assert (DOCS / "examples" / f"{script.stem}.png").exists()
    if printed(script.stem):
        found, words = figures(said)
        told, told_words = figures(printed(script.stem))
        assert words == told_words
        for one, other in zip(found, told, strict=True):
            assert abs(one - other) <= Decimal(1).scaleb(int(other.as_tuple().exponent))
    import matplotlib.pyplot
    matplotlib.pyplot.close("all")


def test_gallery():
    assert len(SCRIPTS) == 6
    text = (DOCS / "gallery.md").read_text("utf-8")
    for script in SCRIPTS:
        assert f"<!-- source: {script.name} -->" in text
        assert f"(examples/{script.stem}.png)" in text
