# amaranth: UnusedElaboratable=no

import itertools

import pytest
from support import Clocked, put_all_of

from bitstep_hw.pipeline.rows.phases import Phase
from bitstep_hw.pipeline.rows.wait_causes import WaitCauses
from bitstep_sim.testing.harness import simulate

INPUTS = ("idle_row", "replaying", "held", "stuck", "too_close", "too_many", "first", "last",
          "beat_valid", "label_valid")


def expected(phase, given):
    """The one cause that counts, or None while a row enters; and ``wait_refetch`` for replays."""
    if given["replaying"] and (phase != Phase.ROWS or given["idle_row"]):
        return {"wait_refetch"}
    if phase != Phase.ROWS or given["idle_row"]:
        return {"flushing"} if phase != Phase.IDLE else set()
    causes = [("wait_refetch", given["held"]),
              ("wait_correction", given["first"] and given["stuck"]),
              ("wait_recursion", given["too_close"]), ("wait_lookahead", given["too_many"]),
              ("wait_rows", not given["beat_valid"]),
              ("wait_labels", given["last"] and not given["label_valid"])]
    first = {name for name, holds in causes if holds and not any(
        before for _, before in causes[:[other for other, _ in causes].index(name)])}
    return first | ({"wait_refetch"} if given["replaying"] else set())


@pytest.mark.parametrize("phase", list(Phase), ids=lambda phase: phase.name)
def test_every_input(phase):
    dut = WaitCauses()
    names = [name for name in dut.signature.members if name.startswith(("wait", "flushing"))]

    async def testbench(ctx):
        ctx.set(dut.phase, phase)
        for bits in itertools.product((0, 1), repeat=len(INPUTS)):
            given = dict(zip(INPUTS, bits, strict=True))
            put_all_of(ctx, dut, given)
            found = {name for name in names if ctx.get(getattr(dut, name))}
            assert found == expected(phase, given), given

    simulate(Clocked(dut), testbench)
