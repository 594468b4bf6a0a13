"""Early stopping: one rule, with the same bits on every device, in rounds and from checkpoints."""

import math
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from bitstep.devices import open_device
from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.registers import Loss
from bitstep.pipeline.results import RangeOverflowError, TrainingInterrupted
from bitstep.quantization import quantize_bit_planes, quantize_rows
from bitstep.quantization.scaling import fit_scaler
from bitstep.training.choices import resolve_training
from bitstep.training.copies import Pass
from bitstep.training.files.checkpoint import Checkpoint, describe_data, load_checkpoint
from bitstep.training.files.checkpoint_writer import CheckpointWriter
from bitstep.training.losses import mean_losses
from bitstep.training.objective import Objective
from bitstep.training.pipelines import pipeline_of
from bitstep.training.plans import plans_of
from bitstep.training.scores.fits import hold_out
from bitstep.training.scores.scoring import (
    SCORED_ROWS,
    UNIT,
    ScoredRows,
    scored_codes,
    scored_features,
    spaced,
)
from bitstep.training.scores.stopping import Stopping, StopRule, held_out
from bitstep.training.train import target_outputs, train_candidates, train_model

EPOCHS = 30


class Problem:
    """A logistic regression of some classes; half of its rows are held out."""

    def __init__(self, *, n_classes=3, n_features=20, n_rows=300, seed=0, noise=1.0,
                 bit_planes=False,
                 bits=8):
        rng = np.random.default_rng(seed)
        features = rng.standard_normal((n_rows, n_features))
        best = (features @ rng.standard_normal((n_features, n_classes))
                + noise * rng.standard_normal((n_rows, n_classes)) * math.sqrt(n_features))
        picked = best.argmax(axis=1)
        targets = np.where(picked[:, None] == np.arange(n_classes), 1.0, -1.0)
        targets = targets[:, 1:] if n_classes == 2 else targets
        train, held = held_out(n_rows, 0.5, 0, picked)
        self.scaler = fit_scaler(features[train])
        rows = quantize_bit_planes(features[train],
                                   scaler=self.scaler) if bit_planes else quantize_rows(
            features[train], bits=bits, encoding="float" if bits == 32 else "stochastic",
            scaler=self.scaler)
        self.loss = Loss.LOGISTIC
        self.outputs = target_outputs(rows, targets[train])
        self.objective = Objective(loss=self.loss)
        self.held = scored_features(features[held], targets[held], self.scaler, self.loss,
                                    classes=True)
        self.held_features, self.held_targets = features[held], targets[held]
        self.config = pipeline_of(rows, self.objective)

    def training(self, *, stopping=None, epochs=EPOCHS, **options):
        rows = self.outputs[0].rows
        return resolve_training(rows, self.objective, epochs=epochs, stopping=stopping, **options)

    def train(self, training, device="golden", **options):
        with open_device(device, self.config) as opened:
            return train_model(self.outputs, opened, self.config, self.objective, training,
                               **options)


def same(one, other):
    return one.epochs_done == other.epochs_done and one.best == other.best and all(
        np.array_equal(getattr(one, name), getattr(other, name))
        for name in ("coefs", "intercepts", "steps"))


# Rule

@pytest.mark.parametrize("scores, tol, patience, seen, best", [
    ([5, 4, 3, 2, 1], 0, 2, 5, 4),                  # to the last epoch
    ([5, 4, 4, 4, 3], 0, 2, 4, 1),                  # equal is no gain
    ([5, 4, 4.5, 3, 3.5, 3.2, 0], 0, 2, 6, 3),      # the count begins anew
    ([5, 4.5, 4.2, 4.1, 0], 0.6, 2, 3, 2),          # less than tol is none, but is kept
    ([5, 6, 0], 0, 1, 2, 0)])
def test_rule(scores, tol, patience, seen, best):
    rule = StopRule(tol, patience)
    for score in scores:
        assert rule.ahead <= patience
        rule.see(score)
        if rule.ended:
            break
    assert (rule.epochs, rule.best, rule.ended) == (seen, best, seen < len(scores))


def test_no_epoch_is_trained_in_vain():
    """A round never goes beyond the epoch that ends the training."""
    rng = np.random.default_rng(1)
    for _ in range(200):
        rule, scores = StopRule(0.1, int(rng.integers(1, 6))), rng.uniform(size=40).tolist()
        until = 0
        while not rule.ended and until < len(scores):
            until = min(len(scores), rule.epochs + rule.ahead)
            for score in scores[rule.epochs:until]:
                assert not rule.ended
                rule.see(score)


# Held-out rows

