"""Error feedback: by hand, Lemma 4 of the QCS paper, skipped steps, state."""

import time

import numpy as np
import pytest

from bitstep_gradients import BFloat16, Codec, DqSgd, ErrorFeedback, Key, list_codecs, make_codec
from bitstep_gradients.control.feedback import best_weight, residual_bound
from bitstep_gradients.errors import DivergenceError
from bitstep_gradients.vectors import checked_vector, sum_of_squares


class RandomQuarter(Codec):
    """A random quarter of the values, times 4: unbiased, E|e|^2 = 3 |v|^2 exactly."""

    name, number = "random-quarter", 250

    def _chosen(self, count, key):
        return np.argsort(key.words(count, stream=99), kind="stable")[:count // 4]

    def _encode(self, values, key):
        return (4 * values[self._chosen(values.size, key)]).astype("<f4").tobytes()

    def _decode(self, body, count, key, side):
        found = np.zeros(count, np.float32)
        found[self._chosen(count, key)] = np.frombuffer(body, "<f4")
        return found

    def variance_bound(self, vector):
        return 3 * float(np.sum(checked_vector(vector)[0].astype(np.float64)**2))

    def expected_bits(self, vector):
        return 8 * len(self.encode(vector, Key(0)))


class Coarse(RandomQuarter):
    """Whole numbers, rounded down: an error that is known by hand."""

    def _encode(self, values, key):
        return np.floor(values).astype("<f4").tobytes()

    def _decode(self, body, count, key, side):
        return np.frombuffer(body, "<f4").copy()


class Nested(Coarse):
    """Whole numbers of the difference to side information."""

    def _encode_shaped(self, values, key, side):
        return super()._encode(values.reshape(-1) - side, key)

    def _decode(self, body, count, key, side):
        return super()._decode(body, count, key, side) + side


class DroppedTerm(ErrorFeedback):
    """Feedback of the QCS authors' code, r <- e: the term (1 - beta) r is lost."""

    def encode(self, vector, key, side=None):
        before = self.residual(key.tensor, before=key.step)
        message = super().encode(vector, key, side)
        if before is not None:
            self._entries[key.tensor].pending -= np.float32(1 - self.weight) * before
        return message


def left(feedback, tensor=0) -> np.ndarray:
    """Residual of a tensor that has one."""
    residual = feedback.residual(tensor)
    assert residual is not None
    return residual


def mean_residual(feedback, size=4096, steps=400, warm=80) -> float:
    """E|r|^2 / E|g|^2 for independent Gaussian gradients."""
    rng, found = np.random.default_rng(8), []
    for step in range(steps):
        feedback.encode(rng.normal(size=size), Key(3, step))
        if step >= warm:
            found.append(np.sum(left(feedback).astype(np.float64)**2) / size)
    return float(np.mean(found))


@pytest.mark.parametrize("weight, eta", [(0.25, 12), (0.1, 18.75), (0.4, 18.75)])
def test_lemma_4(weight, eta):
    assert residual_bound(3, weight) == pytest.approx(eta)
    assert mean_residual(ErrorFeedback(RandomQuarter(), weight=weight)) \
        == pytest.approx(eta, rel=0.02)


@pytest.mark.parametrize("weight, eta", [(0.25, 12), (0.1, 18.75)])
def test_lemma_4_fails_without_the_rest_of_the_residual(weight, eta):
    assert mean_residual(DroppedTerm(RandomQuarter(), weight=weight), steps=150) < 0.5 * eta


def test_figures_of_lemma_4():
    assert best_weight(3) == 0.25
    assert min(residual_bound(3, weight) for weight in np.linspace(0.01, 0.49, 97)) == \
        pytest.approx(3 * (3 + 1))
    assert residual_bound(3, 0.5) == residual_bound(3) == np.inf
    assert residual_bound(3, unbiased=False) == pytest.approx(41.78, abs=0.005)
    assert residual_bound(3, unbiased=False) < 4 * 3 * (3 + 1)


def test_plain_feedback_by_hand():
    feedback, sent = ErrorFeedback(Coarse()), []
    for step in range(4):
        key = Key(0, step)
        sent.append(feedback.decode(feedback.encode(np.array([0.75, -0.25]), key), key).tolist())
    assert sent == [[0, -1], [1, 0], [1, 0], [1, 0]]
    assert left(feedback).tolist() == [0, 0]
    assert np.sum(sent, axis=0).tolist() == [3, -1]


def test_side_information_by_hand():
    feedback, key, side = ErrorFeedback(Nested()), Key(0), np.array([0.5, -0.5], np.float32)
    message = feedback.encode(np.array([1.75, 0]), key, side)
    assert feedback.decode(message, key, side).tolist() == [1.5, -0.5]
    assert left(feedback).tolist() == [0.25, 0.5]


def test_weighted_feedback_by_hand():
    """r = .75, then z = .75 + .375 = 1.125, e = .125, r = .375 + .125."""
    feedback = ErrorFeedback(Coarse(), weight=0.5)
    for step, residual in enumerate([0.75, 0.5, 0.25]):
        feedback.encode(np.array([0.75]), Key(0, step))
        assert left(feedback).tolist() == [residual]


@pytest.mark.parametrize("weight", [1, 0.3])
@pytest.mark.parametrize("name", list_codecs())
def test_what_is_sent_and_what_is_left_are_all_gradients(name, weight):
    """With the weight 1 nothing is lost; else r_T is what eq. 14 says of all errors."""
    rng = np.random.default_rng(2)
    feedback = ErrorFeedback(make_codec(name), weight=weight)
    gradients, sent, residual = [], [], np.zeros((6, 50))
    for step in range(4):
        gradients.append(rng.normal(size=(6, 50)).astype(np.float32))
        key = Key(9, step, tensor=3)
        sent.append(feedback.decode(feedback.encode(gradients[-1], key), key))
        assert sent[-1].shape == (6, 50)
        lost = gradients[-1] + weight * residual - sent[-1]
        residual = (1 - weight) * residual + lost
    found = left(feedback, 3)
    near = 1e-4 * np.abs(residual).max() + 1e-4
    assert found == pytest.approx(residual, abs=near)
    if weight == 1:
        assert np.sum(gradients, axis=0) == pytest.approx(np.sum(sent, axis=0) + found, abs=near)


def test_a_residual_that_grows_without_bound_is_refused():
    """qsgd of one bucket loses more than it sends: gamma is about 30 at first."""
    feedback, rng = ErrorFeedback(make_codec("qsgd")), np.random.default_rng(3)

    def train():
        for step in range(200):
            feedback.encode(rng.normal(size=1000), Key(0, step, tensor=5))

    with pytest.raises(ValueError, match="tensor 5 has grown to 100000 times the largest gradient"):
        train()
    assert 1e6 < np.sum(left(feedback, 5)**2, dtype=np.float64) / 1000 < 1.2e10
    weighted = ErrorFeedback(make_codec("qsgd"), weight=best_weight(30))
    for step in range(40):
        weighted.encode(rng.normal(size=1000), Key(0, step))
    assert np.sum(left(weighted)**2) < 1000 * residual_bound(31, best_weight(30))


@pytest.mark.parametrize("work", [
    lambda gradient: ErrorFeedback(make_codec("dqsg")).encode(gradient, Key(0)),
    DqSgd(make_codec("qsgd-linf", bucket_size=8), steps=9, alpha=1, error=1).statistics])
def test_no_other_thread_works(work):
    """Sums of long gradients are short work, and threads of BLAS would wait busily after each."""
    gradient = np.random.default_rng(8).normal(size=300_000).astype(np.float32)
    work(gradient)

    def share():
        """Seconds of all threads in those of this one."""
        all_s, own_s = time.process_time(), time.thread_time()
        for _ in range(10):
            work(gradient)
        return (time.process_time() - all_s) / (time.thread_time() - own_s)

    # Threads that other tests started fall asleep some time, on a busy machine later.
    assert any(share() < 1.2 for _ in range(20))


def test_sum_of_squares():
    """By pairs: one after the other, a million terms lose 4 digits. NumPy adds up to 128 terms in 8
    sums, so each is rounded with 15 others, with 3 sums and with 13 pairs.
    """
    values = np.full(10**6, 0.1, np.float32)
    assert sum_of_squares(values) == pytest.approx(10**6 * float(values[0])**2, rel=32 * 2.0**-53)
    assert sum_of_squares(np.full((2, 2), 3e38, np.float32)) == pytest.approx(3.6e77)
    assert sum_of_squares(np.zeros(0)) == 0


def test_the_same_step_again_gives_the_same_message():
    feedback, vector = ErrorFeedback(make_codec("dqsg")), np.random.default_rng(1).normal(size=99)
    for step in range(3):
        first = feedback.encode(vector, Key(1, step))
        assert feedback.encode(vector, Key(1, step)) == first
        feedback.decode(first, Key(1, step))
        assert feedback.encode(vector, Key(1, step)) == first
    assert feedback.encode(vector, Key(1, 2)) != make_codec("dqsg").encode(vector, Key(1, 2))


@pytest.mark.parametrize("kept", [True, False])
def test_a_skipped_step_has_never_been(kept):
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(4, 2, 64))
    skipping, clean = ErrorFeedback(make_codec("terngrad")), ErrorFeedback(make_codec("terngrad"))
    for step, pair in enumerate(vectors):
        for tensor, vector in enumerate(pair):
            if tensor == 1 and step == 2:
                continue            # not every tensor is in every step
            found = skipping.encode(vector, Key(0, step, tensor=tensor))
            if step != 2:
                assert found == clean.encode(vector, Key(0, step, tensor=tensor))
        if kept and step != 2:
            skipping.keep()
        if step == 2:
            skipping.discard(2)
    for tensor in (0, 1):
        assert (left(skipping, tensor) == left(clean, tensor)).all()


