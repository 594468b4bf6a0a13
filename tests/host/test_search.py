"""Several targets, and searches whose candidates share passes over the rows."""

import doctest
from pickle import PicklingError
from typing import Any

import numpy as np
import pytest
import sklearn.base
from fakes import FakeDevice
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, cross_val_score

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor, LowPrecisionSearchCV
from bitstep.devices import open_device
from bitstep.devices.cpu.device import CpuDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.results import DeviceError, RangeOverflowError
from bitstep.training.pipelines import pipeline_for

clone: Any = sklearn.base.clone     # its annotations name containers of estimators, too
DEVICES = ["cpu", "golden"]


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(3)
    features = rng.normal(size=(90, 6))
    return features, features @ rng.normal(size=(6, 3)) * (1, 10, 0.1) + (0, 5, -1)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("batch", [1, 16, 90])
def test_targets_are_those_of_one_regressor_each(data, device, batch):
    X, Y = data
    model = LowPrecisionRegressor(random_state=1, epochs=4, batch=batch, device=device)
    together = clone(model).fit(X, Y)
    assert together.coef_.shape == (3, 6)
    assert together.intercept_.shape == (3,)
    for column in range(3):
        alone = clone(model).fit(X, Y[:, column])
        assert np.array_equal(together.coef_[column], alone.coef_)
        assert np.allclose(together.predict(X)[:, column], alone.predict(X), rtol=1e-12)
        assert tuple(together.label_range_[:, column]) == alone.label_range_


def test_targets_of_chunks_and_files(data, tmp_path):
    X, Y = data
    low, high = Y.min(axis=0), Y.max(axis=0)
    ranges = {"feature_range": (-5, 5), "label_range": (low, high)}
    model = LowPrecisionRegressor(random_state=1, schedule="constant", **ranges)
    singles = [clone(model).set_params(label_range=(low[column], high[column]))
               for column in range(3)]
    for part in (slice(30), slice(30, 60), slice(60, 61)):      # the last has one row
        model.partial_fit(X[part], Y[part])
        for column, single in enumerate(singles):
            single.partial_fit(X[part], Y[part, column])
    assert np.array_equal(model.coef_, [single.coef_ for single in singles])
    assert np.array_equal(model.intercept_, [single.intercept_ for single in singles])
    with pytest.raises(ValueError, match="y must have 3 targets, as before, not 1"):
        model.partial_fit(X, Y[:, 0])
    model.save(tmp_path / "model.npz")
    loaded = LowPrecisionRegressor.load(tmp_path / "model.npz")
    assert np.array_equal(loaded.predict(X), model.predict(X))
    assert np.array_equal(loaded.partial_fit(X, Y).coef_, model.partial_fit(X, Y).coef_)


def test_label_range_of_several_targets(data):
    with pytest.raises(ValueError, match=r"label_range must be 'auto' or a pair .* shape \(3,\)"):
        LowPrecisionRegressor(label_range=(np.zeros(2), np.ones(2))).fit(*data)


GRID = {"step": [0.003, 0.02], "l2": [0.0, 0.02]}


@pytest.mark.filterwarnings("ignore:Training learned nothing")
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind, classes", [
    (LowPrecisionRegressor, 0), (LowPrecisionClassifier, 2), (LowPrecisionClassifier, 3)])
def test_search_is_a_search_that_trains_one_after_the_other(data, device, kind, classes):
    X, y = data[0], data[1][:, 0]
    if classes:
        y = np.array(list("abc"))[np.digitize(y, np.quantile(y, np.arange(1, classes) / classes))]
    model = kind(random_state=1, epochs=3, batch=4, device=device)
    search = LowPrecisionSearchCV(model, GRID, cv=3).fit(X, y)
    expected = GridSearchCV(model, GRID, cv=3).fit(X, y)
    assert search.cv_results_["params"] == expected.cv_results_["params"]
    for name in ("split0_test_score", "split2_test_score", "mean_test_score", "std_test_score"):
        assert np.array_equal(search.cv_results_[name], expected.cv_results_[name])
    assert search.best_params_ == expected.best_params_
    assert search.best_score_ == expected.best_score_
    assert np.array_equal(search.predict(X), expected.predict(X))
    assert search.score(X, y) == expected.score(X, y)
    assert search.n_splits_ == 3


