"""Decision on a row whose codes may not tell on which side of its target it is."""

from amaranth import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import LOOKAHEAD_MARGIN_WIDTH, MANTISSA_WIDTH
from bitstep_hw.parts.arithmetic import delay, enable_of, multiply


def scaled_width(config):
    """Bits of the mantissa times a row's residual."""
    return config.rows.dot_width + 2 + MANTISSA_WIDTH + 1


def bound_width(config):
    """Bits of the mantissa times the bound of a distance, unsigned."""
    return scaled_width(config) - 1


class RowDecision(wiring.Component):
    """Decision on a row: its codes decide it, or the fine row is fetched, or it is replayed alone
    (docs/pipeline.md).

    A row that meets exactly the words in the store is fetched again if its codes leave it
    ``undecided``. With look-ahead it is replayed alone if twice its distance from the target is at
    most the sum of both margins. All are compared times the mantissa, since that is how the solver
    has the distance. Runs beside :class:`bitstep_hw.pipeline.update.linear_solver.LinearSolver`;
    outputs change one cycle after ``distance``.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``update_interval``, ``clock.fast``, ``dot_width`` and ``dot_margin_width``.

    Members
    -------
    dot_valid : In(1)
        Strobe: a row has its dot product.
    margin_valid : In(1)
        The same, a cycle later.
    mantissa : In(18)
        With ``margin_valid``: mantissa of the row's step size.
    dot_margin : In
        With ``dot_valid``: bound of the doubled difference between the row's dot product and that
        of the fine row, with the same model.
    lookahead_margin : In
        Bound of what the updates that the model has not met yet add to it; constant during an
        epoch.
    undecided : In(1)
        With ``margin_valid``: the row's codes may have it on either side.
    refetching : In(1)
        Rows are fetched again in this run; constant.
    valid : In(1)
        Strobe: ``distance`` is that of a row with data.
    distance : In
        The mantissa times the row's distance from its target.
    positive : In(1)
        The row has label +1.
    replay_alone : In(1)
        The words in the store are the model that the row meets.
    discard : In(1)
        The row does not count.
    forgotten : Out(1)
        In the same cycle: the row gets no update now.
    o_decided : Out(1)
        Strobe: the row's c is right.
    o_undecided : Out(1)
        Strobe: the row must be fetched again.
    o_replay : Out(1)
        Strobe: the row must be replayed alone.
    o_positive : Out(1)
        The row has label +1.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "dot_valid": In(1), "margin_valid": In(1), "mantissa": In(MANTISSA_WIDTH),
            "dot_margin": In(config.rows.dot_margin_width),
            "lookahead_margin": In(LOOKAHEAD_MARGIN_WIDTH), "undecided": In(1), "refetching": In(1),
            "valid": In(1), "distance": In(signed(scaled_width(config) + 1)), "positive": In(1),
            "replay_alone": In(1), "discard": In(1),
            "forgotten": Out(1),
            "o_decided": Out(1), "o_undecided": Out(1), "o_replay": Out(1), "o_positive": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        wait = self.config.stages.solver.cycles - 2     # from margin to distance
        margin = Signal(max(len(self.dot_margin), len(self.lookahead_margin)) + 1, reset_less=True)
        stages = 2 if self.config.clock.fast else 1
        with m.If(self.dot_valid):
            m.d.sync += margin.eq(self.dot_margin + self.lookahead_margin)
        scaled = multiply(m, margin, self.mantissa, stages=stages,
                          valid=enable_of(self.config, self.margin_valid), name="scaled_margin",
                          width=len(margin) + MANTISSA_WIDTH + 1)
        scaled = delay(m, scaled, wait - stages, name="scaled_margin")
        undecided = delay(m, self.undecided, wait, name="undecided")
        doubled = self.distance << 1
        counts = self.valid & ~self.discard
        is_open = self.refetching & (doubled <= scaled) & (doubled >= -scaled)
        replay = counts & ~self.replay_alone & is_open
        refetch = counts & self.replay_alone & undecided
        m.d.comb += self.forgotten.eq(replay | refetch | self.discard)
        m.d.sync += [
            self.o_replay.eq(replay), self.o_undecided.eq(refetch),
            self.o_positive.eq(self.positive), self.o_decided.eq(counts & ~replay & ~refetch),
        ]
        return m
