"""Codebooks: the best ones, codes by hand, statistics, files, a table in two passes."""

import itertools

import numpy as np
import pytest

from bitstep.data.dataset import Dataset
from bitstep.data.tables.memory import MemoryTable
from bitstep.levels import level_cost
from bitstep.pipeline.levels import look_up
from bitstep.quantization import LEVELS, load_quantized, quantize, quantize_rows, save_quantized
from bitstep.quantization.codebooks import LIMIT, PlaceCounts, TableGrid

ENCODINGS = ("nearest", "stochastic", "compensated")


def positions_of(levels):
    """Positions of levels, which may lie between two places."""
    return np.rint((np.asarray(levels, np.float64) + LIMIT) * 2**24).astype(np.uint32)


def skewed(n_rows=400, n_features=5, seed=0):
    """Columns of several shapes, one of them constant."""
    rng = np.random.default_rng(seed)
    columns = [rng.normal(size=n_rows), rng.exponential(size=n_rows), np.full(n_rows, 3.5),
               rng.integers(0, 3, n_rows), rng.standard_t(2, n_rows)]
    return np.stack(columns[:n_features], axis=1)


def test_codes_by_hand():
    grid = TableGrid("nearest", 2, np.array([[-127, -10, 10, 127]], np.int8))
    values = [-127, -69, -68, -10, -0.5, 0, 9.9, 10, 68, 69, 127]
    codes = grid.codes(positions_of(values)[:, None], None)
    assert codes[:, 0].tolist() == [0, 0, 1, 1, 1, 2, 2, 2, 2, 3, 3]


def test_repeated_levels_and_values_beyond_the_ends():
    """A column of two places repeats its last level; what lies beyond counts as the end."""
    tables = np.array([[-5, 7, 7, 7], [4, 4, 4, 4]], np.int8)
    grid = TableGrid("stochastic", 2, tables)
    values = np.array([[-100, 4], [-5, 0], [7, 90], [90, 4]])
    rng = np.random.default_rng(1)
    levels = look_up(grid.codes(positions_of(values), rng), tables)
    assert levels.tolist() == [[-5, 4], [-5, 4], [7, 4], [7, 4]]
    assert (grid.variance(positions_of(values)) == 0).all()


def test_variance_by_hand():
    grid = TableGrid("stochastic", 1, np.array([[-27, 100]], np.int8))
    assert grid.variance(positions_of([[0.0]])) == pytest.approx(100 * 27 / 127**2)


def test_draws_are_unbiased_with_the_stated_variance():
    tables = np.array([[-127, -3, 40, 127], [-90, -90, 0, 5]], np.int8)
    grid = TableGrid("stochastic", 2, tables)
    values = np.array([[-50.25, -45.5], [0.125, 4.5], [39.0, -60.75]])
    rng = np.random.default_rng(2)
    drawn = np.stack([look_up(grid.codes(positions_of(values), rng), tables)
                      for _ in range(20000)])
    variance = grid.variance(positions_of(values)) * LIMIT**2
    assert (np.abs(drawn.mean(axis=0) - values) <= 4.5 * np.sqrt(variance / 20000)).all()
    assert drawn.var(axis=0) == pytest.approx(variance, rel=0.06)


def test_tables_are_the_best_of_all():
    rng = np.random.default_rng(3)
    values = np.round(rng.normal(size=60) * 5 * 2**24) / 2**24
    counts = PlaceCounts(1)
    counts.add(positions_of(values)[:, None])
    found = level_cost(values, counts.tables(2)[0].astype(float))
    low, high = int(np.floor(values.min())), int(np.ceil(values.max()))
    best = min(level_cost(values, np.array([low, *inner, high], float))
               for inner in itertools.combinations(range(low + 1, high), 2))
    assert found == pytest.approx(best, rel=1e-9)


@pytest.mark.parametrize("bits", range(1, 6))
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_optimal_levels_have_less_variance(bits, encoding):
    features = skewed(2000)
    rows = quantize_rows(features, bits=bits, encoding=encoding, levels="optimal", seed=4)
    equal = quantize_rows(features, bits=bits, encoding=encoding, seed=4)
    assert rows.codebooks is not None
    assert rows.config.codebooks
    scaled = rows.scaler.transform(features)
    error = ((rows.levels(slice(None))[0] - scaled)**2).mean(axis=0)
    other = ((equal.levels(slice(None))[0] - scaled)**2).mean(axis=0)
    if encoding == "nearest":
        return          # levels are the best ones for drawing
    assert (rows.variance <= equal.variance + 1e-9).all()
    assert error == pytest.approx(rows.variance, rel=0.2, abs=2e-5)
    assert error[[0, 1, 4]].sum() < 0.6 * other[[0, 1, 4]].sum() or bits == 1


