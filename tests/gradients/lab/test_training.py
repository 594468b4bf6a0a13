"""Trainings of races by hand: what is written down of them, tuning, and errors of all codecs."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bitstep_gradients import DqSgd, Key, make_codec
from bitstep_gradients.lab import race as races
from bitstep_gradients.lab import workers
from bitstep_gradients.lab.contestants import parse_contestant
from bitstep_gradients.lab.perceptrons import Perceptron, Score
from bitstep_gradients.lab.race import Race, probe, run_race, tuned_step
from bitstep_gradients.lab.tasks import make_task
from bitstep_gradients.lab.training import Batches, Record, Setting, train
from bitstep_gradients.lab.workers import Exchange, Workers, levels_of, relative_error
from bitstep_lab.races.run_store import RunStore

SETTING = Setting(n_workers=2, batch=16, step=0.25, n_steps=6, budget=0.0, max_steps=9, every=4)


class Scored:
    """A model whose loss is its parameter times the label, and whose accuracy is the feature."""

    name = "scored"

    def score(self, parameters, features, labels):
        return Score(float(parameters["w"][0] * labels[0]), float(features[0]))


SAMPLES: Any = SimpleNamespace(features=[0.5], labels=[1.0], test_features=[0.25],
                               test_labels=[3.0])


def written(sent, *, loss=1.0, codecs=None, **changes):
    """The record of steps that sent so many bytes, as long as it goes on."""
    parameters = {"w": np.array([loss])}
    record = Record(Scored(), SAMPLES, replace(SETTING, **changes), parameters)  # type: ignore[arg-type]
    for step, n_bytes in enumerate(sent):
        if not record.goes_on():
            break
        record.write(parameters, Exchange({}, n_bytes, 0.1 * step, 5.0 - step, 1.0 + step,
                                          (n_bytes + 1.0, 2.0 * n_bytes)), codecs or {})
    return record, record.result(parse_contestant("none"), 7)


@pytest.mark.parametrize("sent, budget, at, steps", [
    ([10] * 9, 35, 3, 6),               # the last step within the budget
    ([10] * 9, 40, 4, 6),               # all of it
    ([10] * 9, 75, 7, 7),               # which is used up after the steps that are compared
    ([10] * 9, 105, None, 9),           # or never
    ([10, 10, 30, 10, 10, 10], 35, 3, 6),       # a longer message takes more than was left
    ([40] + [10] * 8, 35, None, 6)])            # the first one more than there was
def test_budget_by_hand(sent, budget, at, steps):
    record, found = written(sent, budget=budget, every=100)
    assert record.step == steps
    assert (found["at_budget"] is None) is (at is None)
    if at is not None:
        assert found["points"][found["at_budget"]]["step"] == at


def test_record_by_hand():
    codec = make_codec("amq", bits=3)
    _, found = written([10, 20, 30, 40, 50, 90], codecs={"w": codec}, update_every=4)
    assert [point["step"] for point in found["points"]] == [0, 4, 6]
    assert [point["bytes"] for point in found["points"]] == [0, 100, 240]
    assert [point["error"] for point in found["points"]] == [None, pytest.approx(0.3),
                                                             pytest.approx(0.5)]
    assert found["points"][1] | {"error": 0} == {
        "step": 4, "bytes": 100, "loss": 1.0, "test_loss": 3.0, "accuracy": 0.25, "error": 0,
        "bits": None}
    assert (found["bytes_a_step"], found["sent_a_step"], found["received_a_step"]) == (40, 41, 80)
    assert (found["encode_s"], found["decode_s"]) == (0, 1)         # the least of all steps
    assert [one["step"] for one in found["levels"]] == [0, 4]
    assert (found["seed"], found["n_values"], found["status"]) == (7, 1, "ok")


def test_a_loss_that_explodes_is_a_divergence():
    record = Record(Scored(), SAMPLES, SETTING, {"w": np.array([2.0])})     # type: ignore[arg-type]
    for factor, status in ((9999.0, "ok"), (10_001.0, "diverged at step 6")):
        for _ in range(4 if status == "ok" else 2):
            record.write({"w": np.array([2.0 * factor])}, Exchange({}, 1, 0, 0, 0), {})
        assert record.found["status"] == status
    assert not record.goes_on()
    assert [point["step"] for point in record.points] == [0, 4]


def test_statistics_are_bytes_of_every_rank():
    """Those of each update, which comes before steps 0, 3, 6."""
    model, samples = make_task("logreg", rows=100)
    tensors = model.first_parameters(0)
    codec = make_codec("amq", bits=3)
    n_bytes = sum(len(make_codec("none").encode(codec.statistics(np.ones_like(value)), Key(0)))
                  for value in tensors.values())
    chosen = replace(SETTING, every=1, update_every=3, n_workers=3)
    found = train(model, samples, parse_contestant("amq:bits=3"), chosen, seed=0)
    sent = np.diff([point["bytes"] for point in found["points"]])
    assert (sent[[0, 3]] - sent[[1, 4]]).tolist() == [n_bytes] * 2
    assert len(set(sent[[1, 2, 4, 5]])) == 1


def test_times_of_an_exchange_are_those_of_a_rank(monkeypatch):
    """A rank encodes its own messages and decodes those of all, by a clock that counts looks."""
    ticks = iter(range(1000))
    monkeypatch.setattr(workers, "time", SimpleNamespace(perf_counter=lambda: next(ticks)))
    shapes: dict[str, tuple[int, ...]] = {"a": (5,), "b": (3, 2)}
    some = [{name: np.zeros(shape, np.float32) for name, shape in shapes.items()}] * 4
    done = Workers(parse_contestant("none"), shapes, n_workers=4, seed=0, n_steps=1).exchange(
        0, some, [0.0] * 4)
    assert (done.encode_s, done.decode_s) == (2 * 4 / 4, 2 * 4)
    assert done.error == 0.0            # also of gradients that are 0
    assert relative_error([[1.0, 2.0], [3.0]], [[10.0, 4.0], [6.0]]) == 0.3


def test_tensors_of_fewer_values_are_sent_whole():
    found = Workers(parse_contestant("sign"), {"a": (6, 5), "b": (29,)}, n_workers=1, seed=0,
                    n_steps=1, min_size=30)
    assert [codec.name for codec in found.codecs.values()] == ["sign", "none"]


def test_every_rank_tells_its_loss(monkeypatch):
    told, right = [], DqSgd.statistics

    def statistics(self, vector, *, loss=None):
        told.append(loss)
        return right(self, vector, loss=loss)

    monkeypatch.setattr(DqSgd, "statistics", statistics)
    some = [{"a": np.ones(9, np.float32)}] * 3
    Workers(parse_contestant("dq-sgd"), {"a": (9,)}, n_workers=3, seed=0, n_steps=9).exchange(
        0, some, [3.0, 4.0, 5.0])
    assert told == [3.0, 4.0, 5.0]


def test_levels_of_codecs_that_fit_them():
    found = Workers(parse_contestant("amq:bits=3,feedback=1"), {"a": (600,)}, n_workers=1, seed=0,
                    n_steps=1)
    for codecs in (found.codecs, found._ranks[0]):
        assert len(levels_of(codecs)["a"]) == 8
    assert levels_of({"a": make_codec("dqsg")}) == {}


# Tuning

class Curves:
    """Runs whose curves are a function of step and seed."""

    def __init__(self, curve):
        self.curve = curve

    def train(self, contestant, one, seed):
        assert (contestant.text, one.budget, one.max_steps) == ("none", 0, one.n_steps)
        losses = self.curve(one.step, races.TUNING_SEEDS.index(seed))
        return {"status": "ok" if losses else "diverged at step 1",
                "points": [{"loss": loss} for loss in losses]}


@pytest.mark.parametrize("curve, step", [
    # The mean of a curve, not its end.
    (lambda step, seed: [3 * abs(np.log2(step)), abs(np.log2(step) + 3)], 1.0),
    (lambda step, seed: [abs(np.log2(step) + 3), 9.0 - step / 8], 0.125),
    # The worst of all seeds.
    (lambda step, seed: [1 / step if seed < 2 or step < 0.5 else 9.0], 0.25),
    # As far as it goes.
    (lambda step, seed: [1 / step], 16.0), (lambda step, seed: [step], 2.0**-12),
    # The first step diverges, and many below it.
    (lambda step, seed: [1.0 + step] if step < 2.0**-7 and step != 2.0**-9 else [], 2.0**-8)])
def test_tuned_steps(curve, step):
    chosen = replace(SETTING, step=0.0, budget=100.0)
    assert tuned_step(Curves(curve), chosen) == step        # type: ignore[arg-type]


def test_race_is_of_the_tuned_step(monkeypatch):
    monkeypatch.setattr(races, "tuned_step", lambda runs, setting: 0.5)
    task = make_task("logreg", rows=60)
    for asked, step in ((0.0, 0.5), (0.25, 0.25)):
        found = run_race(Race(*task, (), replace(SETTING, step=asked), 1), RunStore(None),
                         lambda line: lambda step: None)
        assert (found["setting"]["step"], found["step_tuned"]) == (step, asked == 0)


def test_what_a_finished_run_is_of(tmp_path):
    """Another seed, model or row is another run; only the same one is taken from the folder."""
    model, samples = make_task("logreg", rows=60)
    other = make_task("fc", rows=60)[0]
    started = []

    def run(model, samples, n_seeds=1):
        started.clear()
        none = (parse_contestant("none"),)
        return run_race(Race(model, samples, none, replace(SETTING, n_steps=1, max_steps=1),
                             n_seeds), RunStore(tmp_path),
                        lambda line: started.append(line) or (lambda step: None))["results"]

    run(model, samples)
    assert len(started) == 2            # the training, and the errors of all codecs
    assert [one["seed"] for one in run(model, samples, 2)] == [0, 1]
    assert len(started) == 1
    for one, rows in ((model, replace(samples, features=samples.features + np.float32(0.1))),
                      (replace_name(model, "other"), samples)):
        run(one, rows)
        assert len(started) == 2
        run(one, rows)
        assert not started
    assert other.name != model.name


def replace_name(model, name):
    return Perceptron(name, model.sizes, classifies=model.classifies)


# Errors of all codecs

def test_errors_by_hand():
    """Of codecs that take a side and that adapt, along a training without compression."""
    model, samples = make_task("logreg", rows=100)
    chosen = replace(SETTING, n_workers=1, n_steps=5, every=2, update_every=3)
    texts = "ndqsg", "alq-linf:bits=3", "one-bit:feedback=1"
    found = probe(model, samples, tuple(map(parse_contestant, texts)), chosen)
    assert found["steps"] == [0, 2, 4]
    parameters = model.first_parameters(0)
    made = {text: [parse_contestant(text).make(5) for _ in parameters] for text in texts}
    side = {name: np.zeros_like(value) for name, value in parameters.items()}
    batches = Batches(samples, 1, chosen.batch, 0)
    for step in range(5):
        (batch,) = batches.draw()
        _, gradient = model.gradient(parameters, *batch)
        for text, codecs in made.items():
            lost = total = n_bytes = 0.0
            for number, (name, codec) in enumerate(zip(parameters, codecs, strict=True)):
                if codec.adapts and step % 3 == 0:
                    statistics = codec.statistics(gradient[name])
                    codec.update([statistics])
                    n_bytes += len(make_codec("none").encode(statistics, Key(0)))
                key = Key(0, step, 0, number)
                message = codec.encode(gradient[name], key, side[name])
                n_bytes += len(message)
                decoded = codec.decode(message, key, side[name]).astype(np.float64)
                lost += np.sum((decoded - gradient[name])**2)
                total += np.sum(gradient[name].astype(np.float64)**2)
            if step % 2 == 0:
                assert found["errors"][text][step // 2] == pytest.approx(lost / total, rel=1e-5)
                assert found["bits"][text][step // 2] == pytest.approx(
                    8 * n_bytes / sum(value.size for value in parameters.values()))
        for name, value in gradient.items():
            parameters[name] = parameters[name] - np.float32(0.25) * value
            side[name] = value
