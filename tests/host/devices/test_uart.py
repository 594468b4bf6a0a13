"""The device of a serial line against a board of a few lines of Python."""

import dataclasses
import itertools
import json
import os
import struct
import sys
import zlib

import numpy as np
import pytest
from fakes import make_job

from bitstep.devices import available, open_device
from bitstep.devices.driver import RegisterRun
from bitstep.devices.uart import SerialTransport, UartDevice, UartLink
from bitstep.devices.uart.protocol import (
    Command,
    Information,
    Reply,
    information,
    parse_information,
    request,
)
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.results import DeviceError

CONFIG = PipelineConfig(bits=2)
BASE, SIZE = 0x1000_0000, 4096
GAP_S = 0.125               # of the board, which is not what a host begins with


class Board:
    """Answers whole requests at once; ``reply`` may change what it says."""

    name = "the fake line"

    def __init__(self, reply=lambda packet: packet, signature=None, n_bytes=SIZE):
        self.reply, self.signature = reply, signature
        self.memory, self.registers = bytearray(n_bytes), {}
        self.waiting, self.closed, self.slept, self.requests = b"", False, 0.0, []
        self.waits = []

    def write(self, data):
        self.requests.append(data)
        _, sequence, command, count, address = struct.unpack_from("<BBBBI", data)
        assert zlib.crc32(data[:8]) == int.from_bytes(data[8:12], "little")
        payload, status, words = data[12:-4], Reply.OK, b""
        if len(data) > 12:
            assert zlib.crc32(payload) == int.from_bytes(data[-4:], "little")
            assert len(payload) == 8 * (count + 1)
        at = address - BASE
        if command == Command.WRITE_MEMORY:
            self.memory[at:at + len(payload)] = payload
        elif command == Command.READ_MEMORY:
            words = bytes(self.memory[at:at + 8 * (count + 1)])
        elif command == Command.WRITE_REGISTER:
            self.registers[address] = int.from_bytes(payload, "little")
        elif command == Command.READ_REGISTER:
            words = self.registers.get(address, 0).to_bytes(8, "little")
        else:
            found = information(base=BASE, n_bytes=len(self.memory), clock_hz=40_000_000,
                                baud=1_000_000, gap_s=GAP_S)
            words = struct.pack("<4Q", self.signature or found[0], *found[1:])
        packet = struct.pack("<BBBB", 0x5B, sequence, status, count) + words
        self.waiting += self.reply(packet + zlib.crc32(packet).to_bytes(4, "little"))

    def read(self, n_bytes, timeout_s):
        self.waits.append(timeout_s)
        data, self.waiting = self.waiting[:n_bytes], self.waiting[n_bytes:]
        return data

    def discard(self):
        self.waiting = b""

    def sleep(self, seconds):
        self.slept += seconds

    def close(self):
        self.closed = True


@pytest.fixture
def manifest(tmp_path):
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"config": CONFIG.to_dict(), "identity": f"{0x1234:032x}",
                                "system": {"baud": 1_000_000}}))
    return path


@pytest.fixture
def device(manifest):
    return UartDevice(CONFIG, manifest=manifest, transport=Board())


def test_request_by_hand():
    header = bytes([0xB5, 7, 4, 0, 0x20, 0, 0, 0])
    payload = (1).to_bytes(8, "little")
    assert request(7, Command.WRITE_REGISTER, 0x20, 1, payload) == \
        header + zlib.crc32(header).to_bytes(4, "little") + payload \
        + zlib.crc32(payload).to_bytes(4, "little")
    assert len(request(7, Command.READ_MEMORY, 0, 256)) == 12


@pytest.mark.parametrize("n_bytes", [1 << 17, 32 << 20])
def test_information_there_and_back(n_bytes):
    words = information(base=BASE, n_bytes=n_bytes, clock_hz=50_000_000, baud=3_000_000,
                        gap_s=0.05)
    assert all(word < 1 << 64 for word in words)
    assert parse_information(words) == Information(BASE, n_bytes, 50_000_000, 3_000_000, 0.05)
    assert parse_information([words[0] + (1 << 56), *words[1:]]) is None
    assert parse_information(words[:3]) is None


