# amaranth: UnusedElaboratable=no
"""Chunks of an epoch, counted as far as registers count rows."""

import pytest
from support import put, put_all_of

from bitstep.pipeline.bit_planes import ALIGNMENT, CHUNK_UNITS, BitPlaneLayout
from bitstep_hw.bit_planes.chunks import Chunks
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import simulate


def found_chunks(plane_units, units, most):
    """Size of each chunk, up to so many of them, and the flags ``block_ends`` and ``more``."""
    dut, found = Chunks(), []

    async def testbench(ctx):
        put_all_of(ctx, dut, {"plane_units": plane_units, "units": units, "start": 1})
        await ctx.tick()
        put_all_of(ctx, dut, {"start": 0, "next": 1})
        while ctx.get(dut.valid) and len(found) < most:
            found.append((ctx.get(dut.size), ctx.get(dut.block_ends), ctx.get(dut.more)))
            await ctx.tick()
        put(ctx, dut.next, 0)

    simulate(dut, testbench, limit=most + 10)
    return found


@pytest.mark.parametrize("n_features, n_rows", [
    (1, 1), (256, 16), (256, 17), (17, 5000), (4096, 700), (4095, 129), (256, 70_000)])
def test_whole_epochs(n_features, n_rows):
    """Those of the golden model; the last epoch has 35,008 units of a plane."""
    layout = BitPlaneLayout(n_features)
    expected = list(layout.chunks(n_rows))
    units = layout.bytes_read(n_rows, 1) // ALIGNMENT
    found = found_chunks(layout.plane_bytes // ALIGNMENT, units, len(expected) + 2)
    assert [size * ALIGNMENT for size, _, _ in found] == [length for _, length in expected]
    assert [more for _, _, more in found] == [1] * (len(expected) - 1) + [0]
    at = [start % layout.block_bytes + length for start, length in expected]
    assert [ends for _, ends, _ in found] == [end == layout.plane_bytes for end in at]


@each("bit", range(5, 32))
def test_epochs_of_every_length(bit):
    """A register for rows has 32 bits: a counter that loses one of them ends too early."""
    for units in (1 << bit, (1 << bit) + 5):
        found = found_chunks(20_000, units, 3)
        sizes = [min(CHUNK_UNITS, units - first)
                 for first in range(0, min(units, 3 * CHUNK_UNITS), CHUNK_UNITS)]
        assert [size for size, _, _ in found] == sizes
        assert [more for _, _, more in found] == \
            [units > CHUNK_UNITS * (number + 1) for number in range(len(sizes))]
