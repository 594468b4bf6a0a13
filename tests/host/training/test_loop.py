"""The loop of a training: what is done around each epoch, in every combination and in its order."""

import hashlib
from dataclasses import replace
from itertools import cycle
from typing import Any

import numpy as np
import pytest
from fakes import DEVICES, FakeDevice, settings
from fakes import planned as plan

from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.registers import Loss
from bitstep.pipeline.results import (
    BusError,
    RangeOverflowError,
    RunResult,
    TrainingInterrupted,
)
from bitstep.quantization import quantize_bit_planes, quantize_rows
from bitstep.training.files.checkpoint import Checkpoint, describe_data, load_checkpoint
from bitstep.training.files.checkpoint_writer import CheckpointWriter
from bitstep.training.loop.loop import TrainingLoop
from bitstep.training.loop.tracks import Track
from bitstep.training.pipelines import pipeline_of
from bitstep.training.scores.scoring import scored_codes
from bitstep.training.scores.stopping import Stopping
from bitstep.training.train import target_outputs, train_model

RNG = np.random.default_rng(3)
FEATURES = RNG.normal(size=(60, 3))
SIDE = np.where(FEATURES[:, 0] > 0, 1.0, -1.0)
NOISY = np.where(FEATURES[:, 1] + RNG.normal(size=60) > 0, 1.0, -1.0)
TARGETS = np.column_stack([SIDE, np.ones(60), NOISY])
LEAVE = np.array([2.0, 2.0, 100.0, 400.0, 100.0, 100.0])    # leave a range from the third epoch on
CALM = [0.02] * 6
SMALL = [0.3, 0.2, 0.2, 0.1, 0.1, 0.1]
COMPENSATED = {"bits": 4, "encoding": "compensated"}

# Rows (None: bit-plane rows), objective and training. Then of a training of all epochs and of one
# that stops early: digest of the words of all outputs, epochs (None: it leaves a range that cannot
# grow), and outputs and epochs of restarts. The digests are those of the separate loops that were
# here before.
CASES: dict[str, tuple[Any, dict[str, Any], list[Any]]] = {
    "grow": (
        {"bits": 8, "encoding": "stochastic", "copies": 2},
        {"loss": Loss.LOGISTIC, "steps": LEAVE},
        [("259005592d6fe3d0", 6, [(1, 3), (3, 4), (1, 4)]),
         ("18eb717fb37b401c", 4, [(1, 3), (3, 4), (1, 4)])]),
    "grow, l1": (
        {"bits": 4, "encoding": "nearest"},
        {"loss": Loss.LOGISTIC, "l1": 1e-5, "l2": 1e-6, "steps": LEAVE},
        [("c300fabcd14fef9b", 6, [(1, 3), (3, 3), (1, 4), (3, 4)]),
         ("77e7ea39e13f488e", 4, [(1, 3), (3, 3), (1, 4), (3, 4)])]),
    "copies": (
        {**COMPENSATED, "copies": 3}, {"steps": CALM},
        [("e02ff5eb4452a6c1", 6, []), ("e02ff5eb4452a6c1", 6, [])]),
    "float": (
        {"bits": 32, "encoding": "float"}, {"steps": CALM},
        [("f99d7f12eb12ebae", 6, []), ("f99d7f12eb12ebae", 6, [])]),
    "diverges": (
        COMPENSATED, {"steps": [0.02, 0.02, 50.0, 50.0, 50.0, 50.0]},
        [("fb544216e1d1218d", None, []), ("c9b7beaf6a4b5fad", None, [])]),
    "between, copies": (
        {**COMPENSATED, "copies": 2}, {"l2": 0.1, "steps": SMALL, "batch": 60},
        [("946deae68fd2b477", 6, []), ("946deae68fd2b477", 6, [])]),
    "between, l1": (
        COMPENSATED, {"l2": 0.1, "l1": 0.01, "steps": SMALL, "batch": 60},
        [("137963ca0174ccc8", 6, []), ("137963ca0174ccc8", 6, [])]),
    "between, diverges": (
        COMPENSATED, {"l2": 0.1, "steps": [0.3, 0.3, 1e3, 1e3, 1e3, 1e3], "batch": 60},
        [("9d934970226e8085", None, []), ("9ddf437255265d3b", None, [])]),
    "between, grow": (
        {"bits": 4, "encoding": "nearest"},
        {"loss": Loss.LOGISTIC, "l2": 1e-6, "steps": 20 * LEAVE, "batch": 60},
        [("e9534c0bbe2d5b6c", 6, [(1, 3), (3, 3), (1, 4), (3, 4), (3, 4)]),
         ("eab229ca749b84c2", 3, [(1, 3), (3, 3)])]),
    "planes": (
        None, {"loss": Loss.LOGISTIC, "steps": LEAVE, "planes": (2, 4, 4, 8, 8, 8)},
        [("d76e17f97186d760", 6, [(1, 3), (3, 3), (1, 4), (3, 4)]),
         ("85cdd3d5c9bcb854", 4, [(1, 3), (3, 3), (1, 4), (3, 4)])]),
    "auto": (
        None, {"steps": CALM, "planes": "auto"},
        [("62df67cef419b46e", 6, []), ("62df67cef419b46e", 6, [])]),
    "auto, grow": (
        None, {"loss": Loss.LOGISTIC, "steps": LEAVE, "planes": "auto"},
        [("449944d6843ef4f3", 6, [(1, 3), (3, 3), (1, 4), (3, 4)]),
         ("6da0a24f8f721b22", 4, [(1, 3), (3, 3), (1, 4), (3, 4)])]),
    "auto, between": (
        None, {"l2": 0.1, "steps": SMALL, "batch": 60, "planes": "auto"},
        [("aa4790fb10ff9b03", 6, []), ("aa4790fb10ff9b03", 6, [])]),
}
GRID = [(name, stopping, device, stop) for (name, stopping), device, stop in zip(
    [(name, stopping) for name in CASES for stopping in (False, True)],
    cycle(DEVICES), cycle([1, 7, 2, 5, 8]))]        # each device and epoch meets each kind of case


