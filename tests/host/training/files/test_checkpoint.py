"""Checkpoints: a training that goes on gives the words of one that was not interrupted."""

import dataclasses
import errno
import json
import signal
import zipfile
from typing import Any

import numpy as np
import pytest
from fakes import DEVICES, FakeDevice, run_plan

from bitstep.devices.golden import GoldenDevice
from bitstep.golden.sgd import train
from bitstep.pipeline.device import Device
from bitstep.pipeline.registers import Error, Loss
from bitstep.pipeline.results import BusError, RangeOverflowError, RunResult, TrainingInterrupted
from bitstep.quantization import quantize, quantize_rows
from bitstep.training import stepping
from bitstep.training.files.checkpoint import (
    KIND,
    CentredState,
    Checkpoint,
    CheckpointError,
    describe_data,
    describe_job,
    load_checkpoint,
)
from bitstep.training.files.checkpoint_writer import CheckpointWriter
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_of
from bitstep.training.planning import plan
from bitstep.training.train import class_outputs, train_model

RNG = np.random.default_rng(7)
FEATURES = RNG.uniform(-3, 5, (90, 6))
VALUES = FEATURES @ RNG.normal(size=6) + 2
SIGNS = np.where(np.median(VALUES) < VALUES, 1.0, -1.0)
EPOCHS = 7

# Rows, objective and training: every encoding and loss, and what one epoch could hand to the next.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "compensated, copies": ({"bits": 4, "encoding": "compensated", "copies": 3}, {}, {}),
    "corrections of batches": (
        {"bits": 3, "encoding": "double-symmetric", "copies": 2}, {"l2": 0.05},
        {"batch": 8, "correction_period": 16}),
    "corrections as often as possible": (
        {"bits": 2, "encoding": "compensated"}, {}, {"correction_period": 1}),
    "one correction an epoch": (
        {"bits": 4, "encoding": "compensated"}, {"l2": 0.01}, {"correction_period": 89}),
    "batch of 64": ({"bits": 8, "encoding": "stochastic", "copies": 4}, {}, {"batch": 64}),
    "batch of all": ({"bits": 8, "encoding": "stochastic"}, {}, {"batch": 256}),
    "corrections of batches of all": (
        {"bits": 4, "encoding": "compensated", "copies": 2}, {"l2": 0.05}, {"batch": 256}),
    "proximal steps": ({"bits": 5, "encoding": "double"}, {"l1": 0.02, "box": 3.0}, {}),
    "no intercept": ({"bits": 6, "encoding": "nearest", "scaler": "maxabs"}, {},
                     {"fit_intercept": False}),
    "hinge, refetching": ({"bits": 4, "encoding": "nearest", "fine_rows": True, "copies": 2},
                          {"loss": "HINGE", "refetch": True, "l2": 0.01}, {}),
    "hinge, refetching with weights": (
        {"bits": 4, "encoding": "nearest", "fine_rows": True, "copies": 2,
         "weights": np.resize(np.array([65535, 9000, 40000], np.uint16), 90)},
        {"loss": "HINGE", "refetch": True, "l2": 0.01}, {}),
    "hinge, refetching of drawn codes": (
        {"bits": 2, "encoding": "stochastic", "fine_rows": True, "copies": 2},
        {"loss": "HINGE", "refetch": True, "l1": 0.001}, {}),
    "squared hinge": ({"bits": 1, "encoding": "stochastic", "copies": 2},
                      {"loss": "SQUARED_HINGE"}, {"batch": 4}),
    "logistic": ({"bits": 8, "encoding": "stochastic"}, {"loss": "LOGISTIC", "l1": 0.01}, {}),
    "float": ({"bits": 32, "encoding": "float"}, {"l2": 0.05}, {"batch": 3}),
    "float, logistic": ({"bits": 32, "encoding": "float"},
                        {"loss": "LOGISTIC", "l1": 0.01, "box": 2.0}, {}),
}


