"""State of an exchange: restored runs, skipped steps, choices of codecs, codecs that adapt."""

import re
from copy import deepcopy
from typing import Any

import numpy as np
import pytest
from tests.gradients.ranks import RanksFailed, run_ranks

from bitstep_gradients import AdaQs, ErrorFeedback, make_codec
from bitstep_gradients.codecs.uniform import Dqsg
from bitstep_gradients.control.dq_sgd import DqSgd
from bitstep_gradients.errors import DivergenceError, ExchangeError
from bitstep_gradients.exchange import EXCHANGES, Aggregator, TwoPhase
from bitstep_gradients.exchange.adapting import default_updates
from bitstep_gradients.exchange.entries import SECOND_PHASE

SHAPES = {"a.weight": (50, 60), "a.bias": (50,), "b.weight": (10, 50), "b.bias": (10,)}


def gradients(rank, step):
    rng = np.random.default_rng([rank, step])
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in SHAPES.items()}


def averages(aggregator, transport, step):
    found = aggregator.average(transport, gradients(transport.rank, step))
    assert found is not None
    return found


def dq_sgd(**options):
    return DqSgd(make_codec("dqsg"), steps=20, alpha=0.9, mean_bits=4, interval=3, **options)


class Adapting(Dqsg):
    """A codec whose state is the sum of all statistics."""

    adapts = True

    def __init__(self):
        super().__init__(levels=2)
        self.total = 0.0

    @property
    def state_tag(self):
        return int(self.total * 1000) % 2**32

    def statistics(self, vector):
        assert isinstance(vector, np.ndarray)
        return np.array([[np.abs(vector).max(), vector.size]], np.float32)

    def update(self, statistics):
        self.total += float(sum(one[0, 0] for one in statistics))

    def state_dict(self):
        return {"total": self.total}

    def load_state_dict(self, state):
        self.total = state["total"]


SETTINGS = [
    {"codec": "dqsg", "warmup_steps": 2}, {"codec": "qsgd-linf", "error_feedback": True},
    {"codec": "terngrad", "error_feedback": 0.5, "min_size": 0, "warmup_steps": 6},
    {"codec": Adapting(), "update_at": (0, 1, 4, 7)}, {"codec": dq_sgd(), "min_size": 0},
    {"codec": dq_sgd(), "error_feedback": True, "overrides": {"b.*": "bf16"}}]


@pytest.mark.covering(2)
@pytest.mark.parametrize("exchange", EXCHANGES)
@pytest.mark.parametrize("number", range(len(SETTINGS)))
@pytest.mark.parametrize("is_open", [False, True])
def test_restored_run_is_the_uninterrupted_one(exchange, number, is_open):
    def make():
        return Aggregator(exchange=exchange, seed=3, **SETTINGS[number])

    def work(transport):
        def run(aggregator, first, last):
            return [averages(aggregator, transport, step) for step in range(first, last)]

        whole, broken, restored = make(), make(), make()
        expected = run(whole, 0, 9)
        run(broken, 0, 5)
        state = broken.state_dict()
        run(broken, 5, 6)                       # the state is a copy
        if is_open:                             # a model that has made steps goes back
            run(restored, 0, 2)
        restored.load_state_dict(state)
        assert restored.step == 5
        assert repr(restored.state_dict()["tensors"]) == repr(state["tensors"])
        found = run(restored, 5, 9)
        saved, other = (repr({**one.state_dict(), "rank": 0}) for one in (restored, whole))
        assert saved == other
        for one, other in zip(expected[5:], found, strict=True):
            assert all((one[name] == other[name]).all() for name in SHAPES)
        return expected

    ranks = run_ranks(3, work)
    assert all((ranks[0][8][name] == ranks[2][8][name]).all() for name in SHAPES)


