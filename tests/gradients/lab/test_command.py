"""`bitstep gradients`."""

import csv
import json
import sys

import pytest

from bitstep import cli
from bitstep_gradients.lab import command, drawings
from bitstep_gradients.lab import race as races

SHORT = ("race", "logreg", "--rows", "100", "--steps", "4", "--every", "2", "--seeds", "1",
         "--step", "0.25", "--workers", "2")


@pytest.fixture(autouse=True)
def _only_this_command(monkeypatch):
    """The command is there whether the package was installed with it or before it."""
    monkeypatch.setattr(cli, "subcommands", lambda name: [command])


@pytest.fixture
def nothing_drawn(monkeypatch):
    """Reports without drawings, which take most of a short race's time."""
    monkeypatch.setattr(drawings, "draw", lambda *arguments: False)


def run(*arguments):
    """The exit code."""
    try:
        return cli.main(["gradients", *map(str, arguments)])
    except SystemExit as ended:
        return ended.code


def test_list_of_codecs(capsys):
    assert run("codecs") == 0
    out = capsys.readouterr().out
    assert "dqsg" in out
    assert "levels, bits, bucket_size, payload" in out
    assert "dq-sgd" in out


def test_race_writes_its_report_and_goes_on(tmp_path, capsys, monkeypatch):
    arguments = (*SHORT, "--codecs", "none", "dqsg", "none", "--out", tmp_path)
    assert run(*arguments) == 0
    captured = capsys.readouterr()
    assert "logistic regression, 2 workers, digits (100 of 1,797 x 64" in captured.out
    assert f"wrote {tmp_path / 'index.html'}" in captured.out
    assert "logreg, 2 workers, dqsg, seed 0" in captured.err
    found = json.loads((tmp_path / "races.json").read_text("utf-8"))
    assert [one["contestant"]["text"] for one in found[0]["results"]] == ["none", "dqsg"]
    assert found[0]["setting"]["step"] == 0.25
    assert found[0]["setting"]["budget"] == 4 * 650 * 4 / 10        # float32's in a tenth

    def forbidden(*arguments, **options):
        raise AssertionError("a finished run was repeated")

    monkeypatch.setattr(races, "train", forbidden)
    monkeypatch.setattr(races, "probe", forbidden)
    monkeypatch.setattr(drawings, "draw", lambda *arguments: False)     # takes long
    assert run(*arguments) == 0
    assert "seed 0" not in capsys.readouterr().err


def test_no_budget_and_a_slow_network(tmp_path, nothing_drawn):
    assert run(*SHORT, "2", "--codecs", "dqsg", "--budget-mb", "0", "--gbits", "2",
               "--latency-us", "3000", "--out", tmp_path) == 0
    (found,) = json.loads((tmp_path / "races.json").read_text("utf-8"))     # 2 workers, once
    assert found["setting"]["budget"] == 0
    with open(tmp_path / "summary.csv", encoding="utf-8", newline="") as file:
        (row,) = csv.DictReader(file)
    assert float(row["network_s_2_gbits"]) == pytest.approx(
        3e-3 + 8 * float(row["bytes_a_step"]) / 2e9)


def test_interrupt_keeps_what_is_finished(tmp_path, capsys, monkeypatch):
    whole = races.train

    def stopped(model, samples, contestant, *arguments, **options):
        if contestant.text == "dqsg":
            raise KeyboardInterrupt
        return whole(model, samples, contestant, *arguments, **options)

    monkeypatch.setattr(races, "train", stopped)
    assert run(*SHORT, "--codecs", "none", "dqsg", "--out", tmp_path) == 130
    assert "the same command goes on from there" in capsys.readouterr().err
    assert len(list((tmp_path / "runs").glob("train-*.json"))) == 1


def test_error_feedback_for_all(tmp_path, nothing_drawn):
    assert run(*SHORT, "--codecs", "none", "sign", "top-k:feedback=0.5", "--error-feedback",
               "--out", tmp_path) == 0
    found = json.loads((tmp_path / "races.json").read_text("utf-8"))
    assert [one["contestant"]["text"] for one in found[0]["results"]] == [
        "none", "sign:feedback=1", "top-k:feedback=0.5"]


@pytest.mark.parametrize("arguments, message", [
    (["--codecs", "zip"], "--codecs: there is no codec 'zip'; there are none, fp16"),
    (["--codecs", "dqsg:bits=1"], "--codecs: dqsg:bits=1: bits must be an integer from 2 to 8"),
    (["--error-feedback", "2"], "--error-feedback must be at most 1, not 2"),
    (["--steps", "9", "--max-steps", "8"], "--max-steps must be at least --steps, 9, not 8"),
    (["--gbits", "1", "1"], "--gbits must name each bandwidth once"),
    (["--data", "diabetes"], "logreg is for a classification, and diabetes is a regression"),
    (["--workers", "2", "9", "--transport", "gloo"],
     "--workers must be at most 8 with --transport gloo, not 9"),
    (["--timeout", "1e7"], "--timeout: must be a number between 0 and 1e+06, not '1e7'"),
    (["--exchange", "ring"], "argument --exchange: invalid choice: 'ring'"),
    (["--workers", "0"], "must be an integer from 1 to 64, not '0'")])
def test_bad_options(arguments, message, tmp_path, capsys):
    assert run("race", "logreg", "--out", tmp_path, *arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.startswith("usage: bitstep gradients race MODEL [MODEL ...] --out DIR [options]")
    assert not list(tmp_path.iterdir())


def test_out_is_checked_before_the_training(tmp_path, capsys):
    file = tmp_path / "file"
    file.touch()
    assert run(*SHORT, "--out", file) == 2
    assert f"--out must be a folder, and {file} is a file" in capsys.readouterr().err
    assert run(*SHORT, "--out", file / "below") == 2
    assert "cannot be made" in capsys.readouterr().err


def test_two_phase_race(tmp_path, capsys, nothing_drawn):
    """Ranks as threads, and the counters of the exchange."""
    assert run(*SHORT, "--exchange", "two-phase", "--codecs", "none", "dqsg", "--out",
               tmp_path) == 0
    assert "logistic regression, 2 workers, two-phase, digits" in (
        out := capsys.readouterr().out)
    assert out.count("sent a step") == 1
    found = json.loads((tmp_path / "races.json").read_text("utf-8"))[0]["results"]
    assert found[1]["sent_a_step"] < found[0]["sent_a_step"] < found[0]["bytes_a_step"]


def test_gloo_without_torch(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    assert run(*SHORT, "--transport", "gloo", "--out", tmp_path / "out") == 1
    error = capsys.readouterr().err
    assert "--transport gloo) need torch" in error
    assert 'pip install "bitstep[torch]"' in error
    assert not (tmp_path / "out").exists()


def test_missing_torch(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "bitstep_gradients.lab.networks", None)
    assert run("race", "lenet", "--out", tmp_path) == 1
    assert 'pip install "bitstep[torch]"' in capsys.readouterr().err
