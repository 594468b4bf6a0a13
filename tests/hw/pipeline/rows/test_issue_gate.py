# amaranth: UnusedElaboratable=no

import random

import pytest
from support import put_all_of

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep_hw.pipeline.rows.issue_gate import IssueGate
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate

OUTPUTS = ("issue", "row_ends", "counted", "too_close", "too_many", "outstanding")


class Model:
    """The gate, from the cycles in which rows ended."""

    def __init__(self, config, beats, lookahead, fine=0):
        self.config, self.beats, self.lookahead = config, beats, lookahead
        self.latency = config.latency + fine * config.stages.solver.fine
        self.ends = []

    def outputs(self, cycle, inputs):
        """What the gate says in a cycle."""
        ages = [cycle - end for end in self.ends]
        outstanding = sum(age < self.latency for age in ages)
        nearest = min(ages, default=100)
        too_close = inputs["last"] and nearest < self.config.update_interval
        if self.config.update_interval == 4:    # cycles from a beat to the same one
            too_close = too_close or any(self.beats > 1 and age + self.beats < 5 for age in ages)
        too_many = inputs["first"] and outstanding > self.lookahead
        data = inputs["entering"] and not inputs["fill"]
        missing = (inputs["first"] and inputs["stuck"]) or not inputs["beat_valid"] \
            or (inputs["last"] and not inputs["label_valid"])
        stuck = self.config.drains and inputs["first"] and inputs["stuck"]
        idle = (inputs["carrying"] and not stuck) or (inputs["entering"] and inputs["fill"])
        issue = (idle or (data and not missing)) and not (too_close or too_many or inputs["held"])
        ends = issue and inputs["last"]
        if ends:
            self.ends.append(cycle)
        return {"issue": issue, "row_ends": ends, "counted": ends and not (idle and not (
                    data and not missing)), "too_close": too_close, "too_many": too_many,
                "outstanding": outstanding}


@pytest.mark.covering(1)
@pytest.mark.parametrize("update_interval", [1, 2, 4])
@pytest.mark.parametrize("beats, lookahead", [(1, 0), (1, 2), (2, 1), (3, 8), (4, 2), (1, 8)])
@each("busy", [0.5, 0.95, 1.0])
def test_every_cycle(update_interval, beats, lookahead, busy):
    config = PipelineConfig(bits=8, max_features=40, lookahead=8,
                            update_interval=update_interval)
    check(config, beats, lookahead, busy)


@each("fine", [0, 1])
@pytest.mark.parametrize("beats, lookahead", [(1, 0), (1, 3), (3, 2)])
def test_later_updates(fine, beats, lookahead):
    """In a run with the finer sigmoid rows wait longer for the updates of others."""
    check(PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=64, lookahead=3,
                         update_interval=6, loss_family="logistic"), beats, lookahead, 0.95,
          fine=fine)


def check(config, beats, lookahead, busy, **fine):
    """Compare gate and model in every cycle."""
    dut, model = once(IssueGate, config=config), Model(config, beats, lookahead, **fine)
    rng = random.Random(f"{config.update_interval}-{beats}-{lookahead}-{busy}")

    async def testbench(ctx):
        put_all_of(ctx, dut, {"beats": beats, "lookahead": lookahead, **fine})
        for _ in range(2):
            await ctx.tick()
        index, issued = 0, 0
        for cycle in range(600):
            if index == 0:
                phase = rng.choice(["entering"] * 5 + ["carrying", None])
                fill = rng.random() < 0.2
            inputs = {"first": index == 0, "last": index == beats - 1, "fill": fill,
                      "entering": phase == "entering", "carrying": phase == "carrying",
                      **{name: rng.random() < busy for name in ("beat_valid", "label_valid")},
                      **{name: rng.random() >= busy for name in ("stuck", "held")}}
            put_all_of(ctx, dut, inputs)
            found = {name: ctx.get(getattr(dut, name)) for name in OUTPUTS}
            assert found == model.outputs(cycle, inputs), cycle
            if config.update_interval == 1:
                assert ctx.get(dut.none_outstanding) == (found["outstanding"] == 0)
            if found["issue"]:
                index, issued = (index + 1) % beats, issued + 1
            await ctx.tick()
        assert issued > 10

    simulate(dut, testbench)