def test_state_before_the_first_step():
    def work(transport):
        first = Aggregator("dqsg", error_feedback=True)
        for step in range(2):
            first.average(transport, gradients(transport.rank, step))
        second = Aggregator("dqsg", error_feedback=True)
        second.load_state_dict(first.state_dict())
        third = Aggregator("dqsg", error_feedback=True)
        third.load_state_dict(second.state_dict())
        return [averages(one, transport, 2)["a.weight"] for one in (first, third)]

    expected, found = run_ranks(2, work)[1]
    assert (expected == found).all()


@pytest.mark.parametrize("number", range(len(SETTINGS)))
@pytest.mark.parametrize("n_steps", [0, 2])
def test_saved_before_the_first_step(number, n_steps):
    """Loaded before the first step, or by a model that has made steps: it begins anew."""
    def work(transport):
        def run(aggregator):
            return [averages(aggregator, transport, step)["a.weight"].tobytes()
                    for step in range(3)]

        first, second = (Aggregator(seed=3, **SETTINGS[number]) for _ in range(2))
        state = first.state_dict()
        assert (state["rank"], state["n_ranks"], state["step"]) == (None, None, 0)
        for step in range(n_steps):
            averages(second, transport, step)
        second.load_state_dict(state)
        assert second.state_dict() == state
        assert run(second) == run(first)
        assert second.state_dict()["rank"] == transport.rank

    run_ranks(2, work)


def saved(rank=0, n_ranks=2, **settings):
    """State of a rank after one step."""
    def work(transport):
        aggregator = Aggregator(**{"codec": "dqsg", **settings})
        aggregator.average(transport, gradients(transport.rank, 0))
        return aggregator.state_dict()

    return run_ranks(n_ranks, work)[rank]


def test_ranks_that_load_after_and_before_their_first_step():
    """One goes back to its state, the other begins with its own: the same step, the same bits."""
    settings = {"codec": dq_sgd(), "error_feedback": 0.5, "min_size": 0}

    def work(transport):
        aggregator = Aggregator(**settings)
        for step in range(4):
            averages(aggregator, transport, step)
        state = aggregator.state_dict()
        first = averages(aggregator, transport, 4)
        again = aggregator if transport.rank else Aggregator(**settings)
        again.load_state_dict(state)
        return first, averages(again, transport, 4)

    for first, again in run_ranks(2, work):
        assert all((first[name] == again[name]).all() for name in SHAPES)


def test_state_of_another_rank():
    """Without error feedback the states of all ranks are alike, with it they are not."""
    def load(state, **settings):
        def work(transport):
            aggregator = Aggregator("dqsg", **settings)
            aggregator.load_state_dict(state)
            return aggregator.average(transport, gradients(transport.rank, 1))
        return run_ranks(2, work)

    load(saved())
    with pytest.raises(RanksFailed, match="error feedback of rank 0 of 2, and this is rank 1"):
        load(saved(error_feedback=True), error_feedback=True)
    load(saved(n_ranks=3))
    with pytest.raises(RanksFailed, match=r"of one of 3 ranks, and there are 2 now.* Start 3 "
                                          "again, or load no state: residuals and codecs"):
        load(saved(n_ranks=3, error_feedback=True), error_feedback=True)
    for state in (saved(codec="qsgd"), saved(min_size=0)):
        with pytest.raises(RanksFailed, match="give the same settings"):
            load(state)
    with pytest.raises(RanksFailed, match="the state has seed 1, and this has 0"):
        load(saved(seed=1))
    with pytest.raises(ValueError, match="a state must have n_ranks, rank"):
        Aggregator("dqsg").load_state_dict({"step": 1})
    state = saved()
    state["tensors"].pop("a.bias")
    with pytest.raises(RanksFailed, match=r"the model has a\.weight, a.bias"):
        load(state)


OF_FEEDBACK = {"codec": "dqsg", "bits": 4, "bucket_size": 64, "error_feedback": 0.5}


