"""Races of codecs: contestants, exchange within a process, training, modelled time, tables."""

import csv
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bitstep_gradients import ErrorFeedback, Key, make_codec
from bitstep_gradients.lab import drawings
from bitstep_gradients.lab.contestants import (
    ContestantError,
    options_of,
    parse_contestant,
    whole_field,
)
from bitstep_gradients.lab.outcome import curve, place_of, point_rows, summary, workers_text
from bitstep_gradients.lab.page import READING, cells_of, head, write_report
from bitstep_gradients.lab.race import Race, probe, run_race, tuned_step
from bitstep_gradients.lab.tasks import make_task
from bitstep_gradients.lab.timing import Network
from bitstep_gradients.lab.training import Batches, Setting, train
from bitstep_gradients.lab.workers import Workers, bits_of
from bitstep_lab.races.figures import new_figure
from bitstep_lab.races.run_store import RunStore

SHAPES = {"weight": (40, 30), "bias": (30,)}
NETWORKS = (Network(1, 50e-6), Network(10, 50e-6))


def gradients(n_workers=3, seed=0):
    """Gradients of every rank."""
    rng = np.random.default_rng(seed)
    return [{name: rng.standard_normal(shape).astype(np.float32)
             for name, shape in SHAPES.items()} for _ in range(n_workers)]


def setting(**changes):
    """A short training."""
    return Setting(**{"n_workers": 2, "batch": 16, "step": 0.25, "n_steps": 12, "budget": 0.0,
                      "max_steps": 24, "every": 5, **changes})


def quiet(line):
    """Progress that nobody sees."""
    return lambda step: None


# Contestants

def test_contestants():
    found = parse_contestant("terngrad:clip=none,bucket_size=64,payload=radix,feedback=0.5")
    assert found.name == "terngrad"
    assert dict(found.options) == {"clip": None, "bucket_size": 64, "payload": "radix"}
    assert found.feedback == 0.5
    codec = found.make(100)
    assert (codec.name, codec.bucket_size, codec.payload) == ("terngrad", 64, "radix")
    assert parse_contestant("dqsg").with_feedback(1.0).text == "dqsg:feedback=1"
    assert parse_contestant("dqsg:bits=3").with_feedback(0.25).text == "dqsg:bits=3,feedback=0.25"
    assert found.with_feedback(1.0) is found
    none = parse_contestant("none")
    assert none.with_feedback(1.0) is none


def test_controllers_of_a_race():
    """Statistics at every tenth step, and the budget of 4 bits unless there is another one."""
    made: Any = parse_contestant("dq-sgd").make(50)
    assert (made.steps, made.alpha, made.interval, made.like_bits) == (50, 0.99, 10, 4)
    assert made.codec.name == "qsgd-linf"
    made = parse_contestant("dq-sgd:mean_bits=3,interval=2,alpha=loss,codec=dqsg").make(50)
    assert (made.alpha, made.interval, made.like_bits, made.mean_bits) == ("loss", 2, None, 3)
    assert made.codec.name == "dqsg"


def test_values_of_options():
    found = parse_contestant("random-k:share=1e-2,unbiased=False,feedback=TRUE")
    assert dict(found.options) == {"share": 0.01, "unbiased": False}
    assert found.feedback == 1.0
    assert dict(parse_contestant("terngrad:clip=None").options) == {"clip": None}


@pytest.mark.parametrize("text, message", [
    ("zip", "there is no codec 'zip'; there are none, fp16, bf16, qsgd"),
    ("dqsg:bits", "options of a codec must be OPTION=VALUE with commas between them, not 'bits'"),
    ("dqsg:bits=3,bits=4", "gives bits twice"),
    ("dqsg:bats=3", "dqsg has no option 'bats'; it has levels, bits, bucket_size, payload"),
    ("dqsg:bits=9", "dqsg:bits=9: bits must be an integer from 2 to 8, not 9"),
    ("dqsg:bits=three", "bits must be an integer from 2 to 8, not 'three'"),
    ("sign:feedback=2", "feedback must be a number above 0 and at most 1, not 2"),
    ("sign:feedback=0", "feedback must be a number above 0 and at most 1, not 0"),
    ("sign:feedback=no", "feedback must be a number above 0 and at most 1, not 'no'"),
    ("dq-sgd:bits=3", "dq-sgd chooses bits itself, at every step; leave bits away"),
    ("adaqs:codec=dqsg,levels=3", "adaqs chooses levels itself"),
    ("dq-sgd:codec=top-k", "codec must be one whose levels can be chosen"),
    ("dq-sgd:like_bits=4,mean_bits=3", "give one budget")])
