import gc
import pickle
from typing import Any

import dask.array as da
import numpy as np
import pytest
from clusters import assert_nothing_is_left
from distributed import Client, LocalCluster
from sharded import make_parts, train_parts
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_diabetes, load_iris

import bitstep
from bitstep.dask import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.dask.engine import Engine
from bitstep.data.dataset import DataError
from bitstep.options.rules import RuleError
from bitstep.pipeline.results import DeviceError
from bitstep.training.copies import WeightWarning

DIABETES: Any = load_diabetes(return_X_y=True)
X, Y = DIABETES
CANCER: Any = load_breast_cancer(return_X_y=True)
IRIS: Any = load_iris(return_X_y=True)
THIRDS = 150, 150, 142


def chunked(values, *rows):
    """An array with chunks of so many rows."""
    return da.from_array(values, chunks=(rows, *values.shape[1:]))


def ordinary(model):
    """The ordinary estimator of a model's parameters, not fitted; shards have inner passes, and
    planes ask for them where rows are few, too.
    """
    local = model._local()
    return local if local.planes else local.set_params(planes=4)


def test_ordinary_model_of_one_partition(client):
    model = LowPrecisionRegressor(client=client, epochs=4, tol=0.0, l2=1e-3, random_state=3)
    model.fit(chunked(X, 442), chunked(Y, 442))
    expected = ordinary(model).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    assert model.intercept_ == expected.intercept_
    assert [entry["gap"] for entry in model.history_] \
        == [entry["gap"] for entry in expected.history_]
    for name in ("train_loss", "step"):
        np.testing.assert_allclose([entry[name] for entry in model.history_],
                                   [entry[name] for entry in expected.history_], rtol=1e-4)
    np.testing.assert_allclose(model.local_.feature_range_, expected.feature_range_, atol=1e-15)
    assert model.local_.label_range_ == expected.label_range_


def test_several_targets_and_columns_in_chunks(client):
    targets = np.stack([Y, Y ** 2], axis=1)
    model = LowPrecisionRegressor(client=client, epochs=3, tol=0.0, random_state=0, shard_rows=100)
    model.fit(da.from_array(X, chunks=(221, 5)), da.from_array(targets, chunks=(100, 1)))
    expected = train_parts(ordinary(model), make_parts(X, targets, [0, 221, 442]), shard_rows=100)
    np.testing.assert_array_equal(model.coef_, expected.coefs[-1])
    assert model.n_shards_ == 6
    predicted = model.predict(da.from_array(X, chunks=(221, 5)))
    assert predicted.shape == (442, 2)
    np.testing.assert_allclose(predicted.compute(scheduler=client), X @ model.coef_.T
                               + model.intercept_)


@pytest.fixture(scope="module")
def iris(cluster):
    with Client(cluster, set_as_default=False) as client:
        model = LowPrecisionClassifier(client=client, epochs=4, tol=0.0, l2=1e-2, random_state=1)
        return model.fit(chunked(IRIS[0], 60, 60, 30), chunked(IRIS[1], 60, 60, 30))


def test_classes_that_lack_in_a_partition(client, iris):
    expected = train_parts(ordinary(iris), make_parts(*IRIS, [0, 60, 120, 150]))
    np.testing.assert_array_equal(iris.coef_, expected.coefs[-1])
    assert iris.classes_.tolist() == [0, 1, 2]
    rows = chunked(IRIS[0], 100, 50)
    local = iris.to_local()
    for method in ("predict", "predict_proba", "decision_function"):
        lazy = getattr(iris, method)(rows)
        found = lazy.compute(scheduler=client)
        assert lazy.shape == found.shape
        assert lazy.dtype == found.dtype
        np.testing.assert_array_equal(found, getattr(local, method)(IRIS[0]))
    assert iris.history_[-1]["train_accuracy"] > 0.7