def problem(name, **changes):
    """Data, pipeline, objective and training of a case."""
    rows, objective, training = CASES[name]
    objective = dict(objective)
    loss = objective.pop("loss", None)
    if loss:
        objective["loss"] = Loss[loss]
    labels = SIGNS if loss else VALUES
    data = quantize(FEATURES, labels, task="classification" if loss else "regression", seed=5,
                    center_labels=training.get("fit_intercept", True), **rows)
    steps = 0.05 / np.arange(1, EPOCHS + 1)
    made = Objective(**objective)
    return data, pipeline_of(data.rows, made), made, Training(
        steps=steps, **{**training, **changes})


def words(result):
    return [*result.models.tolist(), result.intercepts.tolist()]


def new_checkpoint(outputs, training):
    return Checkpoint({"bits": outputs[0].bits}, describe_data(outputs), training.steps.tolist(),
                      len(outputs))


def writer_to(path, outputs, training, warnings=None):
    """A writer that goes on from the file if there is one."""
    state = load_checkpoint(path) if path.exists() else new_checkpoint(outputs, training)
    return CheckpointWriter(str(path), state, [].append if warnings is None else warnings.append)


@pytest.mark.parametrize("name", CASES)
def test_any_epoch_is_a_start(name):
    """After every epoch, on the golden model and through registers, whatever the options."""
    data, config, objective, training = problem(name)
    made = plan(data, config, objective, training, between_epochs=True)
    whole = run_plan(GoldenDevice(config), made)
    assert len(np.unique(whole.models, axis=0)) == EPOCHS       # no epoch is without effect
    for done in range(EPOCHS):
        first = RunResult(whole.models[:done], whole.intercepts[:done], whole.counters)
        for kind in DEVICES.values():
            assert words(run_plan(kind(config), made, earlier=first)) == words(whole)


@pytest.mark.parametrize("kind", DEVICES.values(), ids=DEVICES)
def test_models_of_every_epoch_while_it_runs(kind):
    data, config, objective, training = problem("compensated, copies")
    job, seen, shown = plan(data, config, objective, training).job, [], []
    with kind(config).begin([job]) as run:
        def look(done):
            assert done == len(seen) + 1
            seen.extend(run.outcomes())
            shown.extend((number, words.tolist()) for number, words, _ in run.words())
        (result,) = run.finish(look)
    expected = [epoch.model.tolist() for epoch in train(job)]
    assert [models.models.tolist() for models in seen] == [
        expected[:done] for done in range(1, EPOCHS + 1)]
    assert result.models.tolist() == expected
    assert shown == [(0, words) for words in expected]
    assert [models.counters["beats"] for models in seen] == [
        done * job.n_rows * job.beats for done in range(1, EPOCHS + 1)]


class StoppedDevice(Device):
    """A device that Ctrl-C stops after some epochs, counted over all its runs."""

    name, clock_hz = "stopped", None

    def __init__(self, device, epochs):
        self.device, self.left, self.config = device, epochs, device.config

    def begin(self, jobs, **options):
        run = self.device.begin(jobs, **options)
        plain_epochs, plain_outcomes, fresh = run.epochs, run.outcomes, []

        def epochs():
            for done in plain_epochs():
                fresh.append(done)
                yield done

        def outcomes():
            if fresh:           # asked for the checkpoint, after the epoch was reported
                fresh.clear()
                if self.left == 0:
                    raise KeyboardInterrupt
                self.left -= 1
            return plain_outcomes()
        run.epochs, run.outcomes = epochs, outcomes
        return run

    def close(self):
        pass