def digest(results):
    """Of the words of all epochs of all outputs."""
    sha = hashlib.sha256()
    for result in results:
        for words in (result.models, result.intercepts):
            sha.update(f"{words.shape}".encode() + np.ascontiguousarray(words).tobytes())
    return sha.hexdigest()[:16]


@pytest.mark.parametrize("name, stopping, device, stop", GRID)
def test_grid(tmp_path, name, stopping, device, stop):
    """Interrupted, and gone on with from its checkpoint; with the words of the uninterrupted one,
    which shares passes where it has no checkpoint.
    """
    rows, options, expected = CASES[name]
    words, epochs, restarts = expected[stopping]
    made = quantize_bit_planes(FEATURES) if rows is None else quantize_rows(FEATURES, seed=1,
                                                                            **rows)
    outputs = target_outputs(made, TARGETS)
    objective, training = settings(**options)
    if stopping:
        scored = scored_codes(outputs, objective.loss, classes=True)
        training = settings(**options, stopping=Stopping(scored, True, tol=0.01, patience=2))[1]
    config, path = pipeline_of(made, objective), tmp_path / "run.ckpt"

    def run(stop=None, writer=None):
        seen = []

        def on_epoch(done):
            seen.append(done)
            if len(seen) == stop:
                raise KeyboardInterrupt
        return train_model(outputs, DEVICES[device](config), config, objective, training,
                           on_epoch=on_epoch, checkpoint=writer)

    try:
        run(stop, CheckpointWriter(str(path), Checkpoint(
            {"bits": 4}, describe_data(outputs), list(map(float, training.steps)), 3), pytest.fail))
    except TrainingInterrupted:
        pass
    except RangeOverflowError:
        assert epochs is None
    kept = load_checkpoint(path)
    assert kept.epochs_done > 0
    later = CheckpointWriter(str(path), kept, pytest.fail)
    if epochs is None:
        for resume in (later, None):
            with pytest.raises(RangeOverflowError,
                               match=r"^Class \d of 3: .* in epoch 3: ") as caught:
                run(writer=resume)
            assert caught.value.epoch == 3
            assert caught.value.result.epochs_done == 2
    else:
        model, whole = run(writer=later), run()
        assert [(one.output + 1, one.epoch) for one in model.restarts] == restarts
        for one in (model, whole):
            assert one.epochs_done == epochs
            np.testing.assert_array_equal(one.coefs, whole.coefs)
        if device != "fake":        # which does not count them
            assert whole.counters["overflows"] == (None if restarts else 0)
        assert (model.best, model.planes is None) == (whole.best, whole.planes is None)
    assert digest(load_checkpoint(path).results) == words