def test_conversion_and_model_file(iris, tmp_path):
    local = iris.to_local()
    assert type(local) is bitstep.LowPrecisionClassifier
    iris.save(tmp_path / "model.npz")
    loaded = bitstep.LowPrecisionClassifier.load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict_proba(IRIS[0]), local.predict_proba(IRIS[0]))
    kept = pickle.loads(pickle.dumps(iris))
    assert kept.client is None
    np.testing.assert_array_equal(kept.predict(IRIS[0]), local.predict(IRIS[0]))
    assert clone(iris).client is iris.client


WEIGHTS = np.random.default_rng(7).exponential(size=442)
WEIGHTS[::9] = 0


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_ranges_of_the_conversion(client, fit_intercept):
    """They are those of an ordinary fit: a column of one value has no range yet, and the same rows
    are none that lie outside.
    """
    rows = np.column_stack([X, np.full(len(X), 3.0)])
    options: Any = {"l2": 0.01, "random_state": 0, "planes": 4, "fit_intercept": fit_intercept}
    model = LowPrecisionRegressor(client=client, **options)
    model.fit(chunked(rows, *THIRDS), chunked(Y, *THIRDS))
    alone = bitstep.LowPrecisionRegressor(solver="bit-centred", **options).fit(rows, Y)
    local = model.to_local()
    np.testing.assert_array_equal(local.feature_range_, alone.feature_range_)
    local.partial_fit(rows, Y)


def test_sparse_chunks(client):
    sparse = pytest.importorskip("scipy.sparse")
    rows = np.where(X > 0, X, 0)
    model = LowPrecisionRegressor(client=client, epochs=2, tol=0.0, random_state=0)
    model.fit(chunked(rows, *THIRDS).map_blocks(sparse.csr_matrix), chunked(Y, *THIRDS))
    found = model.predict(chunked(rows, *THIRDS).map_blocks(sparse.csr_matrix))
    np.testing.assert_allclose(found.compute(scheduler=client), model.predict(rows))


def test_names_of_an_earlier_fit_are_gone(client):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    model = LowPrecisionRegressor(client=client, epochs=1, tol=0.0, random_state=0)
    frame = dd.from_pandas(pd.DataFrame(X[:, :3], columns=list("abc")), npartitions=2)
    model.fit(frame, dd.from_pandas(pd.Series(Y), npartitions=2))
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    assert not hasattr(model.fit(chunked(X, 442), chunked(Y, 442)), "feature_names_in_")


def test_columns_with_numbers_have_no_names(client, recwarn):
    """As in scikit-learn; so the model takes frames and arrays without a warning."""
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    local, targets = pd.DataFrame(X[:, :3]), dd.from_pandas(pd.Series(Y), npartitions=2)
    frame = dd.from_pandas(local, npartitions=2)
    model = LowPrecisionRegressor(client=client, epochs=1, tol=0.0, random_state=0)
    model.fit(frame, targets)
    assert not hasattr(model, "feature_names_in_")
    expected = model.predict(X[:, :3])
    np.testing.assert_allclose(model.predict(local), expected)
    np.testing.assert_allclose(model.predict(frame).compute(scheduler=client), expected)
    assert not [one for one in recwarn if "names" in str(one.message)]
    for wrong, text in ((frame[[0, 1]], r"\(n_rows, 2\)"), (frame[0], "1 axes")):
        with pytest.raises(DataError, match=rf"X must have shape \(n_rows, 3\), not {text}"):
            model.predict(wrong)
    mixed = dd.from_pandas(local.rename(columns={0: "a"}), npartitions=2)
    with pytest.raises(DataError, match="not 1 of 3: 'a', 1, 2"):
        model.fit(mixed, targets)


def test_weights_of_rows(client):
    model = LowPrecisionRegressor(client=client, epochs=3, tol=0.0, random_state=0, shard_rows=100)
    model.fit(chunked(X, 221, 221), chunked(Y, 221, 221), sample_weight=chunked(WEIGHTS, 442))
    expected = train_parts(ordinary(model), make_parts(X, Y, [0, 221, 442], WEIGHTS),
                           shard_rows=100)
    np.testing.assert_array_equal(model.coef_, expected.coefs[-1][0])
    model.set_params(shard_rows=None)
    model.fit(chunked(X, 442), chunked(Y, 442), sample_weight=chunked(WEIGHTS, 442))
    alone = ordinary(model).fit(X, Y, sample_weight=WEIGHTS)
    np.testing.assert_array_equal(model.coef_, alone.coef_)
    assert model.l2_ == alone.l2_
    np.testing.assert_allclose([entry["train_loss"] for entry in model.history_],
                               [entry["train_loss"] for entry in alone.history_], rtol=1e-4)


