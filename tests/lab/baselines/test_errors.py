"""Errors of the CPU baselines, and their ceilings."""

import subprocess
import sys

import numpy as np
import pytest

from bitstep.pipeline.registers import Loss
from bitstep_lab.baselines import memory_copy_ceiling, memory_read_ceiling, train_cpu, train_sklearn
from bitstep_lab.baselines.threads import split

ROWS, TARGETS = np.zeros((6, 4), np.float32), np.ones(6, np.float32)


@pytest.mark.parametrize("change, message", [
    ({"method": "fast"}, "method must be one of sgd, hogwild, minibatch, lowprec, not 'fast'"),
    ({"steps": []}, "steps must hold one positive number for each epoch, at least one"),
    ({"steps": [0.1, -0.1]}, r"steps must hold .*, not \[0.1, -0.1\]"),
    ({"steps": [float("nan")]}, "steps must hold"),
    ({"l2": -1.0}, "l2 must be a number of at least 0, not -1.0"),
    ({"batch": 0}, "batch must be an integer of at least 1, not 0"),
    ({"threads": 1.5}, "threads must be an integer of at least 1, not 1.5"),
    ({"threads": 2}, "threads must be 1 for method 'sgd', not 2; .* have method 'hogwild'"),
    ({"features": ROWS[0]}, r"features must have shape \(n_rows, n_features\), .* not \(4,\)"),
    ({"features": ROWS[:0]}, r"both at least 1, not \(0, 4\)"),
    ({"features": ROWS.astype(np.float64)},
     "features must be float32 in C order .*, not float64 row after row; convert with np.asco"),
    ({"features": np.asfortranarray(ROWS)}, "not float32 not row after row; convert"),
    ({"features": ROWS, "method": "lowprec"},
     "features must be uint8 or int8 .*, not float32 .* make codes with bitstep.quantization.enc"),
    ({"features": np.full((6, 4), 128, np.uint8), "method": "lowprec"},
     "codes with levels from -127 to 127, not -128"),
    ({"targets": TARGETS[:5]}, r"targets must have shape \(6,\), one for each row, not \(5,\)"),
    ({"targets": TARGETS.astype(np.float64)}, "targets must be float32, not float64; convert"),
    ({"targets": TARGETS * np.float32("nan")}, "targets must be finite"),
    ({"targets": TARGETS / 2, "loss": Loss.HINGE}, r"targets must be \+1 and -1 for loss HINGE"),
    ({"loss": 7}, "7 is not a valid Loss")])
def test_bad_parameters(change, message):
    given = {"features": ROWS, "targets": TARGETS, "method": "sgd", "steps": [0.1],
             "loss": Loss.LEAST_SQUARES, **change}
    with pytest.raises(ValueError, match=message):
        train_cpu(given.pop("features"), given.pop("targets"), **given)


@pytest.mark.parametrize("change, message", [
    ({"steps": [0.0]}, "steps must hold"), ({"l2": -1.0}, "l2 must be"),
    ({"targets": TARGETS / 2, "loss": Loss.LOGISTIC}, r"targets must be \+1 and -1"),
    ({"features": ROWS.astype(np.int8)}, "features must be float32")])
def test_bad_parameters_of_the_peer(change, message):
    given = {"features": ROWS, "targets": TARGETS, "steps": [0.1], "loss": Loss.LEAST_SQUARES,
             **change}
    with pytest.raises(ValueError, match=message):
        train_sklearn(given.pop("features"), given.pop("targets"), **given)


@pytest.mark.parametrize("missing, call, extra", [
    ("numba", "b.train_cpu(x, y, method='sgd', loss=Loss.HINGE, steps=[0.1])", "bench"),
    ("numba", "b.memory_read_ceiling(100)", "bench"),
    ("sklearn", "b.train_sklearn(x, y, loss=Loss.HINGE, steps=[0.1])", "sklearn"),
    ("threadpoolctl", "b.train_cpu(x, y, method='minibatch', loss=Loss.HINGE, steps=[0.1])",
     "bench")])
def test_missing_package(missing, call, extra):
    program = f"""
import sys
sys.modules[{missing!r}] = None
import numpy as np
import bitstep_lab.baselines as b
from bitstep.pipeline.registers import Loss
assert "numba" not in sys.modules or sys.modules["numba"] is None
x, y = np.ones((3, 2), np.float32), np.ones(3, np.float32)
{call}
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         timeout=120)
    assert run.returncode == 1
    assert f'pip install "bitstep[{extra}]"' in run.stderr.splitlines()[-1]
    assert run.stderr.splitlines()[-1].startswith("ImportError")


@pytest.mark.parametrize("count, parts, multiple, expected", [
    (10, 3, 1, [(0, 3), (3, 6), (6, 10)]), (10, 3, 4, [(0, 4), (4, 8), (8, 10)]),
    (2, 3, 1, [(0, 1), (1, 2)]), (10, 2, 16, [(0, 10)]), (1, 1, 1, [(0, 1)])])
def test_split(count, parts, multiple, expected):
    assert split(count, parts, multiple) == expected


@pytest.mark.parametrize("ceiling", [memory_copy_ceiling, memory_read_ceiling])
def test_ceilings(ceiling):
    for options in ({}, {"threads": 2}, {"cpu_time": True}, {"threads": 2, "cpu_time": True}):
        assert 0.01 < ceiling(4_000_000, **options) < 10_000
    with pytest.raises(ValueError, match="n_bytes must be an integer of at least 1, not 0"):
        ceiling(0)
    with pytest.raises(ValueError, match="threads must be"):
        ceiling(100, threads=0)
