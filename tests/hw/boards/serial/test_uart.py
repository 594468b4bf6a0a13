# amaranth: UnusedElaboratable=no

import random

import pytest

from bitstep_hw.boards.serial.uart import UartReceiver, UartTransmitter
from bitstep_sim.testing.harness import held, put_all, simulate

DIVISORS = [8, 9, 15, 50]           # 15: 3 Mbaud at 45 MHz


def frame(byte, *, stop=1):
    """Bits on the line for a byte."""
    return [0, *(byte >> bit & 1 for bit in range(8)), stop]


def receive(bits, *, divisor, period=None, gaps=None):
    """Bytes that the receiver makes of bits, each ``period`` cycles long."""
    dut, received = UartReceiver(divisor=divisor), []

    async def watch(ctx):
        while True:
            _, _, valid, byte = await ctx.tick().sample(dut.valid, dut.byte)
            if valid:
                received.append(byte)

    async def drive(ctx):
        at = 0.0
        for bit in bits:
            ctx.set(dut.rx, bit)
            at += period or divisor
            while at >= 1:
                await ctx.tick()
                at -= 1
        ctx.set(dut.rx, 1)
        for _ in range(2 * divisor + 8):
            await ctx.tick()

    simulate(dut, drive, background=[watch], limit=len(bits) * 2 * divisor + 100)
    return received


@pytest.mark.parametrize("divisor", DIVISORS)
def test_receives_bytes(divisor):
    rng = random.Random(divisor)
    data = [0x00, 0xFF, 0x55, 0xAA, *(rng.randrange(256) for _ in range(20))]
    bits = []
    for byte in data:
        bits += [1] * rng.randrange(3) + frame(byte)
    assert receive(bits, divisor=divisor) == data


@pytest.mark.parametrize("divisor", [15, 50])
@pytest.mark.parametrize("drift", [0.97, 1.03])
def test_tolerates_another_clock(drift, divisor):
    data = [0x00, 0xFF, 0x55, 0xA5]
    bits = [bit for byte in data for bit in frame(byte)]
    assert receive(bits, divisor=divisor, period=divisor * drift) == data


def test_drops_a_byte_without_stop_bit():
    bits = [*frame(0x12), *frame(0x34, stop=0), 0, 0, 0, 1, 1, *frame(0x56)]
    assert receive(bits, divisor=8) == [0x12, 0x56]


@pytest.mark.parametrize("zeros", [10, 11, 25, 200])
def test_a_break_is_no_byte(zeros):
    """However long the line is 0, and what comes right after it is received."""
    bits = [*frame(0x12), *[0] * zeros, 1, *frame(0x56)]
    assert receive(bits, divisor=8) == [0x12, 0x56]


@pytest.mark.parametrize("stop", range(10))
def test_a_byte_with_any_bit_wrong_is_one_byte(stop):
    """Only its stop bit tells; a flipped start bit moves the frame, which ends with the line idle.
    """
    bits = frame(0xA5)
    bits[stop] ^= 1
    found = receive([*bits, *[1] * 12, *frame(0x56)], divisor=8)
    assert found[-1] == 0x56
    if stop == 9:
        assert found == [0x56]
    elif stop:
        assert found == [0xA5 ^ 1 << stop - 1, 0x56]


@pytest.mark.parametrize("divisor", DIVISORS)
def test_transmits_bytes(divisor):
    dut, line = UartTransmitter(divisor=divisor), []
    data = [0x00, 0xFF, 0x5B, 0x01, 0x80]

    async def source(ctx):
        await put_all(ctx, dut.i, data, rng=random.Random(0))
        for _ in range(11 * divisor):
            await ctx.tick()

    async def watch(ctx):
        while True:
            _, _, tx = await ctx.tick().sample(dut.tx)
            line.append(tx)

    simulate(dut, source, background=[watch], processes=[held(dut.i)], limit=100 * divisor)
    start = line.index(0)
    expected = [bit for byte in data for bit in frame(byte)]
    # A byte takes one cycle more than its bits: that in which the next one is taken.
    samples, at = [], start
    for _ in expected:
        samples.append(line[at + divisor // 2])
        at += divisor
    assert samples == expected
    assert set(line[:start]) == {1}
    assert set(line[at:]) == {1}


@pytest.mark.parametrize("kind", [UartReceiver, UartTransmitter])
@pytest.mark.parametrize("divisor", [7, 65536])
def test_bad_divisor(kind, divisor):
    with pytest.raises(ValueError, match=f"from 8 to 65535 cycles, not {divisor};"):
        kind(divisor=divisor)
