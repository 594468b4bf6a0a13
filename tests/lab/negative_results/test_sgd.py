"""Training: gradients by hand, what methods count, and the negative result in small."""

import subprocess
import sys

import numpy as np
import pytest

from bitstep_lab.negative_results.chebyshev import hinge_derivative, logistic_derivative
from bitstep_lab.negative_results.methods import (
    BoundsRefetch,
    Rounded,
    Sampled,
    SketchRefetch,
    Slopes,
    loss_derivatives,
    loss_values,
)
from bitstep_lab.negative_results.sgd import run_sgd
from bitstep_lab.negative_results.tables import Entry, entries, make_problem, measure, two_classes

PROBLEM = two_classes("small", noise=0.5, flips=0.05, seed=3, n_rows=400)
ROWS, LABELS = PROBLEM.train_rows, PROBLEM.train_labels


def run(method, loss, **options):
    settings = {"steps": np.array([1.0, 4.0]), "epochs": 3, "batch": 8, "radius": 8.0} | options
    return run_sgd(ROWS, LABELS, method, loss=loss, **settings)


def test_losses_by_hand():
    assert loss_values(np.array([0.0, 1000.0, -1000.0]), "logistic") == pytest.approx(
        [np.log(2), 0, 1000])
    assert loss_values(np.array([0.0, 1.0, -2.0, 3.0]), "hinge").tolist() == [1, 0, 3, 0]
    assert loss_derivatives(np.array([0.0, 1.0, -2.0]), "hinge").tolist() == [-1, 0, -1]


def test_derivatives_are_those_of_the_losses():
    margins = np.array([-30.0, -2.0, 0.3, 5.0, 40.0])
    for loss in ("logistic", "hinge"):
        slope = (loss_values(margins + 1e-6, loss) - loss_values(margins - 1e-6, loss)) / 2e-6
        assert loss_derivatives(margins, loss) == pytest.approx(slope, abs=1e-8)


def test_two_epochs_by_hand():
    # Hinge, two rows a batch. From 0 both rows are active: the gradient is the mean of
    # -(0.5, 1) and (-1, 1), (-0.75, 0); step 2 leads to (1.5, 0). Then y (a . x) is 0.75 and 1.5,
    # so only the first row is: gradient -(0.25, 0.5), step 2 / 2.
    rows, labels = np.array([[0.5, 1.0], [-1.0, 1.0]]), np.array([1.0, -1.0])
    found = run_sgd(rows, labels, Rounded("hinge", "exact"), loss="hinge", steps=np.array([2.0]),
                    epochs=2, batch=2)
    assert found.weights.tolist() == [[1.75, 0.5]]
    assert found.refetched.tolist() == found.flipped.tolist() == [0]
    assert found.bits_read.tolist() == [32]
    # The longer row has the length sqrt(2): radius 1 allows models of 1 / sqrt(2).
    found = run_sgd(rows, labels, Rounded("hinge", "exact"), loss="hinge", steps=np.array([2.0]),
                    epochs=1, batch=2, radius=1.0)
    np.testing.assert_allclose(found.weights, [[0.5 ** 0.5, 0]])


def test_last_batch_may_be_shorter():
    rows, labels = np.array([[1.0, 1.0]] * 3), np.ones(3)
    found = run_sgd(rows, labels, Rounded("hinge", "exact"), loss="hinge", steps=np.array([0.1]),
                    epochs=1, batch=2)
    np.testing.assert_allclose(found.weights, [[0.2, 0.2]])     # two means, both of (-1, -1)


@pytest.mark.parametrize("polynomial, levels", [
    (logistic_derivative(8.0), 16), (hinge_derivative(8.0, 1.0), 16),
    (logistic_derivative(8.0, 2), 2)])
@pytest.mark.parametrize("form", ["monomial", "chebyshev", "symmetric"])
def test_sampled_gradient_is_unbiased(polynomial, levels, form):
    # The mean over many codes and arrangements against P(z) y a, each component within five
    # standard errors. With two levels, one sample for both slope and row would be ten off.
    row = np.array([0.35, -0.62, 0.9, 1.0])
    weights = np.array([[1.3, -0.4, 0.8, -0.5]])
    count = 20_000
    method, rng = Sampled(polynomial, form, levels), np.random.default_rng(4)
    method.store(np.tile(row, (count, 1)), rng)
    method.start_epoch(rng)
    found = method.slopes(slice(None), np.full(count, -1.0), weights, rng)
    gradients = -found.slopes * found.rows
    expected = -polynomial(-(weights @ row)) * row
    errors = gradients.std(axis=0) / np.sqrt(count)
    assert (errors < 0.01).all()
    assert (np.abs(gradients.mean(axis=0) - expected) < 5 * errors).all()


