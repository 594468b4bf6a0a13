"""Contents of buffers: compared by chunks, with little memory beside them."""

import tracemalloc
from types import SimpleNamespace

import numpy as np
import pytest
from fakes import FakeDevice

from bitstep.doctor import content, memory, speed
from bitstep.doctor.content import Difference, Digests, Image, compare, find_word, pattern, stuck
from bitstep.doctor.report import Report
from bitstep.doctor.session import Session
from bitstep.pipeline.config import PipelineConfig

MIB = 1 << 20


class Memory:
    """A buffer whose host's copy and device's copy differ by a fault."""

    def __init__(self, n_bytes, address=0x1000_0000, fault=None):
        self.array = np.full(n_bytes, 0xA5, np.uint8)
        self.address, self.fault = address, fault or (lambda array: None)

    def to_device(self):
        self.fault(self.array)

    def from_device(self):
        pass


def host_test(*buffers):
    report = Report()
    session = SimpleNamespace(report=report)
    images = memory._host_test(session, {f"buffer {number}": buffer for number, buffer in
                                         enumerate(buffers)}, "large buffer")
    return images, " ".join(report.text.split())


def peak_bytes(function):
    tracemalloc.start()
    try:
        function()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("fault", [
    None, lambda array: array.__setitem__(slice(3, None, 8), array[3::8] | 8),
    lambda array: array.fill(0), lambda array: array.__setitem__(-1, array[-1] ^ 1)],
    ids=["none", "stuck", "lost", "last byte"])
def test_little_memory(fault):
    """An eighth of the buffer and some chunks, whatever is wrong."""
    buffer = Memory(16 * MIB, fault=fault)
    found = []
    assert peak_bytes(lambda: found.extend(host_test(buffer)[0])) < 16 * MIB / 8 + 4 * MIB
    assert bool(found) == (fault is None)


def test_little_memory_after_copies(monkeypatch):
    image = Image(Memory(16 * MIB), inverted=True)
    image.fill()
    image.write(5 * MIB, np.zeros(100, np.uint8))
    targets, known = [5 * MIB, 9 * MIB], np.ones(100, bool)
    assert peak_bytes(lambda: memory._copied(image, targets, known)) < 4 * MIB


@pytest.mark.parametrize("size", [1, 7, 8, 33, 1000, content.CHUNK - 1, content.CHUNK,
                                  content.CHUNK + 1, 3 * content.CHUNK + 17])
def test_every_byte_is_written_and_compared(size):
    """Sizes around those of words, lines and chunks; a wrong byte at each end of them."""
    clean = Memory(size)
    assert host_test(clean)[0]
    assert (clean.array == ~pattern(clean.address, size)).all()
    places = {0, size - 1, size // 2, *(place + step for place in range(0, size, content.CHUNK)
                                        for step in (-1, 0, 1) if 0 <= place + step < size)}
    for place in places:
        images, text = host_test(Memory(size, fault=lambda array, place=place:
                                        array.__setitem__(place, array[place] ^ 0x10)))
        assert not images
        assert f"has 1 wrong bytes, first 0x{pattern(0x1000_0000, size)[place] ^ 0x10:02x}" in text
        assert f"at 0x{0x1000_0000 + place:x}" in text


def test_content_of_before():
    """Lost altogether, in one line of a cache, and in a line of which a byte is wrong besides."""
    def lost(part):
        kept = {}

        def fault(array):
            kept.setdefault(0, np.full(len(part), 0xA5, np.uint8))
            array[part] = kept[0]
        return fault

    for part in (np.arange(MIB), np.arange(content.CHUNK + 64, content.CHUNK + 96)):
        assert "they are the content of before" in host_test(Memory(MIB, fault=lost(part)))[1]
    part = np.arange(64, 95)            # not a whole line
    assert "content of before" not in host_test(Memory(MIB, fault=lost(part)))[1]

    def one_chunk(array):
        array[0] ^= 1
        array[content.CHUNK:] = 0xA5

    assert "content of before" not in host_test(Memory(2 * content.CHUNK, fault=one_chunk))[1]


def test_first_pattern_in_place_of_the_second():
    kept = []

    def fault(array):
        kept.append(array.copy())
        array[:] = kept[0]

    assert "they are the content of before" in host_test(Memory(MIB, fault=fault))[1]


