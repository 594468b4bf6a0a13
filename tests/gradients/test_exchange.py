"""Exchange between ranks that are threads: equal bits, sums by hand, bytes, keys, failures."""

import threading
import tracemalloc
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.gradients.ranks import RanksFailed, run_ranks

from bitstep_gradients import DqSgd, Key, MessageError, list_codecs, make_codec
from bitstep_gradients.errors import ExchangeError
from bitstep_gradients.exchange import EXCHANGES, Aggregator, AllGather, TwoPhase
from bitstep_gradients.exchange.entries import MIN_SLICE, Entry, Piece, cut
from bitstep_gradients.exchange.frames import failure_frame, join_messages, split_frame
from bitstep_gradients.exchange.traffic import Count, Traffic
from bitstep_gradients.exchange.transport import ThreadGroup
from bitstep_gradients.wire.header import pack_message, unpack_message
from bitstep_gradients.wire.positions import encode_positions

SHAPES = {"fc1.weight": (60, 70), "fc1.bias": (60,), "scale": (), "empty": (0, 3)}
every_exchange = pytest.mark.parametrize("exchange", EXCHANGES)


def gradients(rank, step, shapes=SHAPES):
    rng = np.random.default_rng([rank, step])
    return {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}


def train(transport, steps, **settings):
    """Averages of some steps."""
    aggregator = Aggregator(**settings)
    return [aggregator.average(transport, gradients(transport.rank, step)) or {}
            for step in range(steps)]


def equal(first, second):
    return all(one.keys() == other.keys() and all(
        one[name].tobytes() == other[name].tobytes() and one[name].shape == other[name].shape
        for name in one) for one, other in zip(first, second, strict=True))


class Recorder:
    """A transport that counts the bytes which go over it."""

    def __init__(self, transport, overhead=16):
        self.rank, self.world_size = transport.rank, transport.world_size
        self.overhead, self.transport, self.count = overhead, transport, Count()

    def all_gather(self, message):
        return self.all_to_all([message] * self.world_size)

    def all_to_all(self, messages):
        found = self.transport.all_to_all(messages)
        for rank in set(range(self.world_size)) - {self.rank}:
            self.count.add(len(messages[rank]) + self.overhead, len(found[rank]) + self.overhead)
        return found


# For an exchange they are as alq.
LIKE_ALQ = ("alq-n", "alq-gd", "alq-n-gd")


@pytest.mark.by_day(8)
@pytest.mark.covering(1)
@every_exchange
@pytest.mark.parametrize("name", [
    pytest.param(name, marks=pytest.mark.slow) if name in LIKE_ALQ else name
    for name in list_codecs()])
def test_all_ranks_have_the_same_bits(name, exchange):
    for n_ranks in (1, 3):
        for feedback in (False, 0.5):
            settings = {"codec": name, "exchange": exchange, "error_feedback": feedback,
                        "min_size": 50, "warmup_steps": 1}
            ranks = run_ranks(n_ranks, lambda transport, settings=settings:
                              train(transport, 4, **settings))
            for found in ranks:
                assert equal(found, ranks[0])
            assert {key: one.shape for key, one in ranks[0][3].items()} == SHAPES


@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_all_gather_by_hand(precision):
    """Sum of the decoded messages, rank 0 first, divided by the ranks."""
    codec, n_ranks = make_codec("dqsg", bits=3), 3
    settings = {"codec": codec, "exchange": AllGather(precision=precision), "min_size": 0,
                "seed": 9}
    ranks = run_ranks(n_ranks, lambda transport: train(transport, 2, **settings))
    for number, name in enumerate(SHAPES):
        total = np.zeros(SHAPES[name], precision)
        for rank in range(n_ranks):
            key = Key(9, 1, rank, number)
            total = total + codec.decode(codec.encode(gradients(rank, 1)[name], key), key)
        assert (ranks[0][1][name] == (total / n_ranks).astype(np.float32)).all()