def load(state, is_open, **settings):
    """Load a state of rank 0 of 2 on rank 0, before its first step or after it, and go on."""
    def work(transport):
        aggregator = Aggregator(**settings)
        if is_open:
            averages(aggregator, transport, 0)
        if transport.rank == 0:
            aggregator.load_state_dict(state)
        else:
            aggregator.step = 1
        averages(aggregator, transport, 1)

    run_ranks(2, work, timeout_s=5)


@pytest.mark.parametrize("is_open", [False, True])
@pytest.mark.parametrize("settings, text", [
    ({"exchange": "all_gather"}, ("feedback of <exchange two-phase, .*>, and this has <exchange "
                                  "all_gather, .*Give the same exchange")),
    ({"exchange": TwoPhase(precision="float32")}, "and this has .*precision='float32'"),
    ({"bits": 3}, r"state of a\.weight is of .*parameter=7.* the model has .*parameter=3, "),
    ({"bucket_size": 32}, "bucket_size=64, .* the model has .*bucket_size=32, .*same settings"),
    ({"payload": "huffman"}, "payload='fixed'.* the model has .*payload='huffman'"),
    ({"error_feedback": 0.25}, "weight=0.5>, and the model has .* weight=0.25>; give")])
def test_state_of_other_settings(settings, text, is_open):
    state = saved(exchange="two-phase", **OF_FEEDBACK)
    same = {"exchange": "two-phase", **OF_FEEDBACK}
    load(state, is_open, **same)
    with pytest.raises(RanksFailed) as failed:
        load(state, is_open, **{**same, **settings})
    assert isinstance(failed.value.errors[0], ValueError)
    assert re.search(text, str(failed.value.errors[0]))


def test_state_without_error_feedback_fits_every_exchange():
    for exchange, other in (EXCHANGES, reversed(EXCHANGES)):
        load(saved(exchange=exchange), False, codec="dqsg", exchange=other)
    with pytest.raises(RanksFailed, match=r"parameter=1.* the model has .*parameter=7"):
        load(saved(), False, codec="dqsg", bits=4)
    with pytest.raises(RanksFailed, match=r"parameter=8.* the model has .*parameter=16"):
        load(saved(codec="alq"), False, codec="alq", bits=4)


def test_older_state_that_does_not_tell_its_settings():
    state = saved(exchange="two-phase", **OF_FEEDBACK)
    del state["exchange"]
    for one in state["tensors"].values():
        del one["settings"]
    for is_open in (False, True):
        load(state, is_open, exchange="two-phase", **OF_FEEDBACK)
    # What it does tell is compared.
    with pytest.raises(RanksFailed, match="codec, shape and error feedback"):
        load(state, True, exchange="two-phase", **{**OF_FEEDBACK, "codec": "qsgd"})


class Turning(Adapting):
    """A codec whose number in the header, and so its text, follows its state."""

    @property
    def parameter(self):
        return 2 + int(self.total > 0)


def test_text_of_a_codec_may_follow_its_state():
    settings = {"codec": Turning(), "update_at": (0, 1)}
    state = saved(**settings)

    def work(transport):
        aggregator = Aggregator(**settings)
        aggregator.load_state_dict(state)
        averages(aggregator, transport, 1)

    run_ranks(2, work)


def test_error_while_loading_changes_nothing():
    """The last tensor's state does not fit: the first keeps its own."""
    def work(transport):
        aggregator = Aggregator(Adapting(), min_size=0, update_at=(0, 1))
        aggregator.average(transport, gradients(0, 0))
        state = aggregator.state_dict()
        before = aggregator.state_dict()
        state["tensors"]["a.weight"]["state"]["total"] = 7.0
        state["tensors"]["b.bias"]["shape"] = [11]
        with pytest.raises(ValueError, match=r"state of b.bias"):
            aggregator.load_state_dict(state)
        assert aggregator.state_dict() == before

    run_ranks(1, work)