@pytest.mark.parametrize("weight", ["balanced", {2: 3.0, 0: 0.25}])
@pytest.mark.parametrize("weights", [None, WEIGHTS[:150]])
def test_weights_of_classes(client, weight, weights):
    features, labels = IRIS
    model = LowPrecisionClassifier(client=client, epochs=3, tol=0.0, l2=1e-2, random_state=1,
                                   class_weight=weight)
    chunks = None if weights is None else chunked(weights, 60, 60, 30)
    model.fit(chunked(features, 60, 60, 30), chunked(labels, 60, 60, 30), sample_weight=chunks)
    expected = train_parts(ordinary(model), make_parts(features, labels, [0, 60, 120, 150],
                                                       weights))
    np.testing.assert_array_equal(model.coef_, expected.coefs[-1])
    assert model.to_local().class_weight == weight


def test_weights_that_are_raised_are_said(client):
    features, labels = IRIS
    model = LowPrecisionClassifier(client=client, epochs=12, l2=1e-2, random_state=1,
                                   class_weight={1: 1e-6})
    with pytest.warns(WeightWarning, match="the weights of 33.3 % of the rows, among them those of "
                      "1 class, are too small beside the largest: 16 bits hold them as up to 15.3"):
        model.fit(chunked(features, 60, 60, 30), chunked(labels, 60, 60, 30))
    assert model.gap_ is None           # it would be that of other weights
    model.set_params(class_weight={1: 1e-2})
    assert model.fit(chunked(features, 60, 60, 30), chunked(labels, 60, 60, 30)).gap_ is not None


@pytest.mark.parametrize("place", [0, 149])      # in the first shard, and in the last
def test_a_weight_of_many_that_is_raised_for_a_row_far_from_all(client, place):
    """As on one machine; no shard alone knows how far the row is from those of the others."""
    rng = np.random.default_rng(0)
    features, targets = rng.normal(size=(150, 4)), rng.normal(size=150)
    weights = rng.uniform(0.1, 1, 150)
    weights[place] = 1e-9
    chunks = chunked(weights, 60, 60, 30)
    model = LowPrecisionRegressor(client=client, epochs=12, random_state=1)
    model.fit(chunked(features, 60, 60, 30), chunked(targets, 60, 60, 30), sample_weight=chunks)
    assert model.gap_ is not None       # a row as others are
    features[place, 1] = 1e6
    with pytest.warns(WeightWarning, match=r"the weights of 0\.667 % of the rows are too small"):
        model.fit(chunked(features, 60, 60, 30), chunked(targets, 60, 60, 30), sample_weight=chunks)
    assert model.gap_ is None


def test_a_class_of_weight_0_is_none(client):
    features, labels = IRIS
    model = LowPrecisionClassifier(client=client, epochs=3, tol=0.0, l2=1e-2, random_state=1,
                                   class_weight={1: 0})
    model.fit(chunked(features, 60, 60, 30), chunked(labels, 60, 60, 30))
    assert model.classes_.tolist() == [0, 2]
    assert model.coef_.shape == (1, 4)


def test_weights_in_a_data_frame(client):
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcdefghij")).assign(y=Y, w=WEIGHTS)
    data = dd.from_pandas(frame, npartitions=2)
    model = LowPrecisionRegressor(client=client, epochs=2, tol=0.0, random_state=0)
    model.fit(data.drop(columns=["y", "w"]), data["y"], sample_weight=data["w"])
    expected = train_parts(ordinary(model), make_parts(X, Y, [0, 221, 442], WEIGHTS))
    np.testing.assert_array_equal(model.coef_, expected.coefs[-1][0])