@pytest.mark.parametrize("n_rows, fraction", [(2, 0.1), (10, 0.1), (1000, 0.25), (7, 0.99)])
def test_rows_are_held_out(n_rows, fraction):
    train, held = held_out(n_rows, fraction, 3)
    assert np.array_equal(np.sort(np.concatenate([train, held])), np.arange(n_rows))
    assert len(held) == min(max(1, round(n_rows * fraction)), n_rows - 1)
    assert np.array_equal(held_out(n_rows, fraction, 3)[1], held)
    if n_rows == 1000:
        assert not np.array_equal(held_out(n_rows, fraction, 4)[1], held)


def test_classes_are_held_out_in_proportion():
    classes = np.repeat([0, 1, 2, 3], [600, 300, 99, 1])
    train, held = held_out(1000, 0.1, 0, classes)
    counts = np.bincount(classes[held], minlength=4)
    assert np.abs(counts - [60, 30, 10, 0]).max() <= 1
    assert set(classes[train]) == {0, 1, 2, 3}


def test_rows_keep_their_weights():
    """And the copies of a row stay together."""
    rows, places = np.arange(40), np.repeat(np.arange(20), 2)
    given = Pass(rows[:, None], 100.0 + rows, (1000 + rows).astype(np.uint16))
    for weights in (given.weights, None):
        train, held = hold_out(given._replace(weights=weights, places=places), 0.3, 0, None)
        assert not set(places[train.features[:, 0]]) & set(places[held.features[:, 0]])
        assert (len(train.targets), len(held.targets)) == (28, 12)
        for part in (train, held):
            assert (part.targets == 100 + part.features[:, 0]).all()
            assert part.places is None
            if weights is None:
                assert part.weights is None
            else:
                assert part.weights is not None
                assert (part.weights == 1000 + part.features[:, 0]).all()


@pytest.mark.parametrize("n_rows, fraction, classes, message", [
    (10, 0, None, "between 0 and 1, without either, not 0"),
    (10, 1.0, None, "not 1.0"), (10, float("nan"), None, "not nan"), (10, True, None, "not True"),
    (1, 0.1, None, "more than the 1 there are"), (2, 0.5, np.arange(2), "more rows than classes")])
def test_rows_that_cannot_be_held_out(n_rows, fraction, classes, message):
    with pytest.raises(ValueError, match=message):
        held_out(n_rows, fraction, 0, classes)


@pytest.mark.parametrize("options, message", [
    ({"tol": -1.0}, "tol must be a number of at least 0, not -1.0"),
    ({"tol": math.inf}, "not inf"), ({"patience": 0}, "n_iter_no_change must be an integer of at"),
    ({"patience": 1.5}, "not 1.5")])
def test_bad_rules(options, message):
    rows = ScoredRows(np.zeros((2, 1), np.int32), np.ones((2, 1)), Loss.LOGISTIC, True)
    with pytest.raises(ValueError, match=message):
        Stopping(rows, True, **options)


# Scores