@pytest.mark.parametrize("change, message", [
    (lambda state: state.update(tensors=None), "tensors of a state must be a dictionary, not None"),
    (lambda state: state["tensors"]["b.bias"].pop("codec"), "damaged .KeyError: 'codec'"),
    (lambda state: state["tensors"]["b.bias"].update(state=5), "state is damaged .TypeError"),
    (lambda state: state["tensors"]["b.bias"].update(shape=None), "state is damaged .TypeError"),
    (lambda state: state["tensors"]["b.bias"].update(side=np.zeros(99)),
     r"side information of b.bias must be finite, of shape .*, not \(99,\)"),
    (lambda state: state["tensors"]["b.bias"]["side"].fill(np.nan), "side .* must be finite")])
def test_damaged_state_changes_nothing(change, message):
    def work(transport):
        aggregator = Aggregator("ndqsg", min_size=0)
        averages(aggregator, transport, 0)
        state, before = aggregator.state_dict(), repr(aggregator.state_dict())
        change(state)
        with pytest.raises(ValueError, match=message):
            aggregator.load_state_dict(state)
        assert repr(aggregator.state_dict()) == before

    run_ranks(1, work)


def test_damaged_residual_of_the_last_tensor_changes_no_other():
    def work(transport):
        aggregator = Aggregator("dqsg", error_feedback=0.5, min_size=0)
        averages(aggregator, transport, 0)
        state, before = aggregator.state_dict(), repr(aggregator.state_dict())
        first, *_, last = (one["state"]["tensors"] for one in state["tensors"].values())
        for tensors in (first, last):
            for one in tensors.values():
                one["residual"] = np.zeros_like(one["residual"])
        last[3]["residual"][:] = np.nan
        with pytest.raises(ValueError, match=r"tensor b\.bias must be finite"):
            aggregator.load_state_dict(state)
        assert repr(aggregator.state_dict()) == before

    run_ranks(1, work)


@pytest.mark.parametrize("exchange, phase, text", [
    ("all_gather", 0, r"residual of tensor a\.weight has grown to 100000 times"),
    ("two-phase", 0, r"residual of tensor a\.weight has grown to 100000 times"),
    ("two-phase", 1, r"residual of tensor a\.weight \(its average, which the owner sends\) has")])
def test_residual_that_grows_tells_its_tensor(exchange, phase, text):
    """On all ranks: the others are told the error of the rank that it belongs to."""
    def work(transport):
        aggregator = Aggregator("dqsg", exchange=exchange, error_feedback=True)
        averages(aggregator, transport, 0)
        state = aggregator.state_dict()
        for tensor, one in state["tensors"]["a.weight"]["state"]["tensors"].items():
            if tensor >= SECOND_PHASE * phase and transport.rank == 1:
                one["residual"] += np.float32(1e12)
        aggregator.load_state_dict(state)
        averages(aggregator, transport, 1)

    with pytest.raises(RanksFailed) as failed:
        run_ranks(2, work, timeout_s=5)
    errors = failed.value.errors
    assert isinstance(errors[1], DivergenceError)
    assert isinstance(errors[0], ExchangeError)
    assert all(re.search(text, str(errors[rank])) for rank in range(2))


@pytest.mark.parametrize("value", [np.nan, np.inf, 1e39])
def test_gradients_that_are_not_finite(value):
    def work(transport, on_bad):
        aggregator = Aggregator("dqsg", error_feedback=True, on_bad=on_bad)
        aggregator.average(transport, gradients(transport.rank, 0))
        before = aggregator.state_dict()["tensors"]
        vectors = {name: one.astype(np.float64)
                   for name, one in gradients(transport.rank, 1).items()}
        if transport.rank == 1:
            vectors["b.bias"][3] = value
        assert aggregator.average(transport, vectors) is None
        assert aggregator.skipped
        after = aggregator.state_dict()["tensors"]
        assert repr(after) == repr(before)          # no error feedback of the skipped step
        found = averages(aggregator, transport, 2)
        assert not aggregator.skipped
        assert (aggregator.n_skipped, aggregator.step) == (1, 3)
        return found["a.weight"]

    ranks = run_ranks(3, lambda transport: work(transport, "skip"))
    assert (ranks[0] == ranks[1]).all()
    with pytest.raises(RanksFailed) as caught:
        run_ranks(3, lambda transport: work(transport, "error"))
    errors = caught.value.errors
    assert all("on rank 1 they have NaN or infinity" in str(errors[rank]) for rank in range(3))
    assert "(here in b.bias) at step 1" in str(errors[1])
    assert "(not here)" in str(errors[0])