@pytest.mark.filterwarnings("ignore:Training learned nothing")
@pytest.mark.parametrize("name", DEVICES)
def test_searches_on_an_opened_device(data, name):
    X, y = data[0], data[1][:, 0]
    named = LowPrecisionRegressor(bits=4, random_state=1, epochs=3, batch=4, device=name)
    with open_device(name, PipelineConfig(update_interval=4)) as device:
        model = clone(named).set_params(device=device)
        assert clone(model).device is device
        for search in (LowPrecisionSearchCV, GridSearchCV):
            found, expected = (search(one, GRID, cv=2).fit(X, y) for one in (model, named))
            assert found.best_score_ == expected.best_score_
            assert found.best_estimator_.device is device
        scores = cross_val_score(model, X, y, cv=2)
        assert np.array_equal(scores, cross_val_score(named, X, y, cv=2))
        with pytest.raises(PicklingError) as refused:
            cross_val_score(model, X, y, cv=2, n_jobs=2)
        assert f"give its name, device='{name}'" in str(refused.value.__cause__)


def test_candidates_are_estimators_that_fit_by_themselves(data):
    """Penalties, schedules and ranges; labels of several targets; a second call."""
    X, Y = data
    model = LowPrecisionRegressor(random_state=1, epochs=3, device="cpu")
    candidates: list[dict] = [
        {}, {"l1": 0.01}, {"box": 0.5, "step": 0.01}, {"schedule": [0.01, 0.02, 0.01]},
        {"model_range": 64.0, "schedule": "constant"}, {"l2": 0.1, "l1": 0.001}]
    for _ in range(2):
        for found, chosen in zip(model.fit_candidates(X, Y, candidates), candidates, strict=True):
            alone = clone(model).set_params(**chosen).fit(X, Y)
            assert found.get_params() == alone.get_params()
            assert np.array_equal(found.coef_, alone.coef_)
            assert np.array_equal(found.intercept_, alone.intercept_)
            assert found.history_ == alone.history_
            assert found.step_ == alone.step_
            assert found.counters_ == alone.counters_
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("model, classes", [
    (LowPrecisionRegressor(), 0), (LowPrecisionClassifier(), 2), (LowPrecisionClassifier(), 4),
    (LowPrecisionClassifier(loss="squared_hinge"), 3),
    (LowPrecisionClassifier(class_weight="balanced"), 3),
    (LowPrecisionRegressor(loss="huber", solver="sgd"), 0)])
def test_candidates_by_default_are_what_fit_makes(model, classes, data):
    X, y = data[0], data[1][:, 0]
    labels = np.digitize(y, np.quantile(y, np.arange(1, classes) / classes)) if classes else y
    model = model.set_params(random_state=3)
    for found, l2 in zip(model.fit_candidates(X, labels, [{"l2": 0.1}, {"l2": 0.5}]), (0.1, 0.5),
                         strict=True):
        alone = clone(model).set_params(l2=l2).fit(X, labels)
        assert np.array_equal(found.coef_, alone.coef_)
        assert found.history_ == alone.history_
        assert getattr(found, "multinomial_", None) is getattr(alone, "multinomial_", None)


def test_candidates_with_few_bits_of_model_and_updates(data):
    """Some of them, beside one with all bits; of classes, too."""
    X, y = data[0], data[1][:, 0]
    candidates: list[dict] = [{}, {"model_bits": 4}, {"update_bits": 3, "l2": 0.1},
                              {"model_bits": 6, "update_bits": 6}]
    for model, labels in ((LowPrecisionRegressor(random_state=1, epochs=3, batch=4), y),
                          (LowPrecisionClassifier(random_state=1, epochs=3), y > 0)):
        for found, chosen in zip(model.fit_candidates(X, labels, candidates), candidates,
                                 strict=True):
            alone = clone(model).set_params(**chosen).fit(X, labels)
            assert np.array_equal(found.coef_, alone.coef_)
            assert found.history_ == alone.history_
    model = LowPrecisionClassifier(loss="hinge", bits=8, encoding="nearest", random_state=0,
                                   epochs=10)
    with pytest.raises(ValueError, match="would fetch rows of the hinge loss again, and"):
        model.fit_candidates(X, y > 0, candidates)
    few, whole = model.set_params(refetch=False).fit_candidates(
        X, y > 0, [{"model_bits": 4}, {"model_bits": 0}])
    assert np.array_equal(whole.coef_, clone(model).fit(X, y > 0).coef_)
    assert not np.array_equal(whole.coef_, few.coef_)
    with pytest.raises(DeviceError, match="has a model of all bits, and a job asks for 4 b"):
        LowPrecisionRegressor(solver="sgd", device="sim").fit_candidates(
            X, y, [{}, {"model_bits": 4}])


