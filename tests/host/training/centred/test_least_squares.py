"""Bit-centred training, and precision as a schedule."""

from itertools import pairwise

import numpy as np
import pytest
from tests.host.fakes import DEVICES

from bitstep.devices import open_device
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import Loss
from bitstep.pipeline.results import DeviceError, RangeOverflowError, TrainingInterrupted
from bitstep.quantization import QuantizedDataset, quantize_bit_planes, quantize_labels, sign_labels
from bitstep.training.centred.least_squares import BitCentredRun
from bitstep.training.centred.passes import BitCentred
from bitstep.training.choices import resolve_training
from bitstep.training.loop.precision import PlaneRule
from bitstep.training.objective import Objective
from bitstep.training.pipelines import pipeline_of
from bitstep.training.planes import resolve_planes
from bitstep.training.solvers import solver_of
from bitstep.training.train import train_model

SOFTWARE = [name for name in ("golden", "cpu") if name in DEVICES]


def make(n_rows=300, n_features=6, seed=0, noise=0.1, center=True):
    rng = np.random.default_rng(seed)
    features = rng.standard_normal((n_rows, n_features)) @ rng.standard_normal((n_features,) * 2)
    labels = features @ rng.standard_normal(n_features) + noise * rng.standard_normal(n_rows) + 3
    rows = quantize_bit_planes(features, scaler="minmax" if center else "maxabs")
    return QuantizedDataset(rows, quantize_labels(labels, n_rows, center_labels=center))


def optimum(data, l2=0.0, intercept=True):
    """Least loss on the stored rows and labels, and its model."""
    u = data.rows.values(slice(None))[0]
    y = data.label_values()
    design = np.hstack([u, np.ones((len(u), 1))]) if intercept else u
    penalty = l2 * np.eye(design.shape[1])
    if intercept:
        penalty[-1, -1] = 0
    model = np.linalg.solve(design.T @ design / len(u) + penalty, design.T @ y / len(u))
    return design, y, model


def excess(data, coef, intercept, l2=0.0, fit_intercept=True):
    design, y, best = optimum(data, l2, fit_intercept)
    model = np.append(coef, intercept) if fit_intercept else coef

    def loss(x):
        return ((design @ x - y) ** 2).mean() / 2 + l2 / 2 * (x[:design.shape[1] - fit_intercept]
                                                             ** 2).sum()
    return loss(model) / loss(best) - 1


def fit(data, device="golden", epochs=8, l2=0.0, planes=4, **options):
    objective = Objective(l2=l2)
    training = resolve_training(data.rows, objective, epochs=epochs, solver="bit-centred",
                                planes=planes, **options)
    config = pipeline_of(data.rows, objective)
    with open_device(device, config) as opened:
        return train_model([data], opened, config, objective, training)


@pytest.mark.parametrize("planes", [2, 3, 4, 16, [2, 4, 8]])
def test_reaches_the_optimum(planes):
    data = make()
    model = fit(data, planes=planes)
    assert excess(data, model.weights[-1, 0], model.scaled_intercepts[-1, 0]) < 1e-9
    assert model.planes is not None
    assert model.planes[:3, 0].tolist() == (planes if isinstance(planes, list) else [planes] * 3)


@pytest.mark.parametrize("l2", [1e-3, 0.3])
def test_ridge(l2):
    data = make(seed=2)
    model = fit(data, l2=l2)
    assert excess(data, model.weights[-1, 0], model.scaled_intercepts[-1, 0], l2) < 1e-9


@pytest.mark.parametrize("intercept", [True, False])
def test_ridge_of_standardized_columns(intercept):
    """By the normal equations in these columns; l2 means the same whatever the tails and ranges."""
    rng = np.random.default_rng(4)
    features = np.sinh(2 * rng.standard_normal((400, 4))) * [1.0, 1e-3, 1e3, 1.0]
    features[:, 3] = 5.0
    labels = features[:, :3] @ [1.0, 1e3, -1e-3] + 30 * rng.standard_normal(400)
    rows = quantize_bit_planes(features, scaler="minmax" if intercept else "maxabs")
    data = QuantizedDataset(rows, quantize_labels(labels, 400, center_labels=intercept))
    objective = Objective(l2=0.2, standardized=True)
    training = resolve_training(rows, objective, epochs=30, solver="bit-centred", planes=4,
                                fit_intercept=intercept)
    with open_device("golden", pipeline_of(rows, objective)) as device:
        model = train_model([data], device, device.config, objective, training)
    u, y = rows.values(slice(None))[0], data.label_values()
    units = np.sqrt(u.var(axis=0) if intercept else (u * u).mean(axis=0))
    units[3] = 1.0                  # of a column with a single value
    columns, middle = (u / units, 0) if not intercept else ((u - u.mean(axis=0)) / units, y.mean())
    best = np.linalg.solve(columns.T @ columns / 400 + 0.2 * np.eye(4),
                           columns.T @ (y - middle) / 400)
    np.testing.assert_allclose(model.weights[-1, 0] * units, best, rtol=1e-5, atol=1e-6)
    assert model.gaps is not None
    assert model.gaps[-1, 0] < 1e-6 * y.var()