@pytest.mark.parametrize("each, expected", [(1, 10), (3, 5)])
@pytest.mark.parametrize("kind", DEVICES.values(), ids=DEVICES)
def test_one_vs_rest_goes_on_in_any_class(tmp_path, kind, each, expected):
    """Three classes, stopped after every ``each`` epochs until they are done."""
    path = tmp_path / "run.ckpt"
    rows = quantize_rows(FEATURES, bits=8, encoding="nearest", fine_rows=True, copies=2, seed=3)
    outputs = class_outputs(rows, np.arange(len(FEATURES)) % 3, np.arange(3.0))
    _, _, objective, training = problem("hinge, refetching")
    config = pipeline_of(rows, objective)
    initial = RNG.normal(size=(3, 6)), RNG.normal(size=3)
    whole = train_model(outputs, GoldenDevice(config), config, objective, training,
                        initial=initial)
    stops, seen = 0, []
    while True:
        writer = writer_to(path, outputs, training)
        before = writer.checkpoint.epochs_done
        device = StoppedDevice(kind(config), each)
        try:
            model = train_model(outputs, device, config, objective, training, initial=initial,
                                checkpoint=writer, on_epoch=seen.append)
        except TrainingInterrupted:
            model = None
        # The epoch in which Ctrl-C came was finished.
        assert load_checkpoint(path).epochs_done == min(before + each + 1, 3 * EPOCHS)
        if model is not None and not model.interrupted:
            break
        stops += 1
    assert stops == expected
    assert model.coefs.tolist() == whole.coefs.tolist()
    assert model.intercepts.tolist() == whole.intercepts.tolist()
    assert model.still.tolist() == whole.still.tolist()
    assert model.steps.tolist() == whole.steps.tolist()
    assert model.counters["refetched_rows"] == whole.counters["refetched_rows"]
    assert sorted(set(seen)) == list(range(1, 3 * EPOCHS + 1))
    assert load_checkpoint(path).finished
    # A finished one needs no device.
    again = train_model(outputs, FakeDevice(config, identity=0), config, objective, training,
                        initial=initial, checkpoint=writer_to(path, outputs, training))
    assert again.coefs.tolist() == whole.coefs.tolist()


def test_an_error_of_the_device_keeps_the_epochs_before(tmp_path):
    data, config, objective, training = problem("logistic")
    path = tmp_path / "run.ckpt"
    whole = train_model([data], GoldenDevice(config), config, objective, training)
    for device, done in ((FakeDevice(config, fault=(3, Error.ROW_READ)), 3),
                         (FakeDevice(config, fault=(2, Error.ROW_READ)), 5)):
        with pytest.raises(BusError) as caught:
            train_model([data], device, config, objective, training,
                        checkpoint=writer_to(path, [data], training))
        assert caught.value.result.epochs_done == load_checkpoint(path).epochs_done == done
    assert "in epoch 3 of 4: check" in str(caught.value)
    assert str(caught.value).endswith("(epochs count from epoch 3 of the training)")
    model = train_model([data], GoldenDevice(config), config, objective, training,
                        checkpoint=writer_to(path, [data], training))
    assert model.coefs.tolist() == whole.coefs.tolist()


def test_overflow_counts_from_the_first_epoch(tmp_path):
    data, config, objective, training = problem("batch of 64", model_range=1.0, fit_intercept=True)
    training = dataclasses.replace(training, steps=[1e-3, 1e-3, 1e-3, 40.0, 40.0, 40.0, 40.0])
    path = tmp_path / "run.ckpt"
    with pytest.raises(RangeOverflowError) as whole:
        train_model([data], GoldenDevice(config), config, objective, training)
    assert whole.value.epoch > 3
    with pytest.raises(TrainingInterrupted):
        train_model([data, data], StoppedDevice(GoldenDevice(config), 1), config, objective,
                    training, checkpoint=writer_to(path, [data, data], training))
    with pytest.raises(RangeOverflowError) as later:
        train_model([data, data], GoldenDevice(config), config, objective, training,
                    checkpoint=writer_to(path, [data, data], training))
    assert later.value.epoch == whole.value.epoch
    assert f"in epoch {whole.value.epoch}:" in str(later.value)
    assert load_checkpoint(path).epochs_done == whole.value.epoch - 1


def test_other_integers_are_refused(tmp_path, monkeypatch):
    """Such as those of another version, whose plans differ."""
    data, config, objective, training = problem("proximal steps")
    path = tmp_path / "run.ckpt"
    train_model([data], GoldenDevice(config), config, objective, training,
                checkpoint=writer_to(path, [data], training))
    with monkeypatch.context() as patch:
        patch.setattr(stepping, "PROXIMAL_STEPS", 2 * stepping.PROXIMAL_STEPS)
        with pytest.raises(CheckpointError, match="but the epoch table and the proximal period "):
            train_model([data], GoldenDevice(config), config, objective, training,
                        checkpoint=writer_to(path, [data], training))
    with pytest.raises(CheckpointError, match=r"but the label shift and .*epoch table .* differ: "):
        train_model([data], GoldenDevice(config), config, objective,
                    dataclasses.replace(training, model_range=100.0),
                    checkpoint=writer_to(path, [data], training))


