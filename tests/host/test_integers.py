"""Nothing depends on the width of C's long, of which NumPy makes its default integer: 32 bits on
32-bit machines, such as PYNQ-Z1 and Z2. ``make test-arm`` runs these tests there, too.
"""

import ast
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fakes import make_job
from tests.narrow import DEFAULT, narrow_integers

from bitstep.devices.golden import GoldenDevice
from bitstep.levels import counting, layers, optimal
from bitstep.pipeline.bit_planes import BitPlaneLayout
from bitstep.pipeline.results import RunResult
from bitstep.quantization import codebooks, quantize, quantize_bit_planes
from bitstep.training import copies
from bitstep.training.choices import resolve_training
from bitstep.training.loop import tracks
from bitstep.training.objective import Objective
from bitstep.training.pipelines import pipeline_of
from bitstep.training.scores import scoring, stopping
from bitstep.training.train import target_outputs, train_model

SOURCES = Path(__file__).resolve().parents[2] / "host"
ON_BOARDS = ("bitstep", "bitstep_gradients")
GROWING = (ast.Mult, ast.LShift, ast.Pow, ast.MatMult)
OF_C = {"int_", "uint", "long", "ulong", "intc", "uintc", "longlong", "ulonglong"}


def default_integers(node: Any) -> bool:
    """True if an expression has default integers as they come out of a call of NumPy."""
    if isinstance(node, ast.BinOp):
        return not isinstance(node.op, ast.Div) \
            and (default_integers(node.left) or default_integers(node.right))
    if isinstance(node, ast.Subscript):
        return default_integers(node.value)
    if isinstance(node, ast.UnaryOp):
        return default_integers(node.operand)
    function: Any = getattr(node, "func", None)
    if not isinstance(node, ast.Call) or not is_numpy(function) or function.attr not in DEFAULT:
        return False
    floats = any(isinstance(part, ast.Constant) and isinstance(part.value, float)
                 for one in node.args for part in ast.walk(one))
    weighted = function.attr == "bincount" and len(node.args) > 1
    return not (floats or weighted or any(one.arg == "dtype" for one in node.keywords))


def is_numpy(node: Any) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) \
        and node.value.id == "np"


def is_int(node):
    return isinstance(node, ast.Name) and node.id == "int"


def found_in(text):
    """Lines of a source whose integers are as wide as C's long, and what they hold."""
    node: Any
    for node in ast.walk(ast.parse(text)):
        bad = is_numpy(node) and node.attr in OF_C
        if isinstance(node, ast.BinOp) and isinstance(node.op, GROWING):
            bad = default_integers(node.left) or default_integers(node.right)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            types = [one.value for one in node.keywords if one.arg == "dtype"]
            of_arrays = is_numpy(node.func) or node.func.attr == "astype"
            bad = any(map(is_int, [*node.args, *types])) if of_arrays else False
            bad |= is_numpy(node.func) and node.func.attr in ("prod", "cumprod") and not types
        if bad:
            yield f"{node.lineno}: {ast.unparse(node)}"


def test_no_source_depends_on_the_width_of_a_long():
    assert not [f"{path.relative_to(SOURCES)}:{line}" for package in ON_BOARDS
                for path in sorted((SOURCES / package).rglob("*.py"))
                for line in found_in(path.read_text("utf-8"))]


@pytest.mark.parametrize("text, count", [
    ("np.arange(n) * m // k", 1), ("1 << np.arange(n)", 1), ("(2 * np.arange(n) + 1) * m", 2),
    ("x @ (1 << np.arange(n))", 2), ("np.argsort(x)[:2] * m", 1), ("a.astype(int)", 1),
    ("np.zeros(3, int)", 1), ("np.int_(3)", 1), ("np.prod(shape)", 1), ("np.sum(x, dtype=int)", 1),
    ("np.arange(n, dtype=np.int64) * m", 0), ("np.arange(n) / 2 * m", 0), ("int(x) * y", 0),
    ("p ** np.arange(n - 1.0, 0, -1)", 0), ("np.prod(shape, dtype=object)", 0),
    ("np.bincount(x, w) * m", 0), ("np.arange(n) + m", 0)])
def test_what_the_sources_are_searched_for(text, count):
    assert len(list(found_in(text))) == count


@pytest.fixture
def narrow(monkeypatch):
    """Make the default integers of some modules 32 bits wide."""
    return partial(narrow_integers, monkeypatch)


@pytest.mark.parametrize("n_rows", [16_385, 131_080, 131_081, 1_000_003, 2**31 - 1])
def test_many_scored_rows(narrow, n_rows):
    narrow(scoring)
    found = scoring.spaced(n_rows, scoring.SCORED_ROWS)
    assert found.tolist() == [number * n_rows // 16_384 for number in range(16_384)]


def test_many_held_out_rows(narrow):
    n_rows, count = 104_000, 20_800
    order = np.random.Generator(np.random.PCG64(5)).permutation(n_rows)
    expected = sorted(int(order[1:][(2 * number + 1) * (n_rows - 1) // (2 * count)])
                      for number in range(count))
    narrow(stopping)
    train, held = stopping.held_out(n_rows, 0.2, 5)
    assert held.tolist() == expected
    assert sorted([*train.tolist(), *expected]) == list(range(n_rows))


def test_optimal_levels(narrow, monkeypatch):
    features = np.random.default_rng(0).normal(size=(300, 3))
    expected = quantize(features, features[:, 0], bits=3, levels="optimal").rows.codebooks
    assert expected is not None
    for module in (layers, optimal):
        monkeypatch.setattr(module, "compiled_kernels", lambda: None)
    narrow(counting, layers, codebooks)
    found = quantize(features, features[:, 0], bits=3, levels="optimal").rows.codebooks
    np.testing.assert_array_equal(found, expected)


def test_rows_of_weights(narrow):
    draws, groups = [0.5, 2.5, 0.0, 3.0], np.array([0, 1, 0, 1])
    expected = copies.weighted_order(np.array(draws), lambda: 1, groups)
    narrow(copies)
    found = copies.weighted_order(np.array(draws), lambda: 1, groups)
    assert found.tolist() == expected.tolist()


def test_cycles_of_a_long_run(narrow):
    """Half a minute at 100 MHz."""
    run = RunResult(np.zeros((1, 2), np.int32), np.zeros(1, np.int32), {}, (2**30,))
    narrow(tracks)
    whole = tracks.joined([run] * 3, make_job([[1, 2]], [1]))
    assert tuple(whole.epoch_cycles or ()) == (2**30, 2**31, 3 * 2**30)


def test_bytes_of_several_outputs(monkeypatch):
    """Bit-centred training of two outputs, of which each reads less than 2 GB."""
    rng = np.random.default_rng(0)
    rows = quantize_bit_planes(rng.uniform(-1, 1, (60, 2)))
    outputs = target_outputs(rows, np.sign(rng.uniform(-1, 1, (60, 2))))
    training = resolve_training(rows, Objective(), epochs=2, solver="bit-centred", planes=4)
    config = pipeline_of(rows, Objective())
    single = train_model(outputs[:1], GoldenDevice(config), config, Objective(), training)
    assert single.bytes_read is not None
    plane = BitPlaneLayout(2).bytes_read(60, 1)
    monkeypatch.setattr(BitPlaneLayout, "bytes_read",
                        lambda self, n_rows, planes: planes * (2**30 // 16))
    found = train_model(outputs, GoldenDevice(config), config, Objective(), training)
    assert found.bytes_read is not None
    assert found.bytes_read.sum() == 2 * single.bytes_read.sum() // plane * (2**30 // 16) > 2**31