def test_bad_contestants(text, message):
    with pytest.raises(ContestantError, match=message):
        parse_contestant(text)


def test_every_codec_takes_part_in_a_race_of_all():
    vector = gradients()[0]["weight"]
    for one in whole_field():
        codec = one.make(100)
        message = codec.encode(vector, Key(1))
        assert codec.decode(message, Key(1)).shape == vector.shape
        assert set(dict(one.options)) <= {*options_of(one.name), "bucket_size", "payload"}


# Exchange

@pytest.mark.parametrize("text", ["none", "fp16", "dqsg:payload=radix", "terngrad", "top-k",
                                  "dqsg:bits=3,feedback=1"])
def test_averages_are_those_of_the_messages(text):
    contestant = parse_contestant(text)
    workers = Workers(contestant, SHAPES, n_workers=3, seed=7, n_steps=9)
    by_hand = [contestant.make(9) if contestant.feedback is None
               else ErrorFeedback(contestant.make(9), weight=1.0) for _ in range(3)]
    for step in range(3):
        some = gradients(seed=step)
        found = workers.exchange(step, some, [0.0] * 3)
        sent = lost = total = 0.0
        for number, name in enumerate(SHAPES):
            decoded = []
            for rank, codec in enumerate(by_hand):
                key = Key(7, step, rank, number)
                message = codec.encode(some[rank][name], key)
                decoded.append(codec.decode(message, key))
                sent += len(message) / 3
                lost += float(np.sum((decoded[-1] - some[rank][name]).astype(np.float64)**2))
                total += float(np.sum(some[rank][name].astype(np.float64)**2))
            exact = (decoded[0].astype(np.float64) + decoded[1] + decoded[2]) / 3
            np.testing.assert_array_equal(found.average[name], exact.astype(np.float32))
        assert found.sent == pytest.approx(sent)
        assert found.error == pytest.approx(lost / total, rel=1e-5)
        assert found.encode_s > 0
        assert found.decode_s > 0


def test_averages_are_those_of_the_exchange_between_ranks():
    threads = pytest.importorskip("bitstep_gradients.exchange.transport")
    exchange = pytest.importorskip("bitstep_gradients.exchange")
    from concurrent.futures import ThreadPoolExecutor
    for text in ("none", "dqsg", "top-k:feedback=1"):
        contestant = parse_contestant(text)
        workers = Workers(contestant, SHAPES, n_workers=3, seed=5, n_steps=9)
        ranks = [exchange.Aggregator(contestant.make(9), min_size=0, seed=5,
                                     error_feedback=contestant.feedback or False)
                 for _ in range(3)]
        for step in range(3):
            some = gradients(seed=step)
            found = workers.exchange(step, some, [0.0] * 3)
            transports = threads.ThreadGroup(3).transports()
            with ThreadPoolExecutor(3) as pool:
                averages = list(pool.map(exchange.Aggregator.average, ranks, transports, some))
            for average in averages:
                for name in SHAPES:
                    np.testing.assert_array_equal(average[name], found.average[name])


def test_small_tensors_are_sent_whole():
    workers = Workers(parse_contestant("sign"), SHAPES, n_workers=2, seed=0, n_steps=9,
                      min_size=100)
    some = gradients(2)
    found = workers.exchange(0, some, [0.0] * 2)
    np.testing.assert_array_equal(
        found.average["bias"],
        ((some[0]["bias"].astype(np.float64) + some[1]["bias"]) / 2).astype(np.float32))
    assert found.sent == len(make_codec("sign").encode(some[0]["weight"], Key(0))) \
        + len(make_codec("none").encode(some[0]["bias"], Key(0)))