def test_is_installed():
    assert "uart" in available()


def test_what_the_board_tells(device):
    assert device.clock_hz == 40e6
    assert device.memory_bytes == SIZE
    assert device.identity == 0x1234
    assert device.config == CONFIG


def test_registers(device):
    device.write(0x40, 0x1_2345_6789)
    assert device.read(0x40) == 0x2345_6789


@pytest.mark.parametrize("n_bytes", [1, 8, 13, 2048, 2049, 4096])
def test_buffers(device, n_bytes):
    buffer = device.allocate(n_bytes)
    content = np.random.default_rng(n_bytes).integers(0, 256, n_bytes, dtype=np.uint8)
    buffer.array[:] = content
    buffer.to_device()
    assert bytes(device.link.transport.memory[:n_bytes]) == content.tobytes()
    buffer.array[:] = 0
    buffer.from_device()
    np.testing.assert_array_equal(buffer.array, content)


def test_allocation(device):
    buffers = [device.allocate(n) for n in (1, 100, 1000)]
    assert [buffer.address - BASE for buffer in buffers] == [0, 64, 192]
    with pytest.raises(MemoryError, match=r"of 4,000 bytes beside 1,112 others.*memory has 4,096, "
                                          r"of which 2,880 are free: 72% of it would fit"):
        device.allocate(4000)
    buffers[1].free()
    buffers[1].free()
    assert device.allocate(128).address == BASE + 64
    with pytest.raises(DeviceError, match="freed"):
        buffers[1].to_device()
    with pytest.raises(ValueError, match="at least 1 byte, not 0"):
        device.allocate(0)


def test_close(device):
    buffer = device.allocate(8)
    device.close()
    device.close()
    assert device.link.transport.closed
    with pytest.raises(DeviceError, match="its device closed"):
        buffer.from_device()


def test_sequence_numbers_differ(device):
    for _ in range(300):
        device.read(0)
    numbers = [packet[1] for packet in device.link.transport.requests]
    assert all((b - a) % 256 == 1 for a, b in itertools.pairwise(numbers))


def fails_first(change, times=1):
    """A reply that is changed a few times, then right."""
    left = [times]

    def reply(packet):
        left[0] -= 1
        return change(packet) if left[0] >= 0 else packet
    return reply


@pytest.mark.parametrize("change", [
    lambda packet: b"", lambda packet: packet[:-1], lambda packet: packet[1:],
    lambda packet: packet[:5] + bytes([packet[5] ^ 1]) + packet[6:],
    lambda packet: bytes([packet[0], packet[1] ^ 1]) + packet[2:],
])
def test_repeats_what_did_not_arrive(device, change):
    board = device.link.transport
    device.write(0x40, 77)
    board.reply = fails_first(change, 3)
    sent = len(board.requests)
    assert device.read(0x40) == 77
    assert board.requests[sent:] == [board.requests[sent]] * 4
    assert device.link.repeated == 3
    assert board.slept == pytest.approx(3 * 2 * GAP_S)


def test_late_reply_to_another_request_is_none(device):
    """Whole as it is: its number is that of the request before."""
    board, replies = device.link.transport, []
    device.write(0x40, 77)
    device.write(0x44, 88)
    board.reply = lambda packet: replies.append(packet) or packet
    assert device.read(0x40) == 77
    board.reply = fails_first(lambda packet: replies[0])
    assert device.read(0x44) == 88
    assert device.link.repeated == 1


@pytest.mark.parametrize("baud", [9_600, 1_000_000])
def test_a_packet_may_take_as_long_as_its_bytes(device, baud):
    """Ten bits each, of request and reply."""
    board = device.link.transport
    UartLink(board, baud=baud, timeout_s=0.5).read_memory(BASE, 2048)
    assert board.waits[-2:] == pytest.approx([0.5 + 10 * (12 + 4 + 2048 + 4) / baud] * 2)