def test_a_skipped_step_leaves_the_largest_gradient_before():
    """So a residual that ends, with gradients of 0, is none that grows."""
    feedback = ErrorFeedback(make_codec("top-k", share=0.25))
    for step in range(2):
        feedback.encode(np.arange(1.0, 9), Key(1, step))
    feedback.discard(1)
    feedback.encode(np.zeros(8), Key(1, 1))
    assert left(feedback).tolist() == [1, 2, 3, 4, 0, 0, 0, 0]


@pytest.mark.parametrize("way", ["discarded", "restored", "again"])
def test_a_skipped_step_does_not_hide_a_residual_that_grows(way):
    """Its gradients may be as large as those of a scaler that went too far."""
    feedback = ErrorFeedback(make_codec("qsgd"))
    vectors = np.random.default_rng(2).normal(size=(200, 1000))
    feedback.encode(vectors[0], Key(0, 0))
    feedback.encode(1e30 * vectors[1], Key(0, 1))
    if way == "restored":
        state = feedback.state_dict()
        feedback = ErrorFeedback(make_codec("qsgd"))
        feedback.load_state_dict(state)
    if way == "again":
        feedback.encode(vectors[1], Key(0, 1))
    else:
        feedback.discard(1)

    def train():
        for step, vector in enumerate(vectors[2:], 2):
            feedback.encode(vector, Key(0, step))

    with pytest.raises(DivergenceError, match="the residual of tensor 0 has grown"):
        train()


