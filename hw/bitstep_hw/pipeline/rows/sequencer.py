"""Which row's which beat enters the pipeline, and when."""

from amaranth import C, Cat, Module, Mux, Signal, signed
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.config import LABEL_WIDTH, MAX_FEATURES, MAX_LOOKAHEAD
from bitstep_hw.parts.arithmetic import delay
from bitstep_hw.pipeline.slot import slot_layout

# Synthesis leaves these signals as they are.
_KEPT = {"keep": 1}


class Sequencer(wiring.Component):
    """Issues the slots of an epoch.

    A slot is issued when its beat is there and nothing it needs is still on its way. What a slot
    means never depends on when it is issued: row i is applied to the words of row i + D + 1, with
    D the run's look-ahead, so a row waits until the row D + 1 before has its update, and rows are
    ``recursion`` cycles apart. Rows without data are put in where updates must be applied and no
    row is left to carry them: D + 1 at an epoch's end and before a proximal step, and before a
    correction whose period is too short. One slot a cycle, or one row every ``recursion`` cycles
    if rows are shorter.

    Members
    -------
    rows, beats, batch, lookahead, period, proximal_period : In
        As the registers of these names; constant from the cycle before ``start`` to ``done``.
    start : In(1), done : Out(1)
        Strobes: starts an epoch; all of its updates are applied.
    stop : In(1)
        No further slot; hold it for ``config.latency`` cycles before the next epoch.
    i_rows : In(stream.Signature(bus_width)), i_labels : In(stream.Signature(signed(32)))
        The epoch's rows and labels.
    corrected : In(1)
        Strobe: the corrections asked for by the last ``sample`` row are ready.
    decided : In(1), retry : In(1), hold : In(1)
        Strobes of a row's decision: it has its update; or only the model's words can tell, so it
        and the rows after it must come again. While ``hold`` is 1, a row is fetched again and no
        slot is issued. Only with ``refetch``.
    rewind : Out(1), probe : Out(1), squash : Out(1)
        Strobe: go back to the oldest row that is not decided. The row on its way meets exactly the
        words in the store; the rows on their way count for nothing.
    proximal : Out(1), proximal_done : In(1)
        Strobes around a proximal step, with every update applied and no slot on its way.
    slot : Out(slot_layout), beat : Out(bus_width), label : Out(signed(32))
        Slot, its beat, and in the last slot of a row its label.
    misaligned : Out(1)
        A correction or a proximal step fell into a batch: its period is no multiple of the batch.
    wait_rows, wait_labels, wait_lookahead, wait_recursion, wait_correction, wait_refetch,
    flushing : Out(1)
        Why no row entered in this cycle; none of them while a row does.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "rows": In(32), "beats": In(range(MAX_FEATURES + 1)), "batch": In(32),
            "lookahead": In(range(MAX_LOOKAHEAD + 1)), "period": In(32),
            "start": In(1), "stop": In(1), "done": Out(1),
            "i_rows": In(stream.Signature(config.bus_width)),
            "i_labels": In(stream.Signature(signed(LABEL_WIDTH))),
            "corrected": In(1), "decided": In(1), "retry": In(1), "hold": In(1),
            "rewind": Out(1), "probe": Out(1), "squash": Out(1),
            "proximal_period": In(32), "proximal": Out(1), "proximal_done": In(1),
            "slot": Out(slot_layout(config)),
            "beat": Out(config.bus_width),
            "label": Out(signed(LABEL_WIDTH)),
            "misaligned": Out(1),
            "wait_rows": Out(1), "wait_labels": Out(1), "wait_lookahead": Out(1),
            "wait_recursion": Out(1), "wait_correction": Out(1), "wait_refetch": Out(1),
            "flushing": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        # A slot enters; a row ends; one with data does.
        issue, row_ends, counted = (Signal(name=name, attrs=_KEPT)
                                    for name in ("issue", "row_ends", "counted"))
        idle = Signal()
        # 0 waits, 1 rows, 2 flush, 3 settle, 4 proximal step, 5 one row again, 6 its decision
        state = Signal(3)
        upcoming = Signal.like(state)
        # What decides about a slot in every cycle is one register each.
        entering = Signal()
        carrying = Signal()
        m.d.comb += upcoming.eq(state)
        m.d.sync += [state.eq(upcoming), carrying.eq(upcoming == 2),
                     entering.eq((upcoming == 1) | (upcoming == 5))]
        rows_left, flush_left = Signal(32), Signal(range(MAX_LOOKAHEAD + 3))
        index = Signal(range(self.config.max_beats))
        # Flags that decide about a slot are kept in registers: comparing comes a cycle before.
        first, last = Signal(), Signal()
        final, following = Signal.like(index), Signal.like(index)
        m.d.comb += following.eq(Mux(last, 0, index + 1))
        m.d.sync += final.eq(self.beats - 1)
        with m.If(issue):
            m.d.sync += [index.eq(following), first.eq(last), last.eq(following == final)]
        # Rows that are not decided: those that come again after ``retry``.
        open_rows = Signal(range(MAX_LOOKAHEAD + 2))
        if self.config.refetch:
            m.d.sync += open_rows.eq(
                Mux(self.retry, 0, open_rows + counted - self.decided))
        again = Mux(self.retry, open_rows, 0)
        steps = self._proximal(m, counted, again)
        missing, stuck = self._flags(m, issue, idle, carrying, row_ends, counted, rows_left, steps,
                                     again, open_rows)
        outstanding = self._may_issue(m, issue, idle, state, entering, carrying, first, last,
                                      row_ends, counted, missing, stuck)

        then_flush = Signal()
        # Compared a cycle before it is asked: rows are 2 cycles apart at least.
        last_row, none_left = Signal(), Signal()
        m.d.sync += [last_row.eq(rows_left == 1), none_left.eq(rows_left == 0)]
        ends = last_row | steps
        with m.If(counted):
            m.d.sync += [rows_left.eq(rows_left - 1), then_flush.eq(ends)]
            with m.If(state == 5):
                m.d.comb += upcoming.eq(6)
            with m.Elif(ends):
                m.d.comb += upcoming.eq(2)
                m.d.sync += flush_left.eq(self.lookahead + 1)
        with m.If(row_ends & (state == 2)):
            m.d.sync += flush_left.eq(flush_left - 1)
            with m.If(flush_left == 1):
                m.d.comb += upcoming.eq(3)
        through = Signal()
        with m.If((state == 3) & (outstanding == 0) & self.squash):
            m.d.comb += [self.rewind.eq(1), upcoming.eq(5)]
            m.d.sync += self.squash.eq(0)
        with m.Elif((state == 3) & (outstanding == 0)):
            due = (self.proximal_period != 0) & C(self.config.proximal)
            m.d.comb += [self.proximal.eq(due), through.eq(~due), upcoming.eq(4)]
        with m.If(through | ((state == 4) & self.proximal_done)):
            m.d.comb += [self.done.eq(none_left), upcoming.eq(Mux(self.done, 0, 1))]
        if self.config.refetch:
            self._retry(m, state, upcoming, rows_left, flush_left, then_flush, first, again)
        with m.If(self.start):
            m.d.comb += upcoming.eq(1)
            m.d.sync += [rows_left.eq(self.rows), last_row.eq(self.rows == 1), index.eq(0),
                         first.eq(1), last.eq(final == 0)]
        with m.If(self.stop):
            m.d.comb += upcoming.eq(0)
            m.d.sync += [self.squash.eq(0), open_rows.eq(0)]

        m.d.comb += [
            self.slot.valid.eq(issue),
            self.slot.first.eq(first),
            self.slot.last.eq(last),
            self.slot.idle_row.eq(idle),
            self.slot.index.eq(index),
            self.beat.eq(self.i_rows.payload),
            self.label.eq(self.i_labels.payload),
            self.i_rows.ready.eq(issue & ~idle),
            self.i_labels.ready.eq(counted),
        ]
        return m

    def _retry(self, m, state, upcoming, rows_left, flush_left, then_flush, first, again):
        """A row whose look-ahead leaves it open comes again when nothing is on its way: all
        updates before it are applied by rows without data, the rows after it are forgotten.
        """
        m.d.comb += self.probe.eq((state == 5) | (state == 6) | (self.lookahead == 0))
        with m.If(self.retry):
            # What has begun as a row with data ends as one without.
            m.d.comb += upcoming.eq(2)
            m.d.sync += [self.squash.eq(1), rows_left.eq(rows_left + again),
                         flush_left.eq(self.lookahead + 1 + ~first)]
        with m.If((state == 6) & self.decided):
            m.d.comb += upcoming.eq(Mux(then_flush, 2, 1))
            m.d.sync += flush_left.eq(self.lookahead + 1)

    def _proximal(self, m, counted, again):
        """Whether a row that ends now is the last one before a proximal step."""
        if not self.config.proximal:
            return C(0)
        to_step = Signal(32)        # wraps below 0, so that rows may come again
        m.d.sync += to_step.eq(to_step - counted + again)
        with m.If(self.start | self.proximal):
            m.d.sync += to_step.eq(self.proximal_period - 1)
        return (self.proximal_period != 0) & (to_step == 0)

    def _flags(self, m, issue, idle, carrying, row_ends, counted, rows_left, steps, again,
               open_rows):
        """What a row means, constant from a row's first slot to its last. Returns whether the row
        is put in to complete a period, and whether one with data must wait for a correction.
        """
        position, age = Signal(32), Signal(range(MAX_LOOKAHEAD + 2))
        to_boundary, since = Signal(32), Signal(range(MAX_LOOKAHEAD + 2))
        at_boundary = Signal()      # to_boundary is 0, with corrections
        opening, added, needed = Signal(), Signal(), Signal()
        adds, needs, distance = Signal(), Signal(), Signal.like(since)
        boundary, missing = Signal(), Signal()
        pending = Signal()
        batch_end = Signal(32)
        m.d.sync += batch_end.eq(self.batch - 1)
        m.d.comb += [
            idle.eq(carrying | missing),
            boundary.eq(at_boundary & ~idle),
            distance.eq(Mux(boundary, 0, since)),
            adds.eq(Mux(boundary, ~opening, added)),
            needs.eq(Mux(boundary, self._more(m, counted, rows_left), needed)),
        ]
        m.d.sync += self.misaligned.eq((issue & boundary & (position != 0)) | (
            counted & steps & (position != batch_end) & (rows_left != 1)))
        reached = distance == self.lookahead
        m.d.comb += [
            self.slot.apply.eq(age > self.lookahead),
            self.slot.skip.eq(Mux(position > MAX_LOOKAHEAD, MAX_LOOKAHEAD, position)),
            self.slot.frozen.eq(position > self.lookahead),
            self.slot.freeze.eq((position == self.lookahead) & ~idle),
            self.slot.correct.eq(adds & (distance <= self.lookahead)),
            self.slot.commit.eq(adds & reached),
            self.slot.sample.eq(needs & reached),
        ]
        following = Signal()        # at_boundary, when this row has ended
        m.d.comb += following.eq((self.period != 0)
                                 & Mux(at_boundary, self.period == 1, to_boundary == 1))
        with m.If(row_ends):
            m.d.sync += [
                # Before a boundary every update of the period before must have met its words.
                missing.eq(Mux(idle, at_boundary, following) & ~(opening & ~boundary)
                           & (distance < self.lookahead)),
                age.eq(Mux(age > self.lookahead, age, age + 1)),
                since.eq(Mux(distance > self.lookahead, distance, distance + 1)),
                added.eq(adds), needed.eq(needs),
            ]
            with m.If(boundary):
                m.d.sync += [opening.eq(0), pending.eq(needs)]
        with m.If(counted):
            m.d.sync += [
                position.eq(Mux(position == batch_end, 0, position + 1)),
                to_boundary.eq(Mux(at_boundary, self.period - 1, to_boundary - 1)),
                at_boundary.eq(following),
            ]
        with m.If(self.retry):
            # A boundary that comes again is a row as any other: its correction is under way.
            m.d.sync += [to_boundary.eq(to_boundary + again), at_boundary.eq(0), missing.eq(0)]
        with m.If(self.corrected):
            m.d.sync += pending.eq(0)
        # At a boundary whose correction is still under way: all registers' next values, so that
        # the decision in every cycle has one level of logic less.
        stuck = Signal()
        m.d.sync += stuck.eq(~self.corrected & ~self.retry & Mux(
            counted, following & Mux(at_boundary, needs, ~opening & pending),
            at_boundary & ~opening & pending))
        with m.If(self.start):
            m.d.sync += [position.eq(0), age.eq(0), to_boundary.eq(0), since.eq(0),
                         at_boundary.eq(self.period != 0), missing.eq(0), opening.eq(1),
                         added.eq(0), needed.eq(0), pending.eq(0), stuck.eq(0)]
        return missing, stuck | (at_boundary & (open_rows != 0))

    def _more(self, m, counted, rows_left):
        """Whether a further period follows this row's, compared a cycle before it is asked."""
        more, beyond, enough = Signal(), Signal(33), Signal()
        m.d.sync += [
            beyond.eq(self.period + 1), enough.eq(self.period < self.rows),
            more.eq(Mux(counted, beyond < rows_left, self.period < rows_left)),
        ]
        with m.If(self.start):
            m.d.sync += more.eq(enough)
        return more

    def _may_issue(self, m, issue, idle, state, entering, carrying, first, last, row_ends,
                   counted, missing, stuck):
        """Whether a slot may enter now; returns the number of rows without an update."""
        # Rows without an update, the one that ended in the cycle before not counted in.
        earlier = Signal(range(MAX_LOOKAHEAD + 2))
        finished = delay(m, row_ends, self.config.latency - 1, name="finished")
        just = delay(m, row_ends, 1, name="just_ended")
        outstanding = Signal(range(MAX_LOOKAHEAD + 2))
        m.d.comb += outstanding.eq(earlier + just)
        # Whether a further row must wait, for the case that one ends now and that none does.
        full = Signal()
        m.d.sync += [
            earlier.eq(outstanding - finished),
            full.eq(Mux(row_ends, outstanding + 1 - finished > self.lookahead,
                        outstanding - finished > self.lookahead)),
        ]
        # Rows that ended in one of the last ``recursion`` - 1 cycles.
        ended = [row_ends, *(delay(m, row_ends, age, name=f"ended_{age}")
                             for age in range(1, self.config.recursion - 1))]
        recent = Signal()
        m.d.sync += recent.eq(Cat(ended).any())
        close = Signal()        # the same words would be read 2 or 3 cycles apart
        if self.config.fast_clock:      # the store needs 4
            pairs, short = Signal(), Signal()
            m.d.sync += [pairs.eq(self.beats == 2), short.eq(pairs | (self.beats == 3)),
                         close.eq((row_ends & short) | (just & pairs))]
        held = (self.hold | self.retry) & C(self.config.refetch)
        causes = [
            (self.wait_refetch, held),
            (self.wait_correction, first & stuck),
            (self.wait_recursion, (last & recent) | close),
            (self.wait_lookahead, first & full),
            (self.wait_rows, ~self.i_rows.valid),
            (self.wait_labels, last & ~self.i_labels.valid),
        ]
        blocked = 0
        for signal, holds in causes:
            m.d.comb += signal.eq((state == 1) & ~idle & holds & ~blocked)
            blocked = blocked | holds
        # From the strobe ``retry`` until the row that comes again is decided.
        retrying = self.retry | self.squash | (state == 5) | (state == 6)
        with m.If(retrying):
            m.d.comb += self.wait_refetch.eq(1)
        m.d.comb += self.flushing.eq(((state >= 2) | ((state == 1) & idle)) & ~retrying)

        # So much hangs on this that it gets as few levels of logic as it can.
        waits, complete, with_data, without_data = (
            Signal(name=name, attrs=_KEPT)
            for name in ("waits", "complete", "with_data", "without_data"))
        m.d.comb += [
            waits.eq((last & recent) | close | (first & full)),
            complete.eq(self.i_rows.valid & (~last | self.i_labels.valid)),
            with_data.eq(entering & ~missing & ~(first & stuck)),
            without_data.eq(carrying | (entering & missing)),
            issue.eq(((with_data & complete) | without_data) & ~waits & ~held),
            row_ends.eq(((with_data & complete) | without_data) & last & ~waits & ~held),
            counted.eq(with_data & complete & last & ~waits & ~held),
        ]
        return outstanding
