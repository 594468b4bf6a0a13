"""What the figures of `make coverage` are computed from."""

import shutil
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import Loss
from bitstep_sim import coverage, fault_runs
from bitstep_sim.coverage import (
    Point,
    component,
    describe,
    print_rtl,
    read_points,
    unmet_pairs,
)
from bitstep_sim.fault_runs import fault_of, run_fault
from bitstep_sim.faults import FAULTS
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.random_jobs import random_job

ROOT = Path(__file__).resolve().parents[2]
DAT = """# SystemC::Coverage-3
C '\x01f\x02a.v\x01l\x0210\x01n\x023\x01page\x02v_line/bitstep_top.rows\x01o\x02if\x01h\x02t.r1' 5
C '\x01f\x02a.v\x01l\x0210\x01n\x023\x01page\x02v_line/bitstep_top.rows\x01o\x02if\x01h\x02t.r2' 2
C '\x01f\x02a.v\x01l\x0212\x01n\x021\x01page\x02v_toggle/bitstep_top.rows\x01o\x02x[0]\x01h\x02t' 0
"""


def test_points():
    assert read_points(DAT) == {Point("line", "bitstep_top.rows", "10:3:if"): 7,
                                Point("toggle", "bitstep_top.rows", "12:1:x[0]"): 0}


def test_table(capsys):
    print_rtl(read_points(DAT), missing=True)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split() == ["rows", "1", "of", "1", "100.0%", "0", "of", "0", "-",
                                "0", "of", "1", "0.0%"]
    assert lines[2].split()[0] == "all"
    assert lines[3] == "never: toggle  bitstep_top.rows 12:1:x[0]"


@pytest.mark.parametrize("module, name", [
    ("bitstep_top", "bitstep_top"), ("bitstep_top.pipeline.store", "store"),
    ("bitstep_top.pipeline.decode_earlier_12", "decode_earlier"), ("top.rows$3", "rows")])
def test_component(module, name):
    assert component(module) == name


def test_description():
    config = PipelineConfig(bits=4, max_features=32, lookahead=8)
    job = random_job(config, n_features=16, n_rows=5, batch=2, correction_period=4)
    found = describe(job)
    assert (found["look-ahead"], found["batch"], found["corrections"], found["beats"],
            found["full last beat"]) == ("all", "several", "yes", "one", "yes")
    assert describe(job, 0)["look-ahead"] == "0"
    assert describe(job, 1)["look-ahead"] == "some"


def test_unmet_pairs():
    config = PipelineConfig(bits=4, max_features=32, lookahead=8)
    one = describe(random_job(config, n_features=5, n_rows=5))
    two = {**one, "batch": "several", "loss": Loss.HINGE.name, "labels": "SIGN"}
    assert unmet_pairs([one]) == ([], 0)
    unmet, total = unmet_pairs([one, two])
    # HINGE has no labels of 16 bits, so that pair does not count.
    assert total == 4 + 3 + 4
    assert set(unmet) == {"batch one with loss HINGE", "batch several with loss LEAST_SQUARES",
                          "batch one with labels SIGN", "batch several with labels INT16",
                          "loss LEAST_SQUARES with labels SIGN"}


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """A copy of the sources, in which each test changes a file and changes it back."""
    return shutil.copytree(ROOT / "hw/bitstep_hw", tmp_path_factory.mktemp("copy") / "bitstep_hw",
                           ignore=shutil.ignore_patterns("__pycache__"))


@each("fault", FAULTS)
def test_fault_follows_the_source(fault, sources):
    path = sources / fault.mutation.file
    text = path.read_text("utf-8")
    fault.mutation.apply(sources)
    assert path.read_text("utf-8") != text
    path.write_text(text, "utf-8")
    files = [argument for argument in fault.arguments if argument.endswith(".py")]
    assert files
    for name in files:
        assert (ROOT / name).is_file(), f"there is no {name}"


@pytest.mark.slow
@pytest.mark.parametrize("arguments", sorted({tuple(fault.arguments) for fault in FAULTS
                                              if fault.board}), ids=" ".join)