def test_controller_follows_all_tensors_and_its_bits_are_told():
    workers = Workers(parse_contestant("dq-sgd:like_bits=3,interval=2,first_bits=8"), SHAPES,
                      n_workers=2, seed=0, n_steps=6)
    plain = Workers(parse_contestant("dq-sgd:like_bits=3,interval=6,first_bits=8"), SHAPES,
                    n_workers=2, seed=0, n_steps=6)
    bits, sent = [], []
    for step in range(6):
        some = [{name: value * 0.01**step for name, value in one.items()} for one in gradients(2)]
        done = workers.exchange(step, some, [1.0] * 2)
        plain.exchange(step, some, [1.0] * 2)
        bits.append(bits_of(workers.codecs, step))
        sent.append(done.sent)
    assert bits[-1] < bits[0]           # the gradients have become small
    assert sent[-1] < sent[1]
    plain = Workers(parse_contestant("dqsg"), SHAPES, n_workers=1, seed=0, n_steps=1)
    assert bits_of(plain.codecs, 0) is None


def test_time_by_hand():
    network = Network(gbits=2, latency_s=1e-3)
    # 4 ranks, 3 turns of 1,000,000 bytes at 250,000,000 bytes a second
    assert network.step_s("dqsg", 1e6, 4) == pytest.approx(3 * (1e-3 + 4e-3))
    # 6 turns of a quarter
    assert network.step_s("none", 1e6, 4) == pytest.approx(6 * (1e-3 + 1e-3))
    # gathering is faster for few bytes
    assert network.step_s("fp16", 100, 4) == pytest.approx(3 * (1e-3 + 4e-7))
    assert network.step_s("none", 1e6, 1) == 0
    # two-phase: 6 turns; messages of 4 slices and of one average, 250,000 bytes each
    assert network.step_s("dqsg", 1.25e6, 4, "two-phase") == pytest.approx(6 * (1e-3 + 1e-3))


# Training

def test_batches_take_every_row_once():
    _, samples = make_task("logreg", rows=70)
    batches = Batches(samples, 4, 7, seed=1)        # 28 rows a step, 56 rows
    some = batches.draw() + batches.draw()
    rows = np.concatenate([features for features, _ in some])
    assert sorted(map(bytes, rows)) == sorted(map(bytes, samples.features))
    assert [len(features) for features, _ in some] == [7] * 8
    # 32 rows a step: what a pass leaves comes first in the next step.
    batches, other = Batches(samples, 4, 8, seed=1), Batches(samples, 4, 8, seed=2)
    some = np.concatenate([features for _ in range(7) for features, _ in batches.draw()])
    for turn in range(4):
        assert sorted(map(bytes, some[56 * turn:56 * (turn + 1)])) == sorted(map(
            bytes, samples.features))
    assert (some[:56] != some[56:112]).any()
    assert (other.draw()[0][0] != some[:8]).any()


def test_training_points_bytes_and_budget():
    model, samples = make_task("logreg", rows=200)
    one = parse_contestant("none")
    free = train(model, samples, one, setting(), seed=0)
    assert free["status"] == "ok"
    assert [point["step"] for point in free["points"]] == [0, 5, 10, 12]
    assert free["points"][0]["loss"] == pytest.approx(np.log(10), rel=1e-5)
    assert free["points"][-1]["loss"] < 0.8 * np.log(10)
    a_step = free["bytes_a_step"]
    assert a_step == sum(len(make_codec("none").encode(value, Key(0)))
                         for value in model.first_parameters(0).values())
    assert [point["bytes"] for point in free["points"]] == [0, 5 * a_step, 10 * a_step, 12 * a_step]
    assert (free["at_steps"], free["at_budget"]) == (3, None)
    early = train(model, samples, one, setting(budget=7.5 * a_step), seed=0)
    assert early["points"][early["at_budget"]]["step"] == 7
    assert early["points"][early["at_steps"]]["loss"] == free["points"][-1]["loss"]
    late = train(model, samples, one, setting(budget=17 * a_step), seed=0)
    assert late["points"][late["at_budget"]]["step"] == 17 == late["points"][-1]["step"]
    most = train(model, samples, one, setting(budget=1e9), seed=0)
    assert most["at_budget"] is None
    assert most["points"][-1]["step"] == 24
    assert place_of(most, "budget", 1e9) is most["points"][-1]
    none = train(model, samples, one, setting(budget=0.5 * a_step), seed=0)
    assert none["at_budget"] is None
    assert place_of(none, "budget", 0.5 * a_step) is None
    assert place_of(free, "budget", 0.0) is None


