"""Reports of cycles: what a row takes, and options that are not there."""

import sys

import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep_sim.reports import bit_planes, models, packed, passes, speed


@pytest.mark.parametrize(("row_format", "bits", "planes", "cycles"), [
    (BIT_PLANES, 16, 4, 4), (BIT_PLANES, 16, 16, 16), ("one_level", 1, 0, 2),
    ("one_level", 8, 0, 8)])
def test_cycles_of_a_row_of_64_features(row_format, bits, planes, cycles):
    config = PipelineConfig(row_format=row_format, bits=bits).with_lookahead()
    assert bit_planes.row_cycles(config, 64, 1_000, planes)[0] == cycles


@pytest.mark.parametrize("report", [bit_planes, models, packed, passes])
@pytest.mark.parametrize("option", ["--help", "--nonsense"])
def test_options(report, option, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["report", option])
    with pytest.raises(SystemExit) as ended:
        report.main()
    assert ended.value.code == (0 if option == "--help" else 2)
    printed = capsys.readouterr()
    assert "usage: " in (printed.out if option == "--help" else printed.err)


def test_names_of_cases(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["report", "classes-5"])
    with pytest.raises(SystemExit):
        models.main()
    assert "must be one of classes-4, classes-1, " in capsys.readouterr().err


def test_full_passes_beside_a_sum(monkeypatch, capsys):
    monkeypatch.setattr(speed, "PASS_SHAPES", ((4_000, 10),))
    speed.passes()
    rows = [[cell.strip() for cell in line.strip("|").split("|")]
            for line in capsys.readouterr().out.splitlines() if "4,000 x 10" in line]
    assert [row[0] for row in rows] == ["squared_error", "log_loss"]
    for _, _, *found in rows:
        rate, of_a_sum, ratio = map(float, found)
        assert of_a_sum > 0                 # the rate is as high as the machine is fast
        assert ratio == pytest.approx(rate / of_a_sum, abs=0.05 * (1 + ratio) / of_a_sum + 0.005)
