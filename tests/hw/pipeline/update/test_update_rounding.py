"""Updates rounded to few bits are golden's, whatever their size."""

import random

import pytest
from support import random_dithers, trace

from bitstep.golden.dither import round_floating
from bitstep.pipeline.parts.stages import ROUNDING_STAGES
from bitstep_hw.pipeline.update.update_rounding import FRACTION, VALUE_WIDTH, UpdateRounding
from bitstep_sim.testing.harness import once

CORNERS = [0, 1, -1, (1 << VALUE_WIDTH - 1) - 1, -(1 << VALUE_WIDTH - 1), (1 << 31) - 1 << FRACTION,
           -(1 << 31 + FRACTION), -(1 << 31 + FRACTION) - 1, (1 << 31 + FRACTION) - 1]


@pytest.mark.parametrize("bits", [0, 2, 3, 7, 16])
def test_every_size(bits):
    rng = random.Random(bits)
    values = CORNERS + [rng.getrandbits(VALUE_WIDTH - 1) - rng.getrandbits(VALUE_WIDTH - 1)
                        >> rng.randrange(VALUE_WIDTH) for _ in range(300)]
    cycles = [{"valid": 1, "value": value, "dither": dither, "negate": rng.random() < 0.3,
               "zero": rng.random() < 0.1, "idle": rng.random() < 0.1, "beyond": rng.random() < 0.1}
              for value, dither in zip(values, random_dithers(rng, len(values)), strict=True)]
    # Just enough to be rounded up, and just too little.
    cycles += [{"valid": 1, "value": value, "dither": dither, "negate": 0, "zero": 0, "idle": 0,
                "beyond": 0} for value in (1, 2, 3) for dither in (0xFFFD, 0xFFFE, 0xFFFF)]
    found = trace(once(UpdateRounding), cycles, ["o_valid", "o", "overflowed"], bits=bits)
    late = ROUNDING_STAGES + 1
    assert [cycle["o_valid"] for cycle in found] == [0] * late + [1] * len(cycles) \
        + [0] * (len(found) - late - len(cycles))
    for cycle, result in zip(cycles, found[late:], strict=False):
        update = round_floating(cycle["value"], FRACTION, cycle["dither"], bits)
        update = 0 if cycle["zero"] or cycle["idle"] else -update if cycle["negate"] else update
        fits = -1 << 31 <= update < 1 << 31
        if cycle["zero"] or cycle["idle"]:
            assert (result["o"], result["overflowed"]) == (0, 0)
        else:
            assert result["overflowed"] == (cycle["beyond"] or not fits)
            assert not fits or result["o"] == update