def test_candidates_have_as_many_epochs(data):
    """20 if a step or schedule is among the parameters of one: of 90 rows there would be 1,000."""
    X, y = data[0], data[1][:, 0]
    for candidates in ([{}, {"step": 0.01}], [{"schedule": "constant"}, {"l2": 0.1}]):
        found = LowPrecisionRegressor(solver="sgd").fit_candidates(X, y, candidates)
        assert [one.n_iter_ for one in found] == [20, 20]


def test_ctrl_c_ends_the_candidates(data):
    device = FakeDevice(pipeline_for(n_features=6, bits=4, encoding="compensated"), interrupt=2)
    with pytest.raises(KeyboardInterrupt):
        LowPrecisionRegressor(device=device).fit_candidates(data[0], data[1][:, 0], [{"step": 0.1}])


@pytest.mark.parametrize("few", [{"model_bits": 4}, {"update_bits": 4}])
def test_a_device_without_few_bits_is_named(monkeypatch, data, few):
    monkeypatch.setattr(CpuDevice, "few_bits", False)
    X, y = data[0], data[1][:, 0]
    model = LowPrecisionRegressor(solver="sgd", device="cpu")
    with pytest.raises(DeviceError, match=r"'cpu' .*few bits"):
        model.fit_candidates(X, y, [{}, few])
    with pytest.raises(DeviceError, match=r"'cpu' .*few bits"):
        model.set_params(**few).fit(X, y)


def test_candidates_that_leave_their_range(data):
    X, y = data[0], data[1][:, 0]
    model = LowPrecisionRegressor(random_state=1, epochs=3)
    good, wild = model.fit_candidates(X, y, [{"step": 0.01}, {"step": 500.0}])
    assert np.array_equal(good.coef_, clone(model).set_params(step=0.01).fit(X, y).coef_)
    assert isinstance(wild, RangeOverflowError)
    search = LowPrecisionSearchCV(model, {"step": [500.0, 0.01]}, refit=False).fit(X, y)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [True, False]
    assert search.best_params_ == {"step": 0.01}
    assert search.cv_results_["rank_test_score"].tolist() == [2, 1]
    with pytest.raises(AttributeError):
        search.predict(X)
    with pytest.raises(ValueError, match="All 1 candidates left the range"):
        LowPrecisionSearchCV(model, {"step": [500.0]}).fit(X, y)


@pytest.mark.parametrize("candidates, message", [
    ([{"bits": 3}], "A candidate may have step, schedule, .* not 'bits'"),
    ([], "at least one candidate")])
def test_candidates_that_cannot_share_rows(data, candidates, message):
    with pytest.raises(ValueError, match=message):
        LowPrecisionRegressor().fit_candidates(data[0], data[1][:, 0], candidates)


def test_features_of_a_search(data):
    pd = pytest.importorskip("pandas")
    X, y = data[0], data[1][:, 0]
    frame = pd.DataFrame(X, columns=list("abcdef"))
    model = LowPrecisionRegressor(random_state=1, epochs=2)
    search = LowPrecisionSearchCV(model, {"step": [0.01]}, cv=2)
    assert not hasattr(search, "n_features_in_")
    assert search.fit(X, y).n_features_in_ == 6
    assert not hasattr(search, "feature_names_in_")
    assert search.fit(frame, y).n_features_in_ == 6
    assert search.feature_names_in_.tolist() == list("abcdef")
    without = LowPrecisionSearchCV(model, {"step": [0.01]}, cv=2, refit=False).fit(frame, y)
    assert not hasattr(without, "n_features_in_")
    assert not hasattr(without, "feature_names_in_")


@pytest.mark.filterwarnings("ignore:R.2 score is not well-defined")
def test_folds_without_a_score_are_said(data):
    search = LowPrecisionSearchCV(LowPrecisionRegressor(random_state=0), {"l2": [0.01, 0.1]}, cv=9)
    with pytest.raises(ValueError, match="the estimator's own score is NaN in some fold for every "
                                         "candidate; choose another scoring, or folds"):
        search.fit(data[0][:9], data[1][:9, 0])         # folds of one row have no R2
    search.set_params(scoring="neg_mean_squared_error").fit(data[0][:9], data[1][:9, 0])
    assert np.isfinite(search.best_score_)


