"""Huffman and range coding: lengths beside the entropy, bytes by definition, senseless payloads."""

import heapq
import sys

import numpy as np
import pytest

from bitstep_gradients import Key, MessageError, make_codec
from bitstep_gradients.wire.header import pack_message
from bitstep_gradients.wire.payloads import PAYLOADS
from bitstep_gradients.wire.payloads.huffman import LIMIT, code_lengths, codes
from bitstep_gradients.wire.payloads.range_coding import (
    LARGEST,
    TOTAL,
    VALUES,
    frequencies,
    rounded_counts,
)
from bitstep_gradients.wire.payloads.tables import MOST, pack_table, unpack_table

KEY = Key(4, 1)
NAMES = ["huffman", "range"]
HUFFMAN, RANGE = PAYLOADS["huffman"], PAYLOADS["range"]
FC_300_100 = ((784, 300), (300,), (300, 100), (100,), (100, 10), (10,))


def entropy(counts) -> float:
    """Bits of symbols that have these counts, all together."""
    counts = np.asarray(counts, np.float64)[np.asarray(counts) > 0]
    return float(-counts @ np.log2(counts / counts.sum()))


def bell(rng, n_symbols, spread, count) -> np.ndarray:
    """Symbols of a normal distribution around the middle one."""
    drawn = np.rint(rng.normal(size=count) * spread + (n_symbols - 1) / 2)
    return np.clip(drawn, 0, n_symbols - 1).astype(np.int64)


# Both

@pytest.mark.parametrize("n_symbols, spread", [(2, 0.1), (3, 0.4), (3, 9), (7, 1), (15, 3),
                                               (255, 1), (255, 12), (255, 60), (255, 150)])
def test_length_beside_the_entropy(n_symbols, spread):
    symbols = bell(np.random.default_rng(2), n_symbols, spread, 100_000)
    counts = np.bincount(symbols, minlength=n_symbols)
    bits = {name: 8 * len(PAYLOADS[name].encode(symbols, n_symbols)) for name in NAMES}
    assert entropy(counts) <= bits["range"] <= 1.005 * entropy(counts)
    assert entropy(counts) <= bits["huffman"] <= entropy(counts) + symbols.size
    for name in NAMES:
        expected = PAYLOADS[name].expected_bits(symbols.size, counts / symbols.size)
        assert abs(expected - bits[name]) <= 0.001 * bits[name], name


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("levels", [1, 3, 127])
@pytest.mark.parametrize("codec", ["qsgd", "qsgd-linf", "dqsg"])
def test_expected_bits_of_messages(codec, levels, name):
    vector = np.random.default_rng(levels).standard_t(4, 30_000).astype(np.float32)
    coder = make_codec(codec, levels=levels, payload=name, bucket_size=1000)
    lengths = [8 * len(coder.encode(vector, Key(1, step))) for step in range(20)]
    assert abs(coder.expected_bits(vector) / np.mean(lengths) - 1) <= 0.01


@pytest.mark.parametrize("name", NAMES)
def test_expected_bits_of_symbols_that_are_all_rare(name):
    """One value of 255 symbols alike: none is expected half a time, but one of them comes."""
    found = PAYLOADS[name].expected_bits(1, np.full(255, 1 / 255))
    assert found == pytest.approx(8 * len(PAYLOADS[name].encode(np.array([0]), 255)), abs=40)


@pytest.mark.parametrize("name", NAMES)
def test_one_symbol_and_a_million(name):
    payload = PAYLOADS[name]
    for count in (1, 2, 1000, 10**6):
        coded = payload.encode(np.full(count, 5), 7)
        assert (payload.decode(coded, count, 7) == 5).all()
    assert payload.encode(np.zeros(0, np.int64), 7) == b""
    assert payload.expected_bits(0, np.zeros(7)) == 0
    symbols = bell(np.random.default_rng(3), 255, 20, 10**6)
    assert (payload.decode(payload.encode(symbols, 255), symbols.size, 255) == symbols).all()
    assert 8 * len(RANGE.encode(np.full(10**6, 5), 7)) < 100


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("symbols", [[0, 7], [-1, 3]])
def test_symbols_beyond_the_alphabet(name, symbols):
    with pytest.raises(ValueError, match="from 0 to 6, not"):
        PAYLOADS[name].encode(np.array(symbols), 7)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n_symbols", [2, 3, 16, 255])