def test_data_frames_with_an_empty_partition(client):
    dd = pytest.importorskip("dask.dataframe")
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcdefghij")).assign(y=Y)
    data = dd.from_pandas(frame, npartitions=3)
    data = data.map_partitions(lambda part: part[part.index > 200], meta=frame.iloc[:0])
    model = LowPrecisionRegressor(client=client, epochs=3, tol=0.0, random_state=0)
    model.fit(data.drop(columns="y"), data["y"])
    rows = frame[frame.index > 200]
    sizes = [len(part) for part in client.gather(client.compute(list(data.to_delayed())))]
    assert 0 in sizes
    expected = train_parts(ordinary(model), make_parts(
        rows.drop(columns="y").to_numpy(), rows["y"].to_numpy(),
        np.cumsum([0, *filter(None, sizes)])))
    np.testing.assert_array_equal(model.coef_, expected.coefs[-1][0])
    assert list(model.feature_names_in_) == list("abcdefghij")
    predicted = model.predict(data.drop(columns="y"))
    np.testing.assert_allclose(predicted.compute(scheduler=client),
                               model.to_local().predict(rows.drop(columns="y")))
    # Here warnings are errors: an empty partition has names, as others have.
    assert len(predicted.compute(scheduler="synchronous")) == len(rows)
    with pytest.raises(DataError, match="X must have the columns a, b"):
        model.predict(data[["b", "a"]])


def mixed_frame(kind=np.float64):
    """Columns of numbers of many types."""
    pd = pytest.importorskip("pandas")
    rows = IRIS[0].astype(kind)
    return pd.DataFrame({
        "a": rows[:, 0], "b": rows[:, 1] > 3, "c": pd.Series(rows[:, 2] > 4, dtype="boolean"),
        "d": pd.Series(rows[:, 3]).astype("Float32" if kind == np.float32 else "Float64")})


@pytest.mark.parametrize("kind, columns", [
    (np.float32, "ab"), (np.float32, "abcd"), (np.float64, "ab"), (np.float64, "abcd")])
def test_data_frames_of_mixed_columns(client, kind, columns):
    """The ordinary estimator's model."""
    dd, frame = pytest.importorskip("dask.dataframe"), mixed_frame(kind)[list(columns)]
    data, labels = dd.from_pandas(frame, npartitions=1), frame.index.to_series() % 2
    model = LowPrecisionClassifier(client=client, epochs=2, tol=0.0, l2=1e-2, random_state=0)
    model.fit(data, dd.from_pandas(labels, npartitions=1))
    expected = ordinary(model).fit(frame, labels)
    np.testing.assert_array_equal(model.coef_, expected.coef_)
    predicted = model.decision_function(data).compute(scheduler=client)
    np.testing.assert_array_equal(predicted, expected.decision_function(frame))


@pytest.mark.parametrize("column, kind", [("c", "boolean"), ("d", "Float64"), ("a", "Int64")])
def test_a_missing_number_is_named_by_partition_and_column(client, column, kind):
    dd, frame = pytest.importorskip("dask.dataframe"), mixed_frame()
    frame[column] = frame[column].round().astype(kind)
    frame.loc[77, column] = None
    data = dd.from_pandas(frame, npartitions=2)
    labels = dd.from_pandas(frame.index.to_series() % 2, npartitions=2)
    with pytest.raises(DataError, match=r"Partition 1: features must be finite, not nan \(row 2 of "
                                        rf"the part, column '{column}'\).*on worker tcp://127"):
        LowPrecisionClassifier(client=client, tol=0.0).fit(data, labels)


def test_masked_values_are_refused(client):
    X, y = load_diabetes(return_X_y=True)
    data = da.ma.masked_less(da.from_array(X, chunks=(221, -1)), -0.137)
    with pytest.raises(DataError, match="Partition 1: X must have no masked values"):
        LowPrecisionRegressor(client=client).fit(data, da.from_array(y, chunks=221))