def test_two_phases_by_hand():
    codec, n_ranks = make_codec("qsgd-linf", bits=4, bucket_size=64), 3
    settings = {"codec": codec, "exchange": "two-phase", "min_size": 0, "seed": 9}
    ranks = run_ranks(n_ranks, lambda transport: train(transport, 1, **settings))
    name, n_values = "fc1.weight", 4200
    edges = [0, 22 * 64, 44 * 64, n_values]         # of 66 buckets, each owner gets 22
    for index, (start, stop) in enumerate(pairwise(edges)):
        keys = [Key(9, 0, rank, index << 18) for rank in range(n_ranks)]
        decoded = [codec.decode(codec.encode(gradients(rank, 0)[name].reshape(-1)[start:stop], key),
                                key) for rank, key in enumerate(keys)]
        mean = np.asarray(np.mean(decoded, axis=0, dtype=np.float64), np.float32)
        key = replace(keys[index], tensor=index << 18 | 1 << 31)
        expected = codec.decode(codec.encode(mean, key), key)
        assert (ranks[0][0][name].reshape(-1)[start:stop] == expected).all()


@every_exchange
def test_uncompressed_average(exchange):
    ranks = run_ranks(4, lambda transport: train(transport, 1, codec="none", exchange=exchange))
    exact = np.mean([gradients(rank, 0)["fc1.weight"] for rank in range(4)], axis=0,
                    dtype=np.float64)
    assert (ranks[2][0]["fc1.weight"] == exact.astype(np.float32)).all()


@every_exchange
@pytest.mark.parametrize("codec", ["none", "dqsg", "ndqsg"])
def test_average_of_a_number_is_an_array(codec, exchange):
    for precision in ("float32", "float64"):
        for step in run_ranks(2, lambda transport, precision=precision: train(
                transport, 2, codec=codec, exchange=EXCHANGES[exchange](precision=precision),
                min_size=0))[0]:
            assert all(type(one) is np.ndarray and one.dtype == np.float32
                       and one.shape == SHAPES[name] for name, one in step.items())


@every_exchange
def test_gradients_of_both_byte_orders(exchange):
    def work(transport, order):
        vectors = {name: one.astype(f"{order}f4")
                   for name, one in gradients(transport.rank, 0).items()}
        return [Aggregator("dqsg", exchange=exchange).average(transport, vectors) or {}]

    little, big = (run_ranks(2, lambda transport, order=order: work(transport, order))[0]
                   for order in "<>")
    assert equal(little, big)


@pytest.mark.parametrize("count, bucket_size, n_ranks, sizes", [
    (0, 0, 4, [0]), (MIN_SLICE * 2 - 1, 0, 4, [2047]), (MIN_SLICE * 2, 0, 4, [1024, 1024]),
    (10_000, 0, 4, [2500] * 4), (10_000, 3000, 4, [3000, 3000, 3000, 1000]),
    (10_000, 20_000, 4, [10_000]), (10_001, 100, 2, [5000, 5001])])
def test_slices(count, bucket_size, n_ranks, sizes):
    entry = Entry("w", 5, (count,), make_codec("dqsg", bucket_size=bucket_size))
    owned = cut([entry], n_ranks)
    pieces = sorted((piece for row in owned for piece in row), key=lambda piece: piece.slice or 0)
    assert [piece.stop - piece.start for piece in pieces] == sizes
    assert [piece.start for piece in pieces] == [0, *np.cumsum(sizes)[:-1]]
    assert all(owned[(5 + index) % n_ranks] == [piece] for index, piece in enumerate(pieces))


def test_no_random_word_serves_twice(monkeypatch):
    """Every message of two steps and both phases has a key of its own, shared words included."""
    keys, codec = [], make_codec("dqsg")
    encode = type(codec).encode
    monkeypatch.setattr(type(codec), "encode", lambda self, values, key, side=None:
                        keys.append(key) or encode(self, values, key, side))
    run_ranks(4, lambda transport: train(transport, 2, codec=codec, exchange="two-phase",
                                         min_size=0))
    slices = 4 + 1 + 1 + 1
    assert len({key.words_key for key in keys}) == len(keys) == 2 * (4 * slices + slices)
    # What all ranks make alike must differ between the phases as well.
    assert len({key.shared.words_key for key in keys}) == 2 * 2 * slices


