"""Rows without data between two batches, and rows that look ahead instead."""

from amaranth import Mux, Signal

from bitstep.pipeline.parts.widths import MAX_LOOKAHEAD, ceil_div


def between_batches(m, config, *, beats, lookahead):
    """Return the rows without data between two batches of a run, and the rows at a batch's start
    that enter before the updates before the batch are there: D in all, with D the run's look-ahead.
    Registers, right 3 cycles after ``beats`` and ``lookahead``, which are as the registers of
    these names: there is time, and one cycle would be the longest way of the pipeline.

    Golden model: :meth:`bitstep.pipeline.parts.lookahead.LookAhead.idle_rows`.
    """
    entered = config.stages.solver.entered
    most = config.batch_lookahead
    least, rest, fewest, possible, idle_rows, ahead = (
        Signal(range(MAX_LOOKAHEAD + 1), name=name) for name in (
            "least_idle_rows", "rest", "fewest", "possible", "idle_rows", "ahead"))
    with m.Switch(beats):
        for some in range(1, entered):
            with m.Case(some):
                m.d.sync += least.eq(ceil_div(entered, some) - 1)
        with m.Default():
            m.d.sync += least.eq(0)
    enough = lookahead > least
    m.d.sync += [
        rest.eq(Mux(lookahead > most, lookahead - most, 0)),
        fewest.eq(Mux(enough, least, lookahead)),
        possible.eq(Mux(enough, lookahead - least, 0)),
        idle_rows.eq(Mux(rest > fewest, rest, fewest)),
        ahead.eq(Mux(possible > most, most, possible)),
    ]
    return idle_rows, ahead