@pytest.mark.parametrize("start", [0, MIB])
def test_two_addresses_reach_the_same_memory(start):
    def alias(array):
        array[2 * MIB:3 * MIB] = array[start:start + MIB]

    text = host_test(Memory(4 * MIB, fault=alias))[1]
    assert (f"at 0x10200000: that is what belongs to 0x{0x1000_0000 + start:x}, so two addresses"
            in text)
    other = Memory(64, address=0x2000_0000)
    assert "belongs to 0x20000000" in host_test(
        Memory(MIB, fault=lambda array: array.__setitem__(slice(MIB - 64, None), other.array)),
        other)[1]


def test_buffers_beside_each_other():
    assert host_test(Memory(64), Memory(32, 0x1000_0040))[0]
    assert "buffer 1 begins at 0x1000003f, inside of buffer 0, which ends at 0x10000040" in \
        host_test(Memory(64), Memory(32, 0x1000_003F))[1]


@pytest.mark.parametrize("size", [1 << 12, 5000, 1 << 24])
def test_places_differ_in_every_bit_of_an_address(size):
    *places, last = memory._places(size, 64)
    assert places == [0, *(1 << bit for bit in range(7, 24) if (1 << bit) + 256 <= size)]
    assert last == size - 128           # the last one with room for a copy beside it


def test_wrong_bytes_after_copies():
    """Those of a copy that has them, and the first that no copy was for."""
    buffer = Memory(3 * content.CHUNK)
    image, copied = Image(buffer), np.arange(64, dtype=np.uint8)
    image.fill()
    image.write(128, copied)
    buffer.array[128:192] = copied
    known = np.arange(64) < 48          # the others are of no feature
    buffer.array[176:192] ^= 1
    assert memory._copied(image, [128], known) == (Difference(), None)
    buffer.array[175] ^= 1
    found, stray = memory._copied(image, [128], known)
    assert (found.count, found.first, stray) == (1, 175, None)
    buffer.array[[content.CHUNK + 5, 2 * content.CHUNK + 7]] ^= 1
    found, stray = memory._copied(image, [128], known)
    assert (found.count, found.first, stray) == (3, 175, content.CHUNK + 5)


def test_stuck_bits():
    def fault(array):
        array[3::8] |= 8
        array[6::8] &= 0xFE

    assert "of each word of 64 bits these bits are wrong: 27 (reads 1), 48 (reads 0)" in \
        host_test(Memory(2 * content.CHUNK + 8, fault=fault))[1]
    assert stuck(0, 0, 64) == ""
    assert stuck((1 << 9) - 1, 0, 64) == ""


def test_image_by_hand():
    """Content that is written over, across chunks and not from a word's first byte on."""
    buffer = Memory(2 * content.CHUNK)
    image = Image(buffer)
    image.write(content.CHUNK - 3, np.arange(7, dtype=np.uint8))
    image.write(content.CHUNK, np.array([99], np.uint8))
    image.fill()
    expected = pattern(buffer.address, buffer.array.size)
    expected[content.CHUNK - 3:content.CHUNK + 4] = [0, 1, 2, 99, 4, 5, 6]
    assert (buffer.array == expected).all()
    for start, stop in ((13, 29), (content.CHUNK - 5, content.CHUNK + 9)):
        assert (image.read(slice(start, stop)) == expected[start:stop]).all()
    before = Digests(image.read, buffer.array.size)
    assert compare(buffer, image, before) == Difference()
    assert find_word(expected[32:40].tobytes(), [image]) == buffer.address + 32
    assert find_word(b"12345678", [image]) is None


@pytest.mark.parametrize("bits", [1, 2, 4, 8])
def test_little_memory_for_speed(bits):
    """The rows of the speed's training as numbers, and the golden model's work on them."""
    config = PipelineConfig(bits=bits, max_features=4096, lookahead=0)
    device = FakeDevice(config)
    device.memory = np.zeros(8 * MIB, np.uint8)
    session = Session(device, Report(), timeout_s=10.0, memory_bytes=MIB)
    session.safe = {"identity", "bits", "addresses"}
    assert peak_bytes(lambda: speed.stream(session)) < 40 * MIB
    assert "ok training (long rows): 1,024 rows of 1,024 features" in \
        " ".join(session.report.text.split())