def test_sgd_has_no_penalty_of_standardized_columns():
    data = make()
    objective = Objective(l2=0.2, standardized=True)
    training = resolve_training(data.rows, objective, epochs=1, planes=4)
    with open_device("golden", pipeline_of(data.rows, objective)) as device, \
            pytest.raises(ValueError, match="penalty of SGD must be on weights of scaled features"):
        train_model([data], device, device.config, objective, training)


def test_without_an_intercept():
    data = make(center=False)
    model = fit(data, fit_intercept=False, epochs=9)
    assert (model.scaled_intercepts == 0).all()
    assert excess(data, model.weights[-1, 0], 0, fit_intercept=False) < 1e-9


@pytest.mark.skipif(len(SOFTWARE) < 2, reason="needs numba")
def test_devices_agree():
    data = make(90, 5)
    first, second = (fit(data, device, epochs=3) for device in SOFTWARE)
    np.testing.assert_array_equal(first.weights, second.weights)
    np.testing.assert_array_equal(first.scaled_intercepts, second.scaled_intercepts)
    known = {name: value for name, value in first.counters.items() if value is not None}
    assert known == {name: second.counters[name] for name in known}
    assert len(SOFTWARE) < 2 or second.counters["cycles"]


def test_noise_free_labels_and_a_constant_column():
    rng = np.random.default_rng(1)
    features = rng.standard_normal((200, 4))
    features[:, 2] = 7.0
    labels = features @ [1.0, -2.0, 0.0, 0.5]
    data = QuantizedDataset(quantize_bit_planes(features), quantize_labels(labels, 200))
    model = fit(data, epochs=8)
    found = features @ model.coefs[-1, 0] + model.intercepts[-1, 0]
    assert ((found - labels) ** 2).mean() < 1e-7 * labels.var()


def test_constant_labels_need_nothing():
    features = np.random.default_rng(0).standard_normal((50, 3))
    data = QuantizedDataset(quantize_bit_planes(features), quantize_labels(np.full(50, 2.5), 50))
    model = fit(data, epochs=2)
    np.testing.assert_allclose(model.intercepts[-1], 2.5)
    np.testing.assert_array_equal(model.coefs[-1], 0)


def test_one_bit_does_not_diverge():
    """What few planes lose is found by more of them, once a number leaves its range."""
    data = make(400, 10, seed=4)
    model = fit(data, planes=1, epochs=14)
    losses = [excess(data, weights[0], intercept[0]) for weights, intercept in zip(
        model.weights, model.scaled_intercepts, strict=True)]
    assert losses[-1] < 1e-4
    assert all(later <= 1.001 * earlier + 1e-12 for earlier, later in pairwise(losses))


def test_tol_ends_it():
    data = make()
    model = fit(data, tol=1e-4, epochs=30)
    assert 2 <= model.epochs_done < 10
    assert excess(data, model.weights[-1, 0], model.scaled_intercepts[-1, 0]) < 1e-4
    run = BitCentredRun(data, open_device("golden", data.rows.config), data.rows.config,
                        Objective(), BitCentred(planes=[4] * 3, step=0.1, tol=0.0))
    gradients = [state.gradient for state in run.steps()]
    assert gradients[-1] < gradients[0] < 1


