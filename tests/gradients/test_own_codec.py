"""Codecs and controllers of other packages: those of docs/gradients.md run as they are printed."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.gradients.ranks import RanksFailed, run_ranks

from bitstep_gradients import Codec, ErrorFeedback, Key, MessageError, make_codec
from bitstep_gradients.codecs.ndqsg import Ndqsg
from bitstep_gradients.exchange import EXCHANGES, Aggregator
from bitstep_gradients.lab.contestants import parse_contestant
from bitstep_gradients.registry import CODECS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "gradients.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
VECTOR = np.random.default_rng(0).normal(size=(30, 101)).astype(np.float32)


def of_page(file, name) -> Any:
    """A class of the page."""
    names: dict[str, Any] = {}
    exec(next(block for block in BLOCKS if block.startswith(f"# {file}")), names)
    return names[name]


@pytest.fixture(scope="module")
def halves() -> Any:
    return of_page("halves.py", "Halves")


def test_codec_of_the_page(halves):
    codec = halves()
    assert codec.number == 128 > max(one.number for one in CODECS.values())
    for key in map(Key, range(8)):
        message = codec.encode(VECTOR, key)
        found = codec.decode(message, key)
        first = int(np.flatnonzero(found.reshape(-1))[0])
        half = VECTOR.reshape(-1)[first::2].astype(np.float16)
        np.testing.assert_array_equal(found.reshape(-1)[first::2], half)
        assert np.count_nonzero(found) == half.size
        assert ((found - VECTOR)**2).sum() <= codec.variance_bound(VECTOR)
        assert abs(8 * len(message) - codec.expected_bits(VECTOR)) <= 8
    assert codec.decode(codec.encode(np.full(9, 1e38), Key(1)), Key(1)).max() == 65_504
    with pytest.raises(MessageError, match=r"has parameter 65504, and this codec \(halves\) has 9"):
        halves(limit=9).decode(codec.encode(VECTOR, Key(1)), Key(1))


@pytest.mark.parametrize("change, message", [
    ({"number": 256}, "number must be an integer from 0 to 255, not 256"),
    ({"parameter": 1 << 32}, "parameter must be an integer from 0 to 4294967295, not 4294967296"),
    ({"parameter": -1}, "parameter must be an integer from 0 to 4294967295, not -1")])
def test_numbers_that_no_header_holds(halves, change, message):
    with pytest.raises(ValueError, match=message):
        type("Own", (halves,), change)().encode(VECTOR, Key(1))


@pytest.mark.parametrize("decoded", [
    np.zeros(VECTOR.size), np.zeros(VECTOR.size - 1, np.float32), [0.0] * VECTOR.size,
    np.full(VECTOR.size, np.nan, np.float32)], ids=["float64", "one too few", "a list", "NaN"])
def test_values_that_none_may_decode(halves, decoded):
    codec = type("Own", (halves,), {"_decode": lambda *_: decoded})()
    with pytest.raises(MessageError, match="_decode of halves must return 3030 finite float32 val"):
        codec.decode(codec.encode(VECTOR, Key(1)), Key(1))


def test_what_the_base_gives(halves):
    """No bias, of the vector's shape; no state, and no choice of payloads."""
    class Payloads(halves):
        def __init__(self):
            Codec.__init__(self, payload="fixed")

    codec = halves()
    bias = Codec.bias(codec, VECTOR)
    assert bias is not None
    assert bias.shape == VECTOR.shape
    assert not bias.any()
    assert codec.expected_error(VECTOR) is None
    codec.load_state_dict(codec.state_dict())
    with pytest.raises(ValueError, match="halves has no state, but got levels"):
        codec.load_state_dict({"levels": 3})
    with pytest.raises(ValueError, match="halves has no choice of payloads; leave payload away"):
        Payloads()


@pytest.mark.parametrize("exchange", EXCHANGES)
def test_codec_of_the_page_between_ranks(halves, exchange):
    def work(transport, limits=(9, 9)):
        aggregator = Aggregator(halves(limit=limits[transport.rank]), exchange=exchange,
                                error_feedback=True)
        found: Any = aggregator.average(transport, {"w": VECTOR})
        return found["w"]

    first, second = run_ranks(2, work)
    np.testing.assert_array_equal(first, second)
    with pytest.raises(RanksFailed, match="rank 1 has another step, seed, codec"):
        run_ranks(2, lambda transport: work(transport, (8, 9)))


def test_codec_of_the_page_in_a_race(halves, monkeypatch):
    monkeypatch.setitem(CODECS, "halves", halves)
    codec: Any = parse_contestant("halves:limit=100,feedback=0.5").make(9)
    assert (type(codec), codec.limit) == (halves, 100)


class Nested(Ndqsg):
    """A nested codec of another name."""

    name, number = "nested", 129


@pytest.mark.parametrize("error_feedback", [False, 0.5])
def test_own_codec_with_side_information(error_feedback):
    """It has the last average, and so shorter messages from the second step on."""
    def work(transport):
        aggregator = Aggregator(Nested(), error_feedback=error_feedback)
        sent = []
        for _ in range(2):
            aggregator.average(transport, {"w": VECTOR})
            sent.append(aggregator.traffic.last_step["w"].made)
        return sent

    first, second = run_ranks(2, work)[0]
    assert second < 0.8 * first
    assert ErrorFeedback(Nested()).takes_side


def test_controller_of_the_page():
    growing = of_page("growing.py", "Growing")

    def work(transport, intervals=(1, 1)):
        controller = growing(make_codec("dqsg"), interval=intervals[transport.rank])
        aggregator, bits = Aggregator(controller), []
        for step, scale in enumerate((1, 0.5, 0.3, 0.25, 1e-9, 0, 4)):
            found: Any = aggregator.average(transport, {"w": VECTOR * np.float32(scale)})
            assert np.isfinite(found["w"]).all()
            used: Any = aggregator.codecs["w"]
            bits.append(used.bits(step))
        other: Any = growing(make_codec("dqsg"))
        other.load_state_dict(used.state_dict())
        assert other.bits(6) == bits[-1]
        return bits

    assert run_ranks(2, work) == [[2, 3, 3, 4, 8, 8, 2]] * 2
    with pytest.raises(RanksFailed, match="rank 1 has another step, seed, codec"):
        run_ranks(2, lambda transport: work(transport, (1, 2)))
