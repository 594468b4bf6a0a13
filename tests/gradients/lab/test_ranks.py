"""Workers as ranks of the real exchange: threads that compute in turn, and what is known of
processes that fail.
"""

import multiprocessing
import os
import signal
import threading
import time
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bitstep_gradients import Key, make_codec
from bitstep_gradients.control.wrapped import Wrapped
from bitstep_gradients.errors import ExchangeError
from bitstep_gradients.exchange.entries import SECOND_PHASE
from bitstep_gradients.exchange.transport import ThreadGroup
from bitstep_gradients.lab.contestants import Contestant, parse_contestant
from bitstep_gradients.lab.perceptrons import Perceptron
from bitstep_gradients.lab.ranks import processes, watching
from bitstep_gradients.lab.ranks.process import LOG
from bitstep_gradients.lab.ranks.processes import RankProcesses
from bitstep_gradients.lab.ranks.rank import train_rank
from bitstep_gradients.lab.ranks.threads import train_threads
from bitstep_gradients.lab.ranks.trainers import open_trainer
from bitstep_gradients.lab.training import Batches, Setting, train
from bitstep_lab.samples import Samples

NO_RESULT = {"encode_s", "decode_s", "sent_a_step", "received_a_step"}


def task(n_features=30, n_hidden=90):
    """A small network, and rows that it can tell apart."""
    rng = np.random.default_rng(2)
    labels = rng.integers(3, size=60)
    features = rng.standard_normal((60, n_features)).astype(np.float32)
    features[np.arange(60), labels] += 2
    return Perceptron("fc", (n_features, n_hidden, 3), classifies=True), Samples(
        "blobs", features[10:], labels[10:], features[:10], labels[:10], 3, 0)


def setting(**changes):
    """A short training, which goes on until its bytes are used up."""
    return Setting(**{"n_workers": 3, "batch": 4, "step": 0.125, "n_steps": 5, "budget": 5_000.0,
                      "max_steps": 7, "every": 2, "update_every": 3, **changes})


def result(found):
    """All but times and counters."""
    return {**found, **dict.fromkeys(NO_RESULT)}


RANKS = [(1, 0), (3, 0), (2, 100)]      # and the size below which tensors are sent whole
LEVELS = "alq:bits=3,payload=huffman"   # are long to find, on every rank anew


@pytest.mark.parametrize("text, n_workers, min_size", [
    *((text, *ranks) for ranks in RANKS for text in (
        "none", "dqsg:bucket_size=64", "ndqsg", "one-bit:feedback=0.5",
        "top-k:share=0.1,feedback=1", "dq-sgd:interval=2,alpha=loss")),
    *(pytest.param(LEVELS, *ranks, marks=() if ranks == (2, 100) else pytest.mark.slow)
      for ranks in RANKS)])
def test_ranks_have_the_bits_of_workers_without_an_exchange(text, n_workers, min_size):
    chosen = setting(n_workers=n_workers, min_size=min_size)
    arguments, steps = (*task(), parse_contestant(text), chosen), []
    found = train_threads(*arguments, seed=4, progress=steps.append)
    assert result(found) == result(train(*arguments, seed=4))
    assert steps == list(range(1, found["points"][-1]["step"] + 1))
    assert found["status"] == "ok"
    # Of a step: agreement has 5 bytes; a frame has 1, and 1 or 2 for each of 4 lengths.
    if text.startswith(("none", "dqsg", "one-bit", "top-k")):
        least = (n_workers - 1) * (found["bytes_a_step"] + 5 + 1 + 4)
        assert least <= found["sent_a_step"] <= least + 4 * (n_workers - 1)
    assert found["received_a_step"] == pytest.approx(found["sent_a_step"])


@pytest.mark.parametrize("exchange", ["all_gather", "two-phase"])
def test_what_a_codec_cannot_send_is_a_divergence_on_all_ranks(exchange):
    chosen = setting(step=1e-6, n_steps=200, max_steps=200, every=200, exchange=exchange)
    found = train_threads(*task(), parse_contestant("qsgd:feedback=1"), chosen, seed=4)
    assert found["status"].startswith("diverged at step")


def test_two_phases_by_hand():
    """Bytes: a message a tensor, and a third of one again. The first step is that of all_gather."""
    model, samples = task()
    chosen = setting(n_steps=1, max_steps=1, every=1, exchange="two-phase")
    none = parse_contestant("none")
    found = train_threads(model, samples, none, chosen, seed=1)
    plain = train(model, samples, none, chosen, seed=1)
    assert found["points"][-1]["loss"] == plain["points"][-1]["loss"]
    assert found["points"][-1]["error"] == 0
    tensors = model.first_parameters(1).values()
    # 2,700 weights have two slices; the other tensors have one, and so one owner.
    header = len(make_codec("none").encode(np.zeros(1350, np.float32), Key(0))) - 4 * 1350
    n_values = sum(value.size for value in tensors)
    first, second = 4 * n_values + 5 * header, (4 * n_values + 5 * header) / 3
    assert found["bytes_a_step"] == pytest.approx(first + second, abs=10)


