"""Compiled loops: the bytes and values of the NumPy code, bit for bit."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bitstep import compiling
from bitstep_gradients import Key, MessageError, kernels, make_codec
from bitstep_gradients.wire.payloads import PAYLOADS

COMPILED = pytest.importorskip("bitstep_gradients.kernels.compiled_loops")
ROUNDING = pytest.importorskip("bitstep_gradients.kernels.rounding")
COUNTS = (0, 1, 2, 5, 7, 8, 9, 31, 64, 1000, 2047, 2048, 2049, 6001)


@pytest.fixture
def both(monkeypatch):
    """A function called with the compiled loops and in NumPy: both results."""
    def results(function):
        found = []
        for loops in (COMPILED, None):
            monkeypatch.setattr(kernels, "find_kernels", lambda loops=loops: loops)
            found.append(function())
        monkeypatch.undo()
        return found
    return results


def values_of(seed, count) -> np.ndarray:
    """Values over many octaves, some zero, some that end a tie."""
    rng = np.random.default_rng(seed)
    values = rng.normal(size=count) * 2.0**rng.integers(-40, 3, count)
    values[rng.random(count) < 0.2] = 0
    chosen = rng.random(count) < 0.3
    values[chosen] = rng.integers(-8, 9, count)[chosen] / 8
    return values.astype(np.float32)


def test_compiled_loops_are_chosen():
    assert kernels.find_kernels() is COMPILED


@pytest.mark.parametrize("bucket_size, start", [(1, 0), (4, 0), (4, 3), (5, 2048), (5000, 2048)])
def test_no_number_behind_the_last_bucket_is_read(bucket_size, start):
    """In Python: compiled loops read it unseen, or end the process."""
    scales = np.arange(1, 3 + start // bucket_size, dtype=np.float32)
    filled = np.zeros(2048, np.float32)
    ROUNDING._fill_buckets.py_func(scales, bucket_size, start, filled)
    expected = np.repeat(scales, bucket_size)[start:][:2048]
    assert filled.tolist() == np.pad(expected, (0, 2048 - expected.size)).tolist()


@pytest.mark.parametrize("start", [0, 1, 2, 4095, 2**32 + 3, 2**33 - 9000])
def test_words(both, start):
    key = Key(2**32 - 1, 5, 2**31, 77)
    for stream in (0, 8, 2**32 - 1):
        for count in (0, 1, 2, 3, 2048, 8999):
            words, expected = both(lambda count=count, stream=stream:
                                   key.words(count, stream=stream, start=start))
            assert words.dtype == expected.dtype == np.uint32
            assert words.tolist() == expected.tolist()


@pytest.mark.covering(2)
@pytest.mark.parametrize("payload", ["fixed", "radix", "huffman"])
@pytest.mark.parametrize("name", ["qsgd-linf", "dqsg", "qsgd"])
@pytest.mark.parametrize("levels", [1, 2, 3, 7, 12, 31, 63, 100, 127])
def test_codecs(both, name, levels, payload):
    key = Key(levels, 3, 2, 1)
    for number, count in enumerate(COUNTS):
        codec = make_codec(name, levels=levels, payload=payload,
                           bucket_size=(0, 1, 3, 64, 100, 2048, 5000)[(number + levels) % 7])
        vector = values_of(count, count)
        message, expected = both(lambda codec=codec, vector=vector: codec.encode(vector, key))
        assert message == expected
        found, wanted = both(lambda codec=codec, message=message: codec.decode(message, key))
        assert found.dtype == wanted.dtype == np.float32
        assert found.tobytes() == wanted.tobytes()


@settings(max_examples=60)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(0, 5000), levels=st.integers(1, 127),
       bucket_size=st.integers(0, 3000), name=st.sampled_from(["qsgd", "qsgd-linf", "dqsg"]),
       payload=st.sampled_from(["fixed", "radix", "huffman"]))
def test_any_codec(seed, count, levels, bucket_size, name, payload):
    codec = make_codec(name, levels=levels, bucket_size=bucket_size, payload=payload)
    key, vector = Key(seed, seed // 3, seed % 5, seed % 7), values_of(seed, count)
    messages, decoded = [], []
    for loops in (COMPILED, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(kernels, "find_kernels", lambda loops=loops: loops)
            messages.append(codec.encode(vector, key))
            decoded.append(codec.decode(messages[0], key).tobytes())
    assert messages[0] == messages[1]
    assert decoded[0] == decoded[1]


@pytest.mark.parametrize("name", ["qsgd-linf", "dqsg", "terngrad", "ndqsg", "qcs", "qcs-1bit",
                                  "qcs-mmse", "alq-linf", "optimal"])
def test_corners(both, name):
    largest, key = np.finfo(np.float32).max, Key(3)
    for bucket_size in (0, 4):
        codec = make_codec(name, bucket_size=bucket_size)
        for vector in (np.zeros(7), -np.zeros(7), np.full(9, largest), np.full(5, 1e-44),
                       np.array(-2.5), np.linspace(-1, 1, 9).astype(np.float16),
                       np.arange(40, dtype=np.float32)[::2], np.full(6, 2.0**-96),
                       np.array([largest, -largest, 1, 0, 2.0**-126])):
            message, expected = both(lambda vector=vector, codec=codec: codec.encode(vector, key))
            assert message == expected
            found, wanted = both(lambda codec=codec, message=message: codec.decode(message, key))
            assert found.tobytes() == wanted.tobytes()


SKETCHES = [("qcs", {}), ("qcs", {"share": 0.3, "levels": 127}), ("qcs-1bit", {"share": 0.7}),
            ("qcs-mmse", {"levels": 2, "share": 0.01}), ("qcs", {"levels": 3, "payload": "radix"})]


@pytest.mark.parametrize("name, options", SKETCHES)
def test_sketches(both, name, options):
    for number, count in enumerate(COUNTS):
        for bucket_size in (0, 1, (2, 3, 4, 8, 100, 128, 500, 2048)[number % 8]):
            codec = make_codec(name, bucket_size=bucket_size, **options)
            same_messages(both, codec, values_of(count, count), Key(number, 3, 2, 1))


def same_messages(both, codec, vector, key, side=None):
    """Messages and values that are the same with and without the loops; returns the message."""
    message, expected = both(lambda: codec.encode(vector, key, side))
    assert message == expected
    found, wanted = both(lambda: codec.decode(message, key, side))
    assert found.dtype == wanted.dtype == np.float32
    assert found.tobytes() == wanted.tobytes()
    return message


@pytest.mark.parametrize("options", [
    {}, {"levels": 127, "ratio": 128}, {"levels": 127, "ratio": 2}, {"alpha": 0.9},
    {"levels": 7, "ratio": 4, "alpha": 0.6}, {"levels": 2, "ratio": 2, "payload": "radix"}])
def test_nested(both, options):
    """With side information from exact to none at all."""
    rng, modes = np.random.default_rng(7), set()
    for number, count in enumerate(COUNTS):
        codec: Any = make_codec("ndqsg", bucket_size=(0, 1, 64, 100, 5000)[number % 5], **options)
        vector, key = values_of(count, count), Key(number, 1, 2, 3)
        for deviation in (0, 0.01, 0.1, 1):
            side = (vector + deviation * np.max(np.abs(vector), initial=0)
                    * rng.normal(size=count)).astype(np.float32)
            modes.add(codec.nesting(same_messages(both, codec, vector, key, side)).nested)
        same_messages(both, codec, vector, key)
    assert modes == {True, False}


def test_other_side_information(both):
    """Is refused by the loops, too."""
    codec, vector = make_codec("ndqsg", levels=127, ratio=3), values_of(1, 3000)
    message = codec.encode(vector, Key(1), vector)

    def text():
        with pytest.raises(MessageError, match="other side information") as error:
            codec.decode(message, Key(1), -vector)
        return str(error.value)

    assert len(set(both(text))) == 1


@pytest.mark.by_day(4)
@pytest.mark.parametrize("name, options", [
    ("nuqsgd", {}), ("nuqsgd", {"bits": 5, "zero": False}), ("alq", {"levels": 2}),
    ("alq", {"bits": 8}), ("alq-linf", {"levels": 5, "symmetric": False}), ("amq", {"bits": 4}),
    ("optimal", {}), ("optimal", {"per": "tensor", "bits": 8}), ("optimal", {"levels": 2})])
def test_levels(both, name, options):
    for number, count in enumerate(COUNTS):
        codec = make_codec(name, bucket_size=(0, 1, 64, 100, 5000)[number % 5], **options)
        vector = values_of(count, count)
        if codec.adapts and count:
            codec.update([codec.statistics(vector)])
        same_messages(both, codec, vector, Key(number, 3, 2, 1))


@pytest.mark.parametrize("n_symbols", [*range(2, 34), 64, 65, 100, 128, 129, 255, 256])
@pytest.mark.parametrize("name", ["fixed", "radix", "huffman"])
def test_payloads(both, name, n_symbols):
    rng, payload = np.random.default_rng(n_symbols), PAYLOADS[name]
    for count in COUNTS:
        for symbols in (rng.integers(0, n_symbols, count), np.full(count, n_symbols - 1)):
            coded, expected = both(lambda symbols=symbols: payload.encode(symbols, n_symbols))
            assert coded == expected
            for found in both(lambda coded=coded, count=count:
                              payload.decode(coded, count, n_symbols)):
                assert found.dtype == np.int64
                assert found.tolist() == symbols.tolist()


def test_long_huffman_code(both):
    """Longer than the pieces that NumPy searches."""
    symbols = np.random.default_rng(1).binomial(40, 0.5, 300_000)
    coded, expected = both(lambda: PAYLOADS["huffman"].encode(symbols, 41))
    assert coded == expected
    assert len(coded) > 2 * 2**16
    for found in both(lambda: PAYLOADS["huffman"].decode(coded, symbols.size, 41)):
        assert (found == symbols).all()


def test_without_numba():
    program = ("import sys; sys.modules['numba'] = None; import numpy as np;"
               "from bitstep_gradients import Key, make_codec;"
               "codec = make_codec('dqsg', levels=2, payload='radix');"
               "message = codec.encode(np.arange(40) / 7, Key(3));"
               "print(message.hex(), codec.decode(message, Key(3)).tobytes().hex())")
    codec = make_codec("dqsg", levels=2, payload="radix")
    message = codec.encode(np.arange(40) / 7, Key(3))
    run = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True,
                         check=True)
    assert run.stdout.split() == [message.hex(), codec.decode(message, Key(3)).tobytes().hex()]


@pytest.mark.parametrize("n_symbols", [3, 5, 7, 15, 255])
@pytest.mark.parametrize("name", ["fixed", "radix", "huffman"])
def test_senseless_payloads(both, name, n_symbols):
    """Both refuse the same payloads, and find the same symbols in all others."""
    rng, payload = np.random.default_rng(n_symbols), PAYLOADS[name]
    coded = payload.encode(rng.integers(0, n_symbols, 203), n_symbols)
    outcomes = set()

    def outcome(wrong):
        try:
            return payload.decode(wrong, 203, n_symbols).tolist()
        except MessageError:
            return None

    for _ in range(200):
        wrong = bytearray(coded)
        for _ in range(int(rng.integers(1, 4))):
            wrong[rng.integers(len(wrong))] ^= 1 << int(rng.integers(8))
        found, expected = both(lambda wrong=wrong: outcome(bytes(wrong)))
        assert found == expected
        outcomes.add(found is None)
    assert True in outcomes


def test_the_cache_follows_imports_into_the_other_package():
    """A change of a constant of Threefry compiles the kernels anew."""
    kernel = Path(COMPILED.__file__).with_name("rounding.py")
    host = kernel.parents[2]
    names = {file.relative_to(host).as_posix() for file in compiling.sources(kernel)}
    assert {"bitstep_gradients/kernels/rounding.py", "bitstep/golden/threefry.py",
            "bitstep/compiling.py"} <= names
