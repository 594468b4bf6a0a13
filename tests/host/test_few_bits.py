"""A model and updates of few bits, from estimators and command line to model files."""

import json
from typing import Any

import numpy as np
import pytest
from command_line import train
from fakes import FakeDevice

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.cli import main
from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import Loss
from bitstep.pipeline.results import DeviceError
from bitstep.quantization import quantize
from bitstep.training.files.checkpoint import describe_job, job_after
from bitstep.training.noise_floor import noise_floor
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_of
from bitstep.training.planning import plan
from bitstep.training.train import train_model

RNG = np.random.default_rng(3)
X = RNG.uniform(-1, 1, (200, 12))
Y = X @ RNG.normal(size=12) + 0.3 * RNG.normal(size=200)
FEW: dict[str, Any] = {"model_bits": 6, "update_bits": 5}


def loss_of(**options: Any) -> float:
    model = LowPrecisionRegressor(bits=6, batch=16, epochs=30, random_state=0, step=0.3,
                                  schedule="constant", **options)
    return float(np.mean((model.fit(X, Y).predict(X) - Y) ** 2))


def test_losses_grow_as_bits_shrink():
    whole = loss_of()
    assert loss_of(model_bits=16, update_bits=16) == pytest.approx(whole, rel=0.01)
    assert loss_of(model_bits=8, update_bits=8) == pytest.approx(whole, rel=0.05)
    assert 1.05 * whole < loss_of(model_bits=2) < 20 * whole
    assert loss_of(update_bits=2) == pytest.approx(whole, rel=0.05)


@pytest.mark.parametrize("device", ["cpu", "golden"])
def test_devices_agree(device):
    if device == "cpu":
        pytest.importorskip("numba", reason="the native device needs numba")
    model = LowPrecisionRegressor(device=device, random_state=1, epochs=3, **FEW).fit(X, Y)
    other = LowPrecisionRegressor(device="golden", random_state=1, epochs=3, **FEW).fit(X, Y)
    np.testing.assert_array_equal(model.coef_, other.coef_)
    assert (model.counters_["cycles"] is None) == (device == "golden")
    assert model.noise_floor_ is None


def test_calls_that_go_on():
    options: dict[str, Any] = {"random_state": 5, "schedule": "constant", "batch": 16, "step": 0.05,
               "model_range": 8.0, **FEW}
    whole = LowPrecisionRegressor(epochs=3, shuffle=False, **options).fit(X, Y)
    parts = LowPrecisionRegressor(**options)
    for _ in range(3):
        parts.partial_fit(X, Y)
    np.testing.assert_allclose(parts.coef_, whole.coef_, rtol=1e-6)


@pytest.mark.parametrize("loss", ["squared_error", "squared_hinge", "hinge", "log_loss"])
def test_classes(loss, tmp_path):
    classes = np.digitize(Y, np.quantile(Y, [1 / 3, 2 / 3]))
    model = LowPrecisionClassifier(loss=loss, batch=16, random_state=0, model_bits=8,
                                   update_bits=8).fit(X, classes)
    assert model.score(X, classes) > 0.6
    # The hinge loss has no refetching then, which would need words of all bits.
    assert not model.counters_["refetched_rows"]
    model.save(tmp_path / "model.npz")
    loaded = LowPrecisionClassifier.load(tmp_path / "model.npz")
    assert (loaded.model_bits, loaded.update_bits) == (8, 8)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_candidates():
    chosen: list[dict[str, Any]] = [{"step": 0.01}, {"step": 0.05}]
    model = LowPrecisionRegressor(random_state=2, epochs=4, batch=16, **FEW)
    for one, parameters in zip(model.fit_candidates(X, Y, chosen), chosen, strict=True):
        alone = LowPrecisionRegressor(random_state=2, epochs=4, batch=16, **FEW, **parameters)
        np.testing.assert_array_equal(one.coef_, alone.fit(X, Y).coef_)


@pytest.mark.parametrize("options, text", [
    ({"model_bits": 1}, "model_bits must be an integer from 2 to 16, or 0 for all, not 1"),
    ({"update_bits": "8"}, "update_bits must be an integer from 2 to 16, .* not '8'"),
    ({"model_bits": 8, "bits": 32}, "are rounded for rows of 1 to 8 bits alone"),
    ({"update_bits": 8, "planes": 4}, "are rounded for rows of 1 to 8 bits alone"),
    ({"update_bits": 8, "solver": "bit-centred"}, "are rounded for rows of 1 to 8 bits alone")])
def test_wrong_options(options, text):
    with pytest.raises(ValueError, match=text):
        LowPrecisionRegressor(**options).fit(X, Y)


def test_devices_without_it():
    board = FakeDevice(PipelineConfig(bits=4))
    with pytest.raises(DeviceError, match="a model of all bits, and a job asks for 6 bits"):
        LowPrecisionRegressor(device=board, bits=4, **FEW).fit(X, Y)


