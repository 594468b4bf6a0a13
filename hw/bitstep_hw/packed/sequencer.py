"""Sequencer of turns: which rows of a beat meet which model, and when."""

from amaranth import C, Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.dither import DITHER_WIDTH
from bitstep_hw.packed.slot import slot_layout
from bitstep_hw.parts.arithmetic import delay
from bitstep_hw.parts.run import row_shape


class InterleavingSequencer(wiring.Component):
    """Source of an epoch's slots.

    A beat is held while its rows pass in *turns*: the rows of a turn belong to one batch. In a turn
    each model of the run has a slot, one a cycle. The turn that begins a batch waits until the
    updates of the batch before have reached the models, ``config.latency`` cycles; turns of the
    same batch, and models, wait for nothing. Storage: a beat with its labels and dithers.
    Model of its cycles: :class:`bitstep.cycles.rows.packed.PackedClock`.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``rows_per_beat``, ``models`` and ``latency``.

    Members
    -------
    rows, batch, period : In(32), models : In(5)
        As the registers of these names, ``period`` that of corrections; constant from the cycle
        before ``start`` to ``done``.
    start : In(1)
        Strobe: starts an epoch.
    stop : In(1)
        No further slot.
    corrected : In(1)
        Strobe, with ``corrections``: those asked for by the last ``sample`` slots are ready.
    misaligned : Out(1)
        A correction fell into a batch: its period is no multiple of the batch.
    done : Out(1)
        Strobe: all of the epoch's updates are applied and judged.
    i_rows : In(stream.Signature(bus_width)), i_labels, i_dithers : In(stream.Signature(...))
        Beats; the labels of their rows, ``label_rows`` of them for each model, those of a row side
        by side, and their weights (:func:`bitstep_hw.parts.run.row_shape`); the dithers of their
        rows.
    slot : Out(slot_layout), beat : Out(bus_width), labels, dithers : Out
        A slot, and what its beat comes with.
    next_model : Out
        With ``row_weights`` and several models: the model of the next cycle's slot.
    entered : Out(1)
        Strobe: a beat is taken.
    wait_rows, wait_labels, wait_update, wait_correction, flushing : Out(1)
        A beat is missing; its labels are; a batch waits for updates; it waits for its correction;
        the last updates of an epoch are applied.
    """

    def __init__(self, *, config):
        self.config = config
        labels = row_shape(config)
        dithers = config.rows.rows_per_beat * DITHER_WIDTH
        super().__init__({
            "rows": In(32), "batch": In(32), "period": In(32), "models": In(5),
            "corrected": In(1), "misaligned": Out(1),
            "start": In(1), "stop": In(1), "done": Out(1),
            "i_rows": In(stream.Signature(config.bus_width)),
            "i_labels": In(stream.Signature(labels)),
            "i_dithers": In(stream.Signature(dithers)),
            "slot": Out(slot_layout(config)), "beat": Out(config.bus_width),
            "labels": Out(labels), "dithers": Out(dithers), "entered": Out(1),
            "wait_rows": Out(1), "wait_labels": Out(1), "wait_update": Out(1),
            "wait_correction": Out(1), "flushing": Out(1),
            "next_model": Out(range(config.models)),
        })

    def elaborate(self, platform):
        m = Module()
        held = Signal()
        issue = Signal()
        leaves = Signal()
        turn_ends, batch_ends, beat_ends, epoch_ends = (
            Signal(name=name) for name in ("turn_ends", "batch_ends", "beat_ends", "epoch_ends"))
        m.d.comb += leaves.eq(turn_ends & beat_ends)
        self._hold(m, held, leaves)
        first_slot = self._take_models(m, issue, turn_ends)
        ready = self._wait_for_updates(m, first_slot & issue & batch_ends)
        m.d.comb += [
            issue.eq(held & (~first_slot | (ready & ~self._correcting(m, turn_ends)))),
            self.slot.valid.eq(issue), self.wait_update.eq(held & first_slot & ~ready),
            self.wait_correction.eq(held & first_slot & ready & ~issue),
        ]
        self._count_rows(m, turn_ends, batch_ends, beat_ends, epoch_ends)
        ended = turn_ends & epoch_ends
        m.d.comb += self.done.eq(delay(m, ended, self.config.latency + 1, name="ended"))
        with m.If(ended):
            m.d.sync += self.flushing.eq(1)
        with m.Elif(self.done | self.stop):
            m.d.sync += self.flushing.eq(0)
        return m

    def _hold(self, m, held, leaves):
        """Keep a beat with its labels and dithers until the slot with which it ``leaves``."""
        per_beat = self.config.rows.rows_per_beat
        left = Signal(32)               # rows that are in no beat yet
        more = Signal()                 # there are some
        wanted = Signal()
        m.d.comb += [
            wanted.eq(more & (~held | leaves) & ~self.stop),
            self.wait_rows.eq(wanted & ~self.i_rows.valid),
            self.wait_labels.eq(wanted & self.i_rows.valid & ~self.i_labels.valid),
            self.entered.eq(wanted & self.i_rows.valid & self.i_labels.valid
                            & self.i_dithers.valid),
        ]
        for source, kept in ((self.i_rows, self.beat), (self.i_labels, self.labels),
                             (self.i_dithers, self.dithers)):
            m.d.comb += source.ready.eq(self.entered)
            with m.If(self.entered):
                m.d.sync += kept.eq(source.payload)
        with m.If(leaves):
            m.d.sync += held.eq(0)
        with m.If(self.entered):
            m.d.sync += [held.eq(1), left.eq(left - per_beat), more.eq(left > per_beat)]
        with m.If(self.start):
            m.d.sync += [left.eq(self.rows), more.eq(1)]
        with m.If(self.stop):
            m.d.sync += [held.eq(0), more.eq(0)]

    def _take_models(self, m, issue, turn_ends):
        """Number the slots of a turn; returns the flag of its first."""
        if self.config.models == 1:
            m.d.comb += turn_ends.eq(issue)
            return C(1)
        model = Signal(range(self.config.models))
        first = Signal(init=1)
        m.d.comb += [self.slot.model.eq(model),
                     turn_ends.eq(issue & (model + 1 == self.models))]
        with m.If(issue):
            m.d.sync += [model.eq(Mux(turn_ends, 0, model + 1)), first.eq(turn_ends)]
        with m.If(self.start | self.stop):
            m.d.sync += [model.eq(0), first.eq(1)]
        if self.config.row_weights:     # no slot follows a start or a stop at once
            m.d.comb += self.next_model.eq(
                Mux(turn_ends, 0, Mux(issue, model + 1, model)))
        return first

    def _wait_for_updates(self, m, ends):
        """Flag that a batch may begin; ``ends``: the one before had its last first slot."""
        left = Signal(range(self.config.latency))
        ready = Signal(init=1)
        with m.If(left != 0):
            m.d.sync += [left.eq(left - 1), ready.eq(left == 1)]
        with m.If(ends):
            m.d.sync += [left.eq(self.config.latency - 1), ready.eq(0)]
        with m.If(self.start | self.stop):
            m.d.sync += [left.eq(0), ready.eq(1)]
        return ready

    def _correcting(self, m, turn_ends):
        """Flag that a slot must wait for its correction."""
        if not self.config.corrections:
            return C(0)
        busy = Signal()
        with m.If(turn_ends & self.slot.sample):
            m.d.sync += busy.eq(1)
        with m.Elif(self.corrected | self.stop):
            m.d.sync += busy.eq(0)
        return busy & self.slot.correct

    def _count_period(self, m, turn_ends, batch_ends, epoch_ends, size, rows):
        """Corrections at the first turn of each period, sampled if another one follows; returns the
        rows up to the next.
        """
        if not self.config.corrections:
            return None
        per_beat = self.config.rows.rows_per_beat
        period = _Countdown(m, per_beat, "period")
        corrects = Signal()
        more = Signal()                 # rows beyond this period
        boundary = Signal()             # the turn begins one
        ends = corrects & period.last & (size == period.near)
        m.d.comb += [
            self.slot.sample.eq(boundary & more), corrects.eq(self.period != 0),
            self.misaligned.eq(turn_ends & ends & ~batch_ends & ~epoch_ends),
        ]
        left = rows.value - size
        with m.If(turn_ends):
            m.d.sync += [boundary.eq(ends), self.slot.correct.eq(ends),
                         more.eq(left > self.period)]
            period.set(Mux(ends, self.period, period.value - size))
        with m.If(self.start):
            m.d.sync += [boundary.eq(corrects), self.slot.correct.eq(0),
                         more.eq(self.rows > self.period)]
            period.set(self.period)
        return Mux(corrects, period.near, per_beat)

    def _count_rows(self, m, turn_ends, batch_ends, beat_ends, epoch_ends):
        """Rows of the turn: from the beat's next one to the end of beat, batch or epoch."""
        per_beat = self.config.rows.rows_per_beat
        place = Signal(range(per_beat))
        end = Signal(range(per_beat + 1))
        room = Signal(range(per_beat + 1))
        size = Signal(range(per_beat + 1))
        rows, batch = _Countdown(m, per_beat, "rows"), _Countdown(m, per_beat, "batch")
        nearest = _least(_least(room, rows.near), batch.near)
        of_period = self._count_period(m, turn_ends, batch_ends, epoch_ends, size, rows)
        if of_period is not None:
            nearest = _least(nearest, of_period)
        m.d.comb += [
            room.eq(per_beat - place), size.eq(nearest),
            end.eq(place + size), beat_ends.eq((size == room) | epoch_ends),
            epoch_ends.eq(rows.last & (size == rows.near)),
            batch_ends.eq(batch.last & (size == batch.near)),
            self.slot.rows.eq(Cat((place <= row) & (end > row) for row in range(per_beat))),
        ]
        with m.If(turn_ends):
            m.d.sync += [place.eq(Mux(beat_ends, 0, end)), self.slot.first.eq(batch_ends)]
            rows.set(rows.value - size)
            batch.set(Mux(batch_ends, self.batch, batch.value - size))
        with m.If(self.start):
            m.d.sync += [place.eq(0), self.slot.first.eq(1)]
            rows.set(self.rows)
            batch.set(self.batch)


class _Countdown:
    """Register that counts down, with what it has near the end beside it."""

    def __init__(self, m, most, name):
        self._m, self._most = m, most
        self.value = Signal(32, name=f"{name}_left")
        self.near = Signal(range(most + 1), name=f"{name}_near")    # the value, at most ``most``
        self.last = Signal(name=f"{name}_last")                     # the value is at most ``most``

    def set(self, value):
        """Set all of it."""
        self._m.d.sync += [self.value.eq(value),
                           self.near.eq(Mux(value > self._most, self._most, value)),
                           self.last.eq(value <= self._most)]


def _least(a, b):
    return Mux(a < b, a, b)