def spoilt(rank, step):
    """Gradients that are not finite on rank 1."""
    vectors = gradients(rank, step)
    vectors["b.bias"][3] = np.nan if rank == 1 else 0
    return vectors


@pytest.mark.parametrize("is_restored", [False, True])
@pytest.mark.parametrize("feedback", [False, True])
@pytest.mark.parametrize("codec", [Adapting(), make_codec("alq", bucket_size=64)])
def test_update_of_a_skipped_step_comes_before_the_next_good_one(codec, feedback, is_restored):
    """Steps 0 and 1 are skipped, and the update is due at 0: it is that of step 2 alone."""
    def work(transport):
        def make():
            return Aggregator(codec, on_bad="skip", update_at=(0, 4), error_feedback=feedback)

        aggregator = make()
        for step in range(2):
            assert aggregator.average(transport, spoilt(transport.rank, step)) is None
        if is_restored:
            state, aggregator = aggregator.state_dict(), make()
            aggregator.load_state_dict(state)
        states = []
        for step in (2, 3):
            found = averages(aggregator, transport, step)["a.weight"]
            state = aggregator.codecs["a.weight"].state_dict()
            states.append(repr(state["codec"] if feedback else state))
        return states, found.tobytes()

    ranks = run_ranks(2, work)
    expected = deepcopy(codec)
    expected.update([expected.statistics(gradients(rank, 2)["a.weight"]) for rank in range(2)])
    for states, found in ranks:
        assert states == [repr(expected.state_dict())] * 2
        assert found == ranks[0][1]


def test_controller_hears_of_the_step_after_a_skipped_one():
    """Due at 0, 1, 2, 3 and 6; step 3 is skipped."""
    def work(transport):
        aggregator = Aggregator(dq_sgd(), on_bad="skip", min_size=0)
        states = []
        for step in range(6):
            make = spoilt if step == 3 else gradients
            aggregator.average(transport, make(transport.rank, step))
            state = aggregator.codecs["a.weight"].state_dict()
            states.append((state["updates"], state["step"]))
        return states

    for states in run_ranks(2, work):
        assert states == [(1, 0), (2, 1), (3, 2), (3, 2), (4, 4), (4, 4)]


def chosen(codecs=None, **settings):
    """Names of the codecs, by tensor."""
    def work(transport):
        aggregator = Aggregator(**{"codec": "dqsg", **settings})
        aggregator.average(transport, gradients(0, 0), codecs=codecs)
        return {name: one["codec"] for name, one in aggregator.state_dict()["tensors"].items()}
    return run_ranks(1, work)[0]


def test_choice_of_codecs():
    assert list(chosen().values()) == ["dqsg", "none", "none", "none"]
    assert list(chosen(min_size=500).values()) == ["dqsg", "none", "dqsg", "none"]
    assert list(chosen(min_size=0).values()) == ["dqsg"] * 4
    overrides = {"*.bias": "fp16", "a.*": make_codec("qsgd", bits=4)}
    assert list(chosen(overrides=overrides).values()) == ["qsgd", "fp16", "none", "fp16"]
    found = chosen({"b.bias": make_codec("bf16")}, overrides=overrides)
    assert found["b.bias"] == "bf16"

    def has_feedback(transport):
        aggregator = Aggregator("dqsg", error_feedback=True, overrides={"b.weight": "none"})
        averages(aggregator, transport, 0)
        return [isinstance(codec, ErrorFeedback) for codec in aggregator.codecs.values()]

    assert run_ranks(1, has_feedback) == [[True, False, False, False]]      # none loses nothing
    with pytest.raises(RanksFailed, match=r"overrides has 'c\.\*', which fits none of the tensors"):
        chosen(overrides={"c.*": "none"})