class Noted:
    """A checkpoint that notes what it is given."""

    def __init__(self, notes):
        self.notes, self.checkpoint = notes, Checkpoint({}, {}, [], 1)

    def begin(self, number, job):
        self.notes.append(("begin", number))

    def keep(self, number, result):
        self.notes.append(("keep", result.epochs_done))


@pytest.mark.parametrize("kind", DEVICES.values(), ids=DEVICES)
@pytest.mark.parametrize("options", [{}, {"l2": 0.1, "batch": 60}], ids=["within", "between"])
def test_order(kind, options):
    """Progress, checkpoint and words after each epoch, whether it is a run of its own or not."""
    outputs = target_outputs(quantize_rows(FEATURES, seed=1, **COMPENSATED), TARGETS)
    config = pipeline_of(outputs[0].rows, settings(**options, steps=SMALL)[0])
    made = plan(outputs[0], config, steps=SMALL, between_epochs=True, **options)
    assert made.between_epochs == bool(options)
    notes: list[Any] = []
    checkpoint: Any = Noted(notes)
    track = Track(lambda _: (made, None))
    TrainingLoop(kind(config), [track], checkpoint=checkpoint,
                 on_epoch=lambda done: notes.append(("progress", done)),
                 on_words=lambda number, plan, words, intercept: notes.append(
                     ("words", words.tolist()))).run()
    expected: list[Any] = [("begin", 0)]
    for done, words in enumerate(track.result.models.tolist(), start=1):
        expected += [("progress", done), ("keep", done), ("words", words)]
    if not options:
        expected.append(("keep", 6))        # with the counters of the whole run
    assert notes == expected


@pytest.mark.parametrize("kind", DEVICES.values(), ids=DEVICES)
def test_a_run_that_goes_on(kind):
    """Checkpoints have the epochs before it, and words the number of their job."""
    outputs = target_outputs(quantize_rows(FEATURES, seed=1, **COMPENSATED), TARGETS)
    config = pipeline_of(outputs[0].rows, settings(steps=SMALL)[0])
    made = plan(outputs[0], config, steps=SMALL)
    tracks, notes, shown = [Track(lambda _: (made, None)) for _ in range(3)], [], []
    TrainingLoop(kind(config), tracks[:2],
                 on_words=lambda number, *_: shown.append(number)).run()
    assert sorted(shown) == [0] * 6 + [1] * 6
    tracks[2].go_on(tracks[0].result.first(2))
    checkpoint: Any = Noted(notes)
    TrainingLoop(kind(config), tracks[2:], checkpoint=checkpoint).run()
    assert notes == [("begin", 0), *(("keep", done) for done in (3, 4, 5, 6, 6))]


def test_runs_without_an_epoch_or_cycles():
    outputs = target_outputs(quantize_rows(FEATURES, seed=1, **COMPENSATED), TARGETS)
    config = pipeline_of(outputs[0].rows, settings(steps=SMALL)[0])
    made = plan(outputs[0], config, steps=SMALL)

    def run(*ends, **changes):
        return replace(RunResult(np.full((len(ends), 3), len(ends), np.int32),
                                 np.zeros(len(ends), np.int32), {}, ends), **changes)

    track = Track(lambda _: (made, None))
    for one in (run(5, 9), run(), run(3)):
        track.take(one)
        assert track.last()[0].any()
    assert track.result.epoch_cycles is not None
    assert list(track.result.epoch_cycles) == [5, 9, 12]
    track.take(run(4, epoch_cycles=None))
    assert track.result.epoch_cycles is None


def test_a_run_holds_no_memory_after_any_ending():
    """Buffers of a board are given back when the loop raises, too."""
    outputs = target_outputs(quantize_rows(FEATURES, seed=1, **COMPENSATED), TARGETS)
    objective, training = settings(steps=CALM)
    config = pipeline_of(outputs[0].rows, objective)
    whole = train_model(outputs[:1], GoldenDevice(config), config, objective, training)
    for error in (KeyboardInterrupt, ZeroDivisionError):
        device = FakeDevice(config)

        def fail(done, error=error):
            if done == 3:
                raise error
        if error is KeyboardInterrupt:
            model = train_model(outputs[:1], device, config, objective, training, on_epoch=fail)
            np.testing.assert_array_equal(model.coefs, whole.coefs[:3])
        else:
            with pytest.raises(error):
                train_model(outputs[:1], device, config, objective, training, on_epoch=fail)
        assert not device.buffers


