"""Optimal levels: against brute force in fractions, guarantees, compiled against NumPy."""

import subprocess
import sys
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest

from bitstep.levels import METHODS, adaquant_levels, layers, level_cost, optimal, optimal_levels
from bitstep.levels.points import Points, running_sum

RNG = np.random.default_rng(8)
NORMAL = RNG.normal(size=40)
POINTS = {
    "normal": NORMAL, "lognormal": np.exp(NORMAL), "offset": 1000 + 1e-4 * NORMAL,
    "duplicates": RNG.integers(0, 9, 60) * 0.1, "large": 3e300 * NORMAL, "small": 3e-310 * NORMAL,
    "clusters": np.concatenate([1e-9 * NORMAL, 1 + 1e-9 * NORMAL[:20]]),
    "outlier": np.append(NORMAL, 1e9)}


def exact_cost(points, levels):
    """The cost in fractions."""
    points, levels = [Fraction(x) for x in points], [Fraction(x) for x in levels]
    total = Fraction(0)
    for x in points:
        lower = max((one for one in levels if one <= x), default=levels[0])
        upper = min(one for one in levels if one >= x)
        total += (upper - x) * (x - lower)
    return total


def least_cost(points, n_levels):
    """The cost of the best levels among the points, by the recursion over all pairs."""
    points = [Fraction(x) for x in sorted(points)]
    size = len(points)
    cost = [[sum(((points[j] - x) * (x - points[k]) for x in points[k:j]), Fraction(0))
             for j in range(size)] for k in range(size)]
    least = cost[0]
    for _ in range(n_levels - 2):
        least = [min(least[k] + cost[k][j] for k in range(j + 1)) for j in range(size)]
    return least[-1]


@pytest.fixture(params=["numba", "numpy"])
def compiled(request, monkeypatch):
    """Both ways to compute."""
    if request.param == "numpy":
        monkeypatch.setattr(layers, "compiled_kernels", lambda: None)
        monkeypatch.setattr(optimal, "compiled_kernels", lambda: None)
    else:
        pytest.importorskip("numba")


@pytest.mark.by_day(12)
@pytest.mark.covering(2)
@pytest.mark.parametrize("n_levels", [2, 3, 4, 7])
@pytest.mark.parametrize("name", POINTS)
def test_exact_is_the_least(name, n_levels, compiled):
    points = POINTS[name]
    found, least = optimal_levels(points, n_levels), least_cost(points, n_levels)
    assert found.size == n_levels
    assert np.isin(found, points).all()
    assert exact_cost(points, found) <= least * (1 + Fraction(1, 10**9))


def test_brute_force_itself():
    points = POINTS["normal"][:9]
    by_hand = min(exact_cost(points, (min(points), *some, max(points)))
                  for some in combinations(sorted(points)[1:-1], 2))
    assert least_cost(points, 4) == by_hand


@pytest.mark.parametrize("size, n_levels", [(300, 5), (4096, 16), (5000, 3), (70_000, 16)])
def test_compiled_and_numpy_give_the_same(size, n_levels, monkeypatch):
    pytest.importorskip("numba")
    rng = np.random.default_rng(size)
    values = {"normal": rng.normal(size=size), "offset": 1e7 + rng.normal(size=size),
              "float32": rng.laplace(size=size).astype(np.float32)}
    if size < 10_000:
        values["clusters"] = np.concatenate([1e-9 * values["normal"], 1 + 1e-9 * values["normal"]])
    results = {key: [optimal_levels(one, n_levels, method=method) for method in METHODS]
               for key, one in values.items()}
    monkeypatch.setattr(layers, "compiled_kernels", lambda: None)
    monkeypatch.setattr(optimal, "compiled_kernels", lambda: None)
    for key, one in values.items():
        for method, found in zip(METHODS, results[key], strict=True):
            assert optimal_levels(one, n_levels, method=method).tolist() == found.tolist()


