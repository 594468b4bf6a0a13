"""Beats of rows whose updates are to come."""

from amaranth import C, Module, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import MAX_FEATURES, MAX_LOOKAHEAD
from bitstep_hw.parts.arithmetic import delay, same
from bitstep_hw.parts.memories import memory_of
from bitstep_hw.pipeline.slot import slot_layout


class BeatQueue(wiring.Component):
    """Queue of beats from a row's slots to the slots that it is applied to.

    Where no row meets the rows before it, each of their beats is wanted once more, when the row's
    update is there. So one memory does for all of them, in the place of
    :class:`bitstep_hw.pipeline.rows.delay_lines.DelayLines`. With ``batch_lookahead`` there are as
    many copies of it, which give the beats of the rows before the last ``idle_rows``.

    One slot a cycle; a slot's own beat may be wanted 2 cycles later at the earliest. Latency: the
    older row's beat comes with the slot's. Storage: ``config.ahead.beats_in_flight`` beats, rounded
    up to a power of two, and those of the copies, which need fewer (``config.ahead.beats_back``).

    Parameters
    ----------
    config : PipelineConfig
        Gives ``beat_width``, ``batch_lookahead`` and ``ahead``.

    Attributes
    ----------
    rows : int
        Rows whose products with the row are formed.

    Members
    -------
    clear : In(1)
        Forgets every beat; between epochs.
    slot : In(slot_layout)
        A slot, one cycle before its beat.
    beat : In(beat_width)
        The beat of the slot announced in the cycle before.
    o : Out(beat_width)
        With ``beat``: the beat of the row that is applied, if the slot applies one.
    beats, idle_rows : In
        With ``batch_lookahead``: beats of a row, as the register; rows without data between two
        batches (:func:`bitstep_hw.pipeline.rows.between_batches.between_batches`). Constant from a
        batch's start to the next.
    previous : Out(beat_width).array(batch_lookahead)
        With ``beat``: that beat of the rows ``idle_rows`` + 1, + 2, ... before, if they are in the
        queue.
    """

    def __init__(self, *, config):
        self.config, self.rows = config, config.batch_lookahead
        self.depth = 1 << (config.ahead.beats_in_flight - 1).bit_length()
        super().__init__({
            "clear": In(1), "slot": In(slot_layout(config)),
            "beat": In(config.rows.beat_width), "o": Out(config.rows.beat_width),
            "beats": In(range(MAX_FEATURES + 1)), "idle_rows": In(range(MAX_LOOKAHEAD + 1)),
            "previous": Out(config.rows.beat_width).array(config.batch_lookahead),
        })

    def place(self, m, levels, beat):
        """Make it a part of the levels, whose module is ``m``; returns the beats of the rows that
        they look ahead of, nearest first, and of the row to apply, beside ``beat``.
        """
        m.submodules.queue = self
        m.d.comb += [self.clear.eq(levels.start), self.slot.eq(levels.slots[0]), self.beat.eq(beat)]
        if self.config.batch_lookahead:
            m.d.comb += same(self, levels, "beats", "idle_rows")
        return [*self.previous, self.o]

    def chosen(self, m, levels, values):
        """The one of ``values``, of these rows, that is applied: the last."""
        del m, levels
        return values[-1]

    def elaborate(self, platform):
        m = Module()
        m.submodules.beats = store = memory_of(
            self.config, shape=self.config.rows.beat_width, depth=self.depth, weights=False)
        write = store.write_port()
        read = store.read_port()
        newest = Signal(range(self.depth))
        oldest = Signal(range(self.depth))
        taken = self.slot.valid & self.slot.apply
        m.d.comb += [
            read.addr.eq(oldest), read.en.eq(taken | C(self.config.clock.always_read)),
            self.o.eq(read.data),
            write.addr.eq(delay(m, newest, 1, name="newest")), write.data.eq(self.beat),
            write.en.eq(delay(m, self.slot.valid, 1, name="writing")),
        ]
        self._look_back(m, newest, write)
        with m.If(self.slot.valid):
            m.d.sync += newest.eq(newest + 1)
        with m.If(taken):
            m.d.sync += oldest.eq(oldest + 1)
        with m.If(self.clear):
            m.d.sync += [newest.eq(0), oldest.eq(0)]
        return m

    def _look_back(self, m, newest, written):
        """Drive ``previous`` from copies of the queue: what ``written`` writes, too."""
        beats = self.beats[:len(newest)]
        back = beats * (self.idle_rows + 1)     # beats from a row to the slot's
        for place, previous in enumerate(self.previous, start=1):
            distance = Signal.like(newest, name=f"distance_{place}")
            m.d.sync += distance.eq(back)
            depth = 1 << (self.config.ahead.beats_back(place) - 1).bit_length()
            m.submodules[f"copy_{place}"] = copy = memory_of(
                self.config, shape=self.config.rows.beat_width, depth=depth, weights=False)
            write = copy.write_port()
            read = copy.read_port()
            m.d.comb += [
                write.addr.eq(written.addr), write.data.eq(written.data),
                write.en.eq(written.en), read.addr.eq(newest - distance),
                read.en.eq(self.slot.valid | C(self.config.clock.always_read)),
                previous.eq(read.data),
            ]
            back = distance + beats