def test_a_full_disk_keeps_the_checkpoint_before(tmp_path, monkeypatch):
    data, config, objective, training = problem("logistic")
    path, warnings = tmp_path / "run.ckpt", []
    save, saves = Checkpoint.save, []

    def fail(self, name):
        saves.append(self.epochs_done)
        if 3 <= self.epochs_done <= 5:
            raise OSError(errno.ENOSPC, "No space left on device", name)
        save(self, name)

    monkeypatch.setattr(Checkpoint, "save", fail)
    writer = writer_to(path, [data], training, warnings)
    seen = []
    train_model([data], GoldenDevice(config), config, objective, training, checkpoint=writer,
                on_epoch=lambda done: seen.append(load_checkpoint(path).epochs_done
                                                  if path.exists() else 0))
    assert seen == [0, 1, 2, 2, 2, 2, 6]
    assert saves == [1, 2, 3, 4, 5, 6, 7]
    warning, = warnings
    assert f"{path} stays that of epoch 2 of 7, and the training goes on; every epoch" in warning
    assert "No space left on device" in warning
    assert writer.complete
    assert load_checkpoint(path).finished


def test_ctrl_c_while_a_checkpoint_is_written(tmp_path, monkeypatch):
    data, config, objective, training = problem("logistic")
    path, save, stopped = tmp_path / "run.ckpt", Checkpoint.save, []

    def stop(self, name):
        if self.epochs_done == 4 and not stopped:
            stopped.append(True)
            raise KeyboardInterrupt
        save(self, name)

    monkeypatch.setattr(Checkpoint, "save", stop)
    model = train_model([data], FakeDevice(config), config, objective, training,
                        checkpoint=writer_to(path, [data], training))
    assert model.interrupted
    assert model.epochs_done == load_checkpoint(path).epochs_done == 4


# The file

@pytest.fixture
def path(tmp_path):
    data, config, objective, training = problem("compensated, copies")
    path = tmp_path / "run.ckpt"
    train_model([data], GoldenDevice(config), config, objective, training,
                checkpoint=writer_to(path, [data], training))
    return path


def test_round_trip(path):
    data, config, objective, training = problem("compensated, copies")
    found = load_checkpoint(path)
    result = GoldenDevice(config).train(plan(data, config, objective, training).job)
    assert found.finished
    assert found.position() == "epoch 7 of 7"
    assert words(found.results[0]) == words(result)
    assert found.results[0].counters == result.counters
    assert found.steps == list(training.steps)
    assert found.data == describe_data([data])
    assert found.seconds > 0
    assert [entry.name for entry in path.parent.iterdir()] == ["run.ckpt"]
    assert path.stat().st_size <= found.final_bytes()


def test_states_of_bit_centred_outputs(tmp_path):
    """The state of an output replaces the one before; a training ends with its last output."""
    writer = CheckpointWriter(str(tmp_path / "a"), Checkpoint({}, {}, [1.0] * 3, 2, seconds=100.0),
                              pytest.fail)
    for number in (0, 1):
        assert writer.centred(number) is None
        for done in (2, 3):
            writer.keep_centred(number, CentredState({"passes": done},
                                                     {"gradients": np.ones(done)}, done == 3))
            found = load_checkpoint(tmp_path / "a")
            assert (len(found.centred), found.epochs_done) == (number + 1, 3 * number + done)
            assert found.finished == ((number, done) == (1, 3))
    assert found.seconds >= 100         # those of the runs before, too


