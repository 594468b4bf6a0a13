"""Reports of cycles: what a row takes, and options that are not there."""

import sys
from pathlib import Path

import numpy as np
import pytest

from bitstep.data import DataError
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep_sim.netlists import xc7
from bitstep_sim.reports import (
    area,
    batches,
    bit_planes,
    encodings,
    losses,
    models,
    native,
    packed,
    passes,
    pipelines,
    refetching,
    rounding,
    speed,
)


@pytest.mark.parametrize(("row_format", "bits", "planes", "cycles"), [
    (BIT_PLANES, 16, 4, 4), (BIT_PLANES, 16, 16, 16), ("one_level", 1, 0, 2),
    ("one_level", 8, 0, 8)])
def test_cycles_of_a_row_of_64_features(row_format, bits, planes, cycles):
    config = PipelineConfig(row_format=row_format, bits=bits).with_lookahead()
    assert bit_planes.row_cycles(config, 64, 1_000, planes)[0] == cycles


def test_losses_by_rows_between_proximal_steps(monkeypatch, capsys):
    """Those of the page; the other columns take longer."""
    monkeypatch.setattr(losses, "PERIODS", (16,))
    monkeypatch.setattr(losses, "SHRUNK", losses.SHRUNK[:2])
    losses.periods(None)
    rows = [line.split(" | ") for line in capsys.readouterr().out.splitlines()
            if line.startswith("| hinge")]
    page = (Path(__file__).parents[3] / "docs/results/losses.md").read_text("utf-8")
    assert len(rows) == 2
    for name, value in rows:
        told = next(line for line in page.splitlines() if line.startswith(name))
        assert told.split(" | ")[3] == value.removesuffix(" |")


@pytest.mark.parametrize("report", [bit_planes, models, packed, passes])
@pytest.mark.parametrize("option", ["--help", "--nonsense"])
def test_options(report, option, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["report", option])
    with pytest.raises(SystemExit) as ended:
        report.main()
    assert ended.value.code == (0 if option == "--help" else 2)
    printed = capsys.readouterr()
    assert "usage: " in (printed.out if option == "--help" else printed.err)


@pytest.mark.parametrize(("report", "words", "message"), [
    (area, "--bits 9", "bits must be an integer from 1 to 8, not 9"),
    (area, "--bus-width 100", "--bus-width: invalid choice: 100"),
    (area, "--models 9", "models must be an integer from 1 to 8, not 9"),
    (area, "--packed 65", "on a bus of 64 must have 1 to 64 features"),
    (area, "--packed 0", "--packed: must be an integer of at least 1, not '0'"),
    (area, "--jobs 0", "--jobs: must be an integer of at least 1, not '0'"),
    (area, "--row-format float32", "bits of row format 'float32' must be one of 32, not 1"),
    (batches, "--bits 0", "--bits: must be an integer from 1 to 8, not '0'"),
    (batches, "--bus-width 100", "--bus-width: invalid choice: 100"),
    (batches, "--features 4097", "--features: must be an integer from 1 to 4096, not '4097'"),
    (bit_planes, "--bus-width 100", "--bus-width: invalid choice: 100"),
    (bit_planes, "--rows 0", "--rows: must be an integer of at least 1, not '0'"),
    (encodings, "double optimal", "levels='optimal' needs one of the encodings"),
    (native, "--shrink 0", "--shrink: must be an integer from 1 to 100000, not '0'"),
    (pipelines, "--bits 9", "--bits: must be an integer from 1 to 8, not '9'"),
    (pipelines, "--bus-width 63", "--bus-width: invalid choice: 63"),
    (pipelines, "--features 0", "--features: must be an integer from 1 to 4096, not '0'"),
    (pipelines, "--rows 0", "--rows: must be an integer of at least 1, not '0'"),
    (refetching, "--bits 0", "--bits: must be an integer from 1 to 8, not '0'"),
    (refetching, "--epochs 1", "--epochs: must be an integer of at least 2, not '1'"),
    (refetching, "--features 0", "--features: must be an integer from 1 to 4096, not '0'"),
    (refetching, "--rows 1", "--rows: must be an integer of at least 2, not '1'"),
    (rounding, "--batch 0", "--batch: must be an integer from 1 to 2**32 - 1, not '0'"),
    (rounding, "--model-range nan", "--model-range: must be a number above 0, not 'nan'"),
    (speed, "cycles --bits 9", "--bits: must be an integer from 1 to 8, not '9'"),
    (speed, "cycles --bus-width 100", "--bus-width: invalid choice: 100")])
def test_values_of_options(report, words, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["report", *words.split()])
    with pytest.raises(SystemExit) as ended:
        report.main()
    assert ended.value.code == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(("report", "words"), [
    (encodings, ["--sets", "no such set"]), (losses, ["float", "--data-home", "nowhere"])])
def test_data_that_are_missing(report, words, monkeypatch):
    def no_data(name, **_):
        raise DataError(f"{name}: there is no such file")

    monkeypatch.setattr(report, "load", no_data)
    monkeypatch.setattr(sys, "argv", ["report", *words])
    with pytest.raises(SystemExit, match=r"^error: .*: there is no such file$"):
        report.main()


def test_area_without_yosys(monkeypatch, capsys):
    """It says so before it begins."""
    monkeypatch.setattr(xc7, "find_spec", lambda name: None)
    monkeypatch.setattr(sys, "argv", ["report", "--bits", "1"])
    with pytest.raises(SystemExit, match=r"^error: Yosys was not found"):
        area.main()
    assert capsys.readouterr().out == ""


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
        for rate, of_a_sum, ratio in np.array(found, float).reshape(2, 3):
            assert of_a_sum > 0             # the rate is as high as the machine is fast
            assert ratio == pytest.approx(rate / of_a_sum,
                                          abs=0.05 * (1 + ratio) / of_a_sum + 0.005)