@pytest.mark.parametrize("n_features", [3, 4096])
def test_outputs_are_exact(n_features):
    """Integers of any size within their limits, against Python's."""
    problem = Problem(n_classes=2, n_features=3, n_rows=20)
    made = plans_of(problem.outputs, problem.config, problem.objective, problem.training())
    rng = np.random.default_rng(0)
    largest = int(min(64 / UNIT, 2 ** 36 // n_features))
    values = rng.integers(-largest, largest, (5, n_features), endpoint=True).astype(np.int32)
    values[0] = largest
    words = rng.integers(-2 ** 31, 2 ** 31, (1, n_features)).astype(np.int32)
    words[0, ::2] = -2 ** 31
    scored = ScoredRows(values, np.ones((5, 1)), Loss.LOGISTIC, True)
    units = made[0].units
    expected = [float(sum(int(a) * int(b) for a, b in zip(row, words[0], strict=True)))
                * (UNIT * units.model_unit) + float(units.intercepts(np.asarray(7)))
                for row in values]
    assert scored.outputs(made, words, [7])[:, 0].tolist() == expected


def test_scores_are_the_losses():
    problem = Problem()
    training = problem.training(stopping=Stopping(problem.held, True))
    model = problem.train(replace(training, stopping=None))
    losses = mean_losses(problem.loss, problem.held_features, problem.held_targets, model.coefs,
                         model.intercepts)
    plans = plans_of(problem.outputs, problem.config, problem.objective, training)
    with open_device("golden", problem.config) as device:
        results = [device.train(made.job) for made in plans]
    scores = [training.stopping.score(plans, results, epoch) for epoch in range(EPOCHS)]
    np.testing.assert_allclose(np.array(scores) * problem.held.baseline, losses, rtol=1e-3)


def test_a_weight_is_that_many_rows():
    """Sums of weights leave 16 bits."""
    rng = np.random.default_rng(2)
    values, targets = rng.integers(-9, 9, (4, 3)).astype(np.int32), rng.choice([-1.0, 1], (4, 2))
    targets[:, 1] = -targets[:, 0]
    weights = np.array([40000, 0, 3, 30000], np.uint16)
    rows = ScoredRows(values, targets, Loss.LEAST_SQUARES, True, weights=weights)
    repeated = ScoredRows(values.repeat(weights, axis=0), targets.repeat(weights, axis=0),
                          Loss.LEAST_SQUARES, True)
    found = targets * [[0.5], [1], [-1], [2]]
    assert rows.mean_loss(found) == pytest.approx(
        repeated.mean_loss(found.repeat(weights, axis=0)))
    assert rows.accuracy(found) == 70000 / 70003
    assert rows.baseline == pytest.approx(repeated.baseline)
    some = rows.some(2).weights
    assert some is not None
    assert some.tolist() == [40000, 3]


def test_rows_of_one_label_and_rows_beyond_the_limit():
    rows = ScoredRows(np.zeros((SCORED_ROWS + 1, 1), np.int32), np.ones((SCORED_ROWS + 1, 1)),
                      Loss.LEAST_SQUARES, False)
    assert rows.baseline == 1       # no constant has a loss to divide by
    assert len(Stopping(rows, True).rows.values) == SCORED_ROWS + 1
    assert len(Stopping(rows, False).rows.values) == SCORED_ROWS


def test_codes_without_features():
    """What codes add to the squared error is taken off, so scores are those of the features."""
    rng = np.random.default_rng(0)
    features = rng.uniform(-1, 1, (4000, 5))
    targets = np.sign(features @ rng.standard_normal((5, 1)))
    scaler = fit_scaler(features)
    outputs = target_outputs(quantize_rows(features, bits=2, encoding="compensated",
                                           scaler=scaler), targets)
    objective = Objective()
    training = resolve_training(outputs[0].rows, objective, epochs=2)
    config = pipeline_of(outputs[0].rows, objective)
    plans = plans_of(outputs, config, objective, training)
    with open_device("golden", config) as device:
        results = [device.train(plans[0].job)]
    make = partial(Stopping, held_out=False)
    codes = scored_codes(outputs, Loss.LEAST_SQUARES, classes=True)
    rows = make(scored_features(features, targets, scaler, Loss.LEAST_SQUARES, classes=True))
    exact = rows.score(plans, results, 1)
    assert make(codes).score(plans, results, 1) == pytest.approx(exact, rel=0.1)
    assert make(replace(codes, variance=None)).score(plans, results, 1) > 1.2 * exact
    assert codes.noise(2 * plans, results[0].models[[1, 1]]) == pytest.approx(
        codes.noise(plans, results[0].models[1:]))
    few = scored_codes(outputs, Loss.LEAST_SQUARES, classes=True, count=7)
    np.testing.assert_array_equal(few.targets, targets[spaced(4000, 7)])


# Trainings

@pytest.mark.parametrize("options", [{}, {"n_classes": 2}, {"bits": 32}, {"n_features": 256}])
def test_a_stopped_training_is_the_first_part_of_a_whole_one(options):
    problem = Problem(noise=2.0, **options)
    whole = problem.train(problem.training(), "cpu")
    stopping = Stopping(problem.held, True, tol=0.01, patience=3)
    stopped = problem.train(problem.training(stopping=stopping), "cpu")
    assert stopped.epochs_done < EPOCHS
    np.testing.assert_array_equal(stopped.coefs, whole.coefs[:stopped.epochs_done])
    np.testing.assert_array_equal(stopped.intercepts, whole.intercepts[:stopped.epochs_done])
    assert same(stopped, problem.train(problem.training(stopping=stopping), "golden"))
    losses = mean_losses(problem.loss, problem.held_features, problem.held_targets, whole.coefs,
                         whole.intercepts)
    rule = StopRule(0.01, 3)
    for loss in (losses / problem.held.baseline).tolist():
        if not rule.ended:
            rule.see(loss)
    assert (rule.epochs, rule.best) == (stopped.epochs_done, stopped.best)
    assert stopped.kept == stopped.best


def test_without_held_out_rows_the_last_model_is_kept():
    problem = Problem()
    stopping = Stopping(problem.held, False, tol=0.05)
    model = problem.train(problem.training(stopping=stopping))
    assert model.best is None
    assert model.kept == model.epochs_done - 1 < EPOCHS - 1


def test_bit_plane_rows_whose_planes_are_chosen():
    problem = Problem(bit_planes=True, noise=2.0)
    options = {"planes": "auto", "epochs": 20}
    whole = problem.train(problem.training(**options), "cpu")
    stopping = Stopping(problem.held, True, patience=2)
    stopped = problem.train(problem.training(stopping=stopping, **options), "cpu")
    assert stopped.epochs_done < 20
    np.testing.assert_array_equal(stopped.coefs, whole.coefs[:stopped.epochs_done])
    assert stopped.planes is not None
    assert whole.planes is not None
    np.testing.assert_array_equal(stopped.planes, whole.planes[:stopped.epochs_done])


def test_corrections_between_epochs():
    problem = Problem(n_classes=2, noise=2.0)
    problem.objective = Objective(loss=problem.loss, l2=0.01)
    options = {"batch": problem.outputs[0].n_rows, "schedule": "constant"}
    whole = problem.train(problem.training(**options))
    stopped = problem.train(problem.training(stopping=Stopping(problem.held, False, tol=0.01),
                                             **options))
    assert stopped.epochs_done < EPOCHS
    np.testing.assert_array_equal(stopped.coefs, whole.coefs[:stopped.epochs_done])


class Watched(GoldenDevice):
    """The golden device, which counts epochs and may be interrupted."""

    def __init__(self, config, after=math.inf):
        super().__init__(config)
        self.after, self.count = after, 0

    def epochs(self, job):
        for epoch in super().epochs(job):
            yield epoch
            self.count += 1
            if self.count == self.after:
                raise KeyboardInterrupt


def writer(problem, training, path, checkpoint=None):
    checkpoint = checkpoint or Checkpoint(
        {}, describe_data(problem.outputs), training.steps.tolist(), len(problem.outputs))
    return CheckpointWriter(str(path), checkpoint, pytest.fail)


def test_a_resumed_training_stops_at_the_same_epoch(tmp_path):
    problem, path = Problem(noise=2.0), tmp_path / "run.ckpt"
    training = problem.training(stopping=Stopping(problem.held, True, tol=0.01, patience=3))
    plain = problem.train(training)
    count = len(problem.outputs) * plain.epochs_done
    assert plain.epochs_done < EPOCHS
    for after in (2, 10, count - 1):
        with Watched(problem.config, after) as stopped:
            arguments = problem.outputs, stopped, problem.config, problem.objective, training
            kept = writer(problem, training, path)
            try:
                assert train_model(*arguments, checkpoint=kept).interrupted
            except TrainingInterrupted:
                assert after < 2 * len(problem.outputs) + 1
            resumed = load_checkpoint(path)
            assert resumed.epochs_done == after
            assert not resumed.finished
            stopped.after = math.inf
            found = train_model(*arguments, checkpoint=writer(problem, training, path, resumed))
            assert same(found, plain)
            assert stopped.count == count      # none twice, none too many
            again = load_checkpoint(path)
            assert again.finished
            assert again.stopped
            assert same(plain, train_model(*arguments,
                                           checkpoint=writer(problem, training, path, again)))
            assert stopped.count == count


def test_interrupted():
    problem = Problem(noise=2.0)
    training = problem.training(stopping=Stopping(problem.held, True, tol=0.01, patience=3))
    plain = problem.train(training)
    with Watched(problem.config, 8) as device:
        model = train_model(problem.outputs, device, problem.config, problem.objective, training)
    assert model.interrupted
    assert model.epochs_done == 2
    np.testing.assert_array_equal(model.coefs, plain.coefs[:2])
    assert model.best == 1


def test_epochs_are_reported():
    problem, seen = Problem(noise=2.0), []
    training = problem.training(stopping=Stopping(problem.held, True, tol=0.01, patience=3))
    model = problem.train(training, "cpu", on_epoch=seen.append)
    assert seen == list(range(1, 3 * model.epochs_done + 1))


def test_overflow_names_the_epoch():
    problem = Problem(n_classes=2)
    problem.objective = Objective(loss=problem.loss)
    steps = [0.01] * 4 + [200.0] * 4
    options = {"schedule": steps, "epochs": 8, "step": None, "model_range": 1.0}
    with pytest.raises(RangeOverflowError) as plain:
        problem.train(problem.training(**options))
    with pytest.raises(RangeOverflowError) as stopped:
        problem.train(problem.training(stopping=Stopping(problem.held, True, patience=2),
                                       **options))
    assert stopped.value.epoch == plain.value.epoch == 5
    assert str(stopped.value) == str(plain.value)
    assert stopped.value.result.epochs_done == 4


def test_candidates_share_epochs():
    problem = Problem()
    training = problem.training(stopping=Stopping(problem.held, True))
    with open_device("golden", problem.config) as device, \
            pytest.raises(ValueError, match="candidates share their epochs"):
        train_candidates(problem.outputs, device, problem.config,
                         [(problem.objective, training)])