@every_exchange
@pytest.mark.parametrize("n_ranks", [1, 2, 4])
def test_counted_bytes_are_those_of_the_transport(exchange, n_ranks):
    def work(transport):
        recorder = Recorder(transport)
        aggregator = Aggregator("dqsg", exchange=exchange, warmup_steps=1, min_size=60)
        for step in range(3):
            aggregator.average(recorder, gradients(transport.rank, step))
        return aggregator.traffic, recorder.count

    for traffic, count in run_ranks(n_ranks, work):
        total = traffic.total()
        assert (total.sent, total.received) == (count.sent, count.received)
        assert traffic.n_steps == 3
        if exchange == "all_gather":
            made = int(make_codec("dqsg").expected_bits(np.ones(SHAPES["fc1.weight"]))) // 8
            size = (n_ranks - 1) * made
            assert traffic.last_step["fc1.weight"] == Count(size, size, made)


def test_traffic_of_two_phases_does_not_grow_with_ranks():
    """At most 2 messages of a tensor in all, whatever the ranks; all_gather has n_ranks - 1."""
    shapes = {"w": (300, 784)}
    message = len(make_codec("dqsg").encode(np.ones(shapes["w"]), Key(0)))

    def sent(transport, exchange):
        aggregator = Aggregator("dqsg", exchange=exchange)
        aggregator.average(transport, gradients(transport.rank, 0, shapes))
        return aggregator.traffic.step_total().sent

    for n_ranks in (2, 4, 8):
        found = {exchange: run_ranks(n_ranks, lambda transport, exchange=exchange:
                                     sent(transport, exchange)) for exchange in EXCHANGES}
        for all_gather, two_phase in zip(*(found[one] for one in EXCHANGES), strict=True):
            assert all_gather == pytest.approx((n_ranks - 1) * message, rel=0.01)
            assert two_phase == pytest.approx(2 * (n_ranks - 1) / n_ranks * message, rel=0.01)


# Failures: an error on all ranks, and no rank that waits

def fails(n_ranks, work):
    with pytest.raises(RanksFailed) as caught:
        run_ranks(n_ranks, work)
    return caught.value.errors


@every_exchange
def test_side_information_is_that_of_the_same_values(exchange):
    """Gradients that hardly change cost two of the seven indices' bits from the second step on."""
    vector = np.linspace(-1, 1, 6000, dtype=np.float32)

    def work(transport):
        aggregator, sent = Aggregator("ndqsg", exchange=exchange, payload="radix"), []
        for _ in range(2):
            aggregator.average(transport, {"w": vector})
            sent.append(aggregator.traffic.last_step["w"].made)
        return sent

    for first, second in run_ranks(3, work):
        assert second < 0.7 * first


@every_exchange
def test_averages_are_the_caller_s_to_change(exchange):
    """What one rank does with them changes no side information."""
    def work(transport):
        aggregator, found = Aggregator("ndqsg", exchange=exchange, min_size=0), []
        for step in range(3):
            averages = aggregator.average(transport, gradients(transport.rank, step))
            assert averages is not None
            found.append({name: one.copy() for name, one in averages.items()})
            for one in averages.values():
                one *= transport.rank
        return found

    first, second = run_ranks(2, work)
    assert equal(first, second)


@every_exchange
def test_codec_that_fails_on_one_rank(exchange):
    def work(transport):
        vectors = gradients(transport.rank, 0)
        if transport.rank == 1:
            vectors["fc1.weight"][:] = 3e38         # its L2 norm is beyond float32
        Aggregator("qsgd", exchange=exchange).average(transport, vectors)

    errors = fails(3, work)
    assert "L2 norm" in str(errors[1])
    for rank in (0, 2):
        assert isinstance(errors[rank], ExchangeError)
        assert "rank 1 failed" in str(errors[rank])
        assert "L2 norm" in str(errors[rank])


@every_exchange
def test_owner_that_cannot_decode(exchange):
    """A message that only one rank gets, and that is damaged on its way."""
    class Damage:
        def __init__(self, transport):
            self.rank, self.world_size, self.overhead = transport.rank, transport.world_size, 0
            self.all_gather, self._send = transport.all_gather, transport.all_to_all

        def all_to_all(self, messages):
            found = self._send(messages)
            if self.rank == 1:
                found[0] = found[0][:40] + bytes([found[0][40] ^ 1]) + found[0][41:]
            return found

    def work(transport):
        Aggregator("dqsg", exchange=exchange).average(Damage(transport),
                                                      gradients(transport.rank, 0))

    if exchange == "all_gather":
        run_ranks(3, work)
    else:
        errors = fails(3, work)
        assert isinstance(errors[1], MessageError)
        assert "rank 1 failed" in str(errors[0])
        assert "rank 1 failed" in str(errors[2])