def test_a_column_of_text(client):
    dd, frame = pytest.importorskip("dask.dataframe"), mixed_frame()
    data = dd.from_pandas(frame.assign(b="x"), npartitions=2)
    labels = dd.from_pandas(frame.index.to_series() % 2, npartitions=2)
    with pytest.raises(DataError, match=r"Partition [01]: columns must hold numbers, not as 'b'"):
        LowPrecisionClassifier(client=client, tol=0.0).fit(data, labels)


def test_names_of_classes(client):
    labels = np.array(["no", "yes"])[CANCER[1]]
    model = LowPrecisionClassifier(client=client, epochs=2, tol=0.0, random_state=0,
                                   loss="squared_hinge")
    model.fit(chunked(CANCER[0], 300, 269), chunked(labels, 300, 269))
    assert model.classes_.tolist() == ["no", "yes"]
    predicted = model.predict(chunked(CANCER[0], 300, 269)).compute(scheduler=client)
    assert (predicted == labels).mean() > 0.9
    assert not hasattr(model, "predict_proba")


@pytest.mark.parametrize("n_workers", [1, 7])
def test_any_number_of_workers(n_workers, iris):
    with LocalCluster(n_workers=n_workers, threads_per_worker=2, processes=False,
                      dashboard_address=":0") as made, \
            Client(made, set_as_default=False) as client:
        model = clone(iris).set_params(client=client)
        model.fit(chunked(IRIS[0], 60, 60, 30), chunked(IRIS[1], 60, 60, 30))
    np.testing.assert_array_equal(model.coef_, iris.coef_)


def test_nothing_is_left_on_the_cluster(client):
    LowPrecisionRegressor(client=client, epochs=1, tol=0.0, random_state=0).fit(
        chunked(X, 221, 221), chunked(Y, 221, 221))
    assert_nothing_is_left(client)


def test_nothing_is_left_after_long_passes(client, monkeypatch):
    """Whoever waits looks around now and then, and what such a look leaves holds no results."""
    monkeypatch.setattr("bitstep.dask.engine.LOOK_S", 1e-3)
    monkeypatch.setattr("bitstep.dask.engine.FETCH_S", 1e-3)
    gc.collect()
    gc.disable()
    try:
        test_nothing_is_left_on_the_cluster(client)
    finally:
        gc.enable()


def test_nothing_is_left_after_an_error(client):
    """One partition has other rows in the second pass; the others are shards by then."""
    def changed(block):
        return block + (np.random.default_rng().normal() if len(block) == THIRDS[-1] else 0)

    with pytest.raises(DataError, match="Partition 2 has other rows than when it was scaled"):
        LowPrecisionRegressor(client=client).fit(
            chunked(X, *THIRDS).map_blocks(changed, dtype=float, meta=np.empty((0, 0))),
            chunked(Y, *THIRDS))
    gc.collect()
    assert_nothing_is_left(client)


def test_progress(client, capsys):
    LowPrecisionRegressor(client=client, epochs=2, tol=0.0, random_state=0, verbose=1).fit(
        chunked(X, 221, 221), chunked(Y, 221, 221))
    assert "training: 2 of 2 outer steps" in capsys.readouterr().err


# What cannot be trained

def bad_frame(client):
    """Features and targets in three partitions, of which one lacks a column."""
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:60], columns=list("abcdefghij"))
    data = dd.from_pandas(frame, npartitions=3)

    def drop(part):
        return part.drop(columns="c") if part.index[0] == 20 else part

    return (data.map_partitions(drop, meta=frame.iloc[:0], enforce_metadata=False),
            dd.from_pandas(pd.Series(Y[:60]), npartitions=3))


def test_columns_that_differ(client):
    with pytest.raises(DataError, match=r"Partition 1 has the columns a, b, d.*on worker tcp://"):
        LowPrecisionRegressor(client=client, tol=0.0).fit(*bad_frame(client))


def test_nan_is_named_by_partition_and_worker(client):
    holed = X.copy()
    holed[230, 4] = np.nan
    with pytest.raises(DataError, match=r"Partition 2: features must be finite, not nan \(row 30 "
                                        r"of the part, column 4.*on worker tcp://127"):
        LowPrecisionRegressor(client=client, tol=0.0).fit(chunked(holed, 100, 100, 100, 142),
                                                 chunked(Y, 100, 100, 100, 142))


