"""Workers as ranks of the real exchange: threads that compute in turn."""

import threading

import numpy as np
import pytest

from bitstep_gradients import Key, make_codec
from bitstep_gradients.lab.contestants import parse_contestant
from bitstep_gradients.lab.perceptrons import Perceptron
from bitstep_gradients.lab.ranks.threads import train_threads
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
    arguments = (*task(), parse_contestant(text), chosen)
    found = train_threads(*arguments, seed=4)
    assert result(found) == result(train(*arguments, seed=4))
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