def test_error_of_two_phases_is_that_of_the_first_messages():
    chosen = setting(n_steps=4, max_steps=4, every=1, exchange="two-phase")
    found = train_threads(*task(), parse_contestant("qsgd-linf:bits=8"), chosen, seed=1)
    assert all(0 < point["error"] < 1e-3 for point in found["points"][1:])


class Halved(Wrapped):
    """A codec that loses half of each first message, and nothing of an average."""

    def decode(self, message, key, side=None):
        values = super().decode(message, key, side)
        return values / np.float32(2) if key.tensor < SECOND_PHASE else values


@dataclass(frozen=True)
class HalvedContestant(Contestant):
    """Float32 by that codec."""

    def make(self, n_steps):
        return Halved(make_codec("none"))


@pytest.mark.parametrize("exchange", ["all_gather", "two-phase"])
def test_averages_that_are_sent_again_have_no_part_in_the_error(exchange):
    found = train_threads(*task(), HalvedContestant("none", "none"), setting(exchange=exchange),
                          seed=1)
    assert [point["error"] for point in found["points"][1:]] == pytest.approx(
        [0.25] * len(found["points"][1:]))


@pytest.mark.parametrize("exchange", ["all_gather", "two-phase"])
def test_divergence(exchange):
    chosen = setting(step=1e30, exchange=exchange)
    found = train_threads(*task(), parse_contestant("none"), chosen, seed=1)
    assert found["status"].startswith("diverged at step")
    assert found["at_steps"] is None


@pytest.mark.parametrize("exchange", ["all_gather", "two-phase"])
@pytest.mark.parametrize("outside, kind, text", [(True, MemoryError, "no memory"),
                                                 (False, ValueError, "L2 norm")])
def test_error_of_a_rank_ends_all(outside, kind, text, exchange):
    """The error is that of the rank that failed, and no thread is left."""
    model, samples = task()

    class Failing(Perceptron):
        def gradient(self, parameters, features, labels):
            loss, found = super().gradient(parameters, features, labels)
            if labels.tolist() == broken:
                if outside:
                    raise MemoryError("no memory on one rank")
                found["fc1.weight"] = np.full_like(found["fc1.weight"], 3e38)
            return loss, found

    broken = Batches(samples, 3, 4, 1).draw()[1][1].tolist()
    before = threading.active_count()
    failing = Failing("fc", model.sizes, classifies=True)
    with pytest.raises(kind, match=text):
        train_threads(failing, samples, parse_contestant("qsgd"), setting(exchange=exchange),
                      seed=1)
    assert threading.active_count() <= before


class Slow(Wrapped):
    """A codec that takes 2 s to encode and 3 s to decode, by a clock that nothing else moves; in
    the first step, in which others compile, 10 s more.
    """

    clock = 0.0

    def encode(self, vector, key, side=None):
        Slow.clock += 2 if key.step else 12
        return super().encode(vector, key, side)

    def decode(self, message, key, side=None):
        Slow.clock += 3 if key.step else 13
        return super().decode(message, key, side)


@dataclass(frozen=True)
class SlowContestant(Contestant):
    """Float32 by the slow codec."""

    def make(self, n_steps):
        return Slow(make_codec("none"))


@pytest.mark.parametrize("exchange, encoded, decoded", [
    ("all_gather", 4, 3 * 4),       # four tensors, of all ranks
    # 2,700 weights have two slices, and each other tensor one. A rank owns a third of the five
    # slices on the mean: it decodes those of all, encodes their averages, and decodes them all.
    ("two-phase", 5 + 5 / 3, 5 + 5)])
def test_times_are_those_of_the_codecs_in_a_step(exchange, encoded, decoded, monkeypatch):
    """What the error of a message costs is no part of them."""
    monkeypatch.setattr(watching, "time", SimpleNamespace(perf_counter=lambda: Slow.clock))
    chosen = setting(exchange=exchange)
    found = train_threads(*task(), SlowContestant("none", "none"), chosen, seed=1)
    assert found["encode_s"] == pytest.approx(2 * encoded)
    assert found["decode_s"] == pytest.approx(3 * decoded)


