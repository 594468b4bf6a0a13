"""Woven rows, planes and bit-centred training on the command line."""

import json

import numpy as np
import pytest
from command_line import train

from bitstep.cli import main
from bitstep.estimators import LowPrecisionRegressor


@pytest.fixture(name="rows")
def _rows(tmp_path, capsys):
    """A woven file of diabetes."""
    path = tmp_path / "rows.npz"
    assert main(["quantize", "diabetes", "--woven", "--out", str(path)]) == 0
    assert "442 rows of 10 features for a regression, 16 bits woven" in capsys.readouterr().out
    return path


def report_of(tmp_path, *arguments):
    path = tmp_path / "run.json"
    assert train(*arguments, "--report", path) == 0
    return json.loads(path.read_text())


def test_one_file_at_every_precision(tmp_path, rows):
    """The same file as the same rows, read at 1 to 16 bits."""
    beats = {}
    for planes in (1, 2, 4, 8, 16):
        found = report_of(tmp_path, rows, "--planes", planes, "--epochs", 2, "--device", "golden")
        assert [entry["planes"] for entry in found["history"]] == [planes] * 2
        beats[planes] = found["counters"]["beats"]
        direct = report_of(tmp_path, "diabetes", "--planes", planes, "--epochs", 2, "--device",
                           "golden")
        assert direct["coef"] == found["coef"]
    assert [beats[planes] / beats[1] for planes in beats] == [1, 2, 4, 8, 16]


def test_bit_centred(tmp_path, rows, capsys):
    out = tmp_path / "model.npz"
    found = report_of(tmp_path, rows, "--solver", "bit-centred", "--epochs", 12, "--tol", "1e-3",
                      "--out", out)
    losses = [entry["train_loss"] for entry in found["history"]]
    assert losses == sorted(losses, reverse=True)
    assert 3 < len(losses) < 12
    assert found["config"]["solver"] == "bit-centred"
    assert "planes" in capsys.readouterr().out
    loaded = LowPrecisionRegressor.load(out)
    assert (loaded.solver, loaded.planes, loaded.tol) == ("bit-centred", [4] * 12, 1e-3)
    np.testing.assert_array_equal(loaded.coef_, found["coef"])


def test_automatic_planes_are_the_default_of_a_file(tmp_path, rows):
    found = report_of(tmp_path, rows, "--epochs", 3, "--schedule", "constant")
    assert found["history"][0]["planes"] == 2
    assert found["config"]["planes"] == "auto"


def test_planes_resume(tmp_path, rows):
    options = (rows, "--planes", "2,4,8", "--batch", 3)
    whole = report_of(tmp_path, *options, "--epochs", 4)
    kept = tmp_path / "kept.npz"
    again = report_of(tmp_path, *options, "--epochs", 4, "--checkpoint", kept)
    assert again["coef"] == whole["coef"]
    assert report_of(tmp_path, *options, "--epochs", 4, "--resume", kept)["coef"] == whole["coef"]


def refused(run, *arguments):
    """Run a command that must fail."""
    try:
        code = run(*arguments)
    except SystemExit as stop:
        code = stop.code
    assert code


@pytest.mark.parametrize("options, message", [
    (("--solver", "bit-centred", "--checkpoint", "kept.npz"), "do not go together"),
    (("--planes", "auto", "--checkpoint", "kept.npz"), "give a list of planes"),
    (("--planes", "17"), "must be an integer from 1 to 16, not '17'"),
    (("--planes", "4", "--encoding", "nearest"), "leave --encoding and --copies out"),
    (("--planes", "4", "--bits", "4"), "leave --bits, --levels and --refetch out"),
    (("--solver", "bit-centred", "--early-stopping"), "and stops by --tol"),
])
def test_bad_options(tmp_path, monkeypatch, capsys, options, message):
    monkeypatch.chdir(tmp_path)
    refused(train, "diabetes", *options)
    assert message in capsys.readouterr().err


def test_files_of_fixed_bits_have_no_planes(tmp_path, capsys):
    path = tmp_path / "rows.npz"
    assert main(["quantize", "diabetes", "--out", str(path)]) == 0
    refused(train, path, "--solver", "bit-centred")
    assert "write it with `bitstep quantize --woven`" in capsys.readouterr().err


def test_fine_rows_are_refused(tmp_path, capsys):
    out = str(tmp_path / "rows.npz")
    refused(main, ["quantize", "diabetes", "--woven", "--fine-rows", "--out", out])
    assert "--fine-rows does not go together with --woven" in capsys.readouterr().err
