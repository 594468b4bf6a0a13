"""Distance to the optimum by bytes read."""

from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("numba")

from bitstep.pipeline.registers import Loss
from bitstep.quantization import quantize_bit_planes
from bitstep_lab.exactness import __main__ as command
from bitstep_lab.exactness import curves, floats, inner_rows, times
from bitstep_lab.exactness.__main__ import line, time_line
from bitstep_lab.exactness.problems import HELD_OUT, SETS, Problem, problem
from bitstep_lab.races.board_profiles import profile


@pytest.fixture(name="small", scope="module")
def _small():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((300, 4))
    targets = features @ rng.standard_normal((4, 1)) + 0.5 * rng.standard_normal((300, 1))
    return Problem("small", features, targets, True, "here")


def test_marks_and_goal_of_a_curve():
    curve = curves.Curve("one", np.array([0.5, 1.5, 4.0]), np.array([3.0, 1e-5, 1e-7]), "why")
    assert np.isnan(curve.at(0.4))
    assert [curve.at(1), curve.at(1.5), curve.at(20)] == [3.0, 1e-5, 1e-7]
    assert [curve.goal(), curve.goal(1e-6), curve.goal(1e-9)] == [1.5, 4.0, np.inf]
    assert line(curve) == "| one | 3.0e+00 | 1.0e-05 | 1.0e-07 | 1.0e-07 | 1.0e-07 | 1.50 | why |"


def test_float_svrg_reaches_the_optimum(small):
    models = floats.svrg(small.design, small.targets, 0.1, inner=2, epochs=60)
    assert models.shape == (20, 1, 5)
    assert small.excess(models)[-1] < 1e-10
    sgd = small.excess(floats.sgd(small.design, small.targets, 0.1, decay=True, epochs=20))
    assert 1e-6 < sgd[-1] < sgd[0]


def test_bit_centred_is_exact_and_fixed_bits_are_not(small):
    rows = quantize_bit_planes(small.features)
    centred = curves.centred(small, rows, "four", [4] * 6)
    assert centred.excess[-1] < 1e-8
    # 300 rows of 4 bits a plane in beats of 64 bytes, against 300 rows of 16 bytes.
    assert centred.epochs[0] == pytest.approx((2 * 16 + 2 * 4) * 192 / 4800)
    fixed = curves.fixed(small, 4)
    assert fixed.excess[-1] > 1e-4
    assert fixed.epochs[0] == pytest.approx(8 / 16)     # one beat of 64 bits a row


@pytest.mark.parametrize("loss", [Loss.LOGISTIC, Loss.SQUARED_HINGE])
def test_losses_of_classes(loss):
    """Three methods find the optimum that Newton's method found."""
    rng = np.random.default_rng(1)
    features = rng.standard_normal((300, 3))
    signs = np.where(features[:, 0] + rng.standard_normal(300) > 0, 1.0, -1.0)
    found = Problem("small", features, signs[:, None], False, "here", loss, 1 / 300)
    step = 0.1 / curves.step_unit(found)
    options = {"epochs": 90, "loss": loss, "l2": 1 / 300}
    for models in (floats.svrg(found.design, found.targets, step, inner=2, **options),
                   floats.saga(found.design, found.targets, step, **options)):
        assert abs(found.excess(models)[-1]) < 1e-6
    centred = curves.centred(found, quantize_bit_planes(features), "four", [4] * 20)
    assert abs(centred.excess[-1]) < 1e-6
    sgd = floats.sgd(found.design, found.targets, step, decay=True, **options)
    assert found.excess(sgd)[-1] > 1e-5


def test_seconds_are_those_of_the_cycle_model(small):
    one, other = (times._centred(small, replace(profile("pynq-z1"), clock_hz=clock), 4)
                  for clock in (1e8, 1e6))
    np.testing.assert_array_equal(one.excess, other.excess)
    assert one.goal() < other.goal()
    # A full pass and two inner ones of 300 rows of one slot, 2 cycles each at least, at 1 MHz.
    assert other.device is not None
    assert other.device[0] > 2 * 300 * 2e-6
    assert (np.diff(other.epochs) > 0).all()
    assert (other.epochs > other.device).all()
    assert other.alone(1e-2) < other.goal(1e-2)
    assert time_line(other, (1e-2,)).startswith("| pynq-z1: bit-centred, 4 bits | ")


def test_sets():
    assert not set(SETS) & set(HELD_OUT)
    found = problem("one-hot-40")
    assert found.features.shape == (5000, 40)
    np.testing.assert_array_equal(found.features, problem("one-hot-40").features)
    assert problem("correlated-classes", loss=Loss.LOGISTIC).l2 == 1 / 6000
    with pytest.raises(ValueError, match="one-hot-40 is a regression, and loss log_loss needs"):
        problem("one-hot-40", loss=Loss.LOGISTIC)
    digits = problem("digits")
    assert digits.targets.shape == (1797, 10)
    assert (np.abs(digits.targets) == 1).all()


def test_batches_of_inner_passes(small):
    one, many = curves.batches(small, [1, 16])
    assert (one.name, many.name) == ("batch 1", "batch 16")
    assert max(one.excess[-1], many.excess[-1]) < 1e-8
    assert not np.array_equal(one.excess[:3], many.excess[:3])


def test_table_of_inner_rows(monkeypatch, capsys):
    """Outer steps of all rows and of fewer, whose passes are others."""
    monkeypatch.setattr(inner_rows, "COUNTS", (0, 64))
    monkeypatch.setattr("sys.argv", ["inner_rows", "--rows", "1000", "--sets", "gaussian-10"])
    inner_rows.main()
    title, _, *lines = capsys.readouterr().out.splitlines()
    assert title == "| set | loss | all rows | 64 rows |"
    assert [row.split(" | ")[1] for row in lines] == ["squared_error", "log_loss",
                                                        "squared_hinge"]
    for row in lines:
        assert all(1 <= int(cell.split(",")[0]) < 40 for cell in row.split(" | ")[2:])


def test_inner_rows_must_be_enough(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["inner_rows", "--rows", "9"])
    with pytest.raises(SystemExit):
        inner_rows.main()
    assert "--rows must be at least 1000, not 9" in capsys.readouterr().err


@pytest.mark.parametrize("words, message", [
    (["--sets", "cadata"], "error: cadata: there is no file of it in .*, and races download no"),
    (["--sets", "cadata", "--batches", "4"], "error: cadata: there is no file of it in "),
    (["--sets", "nothing"], "error: There is no data set 'nothing'"),
    (["--sets", "diabetes", "--loss", "log_loss"], "error: diabetes is a regression, and loss")])
def test_data_that_cannot_be_used(words, message, monkeypatch, tmp_path):
    monkeypatch.setattr("sys.argv", ["exactness", *words, "--data-home", str(tmp_path)])
    with pytest.raises(SystemExit, match=f"^{message}"):
        command.main()


def test_seed_must_be_a_seed(monkeypatch, capsys):
    monkeypatch.setattr("sys.argv", ["exactness", "--seed", "-1"])
    with pytest.raises(SystemExit):
        command.main()
    assert "--seed must be at least 0, not -1" in capsys.readouterr().err


@pytest.mark.parametrize("words", [["--period", "0", "--profile", "paper"], ["--period", "8"]])
def test_period_of_corrections(monkeypatch, capsys, words):
    monkeypatch.setattr("sys.argv", ["exactness", *words])
    with pytest.raises(SystemExit):
        command.main()
    assert "--period must be at least 1 and needs --profile" in capsys.readouterr().err
