"""Updates that wait for the slots of their rows."""

from amaranth import C, Module, Mux, Signal, signed
from amaranth.lib import memory, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import UPDATE_WIDTH
from bitstep_hw.pipeline.slot import slot_layout


class UpdateQueue(wiring.Component):
    """Queue from the solver to the model store: c of the row that is applied to a slot's words.

    One update and one slot a cycle. No more updates wait than a row's look-ahead has rows, which
    the sequencer sees to. Storage: ``lookahead`` + 3 updates, rounded up to a power of two.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``lookahead``.

    Members
    -------
    clear : In(1)
        Forgets every update.
    i_valid : In(1), i : In(signed(32))
        Update of the next row.
    slot : In(slot_layout)
        A slot.
    o : Out(signed(32))
        Update for the slot, a cycle later; 0 if the slot applies no row.
    """

    def __init__(self, *, config):
        self.depth = 1 << (config.lookahead + 2).bit_length()
        super().__init__({
            "clear": In(1),
            "i_valid": In(1), "i": In(signed(UPDATE_WIDTH)),
            "slot": In(slot_layout(config)),
            "o": Out(signed(UPDATE_WIDTH)),
        })

    def elaborate(self, platform):
        m = Module()
        slot = self.slot
        m.submodules.queue = queue = memory.Memory(shape=signed(UPDATE_WIDTH), depth=self.depth,
                                                   init=[])
        write = queue.write_port()
        read = queue.read_port(domain="comb")
        newest = Signal(range(self.depth))
        oldest = Signal(range(self.depth))
        update = Signal(signed(UPDATE_WIDTH), reset_less=True)
        m.d.comb += [
            write.addr.eq(newest), write.data.eq(self.i), write.en.eq(self.i_valid),
            read.addr.eq(oldest), self.o.eq(update),
        ]
        with m.If(self.i_valid):
            m.d.sync += newest.eq(newest + 1)
        with m.If(slot.valid & slot.first):
            m.d.sync += update.eq(Mux(slot.apply, read.data, C(0, signed(UPDATE_WIDTH))))
            with m.If(slot.apply):
                m.d.sync += oldest.eq(oldest + 1)
        with m.If(self.clear):
            m.d.sync += [newest.eq(0), oldest.eq(0)]
        return m