def test_same_seed_same_training_and_another_seed_another():
    model, samples = make_task("logreg", rows=100)
    runs = [train(model, samples, parse_contestant("dqsg"), setting(), seed=seed)["points"]
            for seed in (0, 0, 1)]
    assert runs[0] == runs[1]
    assert runs[0][-1]["loss"] != runs[2][-1]["loss"]


@pytest.mark.parametrize("step", [1e3, 1e30])
def test_divergence_is_told(step):
    model, samples = make_task("linreg", "diabetes")
    found = train(model, samples, parse_contestant("none"), setting(step=step, every=1), seed=0)
    assert found["status"].startswith("diverged at step ")
    assert place_of(found, "steps", 1e9) is None
    assert place_of(found, "budget", 1e9) is None


# With the small step, residuals of rounding to one level of large buckets grow without end; with
# the large one, uncompressed gradients leave the finite numbers, too.
@pytest.mark.parametrize("step, diverged", [(1e-6, [1, 0]), (1e30, [1, 1])])
def test_race_in_which_runs_diverge_has_its_report(step, diverged, tmp_path):
    chosen = setting(step=step, n_steps=100, max_steps=100, every=50)
    contestants = (parse_contestant("qsgd:feedback=1"), parse_contestant("none"))
    race = run_race(Race(*make_task("linreg", None, rows=100), contestants, chosen, 1),
                    RunStore(None), quiet)
    assert [row["diverged"] for row in summary(race, NETWORKS)] == diverged
    assert race["results"][0]["status"].startswith("diverged at step")
    for errors in race["probe"]["errors"].values():
        assert len(errors) == len(race["probe"]["steps"]) > 0
    assert write_report(tmp_path, [race], NETWORKS).exists()


def test_a_race_with_other_labels_to_test_with_is_run_again(tmp_path):
    model, samples = make_task("logreg", rows=100)
    chosen, none = setting(), (parse_contestant("none"),)
    turned = replace(samples, test_labels=(samples.test_labels + 1) % samples.n_classes)
    right, wrong = (run_race(Race(model, one, none, chosen, 1), RunStore(tmp_path), quiet)
                    for one in (samples, turned))
    alone = run_race(Race(model, turned, none, chosen, 1), RunStore(None), quiet)
    assert wrong["results"][0]["points"][-1]["accuracy"] \
        == alone["results"][0]["points"][-1]["accuracy"] \
        != right["results"][0]["points"][-1]["accuracy"]


def test_tuned_step_is_the_best_power_of_two():
    losses = {2.0**power: abs(power - 1) + 1.0 for power in range(-12, 5)}

    class Runs:
        def train(self, contestant, one, seed):
            assert contestant.text == "none"
            if one.step > 2:
                return {"status": "diverged at step 1", "points": [{"loss": 0.0}]}
            return {"status": "ok", "points": [{"loss": losses[one.step]}]}

    assert tuned_step(Runs(), setting(step=0.0)) == 2.0     # type: ignore[arg-type]