def test_what_a_checkpoint_is_of():
    """Other fine rows, levels or look-ahead are other trainings."""
    fine = quantize(FEATURES, VALUES, bits=4, encoding="nearest", fine_rows=True)
    levels = quantize(FEATURES, VALUES, bits=3, encoding="stochastic", levels="optimal")
    assert fine.rows.fine_rows is not None
    assert levels.rows.codebooks is not None
    for data, changed in ((fine, {"fine_rows": fine.rows.fine_rows ^ 1}),
                          (levels, {"codebooks": levels.rows.codebooks[::-1].copy()})):
        other = dataclasses.replace(data, rows=dataclasses.replace(data.rows, **changed))
        assert describe_data([other]) != describe_data([data])
    for name, matters in (("float", True), ("batch of 64", False)):
        data, config, objective, training = problem(name)
        jobs = [plan(data, made, objective, training).job
                for made in (config, dataclasses.replace(config, lookahead=config.lookahead - 1))]
        assert jobs[0].lookahead != jobs[1].lookahead
        assert (describe_job(jobs[0]) != describe_job(jobs[1])) == matters


@pytest.mark.parametrize("n_features, epochs, outputs", [(512, 200, 10), (2, 20000, 1)])
def test_size_is_estimated_from_above(tmp_path, n_features, epochs, outputs):
    """At the sizes that matter: many features and classes, or many epochs of few."""
    results = [RunResult(np.zeros((epochs, n_features), np.int32), np.zeros(epochs, np.int32),
                         dict.fromkeys(("cycles", "beats", "flush"), 1 << 62))] * outputs
    state = Checkpoint({"steps": "x"}, {"features": n_features},
                       (RNG.random(epochs) / 3).tolist(), outputs,
                       [{"epoch table": "0" * 64}] * outputs, results)
    state.save(tmp_path / "a")
    assert 0.9 < (tmp_path / "a").stat().st_size / state.final_bytes() <= 1


def test_missing_or_another_file(tmp_path):
    with pytest.raises(CheckpointError, match=r"none: there is no such file; check the path"):
        load_checkpoint(tmp_path / "none")
    (tmp_path / "text").write_text("text")
    with pytest.raises(CheckpointError, match="this is not a checkpoint, or it is damaged; `bits"):
        load_checkpoint(tmp_path / "text")
    np.savez(tmp_path / "a.npz", a=np.zeros(3))
    with pytest.raises(CheckpointError, match="this is not a checkpoint; `bitstep train --check"):
        load_checkpoint(tmp_path / "a.npz")


@pytest.mark.parametrize("share", [0.02, 0.3, 0.9, 0.999])
def test_cut_short(path, share):
    content = path.read_bytes()
    path.write_bytes(content[:int(share * len(content))])
    with pytest.raises(CheckpointError, match="is damaged"):
        load_checkpoint(path)


@pytest.mark.parametrize("position", range(100, 4000, 700))
def test_a_changed_byte(path, position):
    content = bytearray(path.read_bytes())
    before = load_checkpoint(path)
    content[position] ^= 4
    path.write_bytes(content)
    try:
        after = load_checkpoint(path)
    except CheckpointError as error:
        message = str(error)
    else:       # a date, or another field of the archive that nothing depends on
        assert words(after.results[0]) == words(before.results[0])
        assert dataclasses.replace(after, results=[]) == dataclasses.replace(before, results=[])
        return
    assert "damaged" in message or "not a checkpoint" in message


def test_another_version(path):
    with np.load(path) as file:
        members = {name: file[name] for name in file.files}
    header = json.loads(str(members["header"])) | {"version": 9}
    members["header"] = np.array(json.dumps(header))
    with path.open("wb") as stream:
        np.savez(stream, **members)
    with pytest.raises(CheckpointError, match="the checkpoint has version 9, this bitstep reads"):
        load_checkpoint(path)


def test_a_signal_between_two_statements_of_zipfile(tmp_path, monkeypatch):
    """It is no error of a file that is open: the command ends as after any signal."""
    opened, names = zipfile.ZipFile.open, []

    def interrupted(archive, name, *arguments, **options):
        member = opened(archive, name, *arguments, **options)
        names.append(name)
        if len(names) == 1:
            signal.raise_signal(signal.SIGINT)
        return member

    monkeypatch.setattr(zipfile.ZipFile, "open", interrupted)
    # A job in the background of a shell ignores the signal.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            KIND.write(tmp_path / "f.npz", {}, {"values": np.arange(3)})
    finally:
        signal.signal(signal.SIGINT, before)
    assert len(names) == 3              # nothing goes on behind it
    assert not list(tmp_path.iterdir())
