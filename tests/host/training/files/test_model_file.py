"""Model files: round trip, and a message for every way in which one is not right."""

import json

import numpy as np
import pytest

from bitstep.training.files.model_file import LinearModel, ModelFileError, load_model

CLIP = np.array([[-9.0, -9.0], [9.0, 9.0]])
MODEL = LinearModel(np.array([[1.0, -2.0]]), np.array([0.5]), np.zeros(0), {"bits": 4}, CLIP)
HEADER = {"format": "bitstep-model", "version": 2, "config": {}}


def rewrite(path, **changes):
    """Save a model file again with other members."""
    with np.load(path) as file:
        members = {name: file[name] for name in file.files}
    members.update(changes)
    with path.open("wb") as file:
        np.savez(file, **{name: value for name, value in members.items() if value is not None})


@pytest.fixture
def path(tmp_path):
    MODEL.save(tmp_path / "model.npz")
    return tmp_path / "model.npz"


def test_round_trip(path):
    loaded = load_model(path)
    assert loaded.coef.tolist() == [[1.0, -2.0]]
    assert loaded.intercept.tolist() == [0.5]
    assert loaded.config == {"bits": 4}
    assert [entry.name for entry in path.parent.iterdir()] == ["model.npz"]


def test_round_trip_of_several_classes(tmp_path):
    """Every digit of the numbers, and whatever JSON can hold in the configuration."""
    rng = np.random.default_rng(0)
    config = {"model": "svm", "loss": "hinge", "refetch": True, "box": None, "l1": 1e-9,
              "pipeline": {"bits": 8, "refetch": True}}
    model = LinearModel(rng.normal(size=(3, 5)), rng.normal(size=3), np.array([-1.0, 2, 7]), config)
    model.save(tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    for name in ("coef", "intercept", "classes"):
        np.testing.assert_array_equal(getattr(loaded, name), getattr(model, name))
    assert loaded.config == config
    rows = rng.normal(size=(9, 5))
    np.testing.assert_array_equal(loaded.predict(rows), model.predict(rows))


def test_predict():
    rows = np.array([[1.0, 1.0], [0.0, -1.0], [99.0, -99.0]])
    assert MODEL.predict(rows).tolist() == [-0.5, 2.5, 27.5]        # the last row as clipped
    targets = LinearModel(np.eye(2), np.array([0.5, 0.0]), np.zeros(0))
    assert targets.predict(rows[:2]).tolist() == [[1.5, 1.0], [0.5, -1.0]]
    two = LinearModel(MODEL.coef, MODEL.intercept, np.array([3.0, 7.0]))
    assert two.predict(np.array([[1.0, 1.0], [0.0, -1.0]])).tolist() == [3.0, 7.0]
    three = LinearModel(np.eye(3), np.zeros(3), np.array([1.0, 2.0, 3.0]))
    assert three.predict(np.array([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])).tolist() == [3.0, 1.0]
    with pytest.raises(ModelFileError, match="trained on 2 features, the data have 3"):
        MODEL.predict(np.zeros((1, 3)))


def test_parts_that_do_not_fit():
    with pytest.raises(ModelFileError, match="A model of 3 classes must have 3 outputs"):
        LinearModel(MODEL.coef, MODEL.intercept, np.arange(3.0))
    with pytest.raises(ModelFileError, match="must have 1 outputs"):
        LinearModel(MODEL.coef, np.zeros(2), np.zeros(0))


def test_missing(tmp_path):
    with pytest.raises(ModelFileError, match=r"none\.npz: there is no such file; check the path"):
        load_model(tmp_path / "none.npz")


def test_another_file(path):
    path.write_bytes(b"not an archive at all")
    with pytest.raises(ModelFileError, match="not a model file, or it is damaged"):
        load_model(path)
    np.savez(path, X=np.eye(2))
    with pytest.raises(ModelFileError, match="this is not a model file; `bitstep train --out`"):
        load_model(path)


def test_cut_short(path):
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(ModelFileError, match="it is damaged"):
        load_model(path)


def test_another_version_or_format(path):
    for version in (1, 9):
        rewrite(path, header=np.array(json.dumps(HEADER | {"version": version})))
        message = f"has version {version}, this bitstep reads version 2"
        with pytest.raises(ModelFileError, match=message):
            load_model(path)
    rewrite(path, header=np.array(json.dumps(HEADER | {"format": "other"})))
    with pytest.raises(ModelFileError, match="a file of format 'other', not a model file"):
        load_model(path)


@pytest.mark.parametrize("change", [
    {"coef": np.array([[1.0, -2.1]])}, {"classes": np.zeros(2)}, {"coef": MODEL.coef.T},
    {"intercept": np.array([0.5], np.float32)}, {"clip": None, "other": CLIP},
    {"header": np.array(json.dumps(HEADER))}])
def test_changed_contents(path, change):
    rewrite(path, **change)
    with pytest.raises(ModelFileError, match="checksum does not match, so the file is damaged"):
        load_model(path)


def test_missing_member_and_pickle(path):
    rewrite(path, coef=None)
    with pytest.raises(ModelFileError, match="it is damaged"):
        load_model(path)
    rewrite(path, coef=np.array([{}], dtype=object))
    with pytest.raises(ModelFileError, match="it is damaged"):
        load_model(path)