def test_words_of_a_fault_choose_tests(arguments):
    chosen = subprocess.run([sys.executable, "-m", "pytest", "--collect-only", "-q", "-p",
                             "no:cacheprovider", "-m", "slow or not slow", *arguments],
                            cwd=ROOT, capture_output=True, text=True, timeout=600)
    assert chosen.returncode == 0, chosen.stdout


def ending(by_day, by_night):
    """A run of pytest that ends with these codes."""
    codes = {"not slow": by_day, "slow": by_night}

    def run(command, **_):
        marks = command[command.index("-m", 2) + 1]
        return subprocess.CompletedProcess(command, codes[marks], "the end", "")
    return run


@pytest.mark.parametrize("by_day, by_night, result", [
    (1, None, "killed"), (0, 1, "killed"), (5, 1, "killed"), (0, 0, "survives"),
    (0, 5, "survives"), (5, 0, "survives")])
def test_a_fault_that_survives_the_day_is_tried_by_night(monkeypatch, by_day, by_night, result):
    monkeypatch.setattr(fault_runs.subprocess, "run", ending(by_day, by_night))
    assert run_fault(FAULTS[0]) == result


@pytest.mark.parametrize("by_day, by_night", [(5, 5), (2, 0), (0, 2), (4, 5)])
def test_tests_that_do_not_run_tell_nothing_of_a_fault(monkeypatch, by_day, by_night):
    monkeypatch.setattr(fault_runs.subprocess, "run", ending(by_day, by_night))
    with pytest.raises(RuntimeError, match=f"code {by_day}:\nthe end\n.*code {by_night}:\nthe end"):
        run_fault(FAULTS[0])


@pytest.mark.slow
def test_a_fault_is_found_by_its_tests_alone(monkeypatch):
    fault = next(fault for fault in FAULTS if fault.mutation.file == "pipeline/model/walk.py")
    assert run_fault(fault) == "killed"
    assert run_fault(replace(fault, tests=("pipeline/rows/test_decoder.py",))) == "survives"
    with pytest.raises(RuntimeError, match="pytest ended with code 5"):
        run_fault(replace(fault, board="test_coverage.py::no_such_test"))
    monkeypatch.setattr(fault_runs, "LIMIT_S", 0.1)
    with pytest.raises(RuntimeError, match=r"did not end in 0\.1 s; give it tests that end"):
        run_fault(fault)


@pytest.mark.parametrize("jobs", [0, 1, 3])
def test_table_of_faults(monkeypatch, capsys, jobs):
    """In the order of the table; one that changes nothing is no survivor."""
    def run(fault):
        time.sleep(0.05 if fault.kind == "first" else 0.0)
        return "killed" if fault.kind == "first" else "survives"

    made = [fault_of("first", "a.py", "x", "y"), fault_of("second", "b.py", "x", "y"),
            fault_of("third", "c.py", "x", "y", equivalent="the same")]
    monkeypatch.setattr(coverage, "FAULTS", made)
    monkeypatch.setattr(coverage, "run_fault", run)
    assert coverage.main(["faults", "--jobs", str(jobs)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [
        ["killed", "first"], ["survives", "second"], ["equal", "third"], ["1", "of"]]
    monkeypatch.setattr(coverage, "FAULTS", made[::2])
    assert coverage.main(["faults"]) == 0
    assert coverage.main(["faults", "d.py"]) == 1
    assert capsys.readouterr().err == "No fault has 'd.py' in its kind or file\n"


def test_page_counts_the_faults():
    page = " ".join((ROOT / "docs/results/coverage.md").read_text("utf-8").split())
    kinds = {fault.kind for fault in FAULTS}
    files = {fault.mutation.file for fault in FAULTS}
    assert f"There are {len(FAULTS)} faults of {len(kinds)} kinds in {len(files)} files" in page
    assert f"find all of the {len(FAULTS)} faults" in page
    board = sum(bool(fault.board) for fault in FAULTS)
    equal = sum(bool(fault.equivalent) for fault in FAULTS)
    assert f"find {len(FAULTS) - board - equal} of them. {board} are found by runs" in page
