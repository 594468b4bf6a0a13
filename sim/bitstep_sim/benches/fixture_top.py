"""A small top with the shell of a real one and no pipeline, to test board and shell by themselves.

It has the ports of ``bitstep_hw.top.Top``, so the board and the benches take it as such.
"""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.registers import Error, LabelFormat, Status
from bitstep_hw.axi.buses import AxiLite, AxiRead, AxiWrite, connect_flat, flat_members
from bitstep_hw.axi.read_master import ReadMaster
from bitstep_hw.axi.write_master import WriteMaster
from bitstep_hw.shell.register_bank import ADDRESS_WIDTH, RegisterBank

FAULTS = ("none", "crosses", "unaligned", "long", "withdrawn", "wlast", "hangs", "early")
ROWS_ONLY, LABELS_ONLY, BOTH = LabelFormat.SIGN, LabelFormat.INT16, LabelFormat.INT32


def fold(words):
    """Combine the 64-bit ``words`` of a beat as :class:`FixtureTop` does, as integers."""
    result = 0
    for index, word in enumerate(words):
        result ^= (word << index | word >> 64 - index) & (1 << 64) - 1
    return result


class FixtureTop(wiring.Component):
    """Writes to MODEL_OUT one 64-bit word for each of ROWS beats.

    With LABEL_FORMAT 0 it is the row beat, its words rotated by their number and combined by
    exclusive or; with 1 it is a word read at LABELS; with 2 it is the exclusive or of both. One
    beat per cycle with an ideal memory.

    Parameters
    ----------
    bus_width : {64, 128, 256, 512}
        Bits of a row beat.
    identity : int
        Value of the IDENTITY registers.
    faulty : bool
        If true, LABEL_SHIFT, an index of ``FAULTS``, selects a way to break the rules of AXI, for
        tests of checkers.

    Members
    -------
    s_axi_*, m_axi_rows_*, m_axi_aux_*
        As ``bitstep_hw.top.Top``.
    interrupt : Out(1)
        A run is over, and none was started since.
    """

    def __init__(self, *, bus_width=64, identity=0, faulty=False):
        self.bus_width, self.identity, self.faulty = bus_width, identity, faulty
        super().__init__({
            **flat_members("s_axi", In(AxiLite(address_width=ADDRESS_WIDTH))),
            **flat_members("m_axi_rows", Out(AxiRead(data_width=bus_width))),
            **flat_members("m_axi_aux", Out(AxiRead(data_width=64))),
            **flat_members("m_axi_aux", Out(AxiWrite(data_width=64))),
            "interrupt": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.bank = bank = RegisterBank()
        m.submodules.rows = rows = ReadMaster(data_width=self.bus_width)
        m.submodules.labels = labels = ReadMaster(data_width=64)
        m.submodules.writer = writer = WriteMaster()
        m.d.comb += [
            connect_flat(self, "s_axi", bank.bus),
            connect_flat(self, "m_axi_rows", rows.bus),
            connect_flat(self, "m_axi_aux", labels.bus),
            connect_flat(self, "m_axi_aux", writer.bus),
        ]
        self._elaborate_data(m, bank, rows, labels, writer)
        self._elaborate_control(m, bank, rows, labels, writer)
        if self.faulty:
            self._elaborate_faults(m, bank, rows)
        return m

    def _elaborate_data(self, m, bank, rows, labels, writer):
        uses_rows = Signal(init=1)
        uses_labels = Signal()
        m.d.comb += [
            uses_rows.eq(bank.label_format != LABELS_ONLY),
            uses_labels.eq(bank.label_format != ROWS_ONLY),
        ]
        folded = 0
        for index in range(self.bus_width // 64):
            folded ^= rows.o.payload.word_select(index, 64).rotate_left(index)
        m.d.comb += [
            writer.i.payload.eq(Mux(uses_rows, folded, 0) ^ Mux(uses_labels, labels.o.payload, 0)),
            writer.i.valid.eq((rows.o.valid | ~uses_rows) & (labels.o.valid | ~uses_labels)),
            rows.o.ready.eq(writer.i.ready & writer.i.valid & uses_rows),
            labels.o.ready.eq(writer.i.ready & writer.i.valid & uses_labels),
        ]
        for master, address, used in ((rows, bank.rows_address, uses_rows),
                                      (labels, bank.labels_address, uses_labels),
                                      (writer, bank.model_out_address, 1)):
            wanted = Signal()
            m.d.comb += [
                master.i_job.valid.eq(wanted),
                master.i_job.payload.address.eq(address),
                master.i_job.payload.beats.eq(bank.rows),
            ]
            with m.If(bank.start):
                m.d.sync += wanted.eq(used)
            with m.Elif(master.i_job.ready):
                m.d.sync += wanted.eq(0)

    def _elaborate_control(self, m, bank, rows, labels, writer):
        masters = (rows, labels, writer)
        busy = Signal()
        done = Signal()
        hangs = (bank.label_shift == FAULTS.index("hangs")) & self.faulty
        m.d.comb += [
            bank.identity.eq(self.identity),
            bank.status.eq(busy * Status.BUSY + done * Status.DONE
                           + (done & (bank.error != 0)) * Status.FAILED),
            bank.locked.eq(busy),
            self.interrupt.eq(done),
        ]
        for master in masters:
            m.d.comb += master.stop.eq(busy & (bank.error != Error.NONE))
        still = [master.idle & ~master.i_job.valid for master in masters]
        early = (bank.label_shift == FAULTS.index("early")) & self.faulty
        error = Signal.like(bank.error)
        m.d.comb += bank.error.eq(error)
        with m.If(~busy & bank.start):
            m.d.sync += [busy.eq(1), done.eq(0), error.eq(Error.NONE), bank.cycles.eq(0),
                         bank.bytes_read.eq(0)]
        with m.Elif(busy):
            m.d.sync += bank.cycles.eq(bank.cycles + 1)
            m.d.sync += bank.bytes_read.eq(bank.bytes_read + labels.accepted * 8
                                           + rows.accepted * (self.bus_width // 8))
            with m.If(error == Error.NONE):
                with m.If(rows.error):
                    m.d.sync += error.eq(Error.ROW_READ)
                with m.Elif(labels.error):
                    m.d.sync += error.eq(Error.AUX_READ)
                with m.Elif(writer.error):
                    m.d.sync += error.eq(Error.MODEL_WRITE)
                with m.Elif(bank.abort):
                    m.d.sync += error.eq(Error.ABORTED)
            with m.If(~hangs & still[0] & still[1] & (still[2] | early)):
                m.d.sync += [busy.eq(0), done.eq(1), bank.epochs_done.eq(bank.epochs)]

    def _elaborate_faults(self, m, bank, rows):
        beat_bytes = self.bus_width // 8
        blink = Signal()
        m.d.sync += blink.eq(~blink)
        statements = {
            "crosses": self.m_axi_rows_araddr.eq(rows.bus.araddr + beat_bytes),
            "unaligned": self.m_axi_rows_araddr.eq(rows.bus.araddr + beat_bytes // 2),
            "long": self.m_axi_rows_arlen.eq(rows.bus.arlen + 16),
            "withdrawn": self.m_axi_rows_arvalid.eq(rows.bus.arvalid & blink),
            "wlast": self.m_axi_aux_wlast.eq(0),
        }
        # These come last, so they win over what connects the buses.
        for fault, statement in statements.items():
            with m.If(bank.label_shift == FAULTS.index(fault)):
                m.d.comb += statement