@pytest.mark.parametrize("points", [NORMAL, np.sort(np.repeat(NORMAL, 30))])
def test_layers_of_both_costs_are_the_same(points, compiled):
    """Sums and sums without cancellation, over many strides."""
    every = Points.of(np.concatenate([points, points + 0.5]))
    for costs in (layers.SumCosts(every), layers.SplitCosts(every)):
        before = costs.of(np.zeros(every.values.size, int), np.arange(every.values.size),
                          np.zeros(every.values.size))
        after, best = costs.layer(before) or layers.next_layer(costs, before)
        for j in range(every.values.size):
            expected = [before[k] + level_cost(every.values[k:j + 1], every.values[[k, j]],
                                               weights=every.weights[k:j + 1])
                        for k in range(j)] + [before[j]]
            assert after[j] == pytest.approx(min(expected), abs=1e-11)
            assert expected[best[j]] == pytest.approx(min(expected), abs=1e-11)


def test_offset_and_clusters_take_the_sums_without_cancellation(monkeypatch):
    used = []
    monkeypatch.setattr(optimal, "SplitCosts", lambda points: used.append(points.values.size)
                        or layers.SplitCosts(points))
    optimal_levels(POINTS["normal"], 4)
    optimal_levels(POINTS["offset"], 4)
    assert not used
    optimal_levels(POINTS["clusters"], 4)
    assert used == [60]


@pytest.mark.parametrize("n_levels", [2, 3, 4, 5, 7, 12, 13])
def test_little_room(n_levels, monkeypatch):
    points = np.random.default_rng(9).normal(size=200)
    expected = optimal_levels(points, n_levels)
    monkeypatch.setattr(layers, "ROOM", 500)
    assert optimal_levels(points, n_levels).tolist() == expected.tolist()


@pytest.mark.parametrize("values", [NORMAL, np.exp(NORMAL)], ids=["normal", "lognormal"])
def test_weights_are_copies(values):
    copies = np.random.default_rng(2).integers(0, 5, values.size)
    repeated = np.repeat(values, copies)
    for method in ("exact", "histogram", "adaquant"):
        assert optimal_levels(values, 5, weights=copies, method=method) == \
            pytest.approx(optimal_levels(repeated, 5, method=method))
    levels = optimal_levels(repeated, 4)
    assert level_cost(values, levels, weights=copies) == pytest.approx(level_cost(repeated, levels))


@pytest.mark.parametrize("method", ["histogram", "discretised"])
@pytest.mark.parametrize("log", [False, True])
def test_few_candidates_are_nearly_as_good(method, log):
    values = np.random.default_rng(4).normal(size=200_000)
    values = np.exp(values) if log else values
    best = level_cost(values, optimal_levels(values, 16))
    assert level_cost(values, optimal_levels(values, 16, method=method)) <= 1.01 * best


def test_histogram_is_the_best_of_its_places():
    places = np.linspace(NORMAL.min(), NORMAL.max(), 11)
    best = min(level_cost(NORMAL, (places[0], *some, places[-1]))
               for some in combinations(places[1:-1], 2))
    found = optimal_levels(NORMAL, 4, method="histogram", bins=10)
    assert level_cost(NORMAL, found) == pytest.approx(best, rel=1e-12)
    again = optimal_levels(NORMAL.tolist(), 4, method="histogram", bins=10)
    assert again == pytest.approx(found)