@pytest.mark.parametrize("options, message", [
    ({"scoring": {"a": "r2"}}, "scoring must be a name, a function or None, .* not {'a': 'r2'}"),
    ({"scoring": ["r2"]}, "scoring must be a name, a function or None"),
    ({"scoring": lambda *_: None}, "scoring must give one number, but .* gives None; choose one"),
    ({"scoring": lambda *_: {"one": 1.0}}, "scoring must give one number, but .*; choose one"),
    ({"refit": "r2"}, "refit must be True or False, not 'r2'"),
    ({"cv": []}, r"cv must give at least one fold, but \[\] gives none")])
def test_what_a_search_cannot_use(data, options, message):
    search = LowPrecisionSearchCV(LowPrecisionRegressor(random_state=0), {"l2": [0.1]}, **options)
    with pytest.raises(ValueError, match=message):
        search.fit(data[0], data[1][:, 0])


def test_a_score_may_be_an_array_of_one_number(data):
    search = LowPrecisionSearchCV(LowPrecisionRegressor(random_state=0), {"l2": [0.01]}, cv=2,
                                  scoring=lambda *_: np.array(1.0))
    assert search.fit(data[0], data[1][:, 0]).best_score_ == 1.0


def test_masked_data_are_refused(data):
    """Folds are plain arrays, with what is behind the mask."""
    parts = {"X": data[0], "y": data[1][:, 0], "sample_weight": np.ones(90)}
    search = LowPrecisionSearchCV(LowPrecisionRegressor(random_state=0), {"l2": [0.1]}, refit=False)
    for name, part in parts.items():
        masked = np.ma.masked_array(part, np.arange(part.size).reshape(part.shape) == 5)
        with pytest.raises(ValueError, match=f"{name} must have no masked values"):
            search.fit(**{**parts, name: masked})


def test_scoring_weights_and_ties(data):
    """Weights are those of the fits alone; of equal scores the first is the best."""
    X, y = data[0], data[1][:, 0]
    model, weights = LowPrecisionRegressor(random_state=0), np.arange(90) % 3 + 1.0
    search = LowPrecisionSearchCV(model, {"l2": [0.5, 0.1, 0.1]}, cv=3,
                                  scoring="neg_mean_absolute_error")
    search.fit(X, y, sample_weight=weights)
    expected = np.array([[
        -np.abs(clone(model).set_params(l2=l2).fit(X[train], y[train], weights[train]).predict(
            X[test]) - y[test]).mean() for train, test in KFold(3).split(X)]
        for l2 in (0.5, 0.1)])[[0, 1, 1]]
    found = search.cv_results_
    for fold in range(3):
        np.testing.assert_allclose(found[f"split{fold}_test_score"], expected[:, fold])
    np.testing.assert_allclose(found["mean_test_score"], expected.mean(axis=1))
    np.testing.assert_allclose(found["std_test_score"], expected.std(axis=1))
    assert found["rank_test_score"].tolist() == [3, 1, 1]
    assert (search.best_index_, search.best_score_) == (1, found["mean_test_score"][1])
    whole = clone(model).set_params(l2=0.1).fit(X, y, weights)
    assert np.array_equal(search.predict(X), whole.predict(X))
    assert search.score(X, y) == pytest.approx(-np.abs(whole.predict(X) - y).mean())


def test_search_of_another_estimator(data):
    from sklearn.linear_model import Ridge
    with pytest.raises(TypeError, match="must be a LowPrecisionRegressor"):
        LowPrecisionSearchCV(Ridge(), {"alpha": [1]}).fit(data[0], data[1][:, 0])


def test_doctest():
    for test in doctest.DocTestFinder(recurse=False).find(LowPrecisionSearchCV, "search"):
        assert test.examples
        assert doctest.DocTestRunner().run(test).failed == 0


def test_groups_are_passed_to_the_splitter(data):
    X, y = data[0], data[1][:, 0]
    groups = np.arange(90) % 5
    model, grid = LowPrecisionRegressor(random_state=0, epochs=5), {"l2": [0.0, 0.1]}
    search = LowPrecisionSearchCV(model, grid, cv=GroupKFold(3)).fit(X, y, groups=groups)
    found: Any = GridSearchCV(model, grid, cv=GroupKFold(3)).fit(X, y, groups=groups)
    for name in ("split0_test_score", "split2_test_score", "mean_test_score"):
        np.testing.assert_allclose(search.cv_results_[name], found.cv_results_[name])
    with pytest.raises(ValueError, match="'groups' parameter should not be None"):
        search.fit(X, y)