def test_errors_of_all_codecs_on_the_same_gradients():
    model, samples = make_task("logreg", rows=100)
    found = probe(model, samples, tuple(map(parse_contestant, ("none", "dqsg", "dqsg:bits=5"))),
                  setting(n_steps=11))
    assert found["steps"] == [0, 5, 10]
    assert found["errors"]["none"] == [0, 0, 0]
    ratio = np.mean(found["errors"]["dqsg"]) / np.mean(found["errors"]["dqsg:bits=5"])
    assert ratio == pytest.approx(15**2, rel=0.2)       # 1 and 15 levels on each side
    assert found["bits"]["none"][0] > 32


# Report

@pytest.fixture(scope="module")
def race():
    """A small race whose bits change, with levels that are written by hand."""
    model, samples = make_task("logreg", rows=200)
    names = ("none", "fp16", "dqsg", "dq-sgd:like_bits=3,interval=4", "sign:feedback=1")
    found = run_race(Race(model, samples, tuple(map(parse_contestant, names)),
                          setting(step=0.0, budget=9000.0, every=3), 2), RunStore(None), quiet)
    for result in found["results"]:
        if result["contestant"]["name"] == "dqsg":
            result["levels"] = [{"step": step, "levels": {"fc1.weight": [-1.0, 0.1 * step, 1.0]}}
                                for step in (0, 5)]
    return found


def test_tables(race):
    rows = {row["codec"]: row for row in summary(race, NETWORKS)}
    assert next(iter(rows)) == "none"
    plain = [result for result in race["results"] if result["contestant"]["text"] == "none"]
    ends = [result["points"][result["at_steps"]]["loss"] for result in plain]
    assert rows["none"]["steps"]["loss"] == pytest.approx(np.mean(ends))
    assert rows["none"]["steps"]["loss_spread"] == pytest.approx(np.std(ends))
    assert rows["none"]["network_s"][0] == pytest.approx(
        NETWORKS[0].step_s("none", rows["none"]["bytes_a_step"], 2))
    assert rows["none"]["budget"]["step"] == 3      # 2,629 bytes each
    assert rows["none"]["bits_a_value"] == pytest.approx(8 * 2629 / 650, rel=1e-3)
    assert rows["fp16"]["times_fewer"] == pytest.approx(2600 / 1329, rel=1e-3)
    assert rows["sign:feedback=1"]["budget"]["used_up"] is False
    # The sign that the page explains.
    assert cells_of(rows["sign:feedback=1"])[6].startswith("≤ ")
    one = {**race, "results": [{**result, "at_budget": 1} if not result["seed"] else result
                               for result in race["results"]]}
    assert not {row["codec"]: row for row in summary(one, NETWORKS)}["sign:feedback=1"]["budget"][
        "used_up"], "one run of two has"
    assert "&le;" in READING
    assert all(len(cells_of(row)) == len(head(NETWORKS)) for row in rows.values())
    lost = {**race, "results": [{**result, "status": "diverged at step 2", "at_steps": None,
                                 "at_budget": None, "bytes_a_step": None, "encode_s": None,
                                 "decode_s": None}
                                if result["seed"] and result["contestant"]["text"] == "none"
                                else result for result in race["results"]]}
    row = summary(lost, NETWORKS)[0]
    assert (row["diverged"], row["steps"]["loss"], row["network_s"]) == (1, None, [None, None])
    assert cells_of(row)[0] == "none (1 of 2 diverged)"
    two = {**race, "setting": {**race["setting"], "exchange": "two-phase"}}
    expected = NETWORKS[0].step_s("none", rows["none"]["bytes_a_step"], 2, "two-phase")
    assert rows["none"]["network_s"][0] != expected
    assert summary(two, NETWORKS)[0]["network_s"][0] == expected
    assert next(row for row in point_rows(two, NETWORKS) if row["step"] == 12)[
        "seconds_1_gbits"] == pytest.approx(12 * expected)
    assert workers_text(race) == "2 workers"
    assert workers_text({"setting": {**race["setting"], "n_workers": 1, "transport": "gloo",
                                     "exchange": "two-phase"}}) \
        == "1 worker, processes over gloo, two-phase"
    # Before its first step; the other run has times.
    assert row["codec_s"] == plain[0]["encode_s"] + plain[0]["decode_s"]