class Stub:
    """A method whose rows are wrong for every odd row, and which asks for these again."""

    bits = 1.0

    def store(self, rows, rng):
        self.rows = rows

    def start_epoch(self, rng):
        pass

    def slopes(self, batch, labels, weights, rng):
        rows, odd = self.rows[batch].copy(), np.arange(len(labels)) % 2 == 1
        slopes = loss_derivatives(labels[:, None] * (rows @ weights.T), "logistic")
        rows[odd] = 99.0
        return Slopes(slopes, rows, np.repeat(odd[:, None], len(weights), axis=1))


def test_exact_rows_are_used_for_refetched_ones():
    found, exact = run(Stub(), "logistic"), run(Rounded("logistic", "exact"), "logistic")
    np.testing.assert_allclose(found.weights, exact.weights, rtol=1e-10)
    assert found.bits_read.tolist() == [17, 17]


def test_every_row_with_a_wrong_slope_counts():
    """A model that stays 0 has the slope -1 in every row."""
    class Blind(Stub):
        def slopes(self, batch, labels, weights, rng):
            return Slopes(np.zeros((len(labels), len(weights))), self.rows[batch])

    assert run(Blind(), "hinge").flipped.tolist() == [1, 1]


@pytest.mark.parametrize("encoding, spacing", [
    ("stochastic", 1 / 15), ("nearest", 1 / 30), ("exact", 0.0)])
def test_spacing_is_the_largest_error(encoding, spacing):
    method = Rounded("hinge", encoding, bits=5)
    rows = np.random.default_rng(0).uniform(-1, 1, (2000, 9))
    rows[:, -1] = 1
    method.store(rows, np.random.default_rng(1))
    assert method.bits == (32 if encoding == "exact" else 5)
    assert method.spacing == pytest.approx(spacing)
    off = np.abs(method.stored - rows)
    assert 0.99 * spacing <= off.max() <= spacing + 1e-6
    assert off[:, -1].max() == 0


def test_sampled_is_eight_bits_and_straw_man_what_it_is_told():
    assert Sampled(logistic_derivative(8.0)).bits == 8
    assert Sampled(logistic_derivative(8.0, 3), levels=4).bits == 4
    assert run(Rounded("logistic", bits=3), "logistic").bits == 3


def test_arrangements_are_drawn_anew():
    method, rng = Sampled(logistic_derivative(8.0)), np.random.default_rng(0)
    method.store(ROWS, rng)
    method.start_epoch(rng)
    first = method.drawn
    method.start_epoch(rng)
    assert (first != method.drawn).any()
    np.testing.assert_allclose(first.sum(axis=0), method.drawn.sum(axis=0), atol=1e-9)


@pytest.mark.parametrize("encoding", ["stochastic", "nearest"])
def test_bounds_never_take_the_wrong_side(encoding):
    found = run(BoundsRefetch(encoding, bits=5), "hinge")
    assert found.flipped.tolist() == [0, 0]
    assert (found.refetched > 0.1).all()
    assert (found.refetched < 0.9).all()
    assert found.bits_read == pytest.approx(5 + 32 * found.refetched)
    straw = run(Rounded("hinge", encoding, bits=5), "hinge")
    assert (straw.flipped > 0.01).all()


def test_an_intercept_needs_no_bounds():
    method, rng = BoundsRefetch(bits=5), np.random.default_rng(0)
    method.store(ROWS, rng)
    found = method.slopes(slice(None), np.ones(len(ROWS)), np.append(np.zeros(8), 1.01)[None], rng)
    assert found.refetched is not None
    assert not found.refetched.any()
    assert not found.slopes.any()


def test_each_batch_has_its_own_sketch():
    method, rng = SketchRefetch(1024), np.random.default_rng(0)
    method.store(ROWS, rng)
    first, second = (method.slopes(slice(None), LABELS, np.full((1, 9), 0.7), rng).refetched
                     for _ in range(2))
    assert first is not None
    assert second is not None
    assert 0 < np.count_nonzero(first != second) < 30


def test_rows_beyond_twice_the_gap_are_not_read_again():
    """Row e_1 and the model 1/2 in 8 features: gamma |a| |x| is 0.137 sqrt(2) = 0.194, and an
    estimate is off by 0.044 on the mean.
    """
    rows = np.tile(np.eye(9)[0] + np.eye(9)[8], (5, 1))
    for intercept, residual in ((-0.2, 0.7), (0.3, 0.2), (1.2, -0.7)):
        method, rng = SketchRefetch(1024), np.random.default_rng(0)
        method.store(rows, rng)
        found = method.slopes(slice(None), np.ones(5), np.append(np.full(8, 0.5), intercept)[None],
                              rng)
        assert found.refetched is not None
        assert set(found.refetched.ravel()) == {abs(residual) < 2 * 0.194}
        assert set(found.slopes.ravel()) == {-1.0 if residual > 0 else 0.0}