class Alone:
    """A rank that hears itself in the place of all others."""

    rank, overhead = 0, 0

    def __init__(self, world_size: int):
        self.world_size = world_size

    def all_gather(self, message):
        return [message] * self.world_size

    def all_to_all(self, messages):
        return [messages[0]] * self.world_size


class Delivery:
    """A transport whose rank 1 gets something else than was sent, at one of its collectives."""

    def __init__(self, transport, number, change):
        self.rank, self.world_size, self.overhead = transport.rank, transport.world_size, 0
        self._transport, self._number, self._change = transport, number, change
        self._before = []

    def all_gather(self, message):
        return self.all_to_all([message] * self.world_size)

    def all_to_all(self, messages):
        found = self._transport.all_to_all(messages)
        self._before.append(found)
        if self.rank == 1 and len(self._before) == self._number:
            found = self._change(found, self._before)
        return found


def of_another_rank(found, before):
    return [found[0], found[1], found[0]]


def of_the_step_before(found, before):
    return [before[len(before) // 2 - 1][0], *found[1:]]


def cut_off(found, before):
    return [found[0][:0], *found[1:]]


# Statistics of step 0 come first: collectives of a step are agreement, (statistics,) messages,
# and in the two-phase scheme those of the averages.
@pytest.mark.parametrize("change", [of_another_rank, of_the_step_before, cut_off])
@pytest.mark.parametrize("codec", ["none", "alq"])
@every_exchange
def test_deliveries_of_another_rank_or_step_are_no_gradients(exchange, codec, change):
    per_step = (2 if exchange == "all_gather" else 3) + (codec == "alq")
    for number in range(per_step + 1, 2 * per_step + 1):
        averages: dict[int, int] = {}

        def work(transport, number=number, averages=averages):
            delivery = Delivery(transport, number, change)
            options: dict[str, Any] = {} if codec == "none" else {"bits": 2}
            aggregator = Aggregator(codec, exchange=exchange, min_size=0, update_at=range(9),
                                    **options)
            for step in range(3):
                aggregator.average(delivery, gradients(transport.rank, step, {"w": (3000,)}))
                averages[transport.rank] = step

        errors = fails(3, work)
        assert isinstance(errors[1], (MessageError, ExchangeError))
        assert averages[1] == 0
        assert max(averages.values()) <= 1      # the others end at the next step at the latest


def test_messages_of_two_tensors_that_change_places():
    """Of one shape and codec: their random words are others."""
    def change(found, before):
        first, second = split_frame(found[0], 2, 0)
        return [join_messages([second, first]), *found[1:]]

    def work(transport):
        shapes = {"v": (1500,), "w": (1500,)}
        return Aggregator("dqsg").average(Delivery(transport, 2, change),
                                          gradients(transport.rank, 0, shapes))

    assert "another rank, step or tensor" in str(fails(2, work)[1])


def test_a_rank_that_failed_raises_its_own_error():
    """Whatever the others sent."""
    class Damaged(Alone):
        def all_gather(self, message):
            return [message, b"7"]

    with pytest.raises(TypeError, match="w must hold float16"):
        Aggregator("dqsg").average(Damaged(2), {"w": np.zeros(3, int)})


@pytest.mark.parametrize("change", [
    lambda message: message[:4], lambda message: message + b"\0",
    lambda message: b"\7" + message[1:], lambda message: b"\1" + message[1:],
    lambda message: message[:4] + bytes([message[4] ^ 128])])
def test_agreement_that_is_damaged(change):
    def changed(found, before):
        return [change(found[0]), *found[1:]]

    errors = fails(2, lambda transport: train(Delivery(transport, 1, changed), 1, codec="dqsg",
                                              on_bad="skip"))
    assert isinstance(errors[1], (MessageError, ExchangeError))
    assert "rank 0 sent" in str(errors[1]) or "another step" in str(errors[1])


@pytest.mark.parametrize("settings", [{"warmup_steps": 1}, {"on_bad": "skip"},
                                      {"seed": 1}, {"codec": "qsgd"}, {"min_size": 0},
                                      {"exchange": "two-phase"}, {"error_feedback": True}])
def test_ranks_with_other_settings(settings):
    def work(transport):
        own = {"codec": "dqsg", **(settings if transport.rank == 1 else {})}
        train(transport, 1, **own)

    for error in fails(2, work).values():
        assert isinstance(error, ExchangeError)
        assert "rank 1 has another step, seed, codec" in str(error)


@pytest.mark.parametrize("settings, step", [
    ([{"codec": "alq", "update_at": (0, 2)}, {"codec": "alq", "update_at": (0, 3)}], 2),
    ([{"codec": "alq"}, {"codec": "alq", "update_at": lambda step: step == 1}], 0),
    ([{"codec": DqSgd(make_codec("dqsg"), steps=9, alpha=0.9, like_bits=4, interval=interval)}
      for interval in (3, 4)], 0)])     # found before their first update
def test_ranks_that_update_at_other_steps(settings, step):
    def work(transport):
        aggregator = Aggregator(**settings[transport.rank])
        try:
            for number in range(5):
                aggregator.average(transport, gradients(transport.rank, number))
        except ExchangeError as error:
            return aggregator.step, str(error)

    for found, text in run_ranks(2, work):
        assert found == step
        assert "rank 1 has another step, seed, codec, update_at or setting" in text


def test_ranks_at_other_steps():
    def work(transport):
        aggregator = Aggregator("dqsg")
        aggregator.step = transport.rank
        aggregator.average(transport, gradients(0, 0))

    assert "another step" in str(fails(2, work)[0])


def test_tensors_that_differ_from_those_of_the_first_step():
    def work(transport):
        aggregator = Aggregator("dqsg")
        aggregator.average(transport, gradients(0, 0))
        others = gradients(0, 1)
        if transport.rank == 1:
            others["fc1.bias"] = np.zeros(61, np.float32)
        aggregator.average(transport, others)

    errors = fails(2, work)
    assert "tensors of the first one, in their order and shapes, but fc1.bias" in str(errors[1])
    assert "rank 1 failed before it sent anything" in str(errors[0])


def test_tensors_in_another_order():
    """Their numbers would be those of others, and so would their random words."""
    def work(transport):
        aggregator, vectors = Aggregator("dqsg"), gradients(0, 0)
        aggregator.average(transport, vectors)
        aggregator.average(transport, dict(reversed(vectors.items())))

    assert "in their order and shapes, but the order differ" in str(fails(1, work)[0])


def test_more_ranks_and_tensors_than_keys_have_numbers_for(monkeypatch):
    with pytest.raises(ValueError, match="at most 8192 ranks, not 4 and 8193"):
        Aggregator("dqsg").average(Alone(8193), gradients(0, 0))
    monkeypatch.setattr("bitstep_gradients.exchange.aggregator.MAX_TENSORS", 3)
    with pytest.raises(ValueError, match=r"from 1 to 3 tensors .* not 4 and 1"):
        Aggregator("dqsg").average(Alone(1), gradients(0, 0))


def test_keys_of_the_last_tensor_slice_and_phase():
    """18 bits of the tensor, 13 of the slice and the phase: no two have the same number."""
    numbers = [Piece(Entry("w", tensor, (3,), make_codec("none")), place, 0, 3, phase).tensor
               for tensor in (0, 1, 2**18 - 1) for place in (None, 1, 2**13 - 1)
               for phase in (0, 1)]
    assert len(set(numbers)) == len(numbers)
    assert max(numbers) == 2**32 - 1


@pytest.mark.parametrize("vectors, kind, text", [
    ({}, ValueError, "from 1 to 262144 tensors"),
    ({0: np.zeros(3)}, TypeError, "names of tensors must be texts, not 0"),
    ({"w": np.zeros(3, int)}, TypeError, "w must hold float16, float32")])
def test_bad_gradients(vectors, kind, text):
    errors = fails(1, lambda transport: Aggregator("dqsg").average(transport, vectors))
    assert isinstance(errors[0], kind)
    assert text in str(errors[0])


def test_frames():
    messages = [b"", b"a", bytes(1000)]
    assert split_frame(join_messages(messages), 3, 0) == messages
    assert join_messages([]) == b"\0"
    for frame in (b"", b"\2", join_messages(messages)[:-1], join_messages(messages) + b"x",
                  join_messages(messages[:2]), b"\2" + join_messages(messages)[1:]):
        with pytest.raises(MessageError):
            split_frame(frame, 3, 0)
    assert len(failure_frame(ValueError("x" * 5000))) < 1100


def test_message_of_another_shape():
    piece = Piece.whole(Entry("w", 0, (3,), make_codec("dqsg")))
    with pytest.raises(MessageError, match=r"w must hold values of shape \(3,\), not \(4,\)"):
        piece.decode(make_codec("dqsg").encode(np.ones(4), Key(0)), Key(0))


@pytest.mark.parametrize("name, options", [("top-k", {}), ("random-k", {}),
                                           ("qcs", {"bucket_size": 0})])
def test_few_bytes_of_a_long_vector_claim_no_memory(name, options):
    """Where a share of the values is sent, settings alone bound the values of a message. But a rank
    knows its tensors.
    """
    codec = make_codec(name, share=2.0**-24, **options)
    header, body = unpack_message(codec.encode(np.ones(2), Key(0)))
    if name == "top-k":         # one position in all, in as many bits as it takes
        body = encode_positions(np.zeros(1, np.int64), 2**22) + body[-4:]
    message = pack_message(replace(header, shape=(2**22,)), body)
    piece = Piece.whole(Entry("w", 0, (2,), codec))
    tracemalloc.start()
    try:
        with pytest.raises(MessageError, match=r"shape \(2,\), not \(4194304,\)"):
            piece.decode(message, Key(0))
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()
    assert codec.decode(message, Key(0)).shape == (2**22,)      # without a tensor: it is sound



def test_threads_that_wait_in_vain():
    def ends(transport):
        if transport.rank:
            raise OSError("gone")
        transport.all_gather(b"")

    assert "message of rank 1, which has ended" in str(fails(2, ends)[0])
    first, _ = ThreadGroup(2, timeout_s=0.01).transports()
    with pytest.raises(RuntimeError, match=r"waited 0\.01 s for a message of rank 1"):
        first.all_gather(b"")
    with pytest.raises(ValueError, match="there must be 2 messages"):
        first.all_to_all([b""])


def test_traffic():
    traffic = Traffic()
    traffic.begin_step()
    traffic.add_frame(["a", "b"], [b"12", b"3"], 10, sent=3, received=1)
    assert traffic.last_step == {"a": Count(6, 2), "b": Count(3, 1), "": Count(21, 7)}
    traffic.add_frame(["a"], [b"12"], 9, sent=0, own=True)
    assert traffic.last_step["a"] == Count(6, 2, 2)
    traffic.begin_step()
    traffic.add("a", 1, 1)
    assert traffic.step_total() == Count(1, 1)
    assert traffic.total() == Count(31, 11, 2)


@pytest.mark.covering(1)
@every_exchange
@pytest.mark.parametrize("n_ranks", [1, 3])
def test_made_bytes_are_those_of_all_encoded_messages(exchange, n_ranks, monkeypatch):
    """Each once, those that stay on the rank, those of both phases and statistics included."""
    made, codec = {}, make_codec("alq", bucket_size=64)
    for one in (type(codec), type(make_codec("none"))):
        def count(self, values, key, side=None, encode=one.encode):
            message = encode(self, values, key, side)
            place = threading.get_ident()
            made[place] = made.get(place, 0) + len(message)
            return message

        monkeypatch.setattr(one, "encode", count)

    def work(transport):
        aggregator = Aggregator(codec, exchange=exchange, min_size=60)
        for step in range(2):
            aggregator.average(transport, gradients(transport.rank, step))
        assert aggregator.traffic.last_step["fc1.weight"].made > 0
        return aggregator.traffic.total().made, made[threading.get_ident()]

    for counted, encoded in run_ranks(n_ranks, work):
        assert counted == encoded


def test_bad_exchange():
    with pytest.raises(ValueError, match="precision must be one of float64, float32"):
        TwoPhase(precision="float16")
    with pytest.raises(ValueError, match="exchange must be one of all_gather, two-phase"):
        Aggregator("dqsg", exchange="ring")