def test_curves_are_means_at_common_steps(race):
    plain = [result for result in race["results"] if result["contestant"]["text"] == "none"]
    steps, sent, means, spreads = curve(plain, "loss")
    assert steps.tolist() == [0, 3, 6, 9, 12]
    assert means[2] == pytest.approx(np.mean([result["points"][2]["loss"] for result in plain]))
    assert spreads[2] == pytest.approx(np.std([result["points"][2]["loss"] for result in plain]))
    assert sent[1] == plain[0]["points"][1]["bytes"]
    short = {**plain[1], "points": [point for point in plain[1]["points"] if point["step"] != 6]}
    assert curve([plain[0], short], "loss")[0].tolist() == [0, 3, 9, 12]
    rows = list(point_rows(race, NETWORKS))
    assert len(rows) == sum(len(result["points"]) for result in race["results"])
    last = rows[-1]
    assert last["seconds_1_gbits"] == pytest.approx(
        last["step"] * NETWORKS[0].step_s("sign", last["bytes"] / last["step"], 2))


def test_files_of_a_report(race, tmp_path, monkeypatch):
    monkeypatch.setattr(drawings, "draw", lambda *arguments: False)
    text = write_report(tmp_path, [race], NETWORKS).read_text("utf-8")
    assert f"step {race['setting']['step']:g} (tuned)" in text
    files = {}
    for name in ("points", "summary", "errors", "levels"):
        with open(tmp_path / f"{name}.csv", encoding="utf-8", newline="") as file:
            files[name] = list(csv.DictReader(file))
    row = summary(race, NETWORKS)[0]
    assert float(files["summary"][0]["loss_at_equal_steps"]) == row["steps"]["loss"]
    assert float(files["summary"][0]["step_at_equal_bytes"]) == 3
    assert files["summary"][0]["network_s_10_gbits"] == str(row["network_s"][1])
    assert len(files["points"]) == sum(len(result["points"]) for result in race["results"])
    first = files["errors"][0]
    assert (first["codec"], first["step"], float(first["error"])) == ("none", "0", 0)
    assert float(first["bits_a_value"]) == row["bits_a_value"]
    assert files["levels"][1] == {"model": "logreg", "workers": "2", "codec": "dqsg", "seed": "0",
                                  "step": "5", "tensor": "fc1.weight", "levels": "-1 0.5 1"}
    accuracy = row["steps"]["accuracy"]
    assert 0.2 < accuracy < 1
    assert [cells_of(row)[0], cells_of(row)[5]] == ["none", f"{100 * accuracy:.1f} %"]


@pytest.mark.slow
def test_report(race, tmp_path):
    single = {**race, "setting": {**race["setting"], "n_workers": 1}}
    page = write_report(tmp_path, [single, race], NETWORKS)
    text = page.read_text("utf-8")
    assert "<h2>Logistic" not in text
    assert "logistic regression, 2 workers" in text
    assert text.count("data:image/png;base64,") == 2 * len(drawings.KINDS) + 1
    for kind in drawings.KINDS:
        for suffix in ("png", "svg"):
            assert (tmp_path / "plots" / f"logreg-2-{kind}.{suffix}").stat().st_size > 1000
    for name in ("points", "summary", "errors", "levels"):
        lines = (tmp_path / f"{name}.csv").read_text("utf-8").splitlines()
        assert len(lines) > 1, name
        assert "NaN" not in lines[1]
    assert drawings.CAPTIONS.keys() == drawings.KINDS.keys()


