"""Scores of Dask estimators are scikit-learn's of the gathered data."""

from typing import Any

import dask.array as da
import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.metrics import accuracy_score, r2_score

from bitstep.dask import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.data.dataset import DataError

DIABETES: Any = load_diabetes(return_X_y=True)
X, Y = DIABETES
IRIS: Any = load_iris(return_X_y=True)
ROWS, NUMBERS = IRIS[0], IRIS[1]
NAMES = np.array(["setosa", "versicolor", "virginica"])[NUMBERS]
WEIGHTS = np.random.default_rng(5).exponential(size=442)
WEIGHTS[::7] = 0


def chunked(values, *ends):
    """An array whose chunks end at some rows."""
    rows = tuple(np.diff([0, *ends, len(values)]).tolist())
    return da.from_array(values, chunks=(rows, *values.shape[1:]))


def unknown(values, *ends):
    """The same of which nobody knows the rows of a chunk."""
    found = chunked(values, *ends)
    found._chunks = ((np.nan,) * len(found.chunks[0]), *found.chunks[1:])
    return found


def framed(values, *ends):
    """A data frame, or a series, whose partitions end at some rows; the first one is empty."""
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    whole = pd.Series(values) if values.ndim == 1 \
        else pd.DataFrame(values, columns=[f"x{number}" for number in range(values.shape[1])])
    places = [0, 0, *ends, len(values)]
    return dd.from_map(lambda at: whole.iloc[places[at]:places[at + 1]],
                       list(range(len(places) - 1)), meta=whole.iloc[:0])


def fit(client, kind, features, targets):
    """A model that is far from perfect, of arrays or data frames."""
    model = kind(client=client, epochs=1, tol=0.0, random_state=0, l2=0.5)
    return model.fit(features, targets)


@pytest.fixture(scope="module")
def kept() -> dict[Any, Any]:
    """Models of data frames, and of arrays; filled on demand."""
    return {}


def fitted(client, kept, kind, make, *data, ends=(200,)):
    """One that may have been fitted before. Of chunks whose rows nobody knows it is the same."""
    make = framed if make is framed else chunked
    key = kind, make, ends, *(values.tobytes() for values in data)
    if key not in kept:
        kept[key] = fit(client, kind, *(make(values, *ends) for values in data))
    return kept[key].set_params(client=client)


@pytest.mark.parametrize("kind, features, targets, ends", [
    (LowPrecisionClassifier, ROWS, NAMES, (30, 100)),
    (LowPrecisionRegressor, X, np.stack([Y, Y ** 2, 0 * Y + 3], axis=1), (1, 200))])
def test_chunks_whose_rows_nobody_knows(client, kept, kind, features, targets, ends):
    model = fit(client, kind, unknown(features, *ends), unknown(targets, *ends))
    known = fitted(client, kept, kind, chunked, features, targets, ends=ends)
    np.testing.assert_array_equal(model.coef_, known.coef_)
    np.testing.assert_array_equal(model.intercept_, known.intercept_)


@pytest.mark.covering(2)
@pytest.mark.parametrize("make", [chunked, unknown, framed])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("labels", [NUMBERS, NAMES, NUMBERS == 1])
def test_accuracy(client, kept, make, weighted, labels):
    data = make(ROWS, 30, 100), make(labels, 30, 100)
    weights = (WEIGHTS[:150],) if weighted else ()
    model = fitted(client, kept, LowPrecisionClassifier, make, ROWS, labels, ends=(30, 100))
    expected = accuracy_score(labels, model.predict(data[0]).compute(scheduler=client),
                              sample_weight=weights[0] if weighted else None)
    assert 0.3 < expected < 1
    found = model.score(*data, *(make(one, 30, 100) for one in weights))
    assert found == pytest.approx(expected, rel=1e-14)
    assert type(found) is float


@pytest.mark.covering(2)
@pytest.mark.parametrize("make", [chunked, unknown, framed])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("targets", [Y, Y + 1e6, np.stack([Y, Y ** 2, 0 * Y + 3], axis=1)])
def test_r2(client, kept, make, weighted, targets):
    data = make(X, 1, 200), make(targets, 1, 200)
    weights = (WEIGHTS,) if weighted else ()
    model = fitted(client, kept, LowPrecisionRegressor, make, X, targets, ends=(1, 200))
    expected = r2_score(targets, model.predict(data[0]).compute(scheduler=client),
                        sample_weight=weights[0] if weighted else None)
    found = model.score(*data, *(make(one, 1, 200) for one in weights))
    assert found == pytest.approx(expected, rel=1e-9)
    assert type(found) is float


def test_in_memory(client, kept):
    model = fitted(client, kept, LowPrecisionRegressor, chunked, X, Y)
    expected = model.to_local().score(X, Y, WEIGHTS)
    assert model.score(X, Y, WEIGHTS) == expected
    assert model.score(chunked(X, 200), Y, WEIGHTS) == pytest.approx(expected)


def test_a_single_row(client, kept):
    model = fitted(client, kept, LowPrecisionRegressor, chunked, X, Y)
    with pytest.warns(UndefinedMetricWarning, match="R2 needs two rows at least"):
        assert np.isnan(model.score(chunked(X[:1]), chunked(Y[:1])))


@pytest.mark.parametrize("features, labels, weights, message", [
    (X[:, :3], Y, None, "X must have shape"),
    (X, np.where(np.arange(442) == 430, np.nan, Y), None,
     r"Partition 1: targets must be finite, not nan \(row 230 of the part"),
    (X, np.stack([Y, Y], axis=1), None, r"Partition [01]: y must have shape \(2\d\d,\), as of"),
    (X, Y, 0 * Y, "sample_weight must hold at least one number above 0"),
    (X, Y, -WEIGHTS, "Partition [01]: sample_weight must hold finite numbers of at least 0"),
    (X, Y[1:], None, "X has 442 rows and y has 441")])
def test_what_cannot_be_scored(client, kept, features, labels, weights, message):
    model = fitted(client, kept, LowPrecisionRegressor, chunked, X, Y)
    with pytest.raises(DataError, match=message):
        model.score(chunked(features, 200), chunked(labels, 200),
                    None if weights is None else chunked(weights, 200))


def test_no_rows(client, kept):
    model = fitted(client, kept, LowPrecisionRegressor, chunked, X, Y)
    with pytest.raises(DataError, match="at least one row; all 1 partitions are empty"):
        model.score(chunked(X[:0]), chunked(Y[:0]))


def test_a_data_frame_with_labels_in_memory(client, kept):
    model = fitted(client, kept, LowPrecisionRegressor, framed, X, Y)
    with pytest.raises(DataError, match=r"y must be a dask.array or a dask.dataframe, not ndarray"):
        model.score(framed(X, 200), Y)


def test_labels_of_another_kind_name_their_partition(client, kept):
    model = fitted(client, kept, LowPrecisionClassifier, chunked, ROWS, NUMBERS)
    with pytest.raises(DataError, match=r"Partition \d: labels must be of the kind that the model "
                       r"was trained on, int64, not <U10 "):
        model.score(chunked(ROWS, 100), chunked(NAMES, 100))
