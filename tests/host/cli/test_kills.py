"""Runs that are killed at any moment, and go on to the words of one that was not.

``pytest -m slow`` kills 50 runs instead of 4.
"""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitstep.cli import main
from bitstep.training.files.checkpoint import load_checkpoint

SIGNALS = (signal.SIGTERM, signal.SIGKILL)
CASES = {
    "compensated": ["--copies", 3],
    "corrections of batches": ["--bits", 3, "--encoding", "double-symmetric", "--batch", 8,
                               "--l2", 0.02, "--copies", 2],
    "proximal": ["--bits", 5, "--encoding", "double", "--l1", 0.05, "--box", 20],
    "batch of 64": ["--bits", 8, "--encoding", "stochastic", "--batch", 64, "--copies", 2],
    "float": ["--bits", 32, "--l2", 0.01],
    "svm": ["--model", "svm", "--bits", 4, "--encoding", "stochastic", "--copies", 2],
    "l2-svm": ["--model", "l2-svm", "--batch", 4],
    "logistic": ["--model", "logistic", "--l1", 0.001],
    "automatic planes": ["--planes", "auto", "--schedule", "constant"],
    "bit-centred": ["--solver", "bit-centred", "--planes", "1,2,4"],
    "bit-centred classes": ["--model", "logistic", "--solver", "bit-centred", "--l2", 0.01],
}
# Those of the file of three classes.
LOSSES = {"svm", "l2-svm", "logistic", "bit-centred classes"}


@pytest.fixture(scope="session")
def files(tmp_path_factory):
    """A regression file, and one of three classes."""
    folder, rng = tmp_path_factory.mktemp("kills"), np.random.default_rng(1)
    features = rng.normal(size=(250, 6))
    labels = features @ rng.normal(size=6)
    classes = np.digitize(labels, np.quantile(labels, [1 / 3, 2 / 3]))
    for name, column in (("values", labels), ("classes", classes)):
        np.savetxt(folder / f"{name}.csv", np.column_stack([features, column]), delimiter=",")
    return folder


@pytest.fixture(scope="session")
def whole(files) -> dict[tuple[str, str], tuple[bytes, list[Any]]]:
    """Models of the runs that nobody stops, by case and device; filled on demand."""
    return {}


def command(files, case, device, *options):
    """The words after ``bitstep``."""
    data = files / ("classes.csv" if case in LOSSES else "values.csv")
    epochs = "10" if case in LOSSES else "40"
    return ["train", str(data), "--device", device, "--epochs", epochs, *map(str, CASES[case]),
            *map(str, options)]


def words(path):
    """Weights after every epoch of every output; of bit-centred training its whole state."""
    found = load_checkpoint(path)
    return [(result.models.tolist(), result.intercepts.tolist()) for result in found.results] + [
        (state.numbers, {name: array.tolist() for name, array in state.arrays.items()})
        for state in found.centred]


def run_whole(files, whole, case, device):
    if (case, device) not in whole:
        out, kept = files / "whole.npz", files / "whole.ckpt"
        assert main(command(files, case, device, "--out", out, "--checkpoint", kept)) == 0
        whole[case, device] = out.read_bytes(), words(kept)
    return whole[case, device]


def kill_once(arguments: list[str], kept: Path, draw: random.Random,
              log: list[tuple[str, int | None]]) -> bool:
    """Start a run and stop it at some moment; True if it came to its end."""
    before = kept.stat().st_mtime_ns if kept.exists() else None
    process = subprocess.Popen([sys.executable, "-m", "bitstep", *arguments],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    if draw.random() < 0.85:        # most of them in training, not while Python starts
        end = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < end and (
                not kept.exists() or kept.stat().st_mtime_ns == before):
            time.sleep(0.002)
        time.sleep(draw.uniform(0, 0.35))
    else:
        time.sleep(draw.uniform(0, 1.0))
    number = draw.choice(SIGNALS)
    process.send_signal(number)
    _, text = process.communicate(timeout=60)
    epochs = load_checkpoint(kept).epochs_done if kept.exists() else None   # never torn
    log.append((f"{signal.Signals(number).name} {process.returncode}", epochs))
    # SIGTERM while Python or the command is imported has the system's effect.
    assert process.returncode in (0, -number, 143), text.decode()
    return process.returncode == 0


def kill_and_resume(files, whole, folder, case, device, draw, *, most):
    """Kill a run up to ``most`` times, let it come to its end, compare; return the kills.

    What nobody kills runs in this process.
    """
    expected = run_whole(files, whole, case, device)
    out, kept = folder / "model.npz", folder / "run.ckpt"
    out.unlink(missing_ok=True)
    kept.unlink(missing_ok=True)
    log: list[tuple[str, int | None]] = []
    for _ in range(most):
        going = "--resume" if kept.exists() else "--checkpoint"
        if kill_once(command(files, case, device, "--out", out, going, kept), kept, draw, log):
            break
    else:
        going = "--resume" if kept.exists() else "--checkpoint"
        assert main(command(files, case, device, "--out", out, going, kept)) == 0, log
    assert words(kept) == expected[1], log
    assert out.read_bytes() == expected[0], log
    print(f"{case} on {device}: {log}")
    return sum(entry[0].split()[1] != "0" for entry in log)


def drawn(name):
    return random.Random(f"{os.environ['BITSTEP_TEST_SEED']}-{name}")


def test_killed_runs(files, whole, tmp_path):
    """Four kills: two in each of two runs."""
    draw = drawn("kills")
    for case in ("compensated", draw.choice(sorted(set(CASES) - {"compensated"}))):
        kill_and_resume(files, whole, tmp_path, case, "golden", draw, most=2)


@pytest.mark.slow
def test_fifty_killed_runs(files, whole, tmp_path):
    draw, kills, runs = drawn("fifty kills"), 0, 0
    while kills < 50:
        case = draw.choice(sorted(CASES))
        kills += kill_and_resume(files, whole, tmp_path, case, "golden", draw, most=3)
        runs += 1
    print(f"{kills} kills in {runs} runs")


@pytest.mark.slow
@pytest.mark.parametrize("case", ["compensated", "corrections of batches", "svm"])
def test_killed_runs_of_the_simulated_board(files, whole, tmp_path, case):
    pytest.importorskip("bitstep_sim.board.device")
    kill_and_resume(files, whole, tmp_path, case, "sim", drawn(case), most=3)
    assert whole[case, "sim"] == run_whole(files, whole, case, "golden")