def labelled(labels, rows=IRIS[0]):
    """Rows in two partitions with labels: of a series those of a data frame, else of an array."""
    count, half = len(labels), len(labels) // 2
    if isinstance(labels, np.ndarray):
        return chunked(rows[:count], half, half), chunked(labels, half, half)
    dd, pd = pytest.importorskip("dask.dataframe"), pytest.importorskip("pandas")
    frame = pd.DataFrame(rows[:count], columns=list("abcd"))
    return dd.from_pandas(frame, npartitions=2), dd.from_pandas(labels, npartitions=2)


@pytest.mark.parametrize("value, at", [(None, 7), (np.nan, 7), (None, 5)])
def test_a_missing_name_of_a_class_is_none(client, value, at):
    names = np.array(["yes", "no"] * 5, object)
    names[at] = value
    with pytest.raises(DataError, match=rf"Partition 1: y must have a value in every row, not "
                                        rf"{value} \(row {at - 5} of the part\); remove the row "
                                        r"\(on worker tcp://127"):
        LowPrecisionClassifier(client=client, tol=0.0).fit(*labelled(names))


@pytest.mark.parametrize("kind", ["object", "str", "string", "category", "boolean", "Int64"])
def test_a_missing_label_of_a_series_is_none(client, kind):
    pd = pytest.importorskip("pandas")
    values = {"boolean": [True, False], "Int64": [3, 4]}.get(kind, ["yes", "no"]) * 5
    values[7] = None
    with pytest.raises(DataError, match=r"Partition 1: (y must have a value in every row|labels "
                                        r"must be finite), not \S+ \(row 2 of the part\); remove "
                                        r"the row \(on worker tcp://127"):
        LowPrecisionClassifier(client=client, tol=0.0).fit(
            *labelled(pd.Series(values, dtype=kind)))


def test_a_number_among_names_is_no_class(client):
    names = np.array(["yes", "no"] * 5, object)
    names[7] = 3.5
    with pytest.raises(DataError, match=r"Partition 1: y must hold names alone or numbers alone, "
                                        r"not 3.5 \(row 2 of the part\) beside 'no' \(on worker"):
        LowPrecisionClassifier(client=client, tol=0.0).fit(*labelled(names))


@pytest.mark.parametrize("kind, values", [
    ("boolean", [False, True]), ("Int64", [3, 4]), ("object", ["no", "yes"]),
    ("string", ["no", "yes"]), ("category", ["no", "yes"])])
def test_labels_of_a_series(client, kind, values):
    pd = pytest.importorskip("pandas")
    model = LowPrecisionClassifier(client=client, epochs=1, tol=0.0, random_state=0).fit(
        *labelled(pd.Series(values * 5, dtype=kind)))
    assert model.classes_.tolist() == values
    assert model.classes_.dtype == np.array(values).dtype


def test_numbers_as_objects(client):
    labels = np.array([3, 4] * 5, object)
    model = LowPrecisionClassifier(client=client, epochs=1, tol=0.0).fit(*labelled(labels))
    assert model.classes_.tolist() == [3, 4]
    assert model.classes_.dtype == np.int64


def test_a_missing_weight_is_none(client):
    pd = pytest.importorskip("pandas")
    dd = pytest.importorskip("dask.dataframe")
    rows, labels = labelled(pd.Series([1.0, 2.0] * 5))
    weights = dd.from_pandas(pd.Series([1.0] * 8 + [None, 1.0], dtype="Float64"), npartitions=2)
    with pytest.raises(DataError, match=r"Partition 1: sample_weight must .* not \S+ \(row 3"):
        LowPrecisionRegressor(client=client, tol=0.0).fit(rows, labels, weights)


@pytest.mark.parametrize("X, y, message", [
    (X, chunked(Y, 442), "X must be a dask.array or a dask.dataframe, not ndarray; for data in"),
    (chunked(X, 442), Y, "y must be a dask.array or a dask.dataframe, not ndarray"),
    (chunked(Y, 442), chunked(Y, 442), "X must have shape"),
    (chunked(X, 442), chunked(Y[1:], 441), "X has 442 rows and y has 441"),
    (chunked(X, 442), chunked(X[:, :2].reshape(442, 2, 1), 442), "y must have shape")])
