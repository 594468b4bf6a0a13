"""The table: its problems, its entries, what is measured of them, and its cells."""

from functools import partial
from typing import Any

import numpy as np
import pytest

from bitstep_lab.negative_results import tables
from bitstep_lab.negative_results.chebyshev import hinge_derivative, logistic_derivative
from bitstep_lab.negative_results.methods import Rounded
from bitstep_lab.negative_results.tables import (
    Entry,
    Problem,
    Result,
    entries,
    measure,
    problems,
    two_classes,
)


def test_labels_are_sides_of_a_plane_but_for_a_share():
    plain, flipped = (two_classes("", noise=0.0, flips=flips, seed=1) for flips in (0.0, 0.25))
    normal = np.random.default_rng(1).normal(size=8)
    assert (plain.train_rows == flipped.train_rows).all()
    assert np.mean(plain.train_labels != flipped.train_labels) == pytest.approx(0.25, abs=0.05)
    for problem, least in ((plain, 0.7), (flipped, 0.3)):
        distance = problem.train_rows[:, :-1] @ normal
        assert np.corrcoef(distance, problem.train_labels)[0, 1] > least


def test_rows_of_breast_cancer_keep_their_labels():
    """Least squares on the rows to train with tell the others apart."""
    pytest.importorskip("sklearn")
    cancer, *_ = problems()
    assert (cancer.name, len(cancer.train_rows)) == ("breast_cancer", 400)
    weights = np.linalg.lstsq(cancer.train_rows, cancer.train_labels, rcond=None)[0]
    assert np.mean(np.sign(cancer.test_rows @ weights) == cancer.test_labels) > 0.9


@pytest.mark.parametrize("loss", ["logistic", "hinge"])
def test_entries_are_what_their_names_say(loss):
    found = entries(loss, [9.0])
    bits = {"float64": 32, "8 bits": 8, "4 bits": 4, "4 + 4 bits": 8}
    for entry in found:
        *_, told = entry.name.split(", ")
        if told in bits:
            assert entry.make().bits == bits[told], entry.name
    polynomial = logistic_derivative(9.0) if loss == "logistic" else hinge_derivative(9.0, 1.0)
    for entry in found:
        if entry.name.startswith("Chebyshev, "):
            method: Any = entry.make()
            assert entry.radius == 9
            assert method.form == entry.name.split(", ")[1]
            assert method.polynomial.error == pytest.approx(polynomial.error)


def test_measure_by_hand():
    """Losses of the rows to train on, from one step to (0.5, 0); accuracy of the others."""
    rows = np.array([[1.0, 1.0], [-1.0, 1.0]])
    problem = Problem("", rows, np.array([1.0, -1.0]), rows[[0, 0, 1]], np.array([-1.0, 1.0, 1.0]))
    found = measure(Entry("", np.inf, partial(Rounded, "hinge", "exact")), problem, "hinge",
                    steps=np.array([0.5, 0.25]), epochs=1, seeds=2)
    assert found.losses.tolist() == [[0.5, 0.75]] * 2
    assert found.accuracies == pytest.approx(np.full((2, 2), 1 / 3))
    assert found.bits.tolist() == [[32, 32]] * 2


def test_seeds_round_in_their_own_way():
    problem = two_classes("", noise=0.5, flips=0.05, seed=3, n_rows=100)
    found = measure(Entry("", np.inf, partial(Rounded, "hinge", "stochastic", 2)), problem,
                    "hinge", steps=np.ones(1), epochs=1, seeds=3)
    assert len(set(found.losses[:, 0])) == 3


@pytest.mark.parametrize("own_step, straw, sampled", [
    (False, "0.3000 ± 0.0500 | 30.0 %", "0.6000 ± 0.0500 | 30.0 %"),
    (True, "0.1000 ± 0.0500 | 10.0 %", "0.4000 ± 0.0500 | 20.0 %")])
def test_cells_by_hand(own_step, straw, sampled, monkeypatch):
    """A method takes the step that is best for float64 with its limit, or its own."""
    losses = {("float64", np.inf): [0.5, 0.2, 0.4], ("float64", 9.0): [0.5, 0.4, 0.2],
              ("straw man: stochastic, 8 bits", np.inf): [0.1, 0.3, 0.2]}

    def measured(entry, problem, loss, **options):
        assert options == {"epochs": 3, "seeds": 2}
        mean = np.array(losses.get((entry.name, entry.radius), [0.5, 0.4, 0.6]))
        both, share = np.stack([mean - 0.05, mean + 0.05]), np.array([[0.1, 0.2, 0.3]] * 2)
        accuracy = share.copy()
        if entry.name.startswith("straw"):
            accuracy = share[:, [0, 2, 1]]
        return Result(both, accuracy, 2 * share, share / 10, 8 + 10 * share)

    monkeypatch.setattr(tables, "measure", measured)
    problem = two_classes("drawn", noise=0.5, flips=0.0, seed=1, n_rows=10)
    text = tables.tables([problem], own_step=own_step, radii=[9.0], epochs=3, seeds=2)
    logistic, hinge, reads = (part.splitlines() for part in text.split("\n\n"))
    assert logistic[0] == "| method | R | drawn: logistic loss | drawn: accuracy |"
    assert logistic[2] == "| float64 | none | 0.2000 ± 0.0500 | 20.0 % |"
    assert logistic[3] == f"| straw man: stochastic, 8 bits | none | {straw} |"
    assert f"| Chebyshev, symmetric, 4 + 4 bits | 9 | {sampled} |" in logistic
    assert hinge[2:4] == logistic[2:4]
    assert reads[0] == "| method | R | drawn: refetched | drawn: wrong sign | drawn: bits |"
    (sketch,) = (line for line in reads if "sketch of 64 " in line)
    assert sketch == "| l2 refetch, sketch of 64 | none | 40.0 % | 2.00 % | 10.0 |"
    assert not any("float64" in line for line in reads)