@pytest.mark.parametrize("name", ["uniform", "normal", "lognormal"])
def test_bound_of_the_discretised_method(name):
    """Theorem 2 of the ZipML paper: a / M is the longest of the M parts, b N / M the most points in
    one, and c M / k the most parts that an optimal interval meets.
    """
    rng, k = np.random.default_rng(6), 7
    values = {"uniform": rng.uniform(size=3000), "normal": rng.normal(size=3000),
              "lognormal": np.exp(rng.normal(size=3000))}[name]
    values = (values - values.min()) / np.ptp(values)
    best = optimal_levels(values, k + 1)
    for parts in (32, 64, 256):
        found = optimal_levels(values, k + 1, method="discretised", bins=parts)
        # Its places: half equally spaced, half with as many points between them.
        edges = np.unique(np.concatenate([
            np.linspace(0, 1, parts // 2 + 1),
            np.sort(values)[np.arange(1, parts // 2) * values.size // (parts // 2)]]))
        a, b = 2.0, 2.5
        c = k / parts * max(np.count_nonzero((edges[1:] > low) & (edges[:-1] < high))
                            for low, high in pairwise(best))
        bound = a**2 * b * k / (4 * parts**3) + a**2 * b * c**2 / (parts * k)
        gap = (level_cost(values, found) - level_cost(values, best)) / values.size
        assert -1e-12 <= gap <= bound


@pytest.mark.covering(2)
@pytest.mark.parametrize("gamma", [0.5, 1, 3])
@pytest.mark.parametrize("k", [1, 3, 8])
@pytest.mark.parametrize("name", ["normal", "lognormal", "duplicates", "outlier", "even"])
def test_guarantee_of_adaquant(name, k, gamma):
    """Theorem 9, with intervals as Algorithm 1 allows."""
    rng = np.random.default_rng(k)
    values = {"normal": rng.normal(size=999), "lognormal": np.exp(2 * rng.normal(size=1000)),
              "duplicates": rng.integers(0, 50, 1000), "even": np.arange(513),
              "outlier": np.append(rng.normal(size=500), 1e6)}[name]
    levels = adaquant_levels(values, k, gamma=gamma)
    assert levels.size - 1 <= 2 * np.ceil((1 + gamma) * k) + 1
    assert np.isin(levels, values).all()
    least = level_cost(values, optimal_levels(values, k + 1))
    assert level_cost(values, levels) <= (1 + 1 / gamma) * least * (1 + 1e-9)
    among = optimal_levels(values, k + 1, method="adaquant")
    assert among.size <= k + 1
    assert level_cost(values, among) <= 2 * least * (1 + 1e-9)


def test_adaquant_by_hand():
    """Of 6 intervals 3 pairs are merged, each at the cost 1, and 2 of them divided again."""
    assert adaquant_levels(np.arange(7), 1).tolist() == [0, 1, 2, 3, 4, 6]
    # The point 3 counts ten times. First 0-2 (cost 1) and 2-4 (cost 10) stay divided, and 0-1-2-3-4
    # -6-8 is left; then 2-4 again, and 4-8 (cost 3 + 4 + 3).
    assert adaquant_levels(np.append(np.arange(9), [3] * 9), 1).tolist() == [0, 2, 3, 4, 6, 8]


def test_settings_of_adaquant_are_rounded():
    """(1 + gamma) k up to an integer, delta down to one."""
    values = np.exp(np.random.default_rng(1).normal(size=200))
    for k, gamma, whole in ((1, 0.1, 1), (5, 0.5, 0.6)):
        assert adaquant_levels(values, k, gamma=gamma).tolist() == \
            adaquant_levels(values, k, gamma=whole).tolist()
    assert adaquant_levels(values, 2, delta=1.9).tolist() == adaquant_levels(values, 2).tolist()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("name", ["lognormal", "clusters", "outlier"])
def test_scales_and_signs_change_the_levels_alone(name, method):
    points = POINTS[name]
    found = optimal_levels(points, 4, method=method)
    for exponent in (-600, 500):
        scaled = optimal_levels(np.ldexp(points, exponent), 4, method=method)
        assert scaled.tolist() == np.ldexp(found, exponent).tolist()
    if method == "adaquant":            # whose pairs are counted from the least point
        return
    for exponent in (0, 990):
        mirrored = optimal_levels(-np.ldexp(points, exponent), 4, method=method)
        assert float(exact_cost(points, -np.ldexp(mirrored, -exponent)[::-1])) == \
            pytest.approx(float(exact_cost(points, found)), rel=1e-9)


def test_a_point_far_below_is_one_far_above():
    points = np.append(np.random.default_rng(0).normal(size=10_000), -2e6)
    below, above = optimal_levels(points, 8), -optimal_levels(-points, 8)[::-1]
    assert level_cost(points, below) == pytest.approx(level_cost(points, above), rel=1e-9)


@pytest.mark.parametrize("method", ["histogram", "discretised"])
def test_one_bin_has_two_levels(method):
    assert optimal_levels(NORMAL, 2, method=method, bins=1).tolist() == \
        [NORMAL.min(), NORMAL.max()]


@pytest.mark.parametrize("method", METHODS)
def test_few_distinct_points(method):
    assert optimal_levels(np.full(5, 7.5), 4, method=method).tolist() == [7.5]
    assert optimal_levels([3.5], 2, method=method).tolist() == [3.5]
    assert optimal_levels(np.array([0.0, -0.0]), 2, method=method).tolist() == [0]
    if method != "histogram":
        assert optimal_levels([2.0, 1.0, 2.0], 4, method=method).tolist() == [1, 2]
    values = np.linspace(-1, 1, 5).astype(np.float16)
    assert level_cost(values, optimal_levels(values, 2, method=method)) > 0
    tiny = np.float32(1e-45) * np.arange(9)
    assert level_cost(tiny, optimal_levels(tiny, 3, method=method, bins=8)) >= 0
    huge = np.array([-1e308, 0, 1, 5e307, 1e308])
    assert optimal_levels(huge, 3, method=method)[[0, -1]].tolist() == [-1e308, 1e308]
    apart = np.array([-1e308, -5e307, -3, 1e-300])
    assert optimal_levels(apart, 3, method=method)[[0, -1]].tolist() == [-1e308, 1e-300]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("points, n_levels, weights, expected", [
    (np.arange(5.0), 8, None, [0, 1, 2, 3, 4]),
    (np.repeat([-2.0, 0, 1, 2], 300), 7, None, [-2, 0, 1, 2]),
    # Two of the points weigh nothing beside the largest weight.
    (np.arange(5.0), 4, [1, 1e-320, 1, 1e-320, 1e10], [0, 2, 4])])
def test_no_level_twice(points, n_levels, weights, expected, method, compiled):
    assert optimal_levels(points, n_levels, weights=weights, method=method).tolist() == expected


@pytest.mark.parametrize("method", METHODS)
def test_neighbours_among_floats(method):
    points = 1 + np.finfo(float).eps * np.array([0, 1, 2, 5, 9, 9, 40])
    found = optimal_levels(points, 4, method=method)
    assert (np.diff(found) > 0).all()
    assert found[[0, -1]].tolist() == points[[0, -1]].tolist()
    assert level_cost(points, found) <= 2 * level_cost(points, optimal_levels(points, 4))


def test_without_numba():
    program = ("import sys; sys.modules['numba'] = None\n"
               "from bitstep.levels import METHODS, optimal_levels\n"
               "for method in METHODS:\n"
               "    print(optimal_levels([0.0, 1, 1, 2, 8, 9, 20], 3, method=method).tolist())\n")
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         timeout=120, check=True)
    assert run.stdout.splitlines() == [str(optimal_levels(
        [0.0, 1, 1, 2, 8, 9, 20], 3, method=method).tolist()) for method in METHODS]


@pytest.mark.parametrize("arguments, kind, text", [
    ({"points": [1, np.nan, 3]}, ValueError, "1 of 3 are not finite"),
    ({"points": np.array([1, np.inf, np.nan])}, ValueError, "2 of 3 are not finite"),
    ({"points": np.array([1, 2, np.inf])}, ValueError, "1 of 3 are not finite"),
    ({"points": []}, ValueError, "at least one finite number"),
    ({"points": ["a"]}, TypeError, "points must be real numbers"),
    ({"points": [1 + 1j]}, TypeError, "points must be real numbers"),
    ({"n_levels": 1}, ValueError, "n_levels must be an integer from 2"),
    ({"n_levels": 2.5}, ValueError, "n_levels must be an integer from 2"),
    ({"bins": 0}, ValueError, "bins must be an integer from 1"),
    ({"method": "best"}, ValueError, "method must be one of exact, histogram"),
    ({"weights": [1, 2]}, ValueError, "weights must be 3 numbers"),
    ({"weights": [0, 0, 0]}, ValueError, "not all 0"),
    ({"weights": [1, -1, 1]}, ValueError, "at least 0")])
@pytest.mark.parametrize("method", METHODS)
def test_bad_arguments(arguments, kind, text, method):
    arguments = {"points": [1.0, 2.0, 3.0], "n_levels": 2, "method": method} | arguments
    with pytest.raises(kind, match=text):
        optimal_levels(**arguments)


def test_bad_levels_and_bad_settings_of_adaquant():
    with pytest.raises(ValueError, match=r"from at most 1\.0 to at least 3\.0"):
        level_cost([1, 3], [1, 2])
    with pytest.raises(ValueError, match="gamma must be positive"):
        adaquant_levels([1, 2], 1, gamma=0)
    with pytest.raises(ValueError, match="delta at least 1"):
        adaquant_levels([1, 2], 1, delta=0)
    with pytest.raises(ValueError, match="n_intervals"):
        adaquant_levels([1, 2], 0)


def test_running_sums():
    terms = np.random.default_rng(3).normal(size=5000)
    for size in (0, 1, 1023, 1024, 1025, 5000):
        assert running_sum(terms[:size]) == pytest.approx(np.cumsum(terms[:size]))