def test_a_refused_vector_changes_no_residual():
    feedback = ErrorFeedback(make_codec("qsgd"))
    feedback.encode(np.array([1.0, 0.3]), Key(0, 0))
    before = left(feedback).tolist()
    for wrong in (np.array([1, np.nan]), np.array([1.0]), np.full(2, 3e38)):
        with pytest.raises(ValueError):     # noqa: PT011  each has a message of its own
            feedback.encode(wrong, Key(0, 1))
    with pytest.raises(ValueError, match="belongs to one sender, rank 0"):
        feedback.encode(np.array([1.0, 0.3]), Key(0, 1, rank=1))
    assert left(feedback).tolist() == before
    with pytest.raises(ValueError, match=r"tensor 0 has a residual of shape \(2,\)"):
        feedback.encode(np.array([1.0]), Key(0, 1))
    feedback.reset()
    feedback.encode(np.array([1.0]), Key(0, 1, rank=1))


@pytest.mark.parametrize("vector", [
    np.zeros(0), np.zeros(7), np.array(-2.5), np.full(9, 3e38), np.full(5, 1e-44),
    np.linspace(-1, 1, 9).astype(np.float16), BFloat16.rounded(np.linspace(-1, 1, 9))])
@pytest.mark.parametrize("weight", [1, 0.25])
@pytest.mark.parametrize("name", ["none", "fp16", "terngrad", "dqsg"])
def test_corners(name, vector, weight):
    feedback = ErrorFeedback(make_codec(name), weight=weight)
    for step in range(3):
        decoded = feedback.decode(feedback.encode(vector, Key(0, step)), Key(0, step))
        assert decoded.shape == np.shape(vector.values if isinstance(vector, BFloat16) else vector)
        assert np.isfinite(decoded).all()
        assert np.isfinite(left(feedback)).all()


@pytest.mark.parametrize("open_step", [True, False])
def test_state_restores_every_message(open_step):
    rng = np.random.default_rng(6)
    vectors = rng.normal(size=(6, 2, 100))
    whole = ErrorFeedback(make_codec("qsgd-linf"), weight=0.7)
    messages, restored = [], whole
    for step, pair in enumerate(vectors):
        if step == 3:
            if not open_step:
                whole.keep()
            state = whole.state_dict()
            restored = ErrorFeedback(make_codec("qsgd-linf"), weight=0.7)
            restored.load_state_dict(state)
        for tensor, vector in enumerate(pair):
            key = Key(2, step, 1, tensor)
            messages.append(restored.encode(vector, key))
            assert messages[-1] == whole.encode(vector, key)
    if open_step:
        restored.load_state_dict(state)     # in the middle of step 2: it can still be skipped
        restored.discard(2)
        assert (left(restored) != state["tensors"][0]["pending"]).any()