@pytest.mark.parametrize("settings, kind, text", [
    ({"codec": "morse"}, ValueError, "name must be one of"),
    ({"codec": 3}, TypeError, "codec must be a name of"),
    ({"codec": make_codec("dqsg"), "bits": 3}, ValueError, r"options \(bits\) belong to the name"),
    ({"codec": "dqsg", "bist": 3}, ValueError, "dqsg has no option 'bist'"),
    ({"codec": "dqsg", "error_feedback": 1.5}, ValueError, "weight must be"),
    ({"codec": "dqsg", "error_feedback": "yes"}, ValueError, "weight must be .*, not 'yes'"),
    ({"codec": ErrorFeedback(make_codec("dqsg")), "error_feedback": True}, ValueError,
     "leave error_feedback away"),
    ({"codec": "dqsg", "overrides": "fc1.*"}, TypeError, r"overrides must be a dict.*'fc1\.\*'$"),
    ({"codec": "dqsg", "update_at": 100}, TypeError, "update_at must be a function .* not 100"),
    ({"codec": "dqsg", "update_at": "all"}, TypeError, "update_at must be a function .* not 'all'"),
    ({"codec": "dqsg", "warmup_steps": -1}, ValueError, "warmup_steps must be"),
    ({"codec": "dqsg", "min_size": None}, ValueError, "min_size must be"),
    ({"codec": "dqsg", "on_bad": "ignore"}, ValueError, "on_bad must be one of error, skip"),
    ({"codec": "dqsg", "seed": 2**32}, ValueError, "seed must be")])
def test_bad_settings(settings, kind, text):
    with pytest.raises(kind, match=text):
        Aggregator(**settings)


@pytest.mark.parametrize("settings", [*SETTINGS, {"codec": "ndqsg"},
                                      {"codec": "alq", "min_size": 0, "error_feedback": True}])
def test_a_state_is_a_copy(settings):
    """An exchanged step is kept, and what is done with its state changes no later step."""
    def spoil(state):
        for name, one in state.items():
            if isinstance(one, dict):
                spoil(one)
            elif isinstance(one, np.ndarray):
                one[...] = 1
            elif isinstance(one, float):
                state[name] = 3.0
            assert name != "pending" or one is None

    def work(transport, spoils):
        aggregator = Aggregator(**deepcopy(settings))
        for step in range(3):
            averages(aggregator, transport, step)
            if spoils:
                spoil(aggregator.state_dict())
        return averages(aggregator, transport, 3)["a.weight"]

    found = [run_ranks(2, lambda transport, spoils=spoils: work(transport, spoils))[0]
             for spoils in (False, True)]
    assert (found[0] == found[1]).all()


def test_integers_of_numpy_are_no_other_settings():
    def work(transport):
        kind: Any = int if transport.rank else np.int64
        return averages(Aggregator("dqsg", seed=kind(3), warmup_steps=kind(0)), transport, 0)

    first, second = run_ranks(2, work)
    assert all((first[name] == second[name]).all() for name in SHAPES)


def test_gradients_without_names():
    def work(transport):
        vectors: Any = [np.ones(3)] if transport.rank else gradients(0, 0)
        Aggregator("dqsg").average(transport, vectors)

    with pytest.raises(RanksFailed) as failed:
        run_ranks(2, work)
    assert "vectors must be a dictionary" in str(failed.value.errors[1])
    assert "rank 1 failed" in str(failed.value.errors[0])