@pytest.mark.parametrize("transport", ["memory", "gloo"])
def test_a_trainer_waits_as_long_as_it_is_told(transport, monkeypatch):
    monkeypatch.setattr(processes, "check_torch", lambda: None)
    model, samples = task()

    class Late(Perceptron):
        def gradient(self, parameters, features, labels):
            time.sleep(0.3)     # of each rank, as they take turns: the first one waits for another
            return super().gradient(parameters, features, labels)

    late = Late("fc", model.sizes, classifies=True)
    chosen = setting(exchange="two-phase", transport=transport)
    with open_trainer(late, samples, chosen, 0.05) as trainer:
        assert trainer is not None
        if transport == "gloo":
            assert trainer.__self__.limit_s == 0.05     # type: ignore[attr-defined]
            return
        with pytest.raises(RuntimeError, match=r"has waited 0\.05 s"):
            trainer(late, samples, parse_contestant("none"), chosen, seed=1)


def test_error_of_another_rank_is_no_divergence():
    """A rank tells what it has heard of the one that failed."""
    model, samples = task()
    broken = Batches(samples, 2, 4, 1).draw()[1][1].tolist()

    class Failing(Perceptron):
        def gradient(self, parameters, features, labels):
            loss, found = super().gradient(parameters, features, labels)
            if labels.tolist() == broken:
                found["fc1.weight"] = np.full_like(found["fc1.weight"], 3e38)
            return loss, found

    group, errors = ThreadGroup(2), {}

    def work(transport):
        try:
            train_rank(transport, Failing("fc", model.sizes, classifies=True), samples,
                       parse_contestant("qsgd"), setting(n_workers=2), seed=1)
        except Exception as error:
            errors[transport.rank] = error
            group.leave(transport.rank)

    threads = [threading.Thread(target=work, args=(one,)) for one in group.transports()]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert isinstance(errors[0], ExchangeError)
    assert "L2 norm" in str(errors[0])


# Processes, without starting any

@pytest.fixture
def ranks(monkeypatch):
    """Three processes that say what a test writes to the other ends of their lines."""
    monkeypatch.setattr(processes, "check_torch", lambda: None)
    found = RankProcesses(*task(), 3)
    pipes = [multiprocessing.Pipe() for _ in range(3)]
    found._lines = [ours for ours, _ in pipes]
    yield found, [theirs for _, theirs in pipes]
    for pipe in pipes:
        for line in pipe:
            line.close()


def test_the_cause_of_a_failure_is_that_of_the_rank_that_failed(ranks):
    found, lines = ranks
    lines[0].send(("error", "ExchangeError", "another worker has ended"))
    lines[1].send(("step", 7))
    lines[1].send(("error", "ExchangeError", "another worker has ended"))
    lines[2].send(("error", "ValueError", "gradients must be finite"))
    with pytest.raises(RuntimeError, match=r"^worker 2 failed: gradients must be finite$"):
        found._wait("done", lambda step: None, 10)


def test_what_every_rank_says(ranks):
    found, lines = ranks
    for rank in (2, 0, 1):
        for word in (("step", rank + 1), ("done", f"result {rank}")):
            lines[rank].send(word)
    steps = []
    assert found._wait("done", steps.append, 10) == ["result 0", "result 1", "result 2"]
    assert sorted(steps) == [1, 2, 3]


@pytest.mark.parametrize("code, how", [
    (-9, "by SIGKILL"), (3, "with exit code 3"), (None, "with exit code None")])
def test_last_words_are_those_of_the_rank(code, how, ranks, tmp_path):
    found: Any = ranks[0]
    found._processes = [SimpleNamespace(exitcode=one, join=lambda limit_s: None)
                        for one in (0, code, 1)]
    found._folder = SimpleNamespace(name=str(tmp_path))
    assert found._last_words(1) == (
        f"worker 1 was ended {how}, so all workers were ended; finished runs are kept, and the "
        "same command goes on from there")
    for rank in range(3):
        (tmp_path / f"{LOG}{rank}").write_text(f"[{rank}] connected\n[{rank}] no memory\n\n")
    assert "(its last line: [1] no memory); finished" in found._last_words(1)


def test_what_children_inherit_ends_with_their_start(monkeypatch):
    first, second, _ = processes.THREADS
    monkeypatch.setenv(first, "4")
    monkeypatch.delenv(second, raising=False)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [])

    def start():
        assert {os.environ[name] for name in processes.THREADS} == {"1"}
        assert signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
        raise OSError("no process")

    with pytest.raises(OSError, match="no process"), processes._for_children():
        start()
    assert os.environ[first] == "4"
    assert second not in os.environ
    assert signal.pthread_sigmask(signal.SIG_BLOCK, []) == before


@pytest.mark.parametrize("n_workers", [0, 9])
def test_number_of_processes(n_workers, monkeypatch):
    monkeypatch.setattr(processes, "check_torch", lambda: None)
    with pytest.raises(ValueError, match=f"n_workers must be from 1 to 8, not {n_workers}"):
        RankProcesses(*task(), n_workers)
