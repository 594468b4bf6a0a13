"""On-chip memory that the pipeline's AXI ports and a host share."""

from amaranth import Cat, Module, Signal
from amaranth.lib import memory, wiring

from bitstep_hw.boards.serial.memory_ports import (
    WORD_BYTES,
    WORD_WIDTH,
    PortedMemory,
    ReadSlave,
    WriteSlave,
)

_LATENCY = 3                # cycles from a request to its word: address, memory, output register


class SharedMemory(PortedMemory):
    """On-chip memory behind the pipeline's AXI ports, with a port of its own for the host.

    The row port has one side of the dual-ported memory for itself: a word a cycle. The other side
    serves, in this order, the host (which asks once in hundreds of cycles), the write port and the
    other read ports. 4 cycles from ARVALID to RVALID. Storage: ``n_bytes``.

    Parameters
    ----------
    n_bytes, base, n_readers
        See :class:`bitstep_hw.boards.serial.memory_ports.PortedMemory`, which has the members.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    SMALLEST, LARGEST = 4096, 1 << 28

    def __init__(self, *, n_bytes, base, n_readers=1):
        super().__init__(n_bytes=n_bytes, base=base, n_readers=n_readers)

    def elaborate(self, platform):
        m = Module()
        shape = {"base": self.base, "n_words": self.n_words}
        m.submodules.store = store = memory.Memory(shape=WORD_WIDTH, depth=self.n_words, init=[])

        m.submodules.row_slave = rows = ReadSlave(**shape, latency=_LATENCY)
        wiring.connect(m, wiring.flipped(self.rows), rows.bus)
        # Transparent, though no row is written while rows are read: so Yosys finds that one of the
        # memory's two ports is enough for the other read port and the write port.
        write = store.write_port(granularity=8)
        read = store.read_port(transparent_for=(write,))
        row_address = Signal.like(rows.address)
        m.d.sync += [row_address.eq(rows.address), rows.word.eq(read.data)]
        m.d.comb += [rows.grant.eq(rows.request), read.addr.eq(row_address)]

        m.submodules.write_slave = writer = WriteSlave(**shape)
        wiring.connect(m, wiring.flipped(self.writer), writer.bus)
        readers = []
        for number, port in enumerate(self.readers):
            m.submodules[f"read_slave_{number}"] = reader = ReadSlave(**shape, latency=_LATENCY)
            wiring.connect(m, wiring.flipped(port), reader.bus)
            readers.append(reader)

        # One register for the address of the memory's other side, whoever asks.
        address = Signal.like(rows.address)
        word = Signal(WORD_WIDTH)
        strobe = Signal(WORD_BYTES)
        other = store.read_port()
        m.d.comb += [other.addr.eq(address), write.addr.eq(address), write.data.eq(word),
                     write.en.eq(strobe)]
        found = Signal(WORD_WIDTH)
        m.d.sync += [found.eq(other.data), strobe.eq(0)]
        with m.If(self.host_request):
            m.d.comb += self.host_grant.eq(1)
            m.d.sync += [address.eq(self.host_address), word.eq(self.host_i),
                         strobe.eq(self.host_write.replicate(WORD_BYTES))]
        with m.Elif(writer.request):
            m.d.comb += writer.grant.eq(1)
            m.d.sync += [address.eq(writer.address), word.eq(writer.word),
                         strobe.eq(writer.strobe)]
        for reader in readers:
            with m.Elif(reader.request):
                m.d.comb += reader.grant.eq(1)
                m.d.sync += address.eq(reader.address)
        m.d.comb += [reader.word.eq(found) for reader in readers]

        waiting = Signal(_LATENCY)
        m.d.sync += waiting.eq(Cat(self.host_grant & ~self.host_write, waiting))
        m.d.comb += [self.host_valid.eq(waiting[-1]), self.host_o.eq(found)]
        return m
