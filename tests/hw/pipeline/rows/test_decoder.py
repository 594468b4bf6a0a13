import random

import numpy as np
import pytest
from support import Clocked, put, take

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.levels import decode
from bitstep_hw.pipeline.rows.decoder import Decoder
from bitstep_sim.testing.harness import simulate

FORMATS = [("one_level", bits) for bits in range(1, 9)] \
    + [("two_levels", bits) for bits in range(2, 9)]


def beat_of(codes, bits):
    return sum(int(code) << lane * bits for lane, code in enumerate(codes))


@pytest.mark.parametrize(("row_format", "bits"), FORMATS)
@pytest.mark.parametrize("sample", [0, 1])
def test_every_code_in_every_lane(row_format, bits, sample):
    config = PipelineConfig(bits=bits, row_format=row_format, max_features=64)
    dut = Decoder(config=config, sample=sample)

    async def testbench(ctx):
        put(ctx, dut.used, (1 << config.rows.lanes) - 1)
        for first in range(1 << bits):
            codes = (np.arange(config.rows.lanes) + first) % (1 << bits)
            put(ctx, dut.beat, beat_of(codes, bits))
            expected = decode(codes.astype(np.uint8), bits=bits, row_format=row_format)[sample]
            assert take(ctx, dut.levels) == expected.tolist()

    simulate(Clocked(dut), testbench)


@pytest.mark.parametrize(("row_format", "bits"), FORMATS)
def test_lanes_without_a_feature(row_format, bits):
    """Padding is code 0; where that stands for -1, only the mask makes it 0."""
    config = PipelineConfig(bits=bits, row_format=row_format, bus_width=128, max_features=64)
    dut = Decoder(config=config, sample=1)
    rng = random.Random(f"{row_format}-{bits}")
    assert config.rows.has_zero_code == (decode(np.zeros(1, np.uint8), bits=bits,
                                           row_format=row_format)[1] == 0)

    async def testbench(ctx):
        for count in (1, config.rows.lanes - 1, config.rows.lanes,
                      rng.randint(1, config.rows.lanes)):
            codes = np.zeros(config.rows.lanes, np.uint8)
            codes[:count] = [rng.randrange(1 << bits) for _ in range(count)]
            put(ctx, dut.used, (1 << count) - 1)
            put(ctx, dut.beat, beat_of(codes, bits))
            expected = decode(codes, bits=bits, row_format=row_format)[1]
            expected[count:] = 0
            assert take(ctx, dut.levels) == expected.tolist()

    simulate(Clocked(dut), testbench)