@pytest.mark.parametrize("inner", [None, Rounded("hinge")])
def test_sketches(inner):
    found = run(SketchRefetch(4096, 0.05, inner), "hinge")
    assert (found.flipped <= 0.05).all()
    assert (found.refetched > 0.1).all()
    assert (found.refetched < 0.9).all()
    assert found.bits == 8 + 16 * 4096 / 8


def test_runs_are_reproducible():
    first, second = (run(SketchRefetch(64), "hinge", seed=7).weights for _ in range(2))
    assert first.tolist() == second.tolist()
    assert first.tolist() != run(SketchRefetch(64), "hinge", seed=8).weights.tolist()


def test_chebyshev_buys_nothing():
    # Section 5.4, in small: with the same 8 bits the straw man is as good as the unbiased
    # estimator where the polynomial is accurate, and better where it is not.
    def loss(make, radius):
        entry = Entry("", radius, make)
        found = measure(entry, PROBLEM, "logistic", steps=2.0 ** np.arange(-1, 6), epochs=10,
                        seeds=3)
        return found.losses.mean(axis=0).min()

    gain = {}
    for radius in (8.0, 48.0):
        exact = loss(lambda: Rounded("logistic", "exact"), radius)
        straw = loss(lambda: Rounded("logistic"), radius)
        assert straw == pytest.approx(exact, abs=2e-4)
        polynomial = logistic_derivative(radius)
        gain[radius] = straw - loss(lambda polynomial=polynomial: Sampled(polynomial), radius)
    assert gain[8.0] == pytest.approx(0, abs=5e-4)
    assert gain[48.0] < -2e-3


def test_problem_is_scaled_by_its_training_rows():
    features = np.array([[0.0, 5.0], [4.0, 5.0], [8.0, 6.0]])
    problem = make_problem("", features, np.array([1.0, -1.0, 1.0]), 2)
    assert problem.train_rows.tolist() == [[-1, 0, 1], [1, 0, 1]]
    assert problem.test_rows.tolist() == [[3, 1, 1]]
    assert problem.test_labels.tolist() == [1]


def test_every_entry_has_its_float64_first():
    for loss in ("logistic", "hinge"):
        radii = [entry.radius for entry in entries(loss)]
        for radius in set(radii):
            assert entries(loss)[radii.index(radius)].name == "float64"


PROGRAM = """
import sys

class Block:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("scipy", "sklearn"):
            raise ImportError(f"{name} is blocked")

sys.meta_path.insert(0, Block())
sys.argv = ["research", "--epochs", "1", "--seeds", "1", "--radii", "8"]
from bitstep_lab.negative_results.__main__ import main
main()
"""


def test_command_needs_numpy_alone():
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True,
                          timeout=120)
    assert done.returncode == 0, done.stderr
    assert "breast_cancer is left out" in done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(" | ")[2] for line in lines if line.startswith("| method")] == [
        "separable: logistic loss", "separable: hinge loss", "separable: refetched"]
    assert len({line.count("|") for line in lines[:5]}) == 1
    assert lines[-1].endswith(" s computing")


@pytest.mark.parametrize("make, message", [
    (lambda: loss_values(np.zeros(1), "squared"),
     "loss must be one of logistic, hinge, not 'squared'$"),
    (lambda: Rounded("squared"), "loss must be one of logistic, hinge, not 'squared'$"),
    (lambda: run(Rounded("hinge", "up"), "hinge"), "encoding must be one of .*, not 'up'$"),
    (lambda: run(Rounded("hinge"), "hinge", steps=np.array([1.0, -1.0])),
     r"steps must be a list of positive numbers, not \[ 1. -1.\]$"),
    (lambda: run(Rounded("hinge"), "hinge", batch=0),
     "epochs and batch must be at least 1, not 3 and 0$"),
    (lambda: run(Rounded("hinge"), "hinge", radius=0.0), "radius must be positive, not 0.0$"),
    (lambda: run_sgd(ROWS, LABELS[:-1], Rounded("hinge"), loss="hinge", steps=np.ones(1), epochs=1,
                     batch=1), "labels must be 1 or -1, one for each of the 200 rows$"),
    (lambda: run_sgd(ROWS[:, :-1], LABELS, Rounded("hinge"), loss="hinge", steps=np.ones(1),
                     epochs=1, batch=1), "rows must have the constant 1 in the last column$"),
    (lambda: SketchRefetch(0), "size must be an integer of at least 1, not 0$"),
    (lambda: SketchRefetch(52), "size must be at least 53 for failure 0.05, not 52$"),
    (lambda: make_problem("", np.zeros((3, 1)), np.ones(3), 3),
     "train_rows must be from 1 to 2, not 3$"),
    (lambda: two_classes("", noise=0.1, flips=2.0, seed=0), "flips must be from 0 to 1, not 2.0$"),
    (lambda: entries("squared"), "loss must be one of logistic, hinge, not 'squared'$"),
])
def test_errors(make, message):
    with pytest.raises(ValueError, match=message):
        make()