def test_bad_collections(client, X, y, message):
    with pytest.raises(DataError, match=message):
        LowPrecisionRegressor(client=client, tol=0.0).fit(X, y)


@pytest.mark.parametrize("weights, message", [
    (WEIGHTS, "sample_weight must be a dask.array or a dask.dataframe, not ndarray"),
    (chunked(WEIGHTS[1:], 441), "X has 442 rows and sample_weight has 441"),
    (chunked(X, 442), r"sample_weight must have shape \(n_rows,\), not 2 axes"),
    (chunked(np.where(np.arange(442) == 7, -1.0, 1.0), 442),
     r"Partition 0: sample_weight must hold .* not -1 \(row 7, .*on worker tcp://127")])
def test_bad_weights(client, weights, message):
    with pytest.raises(DataError, match=message):
        LowPrecisionRegressor(client=client, tol=0.0).fit(
            chunked(X, 442), chunked(Y, 442), sample_weight=weights)


HINGE = (r"^bitstep.dask \(solver bit-centred\) does not go together with loss='hinge': .*; "
         r"choose another loss, or train without bitstep.dask$")


@pytest.mark.parametrize("options, error, message", [
    ({"class_weight": {7: 1}}, ValueError, "class_weight must hold classes of y only, 0, 1, not 7"),
    ({"class_weight": "equal"}, ValueError, "class_weight must be None, 'balanced' or a dict"),
    ({"loss": "hinge"}, RuleError, HINGE), ({"epochs": 0}, ValueError, "epochs"),
    ({"resources": 1}, ValueError, "resources must be None or a dictionary .* not 1$"),
    ({"client": "tcp://localhost:8786"}, ValueError, "client must be a distributed.Client, such"),
    ({"shard_rows": 0}, ValueError, "shard_rows"), ({"device": 3}, ValueError, "device must be"),
    ({"scaler": "quantile"}, ValueError, "scaler must be 'minmax' or 'maxabs'"),
    ({"device": "nonesuch"}, DeviceError, "no device 'nonesuch'.*on worker tcp")])
def test_bad_parameters(client, options, error, message):
    features, labels = CANCER
    with pytest.raises(error, match=message):
        LowPrecisionClassifier(**{"client": client} | options).fit(chunked(features, 569),
                                                                   chunked(labels, 569))


@pytest.mark.parametrize("timeout", [None, "10s", 0, -1, np.nan, True])
@pytest.mark.parametrize("kind", [LowPrecisionRegressor, LowPrecisionClassifier])
def test_bad_timeouts(client, kind, timeout):
    with pytest.raises(ValueError, match=f"^timeout must be a number above 0, not {timeout!r}$"):
        kind(client=client, timeout=timeout).fit(chunked(IRIS[0], 150), chunked(IRIS[1], 150))


def test_no_client():
    with pytest.raises(ValueError, match=r"client must be a distributed.Client"):
        LowPrecisionRegressor().fit(chunked(X, 442), chunked(Y, 442))


def test_rows_stay_on_the_workers(client):
    """What client and scheduler take and send does not grow with the rows."""
    def moved(rows):
        made = da.random.default_rng(1).normal(size=(rows, 20), chunks=(rows // 4, 20))
        found = []
        submit = Engine.submit

        def counted(self, name, function, futures, *arguments):
            results = submit(self, name, function, futures, *arguments)
            found.append(len(pickle.dumps(results)) + len(pickle.dumps(arguments)))
            return results

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Engine, "submit", counted)
            model = LowPrecisionRegressor(client=client, epochs=2, tol=0.0, random_state=0)
            model.fit(made, made[:, 0])
        return sum(found)

    few, many = moved(4_000), moved(40_000)
    assert abs(many - few) < 2_000
    assert many < 40_000 * 20 / 8           # less than a bit a value
