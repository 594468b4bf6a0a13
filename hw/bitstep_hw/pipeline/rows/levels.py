"""Levels of a row and of the rows before it, each in the cycle in which it is used."""

from amaranth import Cat, Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import MAX_FEATURES, MAX_LOOKAHEAD
from bitstep_hw.parts.arithmetic import delay, enable_of, when
from bitstep_hw.pipeline.rows.beat_queue import BeatQueue
from bitstep_hw.pipeline.rows.decoder import Decoder
from bitstep_hw.pipeline.rows.delay_lines import DelayLines
from bitstep_hw.pipeline.slot import slot_layout

_DOT, _GRADIENT = 0, 1      # samples of a code


class Levels(wiring.Component):
    """Decoded levels of each slot: its own, those of the rows before at the same place, and those
    of the row that is applied to its words.

    The way of a beat: a register; the delay lines, which give the same beat of the rows before, or,
    where rows come in every cycle, a queue that gives that of the row to apply; the decoders, one
    for each use; a register for each level. A slot a cycle; the levels come 2 cycles
    after the slot. Two are later: ``late_dot`` comes with the slot's weights
    (``config.stages.store.words``), and ``applied`` by
    ``config.stages.dot.product - config.stages.dot.term``.
    Storage: :class:`bitstep_hw.pipeline.rows.delay_lines.DelayLines` or
    :class:`bitstep_hw.pipeline.rows.beat_queue.BeatQueue`.
    Golden model: :func:`bitstep.pipeline.levels.decode`.

    Parameters
    ----------
    config : PipelineConfig
        Gives codes, lanes, look-ahead and ``update_interval``.

    Members
    -------
    start : In(1)
        With ``update_interval`` 1, a strobe: no row is to be applied any more.
    slots : In(slot_layout).array(store.words), beat : In(beat_width)
        A slot now and as it was 1, 2, ... cycles ago; the beat of the slot now.
    last_lanes, lookahead : In
        As the registers of these names; constant during an epoch.
    dot, late_dot : Out(signed(level_width)).array(lanes)
        Levels for products with the rows before; the same ones, beside the model's weights.
    previous : Out(signed(level_width)).array(rows, lanes)
        Gradient levels of the rows before, nearest first; with ``update_interval`` 1 of
        ``batch_lookahead`` rows, as :class:`bitstep_hw.pipeline.rows.beat_queue.BeatQueue`.
    beats, idle_rows : In
        With ``batch_lookahead``: likewise.
    applied : Out(signed(level_width)).array(lanes)
        Gradient levels of the row that the run's look-ahead asks for.
    """

    def __init__(self, *, config):
        self.config = config
        self._before = (BeatQueue if config.clock.every_cycle else DelayLines)(config=config)
        level = Out(signed(config.rows.level_width))
        super().__init__({
            "slots": In(slot_layout(config)).array(config.stages.store.words),
            "beat": In(config.rows.beat_width),
            "start": In(1),
            "last_lanes": In(10), "lookahead": In(range(MAX_LOOKAHEAD + 1)),
            "dot": level.array(config.rows.lanes), "late_dot": level.array(config.rows.lanes),
            "previous": level.array(self._before.rows, config.rows.lanes),
            "applied": level.array(config.rows.lanes),
            "beats": In(range(MAX_FEATURES + 1)), "idle_rows": In(range(MAX_LOOKAHEAD + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        beat = Signal(config.rows.beat_width, reset_less=True)
        m.d.sync += beat.eq(self.beat)
        taps = self._before.place(m, self, beat)
        # Lanes of a row's last beat: a comparison for each of them, constant during a run.
        mask = Signal(config.rows.lanes, reset_less=True)
        m.d.sync += mask.eq(Cat(self.last_lanes > lane for lane in range(config.rows.lanes)))

        self._decode(m, beat, mask, self.dot, sample=_DOT, name="dot")
        # Codes are fewer bits than levels, so the codes wait and are decoded a second time.
        later = config.stages.store.words - 2
        self._decode(m, delay(m, beat, later, name="beat"), mask, self.late_dot, sample=_DOT,
                     name="late_dot", slot=self.slots[1 + later])
        for line, (tap, levels) in enumerate(zip(taps[:-1], self.previous, strict=True), 1):
            self._decode(m, tap, mask, levels, sample=_GRADIENT, name=f"previous_{line}")
        if config.stages.dot.term == config.stages.dot.product:
            self._decode(m, self._before.chosen(m, self, taps), mask, self.applied,
                         sample=_GRADIENT, name="applied")
        else:
            self._choose_late(m, taps[-1], mask)
        return m

    def _choose_late(self, m, last_tap, mask):
        """Drive ``applied``: memory blocks are slow to answer, so what they say is in registers
        before the choice.
        """
        config = self.config
        last = [Signal.like(level, name=f"last_{lane}") for lane, level in enumerate(self.applied)]
        self._decode(m, last_tap, mask, last, sample=_GRADIENT, name="last")
        applied = Cat(Signal(level.shape(), name=f"applied_{lane}", reset_less=True)
                      for lane, level in enumerate(last))
        rows = [Cat(levels) for levels in (*self.previous, last)]
        with when(m, enable_of(config, self.slots[2].valid)):
            m.d.sync += applied.eq(self._before.chosen(m, self, rows))
        m.d.comb += Cat(self.applied).eq(applied)

    def _decode(self, m, code, mask, levels, *, sample, name, slot=None):
        """Drive ``levels`` with those of a beat of codes, a cycle later; ``slot`` says when the
        beat counts, by default with the slot of the cycle before.
        """
        config = self.config
        slot = self.slots[1] if slot is None else slot
        m.submodules[f"decode_{name}"] = decoder = Decoder(config=config, sample=sample)
        used = mask | (~slot.last).replicate(config.rows.lanes)
        enable = enable_of(config, slot.valid)
        if config.rows.has_zero_code:
            m.d.comb += [decoder.beat.eq(code), decoder.used.eq(used)]
            for lane, (level, decoded) in enumerate(zip(levels, decoder.levels, strict=True)):
                m.d.comb += level.eq(_held(m, decoded, enable, name=f"{name}_{lane}"))
        else:
            # Gates before the register would keep memory blocks from using their own.
            m.d.comb += [decoder.beat.eq(_held(m, code, enable, name=name)),
                         decoder.used.eq(_held(m, used, enable, name=f"{name}_used"))]
            for level, decoded in zip(levels, decoder.levels, strict=True):
                m.d.comb += level.eq(decoded)


def _held(m, value, enable, *, name):
    """Register of ``value`` that moves with ``enable``."""
    register = Signal(value.shape(), name=name, reset_less=True)
    with when(m, enable):
        m.d.sync += register.eq(value)
    return register