@pytest.mark.parametrize("kind", ["loss", "accuracy", "tradeoff", "errors", "bits"])
def test_drawings_can_be_read(race, kind):
    """The title is beside the legend, and every axis has two numbers, within a decade, too."""
    long = {**race, "data": "digits, " * 18}
    few = [one for one in race["results"] if one["contestant"]["text"] == "dqsg"]
    errors = {**race["probe"], "errors": {"dqsg": race["probe"]["errors"]["dqsg"]}}
    for one in (long, {**long, "results": few, "probe": errors}):
        figure = new_figure(12.5, 4.8)
        if not drawings.KINDS[kind](figure, one, NETWORKS):
            continue
        figure.canvas.draw()
        (legend,), title = figure.legends, figure._suptitle
        assert not title.get_window_extent().overlaps(legend.get_window_extent())
        for axes in figure.axes:
            low, high = axes.get_xlim()
            told = [text for text in axes.xaxis.get_ticklabels()
                    if text.get_text() and low <= text.get_position()[0] <= high]
            assert len(told) >= 2, (kind, axes.get_xlabel())


def test_a_curve_of_one_point_is_seen(race):
    """Nothing is sent at step 0, which leaves one point."""
    short = [{**result, "points": result["points"][:2]} for result in race["results"]]
    figure = new_figure(12.5, 4.8)
    assert drawings.KINDS["loss"](figure, {**race, "results": short}, NETWORKS)
    assert {line.get_marker() for line in figure.axes[1].lines[:-1]} == {"o"}


@pytest.mark.parametrize("loss", [1e9, 0.0])
def test_extreme_losses_press_no_other_flat(race, loss):
    wild = {**race, "results": [
        {**result, "points": [{**point, "loss": loss} if point["step"] else point
                              for point in result["points"]]}
        if result["contestant"]["text"] == "fp16" else result for result in race["results"]]}
    figure = new_figure(12.5, 4.8)
    assert drawings.KINDS["loss"](figure, wild, NETWORKS)
    low, high = figure.axes[0].get_ylim()
    assert high <= 1.15 * 3 * np.log(10) * (1 + 1e-5)
    assert low == (pytest.approx(1e-6 / 1.15) if loss == 0 else pytest.approx(
        min(point["loss"] for result in race["results"] for point in result["points"]), rel=0.3))


def test_many_contestants_look_different():
    texts = ["none", *(f"codec {number}" for number in range(60))]
    styles = drawings._styles({"results": [{"contestant": {"text": text}} for text in texts]})
    assert len({repr(style) for style in styles.values()}) == len(texts)


def test_bits_from_step_to_step(race):
    """Of points 3 steps apart, whose messages are as long as they are."""
    grown = [{**result, "points": [{**point, "bytes": 650 * point["step"]**2}
                                   for point in result["points"]]} for result in race["results"]]
    figure = new_figure(12.5, 4.8)
    assert drawings.KINDS["bits"](figure, {**race, "results": grown}, NETWORKS)
    steps, bits = figure.axes[0].lines[0].get_data()
    assert np.asarray(steps).tolist() == [0, 3, 6, 9, 12]
    assert np.asarray(bits).tolist() == [8 * 3, 8 * 3, 8 * 9, 8 * 15, 8 * 21]


def test_workers_are_in_their_order(race, monkeypatch):
    drawn = []
    monkeypatch.setattr(drawings, "save_figure", lambda figure, stem: drawn.append(figure))
    counts = [{**race, "setting": {**race["setting"], "n_workers": count}} for count in (4, 1, 2)]
    assert drawings.draw_workers(counts, NETWORKS, Path("none"))
    for line in drawn[0].axes[0].lines:
        assert line.get_xdata().tolist() == [1, 2, 4]


def test_nothing_to_draw(race, tmp_path):
    lost = {**race, "results": [{**result, "points": result["points"][:1], "levels": [],
                                 "at_steps": None, "at_budget": None, "bytes_a_step": None,
                                 "status": "diverged at step 1"} for result in race["results"]],
            "probe": {"steps": [], "errors": {text: [] for text in race["probe"]["errors"]},
                      "bits": {}}}
    for kind in drawings.KINDS:
        assert not drawings.draw(kind, lost, NETWORKS, tmp_path / kind), kind
    once = {**race, "results": [{**result, "levels": result["levels"][:1]}
                                for result in race["results"]]}
    assert not drawings.draw("levels", once, NETWORKS, tmp_path / "levels")
    assert not list(tmp_path.iterdir())