@pytest.mark.parametrize(("change", "problem"), [
    (lambda packet: b"", r"nothing within 1\.0 s"),
    (lambda packet: packet[:2], r"2 bytes within 1\.0 s"),
    (lambda packet: packet[:-1], "the reply ended after 15 bytes"),
    (lambda packet: packet[:-1] + bytes([packet[-1] ^ 1]), "the reply's checksum is wrong"),
    (lambda packet: b"\0" + packet[1:], "not the reply to this request"),
])
def test_no_answer(device, change, problem):
    device.link.transport.reply = change
    with pytest.raises(DeviceError, match=r"on the fake line did not answer READ_REGISTER in 4 "
                                          rf"attempts \({problem}\): check the .*1000000 baud"):
        device.read(0)


def test_refused(device):
    def refuse(packet):
        head = packet[:2] + bytes([Reply.REFUSED]) + packet[3:4]
        return head + zlib.crc32(head).to_bytes(4, "little")

    device.link.transport.reply = refuse
    with pytest.raises(DeviceError, match=r"refused READ_MEMORY of 1 words at 0x10: .*outside"):
        device.link.read_memory(0x10, 8)
    assert device.link.repeated == 0


def test_another_protocol(manifest):
    board = Board(signature=5)
    with pytest.raises(DeviceError, match=r"another version of the protocol \(signature 0{15}5\)"):
        UartDevice(CONFIG, manifest=manifest, transport=board)
    assert board.closed


def test_wait(device):
    looks = []
    assert device.wait(lambda: len(looks) == 3 or looks.append(0), 10.0) is True
    assert device.wait(lambda: False, 0.05) is False
    assert device.link.transport.slept > 0


def test_options():
    with pytest.raises(DeviceError, match="which bitstream is on the board: give its manifest"):
        open_device("uart", CONFIG, port="/dev/ttyUSB0")


def test_no_port(manifest):
    with pytest.raises(DeviceError, match="serial port: give port"):
        open_device("uart", CONFIG, manifest=manifest)


@pytest.mark.parametrize("content", ["", "{}", '{"config": {"bits": 99}}', "[]"])
def test_bad_manifest(tmp_path, content):
    path = tmp_path / "manifest.json"
    path.write_text(content)
    with pytest.raises(DeviceError, match="is no manifest of a bitstream with a serial line"):
        UartDevice(CONFIG, manifest=path, transport=Board())
    with pytest.raises(DeviceError, match=r"missing\.json is no manifest"):
        UartDevice(CONFIG, manifest=tmp_path / "missing.json", transport=Board())


def test_without_pyserial(manifest, monkeypatch):
    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(DeviceError, match=r'pip install "bitstep\[uart\]"'):
        open_device("uart", CONFIG, manifest=manifest, port="/dev/ttyUSB0")


def test_port_that_does_not_exist():
    pytest.importorskip("serial")
    with pytest.raises(DeviceError, match=r"port /dev/missing cannot be opened at 1000000 baud: .*"
                                          r"; ports that exist: .*plug it in again; .*dialout"):
        SerialTransport("/dev/missing", 1_000_000)


def test_port_of_the_system():
    pytest.importorskip("serial")
    board, port = os.openpty()
    line = SerialTransport(os.ttyname(port), 115_200)
    line.write(b"\xb5\x00\r\n")                       # nothing may be translated
    assert os.read(board, 100) == b"\xb5\x00\r\n"
    os.write(board, b"\x5b\x03\x11\x13")
    assert line.read(4, 1.0) == b"\x5b\x03\x11\x13"
    assert line.read(1, 0.01) == b""
    os.write(board, b"\x00")
    assert line.read(3, 0.05) == b"\x00"
    line.discard()
    line.close()
    line.close()
    os.close(board)
    os.close(port)


@pytest.mark.parametrize("error", [None, ValueError("no FTDI"), OSError("no ioctl"),
                                   NotImplementedError()])
