"""Rows without data between two batches, and rows that look ahead instead."""

from amaranth import C, Mux, Signal

from bitstep.pipeline.parts.widths import MAX_LOOKAHEAD, ceil_div


def between_batches(m, config, *, beats, lookahead):
    """Return the rows without data between two batches of a run, and the rows at a batch's start
    that enter before the updates before the batch are there: D in all, with D the run's look-ahead.
    Registers, right 2 cycles after ``beats`` and ``lookahead``, which are as the registers of
    these names.

    Golden model: :meth:`bitstep.pipeline.config.PipelineConfig.idle_rows`.
    """
    entered = config.stages.solver.entered
    least, idle_rows, ahead = (Signal(range(MAX_LOOKAHEAD + 1), name=name)
                               for name in ("least_idle_rows", "idle_rows", "ahead"))
    with m.Switch(beats):
        for some in range(1, entered):
            with m.Case(some):
                m.d.sync += least.eq(ceil_div(entered, some) - 1)
        with m.Default():
            m.d.sync += least.eq(0)
    rest = Mux(lookahead > config.batch_lookahead, lookahead - config.batch_lookahead, C(0))
    fewest = Mux(rest > least, rest, least)
    idle = Mux(lookahead > fewest, fewest, lookahead)
    m.d.sync += [idle_rows.eq(idle), ahead.eq(lookahead - idle)]
    return idle_rows, ahead
