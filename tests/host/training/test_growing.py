"""Ranges of weights that grow: the model of the larger range, however it is trained."""

import contextlib
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bitstep.devices import open_device
from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.registers import Loss
from bitstep.pipeline.results import RangeOverflowError, TrainingInterrupted
from bitstep.quantization import quantize_bit_planes, quantize_rows
from bitstep.training.files.checkpoint import Checkpoint, describe_data, load_checkpoint
from bitstep.training.files.checkpoint_writer import CheckpointWriter
from bitstep.training.loop.growing import GROWTH, MOST_RESTARTS, wider
from bitstep.training.loop.tracks import Track
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_of
from bitstep.training.scores.scoring import scored_codes
from bitstep.training.scores.stopping import Stopping
from bitstep.training.train import target_outputs, train_candidates, train_model
from bitstep.training.trained import TrainedModel

RNG = np.random.default_rng(3)
FEATURES = RNG.normal(size=(60, 3))
SIDE = np.where(FEATURES[:, 0] > 0, 1.0, -1.0)
NOISY = np.where(FEATURES[:, 1] + RNG.normal(size=60) > 0, 1.0, -1.0)
ALIKE = np.ones(60)         # nothing to learn but an intercept
EPOCHS = 6
MILD = [2.0, 2.0, 100.0, 100.0, 100.0, 100.0]       # leave it, but not where all labels are alike
STEPS = [2.0, 2.0, 100.0, 400.0, 100.0, 100.0]    # leave the range of 128 from the third epoch on

# Rows, objective and options of a training.
CASES: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    "logistic": ({"bits": 8, "encoding": "stochastic"}, {"loss": Loss.LOGISTIC}, {}),
    "logistic, copies, l1": ({"bits": 4, "encoding": "nearest", "copies": 2},
                             {"loss": Loss.LOGISTIC, "l1": 1e-5, "l2": 1e-6}, {}),
    "hinge": ({"bits": 4, "encoding": "nearest"}, {"loss": Loss.HINGE},
              {"batch": 2, "steps": [4.0, 4.0, 400.0, 800.0, 200.0, 200.0]}),
    "refetching": ({"bits": 3, "encoding": "nearest", "fine_rows": True},
                   {"loss": Loss.HINGE, "refetch": True}, {}),
    "float": ({"bits": 32, "encoding": "float"}, {"loss": Loss.LOGISTIC}, {"steps": MILD}),
    "few bits": ({"bits": 4, "encoding": "stochastic"}, {"loss": Loss.LOGISTIC},
                 {"model_bits": 6, "update_bits": 6}),
    "planes": ({}, {"loss": Loss.LOGISTIC}, {"planes": (2, 4, 4, 8, 8, 8)}),
    "planes that follow": ({}, {"loss": Loss.LOGISTIC}, {"planes": "auto"}),
}


class Problem:
    """Outputs of some targets, of which SIDE and NOISY leave the first range."""

    def __init__(self, name="logistic", targets=(SIDE,), **options):
        rows, objective, training = CASES[name]
        made = quantize_rows(FEATURES, seed=1, **rows) if rows else quantize_bit_planes(FEATURES)
        self.outputs = target_outputs(made, np.column_stack(targets))
        self.objective = Objective(**objective)
        self.training = Training(**{"steps": STEPS, **training, **options})
        self.config = pipeline_of(made, self.objective)

    def train(self, device: Any = "golden", training=None, number=None, **options):
        outputs = self.outputs if number is None else [self.outputs[number]]
        opened = open_device(device, self.config) if isinstance(device, str) else device
        with opened:
            return train_model(outputs, opened, self.config, self.objective,
                               training or self.training, **options)

    def with_range(self, model_range, number=None, **options):
        """The model that training with this range gives."""
        model = self.train(training=replace(self.training, model_range=model_range), number=number,
                           **options)
        assert not model.restarts
        return model

    def writer(self, path):
        state = load_checkpoint(path) if path.exists() else Checkpoint(
            {"bits": 8}, describe_data(self.outputs), np.asarray(self.training.steps).tolist(),
            len(self.outputs))
        return CheckpointWriter(str(path), state, [].append)


