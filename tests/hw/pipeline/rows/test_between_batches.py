# amaranth: UnusedElaboratable=no

from amaranth import Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out
from support import trace

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.widths import MAX_LOOKAHEAD
from bitstep_hw.pipeline.rows.between_batches import between_batches
from bitstep_sim.testing.cases import each


class Between(wiring.Component):
    """The function as a component."""

    def __init__(self, config):
        self.config = config
        number = range(MAX_LOOKAHEAD + 1)
        super().__init__({"beats": In(10), "lookahead": In(number), "idle_rows": Out(number),
                          "ahead": Out(number)})

    def elaborate(self, platform):
        m = Module()
        beats, lookahead = Signal.like(self.beats), Signal.like(self.lookahead)
        m.d.comb += [beats.eq(self.beats), lookahead.eq(self.lookahead)]
        idle_rows, ahead = between_batches(m, self.config, beats=beats, lookahead=lookahead)
        m.d.comb += [self.idle_rows.eq(idle_rows), self.ahead.eq(ahead)]
        return m


def by_hand(beats, lookahead, *, entered, most):
    """An update is there ``entered`` cycles after its row; each row between takes ``beats``."""
    for idle_rows in range(lookahead):
        if (idle_rows + 1) * beats >= entered and lookahead - idle_rows <= most:
            return idle_rows
    return lookahead


@each("loss_family, entered", [("linear", 9), ("logistic", 13)])
@each("most", [1, 3, 7])
def test_rows_between(loss_family, entered, most):
    """As the configuration has it, and as few as there can be."""
    config = PipelineConfig(bits=8, lookahead=21, update_interval=1, batch_lookahead=most,
                            loss_family=loss_family)
    cases = [(beats, lookahead) for beats in (*range(1, 15), 31, 32, 257, 512)
             for lookahead in (*range(12), 15, 20, 21)]
    cycles = [{"beats": beats, "lookahead": lookahead} for beats, lookahead in cases
              for _ in range(4)]
    recorded = trace(Between(config), cycles, ["idle_rows", "ahead"])
    for number, (beats, lookahead) in enumerate(cases):
        idle_rows = by_hand(beats, lookahead, entered=entered, most=most)
        assert config.ahead.idle_rows(lookahead, beats) == idle_rows
        assert recorded[4 * number + 3] == {"idle_rows": idle_rows,
                                            "ahead": lookahead - idle_rows}, (beats, lookahead)