def tracks_of(grows, *, steps=LEAVE):
    """Tracks of SIDE, which leaves its range in the third epoch; ``grows`` of each, or None for one
    that stays within it, and the configuration.
    """
    outputs = target_outputs(quantize_rows(FEATURES, seed=1, bits=8, encoding="stochastic"),
                             TARGETS)
    config = pipeline_of(outputs[0].rows, settings(loss=Loss.LOGISTIC, steps=steps)[0])

    def planner(one):
        return lambda model_range: (
            plan(outputs[0], config, loss=Loss.LOGISTIC, model_range=model_range,
                 steps=[0.5] * len(steps) if one is None else steps), None)

    return [Track(planner(one), bool(one)) for one in grows], config


def test_progress_of_a_job_that_left_its_range_is_that_of_the_round():
    """The others go on, and all of it is done in the end."""
    tracks, config = tracks_of([False, None])
    seen = []
    TrainingLoop(GoldenDevice(config), tracks, to_the_end=True, on_epoch=seen.append).run()
    assert seen == [1, 2, *range(6 + 1, 6 + 7)]
    assert [track.done for track in tracks] == [2, 6]


class Begun(GoldenDevice):
    """The golden device, with the jobs of its runs."""

    def begin(self, jobs, **options):
        vars(self).setdefault("begun", []).extend(jobs)
        return super().begin(jobs, **options)


@pytest.mark.parametrize("kind", DEVICES.values(), ids=DEVICES)
def test_a_job_that_cannot_start_again_holds_up_no_other(kind):
    """Where jobs do not end each other. Both have no epoch then, so a device could train them in
    one pass.
    """
    tracks, config = tracks_of([False, True], steps=np.array([400.0, 100.0, 100.0]))
    device = kind(config)
    device.workers = 1
    TrainingLoop(device, tracks, to_the_end=True).run()
    assert tracks[0].error is not None
    assert [track.done for track in tracks] == [0, 3]
    assert tracks[1].error is None
    assert tracks[1].restarts > 0


def test_none_starts_again_where_another_one_cannot():
    """The training ends with that one's error, whatever becomes of the others."""
    tracks, config = tracks_of([False, True])
    device: Any = Begun(config)
    TrainingLoop(device, tracks).run()
    assert [track.error is not None for track in tracks] == [True, True]
    assert [track.restarts for track in tracks] == [0, 0]
    assert len(device.begun) == 2


def test_ctrl_c_leaves_the_epochs_of_a_job_that_has_ended():
    """One that would have started again has none."""
    tracks, config = tracks_of([False, True, None])

    def interrupt(done):
        if tracks[2].begun or done > 12:
            raise KeyboardInterrupt

    loop = TrainingLoop(GoldenDevice(config), tracks, to_the_end=True, on_epoch=interrupt)
    loop.run()
    assert loop.interrupted
    assert tracks[0].error is not None
    assert [track.done for track in tracks] == [2, 0, 1]
    assert tracks[1].error is None


def test_epochs_that_an_error_alone_tells_of_are_kept():
    """A device may notice them when the run has failed."""
    tracks, config = tracks_of([None])

    class Failing(GoldenDevice):
        def begin(self, jobs, **options):
            run = super().begin(jobs, **options)

            def epochs():
                results = GoldenDevice(config).train(jobs[0])
                raise BusError("the memory is gone", results.first(4))
                yield

            run.epochs = epochs                 # type: ignore[method-assign]
            return run

    notes: list[Any] = []
    checkpoint: Any = Noted(notes)
    with pytest.raises(BusError, match="the memory is gone"):
        TrainingLoop(Failing(config), tracks, checkpoint=checkpoint).run()
    assert notes == [("begin", 0), ("keep", 4)]


def test_an_epoch_that_is_a_run_of_its_own_takes_one_copy_of_the_rows():
    """A board has no room for those of other epochs, and they would be copied to it each time."""
    rows = quantize_rows(FEATURES, seed=1, copies=3, **COMPENSATED)
    outputs = target_outputs(rows, TARGETS)
    options = {"l2": 0.1, "steps": SMALL, "batch": 60}
    config = pipeline_of(rows, settings(**options)[0])
    made = plan(outputs[0], config, between_epochs=True, **options)
    track = Track(lambda _: (made, None))
    for epoch in range(4):
        (copy,) = track.next_job(6).rows
        assert copy is made.job.rows[epoch % 3]
        track.take(GoldenDevice(config).train(track.next_job(6)))