def assert_same(one: TrainedModel, other: TrainedModel):
    for name in ("coefs", "intercepts", "steps", "planes", "bytes_read", "best"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("name", CASES)
def test_model_is_that_of_the_larger_range(name):
    """On the golden model and in compiled loops; one range less is left."""
    problem = Problem(name)
    model = problem.train()
    assert model.restarts
    last = model.restarts[-1]
    assert model.model_range == last.model_range == 128 * GROWTH ** len(model.restarts)
    assert_same(model, problem.with_range(model.model_range))
    with pytest.raises(RangeOverflowError, match=f"number range in epoch {last.epoch}: "):
        problem.with_range(model.model_range / GROWTH)
    compiled = problem.train("cpu")
    assert_same(compiled, model)
    assert [one.entry() for one in compiled.restarts] == [one.entry() for one in model.restarts]


def test_counters_hold_the_epochs_that_were_given_up():
    problem = Problem()
    model = problem.train("cpu")
    plain = problem.with_range(model.model_range, device="cpu")
    given_up = sum(one.counters["beats"] or 0 for one in model.restarts)
    assert given_up > 0
    assert (model.counters["beats"] or 0) == (plain.counters["beats"] or 0) + given_up
    assert model.counters["cycles"] == sum(
        one["cycles"] or 0 for one in (plain.counters, *(one.counters for one in model.restarts)))
    assert model.counters["overflows"] is None      # nobody knows how often a board would count


@pytest.mark.parametrize("device", ["golden", "cpu"])
@pytest.mark.parametrize("targets, grown", [
    ((ALIKE, SIDE, ALIKE), {1}), ((SIDE, ALIKE, NOISY), {0, 2})])
def test_only_classes_that_leave_their_range_grow(device, targets, grown):
    problem, seen = Problem(targets=targets, steps=MILD), []
    model = problem.train(device, on_epoch=seen.append)
    assert {one.output for one in model.restarts} == grown
    assert seen[-1] == 3 * EPOCHS
    for number in range(3):
        ranges = [one.model_range for one in model.restarts if one.output == number]
        alone = problem.with_range(ranges[-1], number) if ranges else problem.train(number=number)
        np.testing.assert_array_equal(model.coefs[:, number], alone.coefs[:, 0])
        np.testing.assert_array_equal(model.intercepts[:, number], alone.intercepts[:, 0])


class Stopped(GoldenDevice):
    """A device that is interrupted after some epochs, counted over all of its runs."""

    def __init__(self, config, epochs):
        super().__init__(config)
        self._left = epochs

    def epochs(self, job):
        for epoch in super().epochs(job):
            yield epoch
            self._left -= 1
            if self._left == 0:
                raise KeyboardInterrupt


@pytest.mark.by_day(1)
@pytest.mark.covering(1)
@pytest.mark.parametrize("stopping", [False, True])
@pytest.mark.parametrize("name", ["logistic", "planes that follow"])
def test_a_stopped_training_goes_on_across_a_restart(tmp_path, name, stopping):
    """From every epoch at which it may be stopped, before and after outputs start again."""
    problem = Problem(name, targets=(ALIKE, SIDE, NOISY))
    if stopping:
        rows = scored_codes(problem.outputs, Loss.LOGISTIC, classes=True)
        problem.training = replace(problem.training, stopping=Stopping(rows, True, patience=3))
    whole, path, stops = problem.train(), tmp_path / "run.ckpt", 0
    assert_same(problem.train("cpu"), whole)
    for epochs in range(1, 100):
        path.unlink(missing_ok=True)
        with contextlib.suppress(TrainingInterrupted):
            problem.train(Stopped(problem.config, epochs), checkpoint=problem.writer(path))
        stops += not load_checkpoint(path).finished
        model = problem.train(checkpoint=problem.writer(path))
        assert_same(model, whole)
        assert [one.entry() for one in model.restarts] == [one.entry() for one in whole.restarts]
        if load_checkpoint(path).finished and stops < epochs:
            break
    assert stops > 3 * EPOCHS // (1 + stopping)
    assert_same(problem.train(checkpoint=problem.writer(path)), whole)      # nothing is left


def test_interrupted_while_it_starts_again():
    problem = Problem(targets=(SIDE, ALIKE), steps=MILD)
    first = problem.train().restarts[0].epoch
    # The first output has left its range, and is to start again once the second is trained.
    with pytest.raises(TrainingInterrupted, match="in class 2 of 2: no model was kept"):
        problem.train(Stopped(problem.config, first))
    whole = problem.train()
    model = problem.train(Stopped(problem.config, first - 1 + EPOCHS + 2))
    assert model.interrupted
    assert model.epochs_done == 2
    np.testing.assert_array_equal(model.coefs, whole.coefs[:2])


def test_early_stopping_scores_the_models_of_the_larger_range():
    """As a training that has the range from the start, in rounds of any length."""
    problem = Problem(targets=(SIDE, NOISY), steps=MILD)
    rows = scored_codes(problem.outputs, Loss.LOGISTIC, classes=True)
    for patience in (2, 3, 5):
        problem.training = replace(problem.training,
                                   stopping=Stopping(rows, True, patience=patience))
        model = problem.train()
        ranges = {one.output: one.model_range for one in model.restarts}
        assert ranges.keys() == {0, 1}
        assert ranges[0] == ranges[1]
        assert_same(model, problem.with_range(ranges[0]))
        assert_same(model, problem.train("cpu"))


@pytest.mark.parametrize("device", ["golden", "cpu"])
def test_candidates_grow_by_themselves(device):
    problem = Problem(targets=(SIDE, ALIKE))
    trainings = [replace(problem.training, steps=np.full(EPOCHS, step)) for step in (1.0, 100.0)]
    trainings.append(replace(problem.training, model_range=128.0))
    candidates = [(problem.objective, one) for one in trainings]
    with open_device(device, problem.config) as opened:
        calm, grown, given = train_candidates(problem.outputs, opened, problem.config, candidates)
    assert isinstance(given, RangeOverflowError)
    assert isinstance(calm, TrainedModel)
    assert isinstance(grown, TrainedModel)
    assert not calm.restarts
    assert {one.output for one in grown.restarts} == {0}
    for model, training in ((calm, trainings[0]), (grown, trainings[1])):
        alone = problem.train(device, training)
        assert_same(model, alone)
        assert [one.entry() for one in model.restarts] == [one.entry() for one in alone.restarts]


def test_a_given_range_is_honoured():
    with pytest.raises(RangeOverflowError,
                       match="Choose a smaller step, or a larger model_range if"):
        Problem(model_range=128.0).train()


def test_least_squares_does_not_grow():
    """What leaves its range diverges."""
    problem = Problem(steps=[1.0] * 3)
    problem.objective = Objective()
    problem.config = pipeline_of(problem.outputs[0].rows, problem.objective)
    with pytest.raises(RangeOverflowError,
                       match="Choose a smaller step, or a larger model_range if"):
        problem.train(training=replace(problem.training, steps=np.full(3, 50.0)))


def test_the_last_range():
    """The squared hinge diverges at such steps, whatever the range."""
    problem = Problem("hinge")
    problem.objective = Objective(loss=Loss.SQUARED_HINGE)
    problem.config = pipeline_of(problem.outputs[0].rows, problem.objective)
    training = replace(problem.training, steps=np.full(3, 300.0))
    with pytest.raises(RangeOverflowError) as caught:
        problem.train(training=training)
    reached = 128 * GROWTH ** MOST_RESTARTS
    text = str(caught.value)
    assert f"grown as far as it does by itself, to {reached:g} times the largest label, " in text
    assert f"{MOST_RESTARTS} restarts after 128: choose a smaller step, a penalty (l2)" in text
    with pytest.raises(RangeOverflowError, match="Choose a smaller step"):
        problem.train(training=replace(training, model_range=reached))


def test_a_range_that_the_labels_or_steps_do_not_have():
    """Tiny later steps vanish in a large range, so there the range stays as it is."""
    problem = Problem(steps=[400.0, 400.0, 2e-8])
    with pytest.raises(RangeOverflowError, match=r"by itself, to \d+ times the largest label"):
        problem.train()


def test_a_model_of_no_restart_has_none():
    model = Problem(targets=(ALIKE,), steps=MILD).train()
    assert (model.restarts, model.model_range) == ((), 128)


def test_growth_that_the_largest_label_shift_hides_is_passed_over():
    """Such a range would lead to the same numbers, and leave them again."""
    shifts = {128.0: 20, 512.0: 20, 2048.0: 20, 8192.0: 19}

    def planner(model_range):
        chosen = model_range or 128.0
        return SimpleNamespace(model_range=chosen,
                               job=SimpleNamespace(label_shift=shifts[chosen])), None

    track = Track(planner, grows=True)                  # type: ignore[arg-type]
    assert wider(track)[0].model_range == 8192.0


@pytest.mark.parametrize("patience", [1, 2])
def test_a_restart_is_scored_from_its_first_epoch(monkeypatch, patience):
    """By models that have the new range. An output that did not start again has more epochs, which
    are none of the training if that ends before.
    """
    problem = Problem(targets=(SIDE, ALIKE), steps=MILD)
    ranges, seen = [], []

    def score(self, plans, results, epoch):
        seen.append((plans[0].model_range, epoch))
        return -epoch if plans[0].model_range == 128 else 0.0      # gains, then never again

    monkeypatch.setattr(Stopping, "score", score)
    scored = scored_codes(problem.outputs, problem.objective.loss, classes=True)
    for stopping in (None, Stopping(scored, True, patience=patience)):
        seen.clear()
        model = problem.train(training=replace(problem.training, stopping=stopping))
        ranges.append([one.model_range for one in model.restarts])
    assert ranges[0][0] == ranges[1][0] == 512
    before = [epoch for model_range, epoch in seen if model_range == 128]
    after = [epoch for model_range, epoch in seen if model_range > 128]
    assert before == [*range(len(before))]
    assert len(before) == 2             # SIDE leaves its range in the third
    assert after == [*range(patience + 1)]
    assert model.epochs_done == patience + 1
    assert model.best == 0