def test_port_answers_at_once(monkeypatch, error):
    """An FTDI bridge keeps answers for 16 ms unless it is told; other ports need not know how."""
    serial, told = pytest.importorskip("serial"), []

    class Port:
        def __init__(self, *_, **__):
            pass

        def set_low_latency_mode(self, wanted):
            told.append(wanted)
            if error:
                raise error

    monkeypatch.setattr(serial, "Serial", Port)
    SerialTransport("/dev/ttyUSB0", 1_000_000)
    assert told == [True]


def test_port_that_goes_away():
    pytest.importorskip("serial")
    board, port = os.openpty()
    line = SerialTransport(os.ttyname(port), 115_200)
    os.close(port)
    os.close(board)
    with pytest.raises(DeviceError, match=r"port /dev/pts/\d+ failed: .*is the board still conn"):
        line.read(1, 0.1)
    line.close()


@pytest.mark.parametrize("options", [{"timeout_s": 0}, {"attempts": 0}])
def test_bad_link(options):
    with pytest.raises(ValueError, match="a timeout above 0 s and at least 1 attempt"):
        UartLink(Board(), baud=1, **options)


@pytest.mark.parametrize("n_rows, epochs, fits", [
    (12_900, 20, True), (13_000, 20, False), (12_000, 120, True), (12_000, 130, False)])
def test_rows_of_cadata_in_the_memory_of_the_fpga(tmp_path, n_rows, epochs, fits):
    """Rows of 8 features are one beat, and labels have 16 bits: 128 KiB hold 12,900 of 20,640."""
    config = PipelineConfig(bits=4, max_features=1024)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"config": config.to_dict(), "identity": f"{1:032x}",
                                "system": {"baud": 3_000_000}}))
    device = UartDevice(config, manifest=path, transport=Board(n_bytes=128 << 10))
    small = make_job(np.zeros((1, 8), np.int64), [0], config=config, epochs=epochs,
                     correction_period=1, coefficients=np.ones(8, np.int32))
    job = dataclasses.replace(small, rows=(np.zeros((n_rows, 8), np.uint8),),
                              labels=np.zeros(-(-2 * n_rows // 8) * 8, np.uint8))
    if fits:
        RegisterRun(device, [job], 1.0).close()
    else:
        with pytest.raises(MemoryError, match="of it would fit"):
            RegisterRun(device, [job], 1.0)


def test_year_prediction_fits_into_the_sdram(tmp_path):
    """463,715 rows of 90 features at 4 bits with labels and the models of 100 epochs: 23.2 MB of 32
    MiB, whose packets take 78 s on a line of 3 Mbaud, beside what the answers take.
    """
    n_rows, config = 463_715, PipelineConfig(bits=4, max_features=1024)
    path = tmp_path / "manifest.json"
    path.write_text(json.dumps({"config": config.to_dict(), "identity": f"{1:032x}",
                                "system": {"baud": 3_000_000}}))
    board = Board(n_bytes=32 << 20)
    device = UartDevice(config, manifest=path, transport=board)
    assert device.memory_bytes == 33_554_432
    small = make_job(np.zeros((1, 90), np.int64), [0], config=config, epochs=100)
    job = dataclasses.replace(
        small, rows=(np.full((n_rows, small.rows[0].shape[1]), 0x5A, np.uint8),),
        labels=np.zeros(-(-2 * n_rows // 8) * 8, np.uint8))
    assert job.rows[0].nbytes == 48 * n_rows == 22_258_320
    run = RegisterRun(device, [job], 1.0)
    with run.stack:
        sizes = {name: buffer.array.size for name, buffer in run.buffers.items()}
        assert sizes["rows"] == 22_258_320
        assert sizes["labels"] == 927_432
        assert sizes["models"] == 100 * 4 * 98          # 6 beats of 16 words, intercept, padding
        assert sum(sizes.values()) < 23_300_000
        assert board.memory.count(0x5A) == 22_258_320
        sent = sum(len(packet) for packet in board.requests)
        assert 77 < 10 * sent / 3_000_000 < 79
        with pytest.raises(MemoryError, match=r"has 33,554,432, of which 10,[0-9,]* are free"):
            device.allocate(11_000_000)
