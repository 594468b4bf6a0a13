"""`bitstep bench --baselines`."""

import pytest

from bitstep.cli import main
from bitstep_lab.baselines import measure


def run(*arguments):
    """The exit code."""
    with pytest.raises(SystemExit) as ended:
        main(["bench", "--baselines", *arguments])
    return ended.value.code


def test_table(capsys):
    assert run("--shape", "300x5", "--epochs", "1", "--turns", "1", "--batches", "8",
               "--threads", "2", "--loss", "hinge") == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert {len(row) for row in cells} == {9}
    assert [row[:3] for row in cells[2:]] == [
        ["sgd", "1", "1"], ["sgd", "1", "8"], ["hogwild", "2", "1"], ["hogwild", "2", "8"],
        ["minibatch", "1", "8"], ["minibatch", "2", "8"], ["lowprec", "1", "1"],
        ["lowprec", "1", "8"], ["lowprec", "2", "1"], ["lowprec", "2", "8"], ["sklearn", "1", "1"],
        ["reading", "1", ""], ["reading", "2", ""], ["copying (read + written)", "1", ""],
        ["copying (read + written)", "2", ""]]
    assert all(float(row[3]) > 0 for row in cells[2:13])


@pytest.mark.parametrize("arguments, message", [
    (["--shape", "90"], "must be ROWSxFEATURES, such as 448000x90, not '90'"),
    (["--shape", "0x90"], "must be ROWSxFEATURES, such as 448000x90, not '0x90'"),
    (["--threads", "0"], "must be an integer of at least 1, not '0'")])
def test_bad_arguments(arguments, message, capsys):
    assert run(*arguments) == 2
    assert message in capsys.readouterr().err


def test_missing_package(monkeypatch, capsys):
    def no_numba(*shape, **options):
        raise ImportError("train_cpu needs numba")

    monkeypatch.setattr(measure, "measure", no_numba)
    assert run() == 1
    assert capsys.readouterr().err == "bitstep bench: error: train_cpu needs numba\n"