@pytest.mark.parametrize("state, text", [
    ({}, "has codec and tensors, not nothing"),
    ({"codec": {"p": 1}, "tensors": {}}, "none has no state, but got p"),
    ({"codec": {}, "tensors": {0: {"residual": [np.nan], "pending": None, "step": 0}}},
     "residual of tensor 0 must be finite")])
def test_bad_state(state, text):
    with pytest.raises(ValueError, match=text):
        ErrorFeedback(make_codec("none")).load_state_dict(state)


def test_state_of_another_codec_changes_no_residual():
    feedback = ErrorFeedback(make_codec("alq", bits=2))
    feedback.encode(np.array([1.0, 0.3]), Key(0))
    before, state = left(feedback).tolist(), feedback.state_dict()
    for one in state["tensors"].values():
        one["residual"] += 1
        one["pending"] += 1
    for codec in ({}, {"levels": np.arange(3)}):
        with pytest.raises(ValueError, match="levels"):
            feedback.load_state_dict({**state, "codec": codec})
    assert left(feedback).tolist() == before
    feedback.load_state_dict(state)
    assert left(feedback).tolist() == pytest.approx([one + 1 for one in before])
    feedback.encode(np.array([1.0, 0.3]), Key(0, 1, rank=5))    # a state is of no sender


def test_state_that_does_not_tell_the_largest_gradient_before():
    """Older states."""
    feedback = ErrorFeedback(Coarse())
    feedback.encode(np.array([2.5]), Key(0))
    state = feedback.state_dict()
    del state["tensors"][0]["before"]
    feedback.load_state_dict(state)
    assert feedback.state_dict()["tensors"][0]["before"] == 6.25


def test_gradients_that_end_do_not_make_their_residual_grow():
    """What is left of the first gradient is sent, bit by bit, with gradients of 0."""
    feedback = ErrorFeedback(make_codec("top-k", share=0.25))
    total = np.zeros(8, np.float32)
    for step in range(4):
        vector = np.arange(1, 9) * float(step == 0)
        message = feedback.encode(vector, Key(1, step))
        total += feedback.decode(message, Key(1, step))
    assert total.tolist() == list(range(1, 9))


def test_rescale():
    feedback = ErrorFeedback(Coarse())
    feedback.encode(np.array([0.5]), Key(0, 0))
    feedback.rescale(0.5)
    assert left(feedback).tolist() == [0.25]
    feedback.keep()
    feedback.rescale(2)
    assert left(feedback).tolist() == [0.5]
    for factor in (np.inf, np.nan, 1e39):
        with pytest.raises(ValueError, match="factor must be finite"):
            feedback.rescale(factor)
    feedback.rescale(1e7)           # a step that fell so far: no residual that grows
    feedback.encode(np.array([0.5]), Key(0, 1))


@pytest.mark.parametrize("skips", [False, True])
def test_a_rescaled_residual_is_none_that_grows(skips):
    """What is left is told by gradients of the same scale, those before a skipped step, too."""
    feedback = ErrorFeedback(make_codec("top-k", share=0.25))
    for step in range(1 + skips):
        feedback.encode(np.array([4.0, 1, 1, 1]), Key(0, step))
    feedback.rescale(1e7)
    if skips:
        feedback.discard(1)
    feedback.encode(np.zeros(4), Key(0, 2))
    assert left(feedback).tolist() == [0, 0, 1e7, 1e7]


def test_bad_parameters():
    for weight in (0, -1, 1.5, np.nan):
        with pytest.raises(ValueError, match="weight must be greater than 0 and at most 1"):
            ErrorFeedback(make_codec("none"), weight=weight)
    with pytest.raises(ValueError, match="the codec has error feedback already"):
        ErrorFeedback(ErrorFeedback(make_codec("dqsg")))
    with pytest.raises(TypeError, match="must be made by"):
        ErrorFeedback("dqsg")   # pyright: ignore[reportArgumentType]


ONE = {"residual": np.zeros(3), "step": 0, "pending": None, "largest": 1.0}


@pytest.mark.parametrize("tensors, message", [
    (None, "has codec and tensors"), ({1: {}}, "is damaged .KeyError: 'residual'"),
    ({1: None}, "is damaged .TypeError"), ({1: {**ONE, "largest": np.nan}}, "must be finite"),
    ({1: {**ONE, "pending": np.zeros(4)}}, r"must have one shape, not \(3,\) and \(4,\)")])
def test_state_that_is_damaged(tensors, message):
    feedback = ErrorFeedback(make_codec("top-k"))
    with pytest.raises(ValueError, match=message):
        feedback.load_state_dict({"codec": {}, "tensors": tensors})
    assert feedback.state_dict()["tensors"] == {}