def test_rank_without_gradients_tells_so():
    """Its word ends the step of the others, and all go on with the same step."""
    def work(transport):
        aggregator = Aggregator("dqsg", error_feedback=0.5)
        for step in range(3):
            if step != 1:
                averages(aggregator, transport, step)
            elif transport.rank == 1:
                aggregator.tell_failure(transport)
            else:
                with pytest.raises(ExchangeError, match="rank 1 failed before it sent anything"):
                    averages(aggregator, transport, step)
        return aggregator.step

    assert run_ranks(3, work, timeout_s=5) == [2] * 3


def test_codecs_that_adapt_hear_all_ranks():
    codec = Adapting()

    def work(transport):
        aggregator = Aggregator(codec, error_feedback=True, update_at=lambda step: step in (1, 2),
                                min_size=500)
        sent = []
        for step in range(4):
            aggregator.average(transport, gradients(transport.rank, step))
            sent.append(aggregator.traffic.last_step[""].sent)
        state = aggregator.state_dict()["tensors"]
        return sent, state["a.weight"]["state"]["codec"], state["b.weight"]["state"]["codec"]

    ranks = run_ranks(2, work)
    largest = [sum(float(np.abs(gradients(rank, step)[name]).max()) for step in (1, 2)
                   for rank in range(2)) for name in ("a.weight", "b.weight")]
    for sent, first, second in ranks:
        assert (first["total"], second["total"]) == pytest.approx(largest, rel=1e-6)
        assert sent[1] >= sent[0] + 8               # two numbers of float32, and a header
        assert sent[3] < sent[2]
    assert codec.total == 0                         # the caller's own does not change


@pytest.mark.parametrize("feedback", [False, 0.5])
def test_tensors_share_a_controller_of_bits(feedback):
    """One set of statistics of all tensors; the same bits for all of them at a step."""
    expected = dq_sgd(first_bits=5)
    for step in filter(expected.due, range(5)):
        expected.update([expected.statistics([*gradients(rank, step).values()])
                         for rank in range(2)], step=step)

    def work(transport):
        aggregator = Aggregator(dq_sgd(first_bits=5), min_size=0, error_feedback=feedback)
        extra = []
        for step in range(5):
            aggregator.average(transport, gradients(transport.rank, step))
            extra.append(aggregator.traffic.step_total().sent)
        states = [one["state"] for one in aggregator.state_dict()["tensors"].values()]
        states = [state["codec"] if feedback else state for state in states]
        assert all(state == states[0] for state in states)
        assert states[0]["updates"] >= 2
        return states[0]

    first, second = run_ranks(2, work)
    assert first == second == expected.state_dict()


def test_controller_that_needs_the_loss():
    def work(transport, loss):
        aggregator = Aggregator(DqSgd(make_codec("dqsg"), steps=9, alpha="loss", mean_bits=3))
        aggregator.loss = loss
        aggregator.average(transport, gradients(0, 0))

    run_ranks(2, lambda transport: work(transport, 1.5))
    with pytest.raises(RanksFailed, match=r"needs the loss of every rank.* Aggregator or"):
        run_ranks(2, lambda transport: work(transport, None if transport.rank else 1.5))


@pytest.mark.parametrize("mine, others", [
    (DqSgd(make_codec("dqsg"), steps=9, alpha=0.9, mean_bits=3),
     DqSgd(make_codec("dqsg"), steps=9, alpha=0.9, mean_bits=4)),
    (AdaQs(make_codec("dqsg")), AdaQs(make_codec("dqsg"), fall=0.7))])
@pytest.mark.parametrize("error_feedback", [False, 0.5])
def test_controllers_of_other_settings(mine, others, error_feedback):
    """They would choose other bits on every rank."""
    def work(transport):
        codec = others if transport.rank else deepcopy(mine)
        averages(Aggregator(codec, error_feedback=error_feedback), transport, 0)

    run_ranks(1, work)
    with pytest.raises(RanksFailed, match="rank 1 has another step, seed, codec"):
        run_ranks(2, work)


def test_steps_of_updates():
    assert [step for step in range(30_001) if default_updates(step)] == \
        [0, 100, 2000, 10_000, 20_000, 30_000]