def test_refetching_that_is_asked_for():
    with pytest.raises(ValueError, match="rows are decided by bounds of a model of all bits"):
        LowPrecisionClassifier(loss="hinge", refetch=True, model_bits=8).fit(X, Y > 0)
    with pytest.raises(ValueError, match="are rounded for rows of 1 to 8 bits alone"):
        Training(steps=[0.1], solver="bit-centred", planes=(4,), model_bits=4)


def test_a_batch_of_all_rows():
    """Corrections between the epochs use the words of 32 bits."""
    model = LowPrecisionRegressor(batch=1000, epochs=60, random_state=0, schedule="constant",
                                  model_bits=10, update_bits=10).fit(X, Y)
    assert model.score(X, Y) > 0.8


def test_the_mean_model_is_that_of_all_bits():
    """Over many seeds of the rounding, the mean of the models is that of all bits."""
    data = quantize(X, Y, bits=8, encoding="stochastic", task="regression", seed=0)
    config = pipeline_of(data.rows, Objective())
    steps = [0.02] * 2

    def weights(seed, **bits):
        object.__setattr__(data.rows, "seed", seed)
        training = Training(steps=steps, batch=50, model_range=16.0, **bits)
        return train_model([data], GoldenDevice(config), config, Objective(),
                           training).weights[-1][0]

    whole = np.mean([weights(seed) for seed in range(20)], axis=0)
    found = np.array([weights(seed, model_bits=3, update_bits=3) for seed in range(300)])
    error = found.std(axis=0) / len(found) ** 0.5
    far = np.abs(found.mean(axis=0) - whole) / error
    assert far.max() < 4.5
    assert np.mean(far ** 2) < 2.5
    assert np.abs(whole / error).max() > 15


def test_any_epoch_is_a_start():
    data = quantize(X, Y, bits=4, encoding="compensated", copies=2, task="regression")
    config = pipeline_of(data.rows, Objective())
    training = Training(steps=[0.1] * 5, batch=8, **FEW)
    job = plan(data, config, Objective(), training).job
    whole = GoldenDevice(config).train(job)
    for done in range(5):
        start = (whole.models[done - 1], int(whole.intercepts[done - 1])) if done else \
            (job.model, job.intercept)
        rest = GoldenDevice(config).train(job_after(job, done, *start))
        np.testing.assert_array_equal(rest.models, whole.models[done:])
    assert describe_job(job)["bits of model and updates"] == [6, 5]


def test_no_noise_floor():
    rows = quantize(X, Y, bits=4, encoding="compensated", task="regression").rows
    options = {"weights": np.ones((1, 12)), "steps": np.array([0.1]), "loss": 1.0}
    objective = Objective(loss=Loss.LEAST_SQUARES)
    assert noise_floor(rows, objective, Training(steps=[0.1]), **options) is not None
    assert noise_floor(rows, objective, Training(steps=[0.1], model_bits=4), **options) is None


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "table.csv"
    np.savetxt(path, np.column_stack([X, Y]), delimiter=",")
    return path


def test_command_line(table, tmp_path, capsys):
    out, report = tmp_path / "model.npz", tmp_path / "run.json"
    options = ["--batch", 16, "--epochs", 4, "--model-bits", 6, "--update-bits", 5]
    assert train(table, *options, "--out", out, "--report", report) == 0
    assert "model of 6 bits, update of 5 bits, device golden" in capsys.readouterr().out
    config = json.loads(report.read_text())["config"]
    assert (config["model_bits"], config["update_bits"]) == (6, 5)
    model = LowPrecisionRegressor.load(out)
    assert (model.model_bits, model.update_bits) == (6, 5)
    # A checkpoint of other bits is not gone on with.
    kept = tmp_path / "kept.npz"
    assert train(table, *options, "--checkpoint", kept) == 0
    assert train(table, *options, "--resume", kept) == 0
    assert _code(["train", str(table), *map(str, options[:-1]), "6", "--resume", str(kept),
                  "--device", "golden"]) == 2
    assert "--update-bits is 6, the checkpoint's 5" in capsys.readouterr().err


@pytest.mark.parametrize("options, text", [
    (["--model-bits", 1], "--model-bits: must be an integer from 2 to 16, or 0 for all, not"),
    (["--update-bits", 17], "--update-bits: must be an integer from 2 to 16, or 0 for all, not"),
    (["--model-bits", 4, "--bits", 32], "are rounded for rows of 1 to 8 bits alone"),
    (["--update-bits", 4, "--planes", 4], "are rounded for rows of 1 to 8 bits alone"),
    (["--model-bits", 4, "--model", "svm", "--refetch"],
     "--model-bits 4 does not go together with --refetch")])
def test_wrong_use(table, capsys, options, text):
    assert _code(["train", str(table), "--device", "golden", *map(str, options)]) == 2
    assert text in capsys.readouterr().err


def _code(arguments):
    try:
        return main(arguments)
    except SystemExit as error:
        return error.code