def test_corrections_of_the_inner_passes():
    """What a correction adds: what rounding took from a column's variance, the ridge, the slope."""
    rng, jobs, l2 = np.random.default_rng(0), [], 0.25
    features = rng.uniform(-1, 1, (300, 3))
    features[:, 0] = rng.uniform(0.1, 0.4, 300)     # in one cell of 2 bits
    features[:, 2] = 0.15 * rng.standard_normal(300)
    features[:2] = [[-1.0] * 3, [1.0] * 3]
    rows = quantize_bit_planes(features)
    data = QuantizedDataset(rows, quantize_labels(rng.standard_normal(300), 300))
    run = BitCentredRun(data, open_device("golden", rows.config), rows.config, Objective(l2=l2),
                        BitCentred(planes=[2], step=0.1))
    train = run.device.train
    run.device.train = lambda job, **options: (jobs.append(job), train(job, **options))[1]
    run.begin(2)
    run.inner_passes(2)
    lost = np.minimum(rows.excess[1], 0) - l2
    assert (rows.excess[1] < 0).any()
    assert (rows.excess[1] > 0).any()
    shares = jobs[0].coefficients / lost
    np.testing.assert_allclose(shares, shares[0], rtol=1e-3)
    slopes = np.append(jobs[0].constants, jobs[0].constant_intercept) / -run.slope
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-3)
    # Of a word of the offset.
    unit = 0.1 * sum(run.shares) * 300 * np.abs(run.slope).max() / 2 ** 31
    np.testing.assert_allclose(slopes[0] * unit * 2 ** 18, shares[0], rtol=1e-3)


def test_bytes_of_an_outer_step():
    data = make()               # 300 rows of 6 features: 8 bits a row and plane, in 64-byte beats
    model = fit(data, epochs=3)
    assert model.counters["beats"] == (4 * 16 + 3 * 2 * 4) * 320 // 8


def test_outputs_of_classes():
    rng = np.random.default_rng(0)
    rows = quantize_bit_planes(rng.standard_normal((120, 4)))
    outputs = [QuantizedDataset(rows, sign_labels(np.where(rng.random(120) < share, 1, -1)))
               for share in (0.5, 0.3)]
    objective = Objective()
    training = resolve_training(rows, objective, epochs=6, solver="bit-centred", planes=4,
                                tol=1e-5)
    config = pipeline_of(rows, objective)
    with open_device("golden", config) as device:
        model = train_model(outputs, device, config, objective, training)
    for number, data in enumerate(outputs):
        assert excess(data, model.weights[-1, number], model.scaled_intercepts[-1, number]) < 1e-6
    assert model.planes is not None
    assert set(model.planes[0]) == {4}


def test_every_output_has_the_offset_of_its_labels():
    first = make(60, 3)
    outputs = [first, QuantizedDataset(first.rows, quantize_labels(
        50 - 2 * first.label_values(), 60))]
    objective = Objective()
    training = resolve_training(first.rows, objective, epochs=3, solver="bit-centred", planes=4)
    with open_device("golden", first.rows.config) as device:
        both = train_model(outputs, device, first.rows.config, objective, training)
    for number, data in enumerate(outputs):
        alone = fit(data, epochs=3)
        np.testing.assert_array_equal(both.intercepts[:, number], alone.intercepts[:, 0])


def test_an_output_that_has_stopped_reads_nothing():
    rng = np.random.default_rng(0)
    features = rng.standard_normal((120, 4))
    rows = quantize_bit_planes(features)
    outputs = [QuantizedDataset(rows, sign_labels(signs)) for signs in (
        np.sign(features[:, 0]), rng.choice([-1.0, 1.0], 120))]
    objective = Objective()
    training = resolve_training(rows, objective, epochs=9, solver="bit-centred", planes=4, tol=1e-4)
    config = pipeline_of(rows, objective)
    with open_device("golden", config) as device:
        both = train_model(outputs, device, config, objective, training)
        apart = [train_model([one], device, config, objective, training) for one in outputs]
    first, second = (one.epochs_done for one in apart)
    assert first < second == both.epochs_done
    assert both.planes is not None
    assert both.planes.T.tolist() == [[4] * first + [0] * (second - first), [4] * second]
    assert both.bytes_read is not None
    assert both.bytes_read.sum() == sum(one.counters["beats"] or 0 for one in apart) * 8
    for number, one in enumerate(apart):
        np.testing.assert_array_equal(both.weights[-1, number], one.weights[-1, 0])


def test_interrupted_training_keeps_its_steps():
    data = make(60, 3)
    objective = Objective()
    training = resolve_training(data.rows, objective, epochs=6, solver="bit-centred", planes=4)

    def train(stop):
        def on_epoch(done):
            if done == stop:
                raise KeyboardInterrupt
        with open_device("golden", data.rows.config) as device:
            gradient = device.gradient

            def count(job, **options):
                if stop == 0:
                    raise KeyboardInterrupt
                return gradient(job, **options)
            device.gradient = count
            return train_model([data], device, data.rows.config, objective, training,
                               on_epoch=on_epoch)

    model = train(2)
    assert model.interrupted
    assert model.epochs_done == 2
    np.testing.assert_array_equal(model.weights, fit(data, epochs=2).weights)
    with pytest.raises(TrainingInterrupted):
        train(0)