def test_file(tmp_path):
    features, labels = skewed(300), np.arange(300) % 2
    data = quantize(features, labels, bits=3, levels="optimal", task="classification", copies=2)
    save_quantized(data, tmp_path / "rows.npz")
    back = load_quantized(tmp_path / "rows.npz")
    assert back.rows.codebooks is not None
    assert data.rows.codebooks is not None
    assert np.array_equal(back.rows.codebooks, data.rows.codebooks)
    assert np.array_equal(back.rows.levels(slice(None))[0], data.rows.levels(slice(None))[0])
    assert back.rows.config == data.rows.config


def test_two_passes_over_a_table_give_the_same_file(tmp_path):
    from bitstep.quantization.encoder import RowOptions
    from bitstep.quantization.labels import quantize_labels
    from bitstep.quantization.streaming import choose_rows, write_quantized
    features, labels = skewed(9000), np.arange(9000) / 7
    table = MemoryTable(Dataset(name="drawn", features=features, labels=labels, task="regression"))
    chosen = choose_rows("drawn", 9000, 8000, True, 5)
    stream = quantize_labels(labels[chosen.order], 8000)
    options = RowOptions(bits=4, levels="optimal", seed=5)
    survey = table.survey(chosen.numbers())
    write_quantized(table, survey, chosen, stream, options, tmp_path / "passes.npz")
    rows = quantize_rows(features[chosen.order], bits=4, levels="optimal", seed=5)
    back = load_quantized(tmp_path / "passes.npz").rows
    assert back.codebooks is not None
    assert rows.codebooks is not None
    assert np.array_equal(back.codebooks, rows.codebooks)
    assert np.array_equal(back.stored[0], rows.stored[0])
    assert np.array_equal(back.variance, rows.variance)


@pytest.mark.parametrize("options, text", [
    ({"bits": 6}, "at most 5 bits, not 'compensated' and 6"),
    ({"bits": 4, "encoding": "double"}, "one of the encodings 'nearest', 'stochastic', 'comp"),
    ({"bits": 4, "encoding": "double-symmetric"}, "needs one of the encodings"),
    ({"bits": 32, "encoding": "float"}, "needs one of the encodings"),
    ({"bits": 4, "encoding": "nearest", "fine_rows": True}, "fine_rows must be False"),
    ({"bits": 4, "levels": "best"}, "levels must be one of uniform, optimal, not 'best'")])
def test_what_does_not_go_together(options, text):
    with pytest.raises(ValueError, match=text):
        quantize_rows(skewed(), **{"levels": "optimal", **options})


@pytest.mark.parametrize("tables, text", [
    (np.zeros((2, 8), np.int8), "must be int8 of shape"), (np.zeros((1, 4)), "must be int8"),
    (np.array([[1, 0, 2, 3]], np.int8), "must rise"),
    (np.array([[-128, 0, 2, 3]], np.int8), "must be from -127 to 127, not -128")])
def test_bad_tables(tables, text):
    rows = quantize_rows(skewed(n_features=1), bits=2, levels="optimal")
    fields = {name: getattr(rows, name) for name in (
        "bits", "encoding", "bus_width", "n_features", "stored", "scaler", "variance", "seed")}
    with pytest.raises(ValueError, match=text):
        type(rows)(**fields, codebooks=tables)


def test_tables_of_another_encoding():
    rows = quantize_rows(skewed(n_features=1), bits=4, encoding="double-symmetric")
    fields = {name: getattr(rows, name) for name in (
        "bits", "encoding", "bus_width", "n_features", "stored", "scaler", "variance", "seed")}
    with pytest.raises(ValueError, match="encoding 'double-symmetric' cannot have codebooks"):
        type(rows)(**fields, codebooks=np.zeros((1, 16), np.int8))


@pytest.mark.parametrize("n_rows", [1, 255, 256, 257, 700])
def test_counts_do_not_depend_on_the_pieces(n_rows):
    positions = positions_of(np.random.default_rng(n_rows).uniform(-127, 127, (n_rows, 3)))
    together, apart = PlaceCounts(3), PlaceCounts(3)
    together.add(positions)
    for start in range(0, n_rows, 97):
        apart.add(positions[start:start + 97])
    assert np.array_equal(together.tables(3), apart.tables(3))
    assert together.tables(3)[0, -1] == np.ceil(positions[:, 0].max() / 2**24 - LIMIT)


def test_names():
    assert LEVELS == ("uniform", "optimal")
