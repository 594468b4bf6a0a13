"""Sequencer of slots: the order and the time in which beats of rows enter the pipeline."""

from amaranth import C, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import MAX_FEATURES, MAX_LOOKAHEAD
from bitstep_hw.parts.run import row_shape
from bitstep_hw.pipeline.rows.correction_periods import CorrectionPeriods
from bitstep_hw.pipeline.rows.issue_gate import IssueGate
from bitstep_hw.pipeline.rows.phases import Phase, phases_of
from bitstep_hw.pipeline.rows.row_flags import RowFlags
from bitstep_hw.pipeline.rows.wait_causes import WaitCauses
from bitstep_hw.pipeline.slot import slot_layout

_CAUSES = ("wait_rows", "wait_labels", "wait_lookahead", "wait_recursion", "wait_correction",
           "wait_refetch", "flushing")


class Sequencer(wiring.Component):
    """Source of an epoch's slots.

    A slot is issued when its beat is there and nothing it needs is still to come. What a slot
    means never depends on when it is issued: row i is applied to the words of row i + D + 1, with
    D the run's look-ahead, so a row waits until the row D + 1 before has its update, and rows are
    ``update_interval`` cycles apart. Rows without data are put in where updates must be applied
    and no row is left to carry them: D + 1 at an epoch's end and before a proximal step, and before
    a correction whose period is too short, and with ``drains`` after every batch. One slot a
    cycle, or one row every ``update_interval`` cycles if rows are shorter.

    Its parts: :class:`~bitstep_hw.pipeline.rows.phases.Phases` of the epoch,
    :class:`~bitstep_hw.pipeline.rows.row_flags.RowFlags` and
    :class:`~bitstep_hw.pipeline.rows.correction_periods.CorrectionPeriods` for what a row means,
    :class:`~bitstep_hw.pipeline.rows.issue_gate.IssueGate` for when it enters, and
    :class:`~bitstep_hw.pipeline.rows.wait_causes.WaitCauses` for the counters.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``max_beats``, ``latency``, ``update_interval``, ``proximal``, ``refetch``,
        ``drains`` and ``carries_on``.

    Members
    -------
    rows, beats, batch, lookahead, period, proximal_period : In
        As the registers of these names; constant from the cycle before ``start`` to ``done``.
    idle_rows, ahead : In
        With ``batch_lookahead``: those of
        :func:`bitstep_hw.pipeline.rows.between_batches.between_batches`.
    start : In(1)
        Strobe: starts an epoch.
    stop : In(1)
        No further slot; hold it for ``config.latency`` cycles before the next epoch.
    done : Out(1)
        Strobe: all of the epoch's updates are applied.
    i_rows : In(stream.Signature(beat_width))
        The epoch's rows.
    i_labels : In(stream.Signature(row_shape(config)))
        The epoch's labels.
    corrected : In(1)
        Strobe: the corrections asked for by the last ``sample`` row are ready.
    decided : In(1)
        Strobe, with ``refetch``: a row has its update.
    replay : In(1)
        Strobe, with ``refetch``: only the model's weights can decide a row, so it and the rows
        after it must come again.
    hold : In(1)
        With ``refetch``: a row is fetched again, so no slot is issued.
    rewind : Out(1)
        Strobe: go back to the oldest row that is not decided.
    replay_alone : Out(1)
        The row in the pipeline meets exactly the words in the store.
    discard : Out(1)
        The rows in the pipeline count for nothing.
    proximal : Out(1)
        Strobe: a proximal step begins, with every update applied and no slot in the pipeline.
    proximal_done : In(1)
        Strobe: the proximal step is done.
    hold_rows : In(1)
        With ``full_passes``: beats of rows count as not there.
    fine : In(1)
        With ``solver.fine``: updates come so many cycles later; constant during an epoch.
    batch_starts : Out(1), batch_ready : In(1)
        With ``drains``, strobes around what is made of the model at a batch's start, with every
        update applied and no slot in the pipeline.
    slot : Out(slot_layout)
        Slot.
    beat : Out(beat_width)
        Its beat.
    label : Out(row_shape(config))
        Label of the row, or of each model, in its last slot, and its weight.
    misaligned : Out(1)
        A correction or a proximal step fell into a batch: its period is no multiple of the batch.
    wait_rows, wait_labels, wait_lookahead, wait_recursion, wait_correction, wait_refetch : Out(1)
        No row entered in this cycle, for this cause. None of them while a row enters.
    flushing : Out(1)
        No row entered in this cycle, because rows without data do.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "rows": In(32), "beats": In(range(MAX_FEATURES + 1)), "batch": In(32),
            "lookahead": In(range(MAX_LOOKAHEAD + 1)), "period": In(32),
            "start": In(1), "stop": In(1), "done": Out(1),
            "i_rows": In(stream.Signature(config.rows.beat_width)),
            "i_labels": In(stream.Signature(row_shape(config))),
            "corrected": In(1), "decided": In(1), "replay": In(1), "hold": In(1),
            "rewind": Out(1), "replay_alone": Out(1), "discard": Out(1),
            "proximal_period": In(32), "proximal": Out(1), "proximal_done": In(1),
            "slot": Out(slot_layout(config)),
            "beat": Out(config.rows.beat_width),
            "label": Out(row_shape(config)),
            "misaligned": Out(1), "batch_starts": Out(1), "batch_ready": In(1),
            "hold_rows": In(1), "fine": In(1),
            "idle_rows": In(range(MAX_LOOKAHEAD + 1)), "ahead": In(range(MAX_LOOKAHEAD + 1)),
            **{name: Out(1) for name in _CAUSES},
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.gate = gate = IssueGate(config=self.config)
        m.submodules.phases = phases = phases_of(self.config)
        m.submodules.periods = periods = CorrectionPeriods(
            drains=self.config.drains, carries_on=self.config.carries_on)
        m.submodules.flags = flags = RowFlags(every_cycle=self.config.clock.every_cycle,
                                              looks_ahead=self.config.batch_lookahead > 0)
        m.submodules.causes = causes = WaitCauses()
        parts = (gate, phases, periods, flags, causes)
        idle_row = Signal()
        held = Signal()
        replaying = Signal()
        m.d.comb += [
            idle_row.eq(phases.carrying | periods.fill),
            held.eq((self.hold | self.replay) & C(self.config.refetch)),
            # From the strobe ``replay`` until the row that comes again is decided.
            replaying.eq(self.replay | phases.discard | (phases.phase == Phase.REPLAY)
                         | (phases.phase == Phase.DECISION)),
        ]
        index, first, last = self._count_beats(m, gate.issue)
        open_rows, replayed = self._count_open_rows(m, gate.counted)

        # Ports of the same name are one signal.
        signals = _ports(self, In) | {
            "idle_row": idle_row, "held": held, "replaying": replaying,
            "opens": phases.at_boundary(),
            "first": first, "last": last, "open_rows": open_rows, "replayed": replayed,
            "beat_valid": self.i_rows.valid, "label_valid": self.i_labels.valid}
        if self.config.stages.full_passes:
            signals["beat_valid"] = self.i_rows.valid & ~self.hold_rows
        for part in parts:
            signals |= _ports(part, Out)
        for part in parts:
            m.d.comb += [port.eq(signals[name]) for name, port in _ports(part, In).items()]
        m.d.comb += [port.eq(signals[name]) for name, port in _ports(self, Out).items()
                     if name in signals]
        m.d.comb += [
            self.slot.valid.eq(gate.issue), self.slot.index.eq(index),
            *(self.slot[name].eq(signals[name]) for name in (
                "first", "last", "idle_row", "apply", "skip", "frozen", "freeze", "correct",
                "commit", "sample")),
            self.beat.eq(self.i_rows.payload),
            self.label.eq(self.i_labels.payload),
            self.i_rows.ready.eq(gate.issue & ~idle_row),
            self.i_labels.ready.eq(gate.counted),
        ]
        return m

    def _count_beats(self, m, issue):
        """Index of the next slot in its row, and whether it is the first or the last."""
        # Flags that decide about a slot are kept in registers: comparing comes a cycle before.
        index = Signal(range(self.config.rows.max_beats))
        first = Signal()
        last = Signal()
        final = Signal.like(index)
        following = Signal.like(index)
        m.d.comb += following.eq(Mux(last, 0, index + 1))
        m.d.sync += final.eq(self.beats - 1)
        with m.If(issue):
            m.d.sync += [index.eq(following), first.eq(last), last.eq(following == final)]
        with m.If(self.start):
            m.d.sync += [index.eq(0), first.eq(1), last.eq(final == 0)]
        return index, first, last

    def _count_open_rows(self, m, counted):
        """Rows that are not decided, and their number in the cycle of ``replay``."""
        open_rows = Signal(range(MAX_LOOKAHEAD + 2))
        replayed = Signal(range(MAX_LOOKAHEAD + 2))
        m.d.comb += replayed.eq(Mux(self.replay, open_rows, 0))
        if self.config.refetch:
            m.d.sync += open_rows.eq(
                Mux(self.replay, 0, open_rows + counted - self.decided))
        with m.If(self.stop):
            m.d.sync += open_rows.eq(0)
        return open_rows, replayed


def _ports(component, flow):
    """Ports of one direction that are no streams, by name."""
    return {name: getattr(component, name) for name, member in component.signature.members.items()
            if member.is_port and member.flow == flow}