def test_a_step_that_no_room_can_hold_is_an_error(monkeypatch):
    monkeypatch.setattr("bitstep.training.centred.run.MAX_TRIES", 2)
    with pytest.raises(RangeOverflowError, match="left the number range"):
        fit(make(), step=40.0)


@pytest.mark.parametrize("options, message", [
    ({"batch": 4}, "its passes have batches of one row"),
    ({"schedule": "inverse-sqrt"}, "it has one step for all outer steps"),
    ({"planes": 17}, "planes must be 'auto', an integer from 1 to 16"),
    ({"planes": "many"}, "planes must be 'auto'"),
    ({"tol": -1.0}, "tol must be a number of at least 0, not -1.0"),
])
def test_bad_options(options, message):
    with pytest.raises(ValueError, match=message):
        fit(make(30, 2), **options)


@pytest.mark.parametrize("objective, wrong", [
    (Objective(loss=Loss.HINGE), "loss='hinge'"), (Objective(l1=0.1), "l1=0.1"),
    (Objective(l1=0.1, box=2.0), "l1=0.1 and box=2.0")])
def test_other_objectives_are_refused(objective, wrong):
    with pytest.raises(ValueError, match=f"not go together with {wrong}: .* choose solver='sgd'"):
        resolve_training(make(30, 2).rows, objective, epochs=1, solver="bit-centred", planes=4)
    assert LOSSES[Loss.LEAST_SQUARES].quadratic


def test_devices_without_bit_planes_refuse(monkeypatch):
    """As those of other packages may be."""
    from bitstep.devices.uart import UartDevice
    monkeypatch.setattr(UartDevice, "bit_planes", False)
    config = make(30, 2).rows.config
    with pytest.raises(DeviceError, match="Device 'uart' has no pipeline for bit-plane rows"):
        open_device("uart", config, port="/dev/null")


def test_planes_of_epochs():
    assert resolve_planes(3, 2, "auto") == (3, 3)
    assert resolve_planes([2, 4], 4, "auto") == (2, 4, 4, 4)
    assert resolve_planes([2, 4, 8], 2, "auto") == (2, 4)
    assert resolve_planes("auto", 2, solver_of("sgd").automatic_planes(2)) == "auto"
    assert resolve_planes("auto", 2, solver_of("bit-centred").automatic_planes(2)) == (4, 4)


def test_rule_of_automatic_planes():
    across = PlaneRule()
    across.see([5, 0])
    across.see([0, 3])
    assert across.planes == 4
    rule = PlaneRule()
    taken = []
    for change in ([8, 0], [4, 1], [1, 0],          # 16 * 1 < 64: little
                   [5, 0], [-1, 3],                 # against the one before
                   [1, 0], [-1, 0]):                # 8 is the most
        taken.append(rule.planes)
        rule.see(change)
    assert taken == [2, 2, 2, 4, 4, 8, 8]
    assert rule.planes == 8


@pytest.mark.parametrize("device", SOFTWARE)
def test_automatic_planes_are_a_list_of_them(device):
    data = make(80, 4)
    objective, config = Objective(l2=0.01), pipeline_of(data.rows, Objective(l2=0.01))

    def run(planes):
        training = resolve_training(data.rows, objective, epochs=9, planes=planes,
                                    schedule="constant")
        with open_device(device, config) as opened:
            return train_model([data], opened, config, objective, training)

    automatic = run("auto")
    assert automatic.planes is not None
    taken = automatic.planes[:, 0].tolist()
    assert taken[0] == 2
    assert len(set(taken)) > 1
    listed = run(taken)
    np.testing.assert_array_equal(automatic.weights, listed.weights)
    assert automatic.counters["beats"] == listed.counters["beats"]


def test_a_run_that_goes_on_knows_every_number():
    data = make()
    device, choice = open_device("golden", data.rows.config), BitCentred(planes=[4] * 3, step=0.1)
    runs = [BitCentredRun(data, device, data.rows.config, Objective(), choice) for _ in range(2)]
    runs[0].slow, runs[0].gain, runs[0].error = 3, 4.0, 5.0
    runs[0].errors = np.array([6.0])
    runs[1].restore(*runs[0].kept())
    assert (runs[1].slow, runs[1].gain, runs[1].error, *runs[1].errors) == (3, 4, 5, 6)
