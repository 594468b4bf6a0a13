"""``make night`` runs every target and says which failed."""

import subprocess
import sys
from pathlib import Path

NIGHT = Path(__file__).with_name("night.py")


def run_night(tmp_path, *targets):
    """The script with a make of our own, by its exit code and its last lines."""
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\necho "made $1"\n[ "$1" != bad ]\n')
    make.chmod(0o755)
    ended = subprocess.run([sys.executable, str(NIGHT), str(make), *targets], text=True,
                           capture_output=True)
    return ended.returncode, ended.stdout.splitlines()


def test_goes_on_after_a_failure(tmp_path):
    code, lines = run_night(tmp_path, "good", "bad", "better")
    assert code == 1
    assert [line for line in lines if line.startswith("made")] == [
        "made good", "made bad", "made better"]
    assert [line.split()[:2] for line in lines[-3:]] == [
        ["good", "passed"], ["bad", "failed"], ["better", "passed"]]


def test_all_passed(tmp_path):
    assert run_night(tmp_path, "good", "better")[0] == 0