def test_senseless_payloads(name, n_symbols):
    """Changed, cut and random bytes are refused, or they are what other symbols are coded as."""
    rng, payload = np.random.default_rng(n_symbols), PAYLOADS[name]
    symbols = bell(rng, n_symbols, n_symbols / 8, 2000)
    coded = payload.encode(symbols, n_symbols)
    for wrong in (b"", coded[:-1], coded[:len(coded) // 2], coded + b"\1", coded + b"\0"):
        with pytest.raises(MessageError):
            payload.decode(wrong, symbols.size, n_symbols)
    for count in (0, 1, 1000, 4000, 2**33):
        with pytest.raises(MessageError):
            payload.decode(coded, count, n_symbols)
    refused = 0
    for trial in range(300):
        changed = rng.bytes(int(rng.integers(200))) if trial % 2 else bytearray(coded)
        if isinstance(changed, bytearray):
            changed[rng.integers(min(len(changed), 60))] ^= int(rng.integers(1, 256))
        try:
            found = payload.decode(bytes(changed), symbols.size, n_symbols)
        except MessageError:
            refused += 1
        else:
            assert found.size == symbols.size
            assert payload.encode(found, n_symbols) == bytes(changed)
    assert refused > 140


@pytest.mark.parametrize("name", NAMES)
def test_senseless_body_behind_a_checksum_that_fits(name):
    coder = make_codec("dqsg", levels=3, payload=name)
    for shape in ((2**33,), (40,)):
        for body in (bytes(4), bytes(50), b"\xff" * 50, bytes(4) + b"\x01" * 20):
            with pytest.raises(MessageError):
                coder.decode(pack_message(coder._header(shape, "float32"), body), KEY)


# The table

@pytest.mark.parametrize("numbers", [[0], [MOST], [0, MOST] * 20, [3, 3, 3], list(range(256)), []])
def test_table_comes_back(numbers):
    packed = pack_table(np.array(numbers, np.int64))
    found, rest = unpack_table(packed + b"rest", len(numbers))
    assert (found.tolist(), rest) == (numbers, b"rest")


def test_table_by_hand():
    """Steps 2, 0, -1 fold to 5, 1, 2: 00101 1 010."""
    assert pack_table(np.array([2, 2, 1])) == bytes([0b1011_0100, 0])
    assert len(pack_table(np.full(255, 9))) == (9 + 254 + 7) // 8


@pytest.mark.parametrize("packed, text", [
    (b"", "not whole"), (bytes(9), "not whole"), (b"\x80", "not whole"),
    (bytes([0b010]), "outside 0 to 511")])
def test_bad_tables(packed, text):
    with pytest.raises(MessageError, match=text):
        unpack_table(packed, 1)


def test_table_of_a_number_beyond_the_largest():
    with pytest.raises(MessageError, match="outside 0 to 511"):
        unpack_table(pack_table(np.array([MOST, MOST + 1])), 2)


# Huffman

def cost_without_limit(counts) -> int:
    """Bits of Huffman's own construction."""
    heap = [int(count) for count in counts if count]
    heapq.heapify(heap)
    total = 0
    while len(heap) > 1:
        both = heapq.heappop(heap) + heapq.heappop(heap)
        total += both
        heapq.heappush(heap, both)
    return total


@pytest.mark.parametrize("n_symbols", [2, 3, 5, 16, 255])
def test_code_lengths_are_the_best(n_symbols):
    rng = np.random.default_rng(n_symbols)
    for _ in range(20):
        counts = rng.geometric(0.02, n_symbols) * (rng.random(n_symbols) < 0.8)
        counts[:2] += 1
        lengths = code_lengths(counts)
        assert counts @ lengths == cost_without_limit(counts)
        assert (lengths > 0).tolist() == (counts > 0).tolist()
        assert np.sum(0.5**lengths[lengths > 0]) == 1


def test_limit_of_code_lengths():
    """Fibonacci's numbers have the longest codes: 39 bits without the limit."""
    counts = [1, 1]
    while len(counts) < 40:
        counts.append(counts[-1] + counts[-2])
    lengths = code_lengths(np.array(counts))
    assert lengths.max() == LIMIT
    assert np.sum(0.5**lengths) == 1
    assert np.array(counts) @ lengths <= entropy(counts) + sum(counts)
    # With a limit of 3 bits five symbols have one code of 1 or 2 bits at most.
    assert code_lengths(np.array([100, 8, 4, 2, 1]), 3).tolist() == [1, 3, 3, 3, 3]
    assert code_lengths(np.array([100, 8, 4, 2, 1])).tolist() == [1, 2, 3, 4, 4]
    assert code_lengths(np.arange(1, 5), 2).tolist() == [2, 2, 2, 2]
    with pytest.raises(ValueError, match="5 symbols have no codes of 2 bits"):
        code_lengths(np.arange(1, 6), 2)


def test_huffman_by_hand():
    """Lengths 2, 0, 1, 2: codes 10, none, 0, 11. Steps 2, -2, 1, 1 fold to 5, 4, 3, 3."""
    symbols = np.array([2, 0, 2, 3])
    assert codes(np.array([2, 0, 1, 2])).tolist() == [0b01, 0, 0b0, 0b11]
    table, code = "".join(["00101", "00100", "011", "011"]), "".join(["0", "10", "0", "11"])
    expected = [int(bits[::-1], 2) for bits in (table[:8], table[8:], code)]
    assert HUFFMAN.encode(symbols, 4) == bytes(expected)


@pytest.mark.parametrize("lengths, code, count, text", [
    ([1, 1, 1], b"\0", 3, "no Huffman code"), ([1, 2, 0], b"\0", 3, "no Huffman code"),
    ([0, 0, 0], b"\0", 3, "no Huffman code"), ([2, 0, 0], b"\0", 3, "no Huffman code"),
    ([1, 1, 16], b"\0", 3, "no Huffman code"), ([1, 2, 2], b"\0", 9, "only 1 bytes"),
    ([1, 2, 2], b"\xff", 5, "end before"), ([1, 0, 0], b"\4", 5, "no codes"),
    ([1, 2, 2], b"\xff\0", 4, "must have 1 bytes"), ([2, 2, 1], b"\0", 5, "not the one")])
def test_bad_huffman_payloads(lengths, code, count, text):
    with pytest.raises(MessageError, match=text):
        HUFFMAN.decode(pack_table(np.array(lengths)) + code, count, 3)


# Range

def decode_by_definition(payload, count, n_symbols) -> list[int]:
    """The range decoder in Python's integers: 64 bits of state, words of 32."""
    numbers, coded = unpack_table(payload, n_symbols)
    used = np.flatnonzero(numbers).tolist()
    chances = [int(chance) for chance in frequencies(VALUES[numbers[used] - 1])]
    coded += bytes(8 + -len(coded) % 4)
    words = [int.from_bytes(coded[i:i + 4], "little") for i in range(0, len(coded), 4)]
    lower, width, point, place, symbols = 0, 2**64 - 1, words[0] << 32 | words[1], 2, []
    for _ in range(count):
        unit = width >> 24
        quantile, symbol, below = (point - lower) % 2**64 // unit, 0, 0
        while quantile >= below + chances[symbol]:
            below += chances[symbol]
            symbol += 1
        symbols.append(used[symbol])
        lower, width = (lower + unit * below) % 2**64, unit * chances[symbol]
        if width < 2**32:
            lower, width = lower << 32 & 2**64 - 1, width << 32
            point = (point << 32 | (words[place] if place < len(words) else 0)) & 2**64 - 1
            place += 1
    return symbols


@pytest.mark.parametrize("n_symbols, spread", [(2, 1), (3, 0.2), (7, 2), (255, 3), (255, 99)])
@pytest.mark.parametrize("count", [1, 2, 30, 3000])
def test_range_code_by_definition(n_symbols, spread, count):
    symbols = bell(np.random.default_rng(count), n_symbols, spread, count)
    coded = RANGE.encode(symbols, n_symbols)
    assert decode_by_definition(coded, count, n_symbols) == symbols.tolist()


def test_bytes_of_a_range_code():
    """The same from all versions of constriction that are allowed."""
    assert RANGE.encode(np.array([2, 0, 2, 3]), 4).hex() == "1688410000000054"
    coded = RANGE.encode(np.arange(1000)**2 % 7, 7)
    assert (len(coded), coded[-8:].hex()) == (254, "2afedcf2f7fb0fc5")


def test_range_code_of_a_symbol_that_is_never_sent():
    """One symbol has a probability just below 1; the rest of it is no symbol's."""
    payload = pack_table(rounded_counts(np.array([0, 1, 0])))
    assert RANGE.decode(payload, 1, 3).tolist() == [1]
    with pytest.raises(MessageError, match="a symbol that its table does not name"):
        RANGE.decode(payload + bytes.fromhex("80ffffff"), 1, 3)


def test_frequencies():
    rng = np.random.default_rng(8)
    for size in (1, 2, 3, 255):
        for top in (1, 100, 2**20, 2**31 - 1):
            counts = rng.integers(0, top, size, endpoint=True)
            counts[0] = top
            numbers = rounded_counts(counts)
            found = frequencies(VALUES[numbers[numbers > 0] - 1])
            assert found.sum() == TOTAL
            assert 1 <= found.min() <= found.max() <= LARGEST
    assert VALUES[rounded_counts(np.arange(1, 32)) - 1].tolist() == list(range(16, 512, 16))
    counts = np.unique(np.geomspace(1, 2**31 - 1, 1000).astype(np.int64))
    values = VALUES[rounded_counts(counts) - 1] / 16
    assert np.abs(values / counts - 1).max() <= 1 / 32
    beyond = rounded_counts(np.array([0, 1, 2**33]))        # halved three times
    assert (beyond[:2].tolist(), VALUES[beyond[2] - 1]) == ([0, 1], 16 * 2**30)


@pytest.mark.parametrize("levels, kilobits", [(1, 424.5), (2, 621.0)])
def test_bytes_of_fc_300_100(levels, kilobits):
    """Indices that are all alike often are the worst case (Table 1 of the DQSG paper)."""
    codec, rng = make_codec("dqsg", levels=levels, payload="range"), np.random.default_rng(1)
    vectors = [rng.integers(-levels, levels, shape, endpoint=True) for shape in FC_300_100]
    messages = [codec.encode(vector.astype(np.float32), KEY) for vector in vectors]
    least = sum(vector.size for vector in vectors) * np.log2(2 * levels + 1)
    assert least <= sum(8 * len(message) for message in messages) <= 1000 * kilobits


def test_without_constriction(monkeypatch):
    monkeypatch.setitem(sys.modules, "constriction", None)
    with pytest.raises(ImportError, match=r"pip install 'bitstep\[range\]'"):
        make_codec("dqsg", payload="range")
    coder = make_codec("dqsg", payload="huffman")
    assert coder.decode(coder.encode(np.ones(9), KEY), KEY).size == 9
