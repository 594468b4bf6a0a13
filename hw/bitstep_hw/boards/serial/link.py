"""The host's side of a board: packets over a serial line."""

from amaranth import C, Cat, Module, Mux, Signal
from amaranth.lib import crc, stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.devices.uart.protocol import (
    CRC_BYTES,
    HEADER_BYTES,
    MAX_WORDS,
    REPLY_HEADER_BYTES,
    REPLY_MAGIC,
    REQUEST_MAGIC,
    WORD_BYTES,
    Command,
    Reply,
    information,
)
from bitstep.pipeline.registers import ADDRESS_WIDTH
from bitstep_hw.axi.buses import AxiLite


class Link(wiring.Component):
    """Serves one request after the other: registers, words of the shared memory, information.

    The packets are described in :mod:`bitstep.devices.uart.protocol`. A header has a checksum of
    its own, so that words are written as they come, to where they belong, and need no buffer: if
    the checksum behind them is wrong, the reply says so and the host sends them again. A register
    is written only once the checksum was right, and not again for a request with the sequence
    number of the one before. After ``gap_cycles`` without a byte in the middle of a request, the
    next byte is taken for the start of one. Bytes that come during a reply are lost. Stores a word.

    Parameters
    ----------
    base, n_bytes : int
        Address and size of the shared memory; ``base`` is a multiple of the size, a power of two.
    clock_hz, baud : int
        What the host is told of the board.
    gap_cycles : int
        Longest time between two bytes of a request.

    Raises
    ------
    ValueError
        If the gap is too short.

    Members
    -------
    i_valid : In(1), i_byte : In(8)
        Bytes from the line, at least 16 cycles apart.
    o : Out(stream.Signature(8))
        Bytes to the line.
    bus : Out(AxiLite(address_width=ADDRESS_WIDTH))
        The registers.
    memory_request, memory_write, memory_address, memory_o, memory_grant, memory_valid, memory_i
        The host's port of :class:`bitstep_hw.boards.serial.shared_memory.SharedMemory`.
    active, damaged : Out(1)
        A request is under way; pulse: a checksum was wrong or a request broke off.
    """

    def __init__(self, *, base, n_bytes, clock_hz, baud, gap_cycles):
        if gap_cycles < 2:
            raise ValueError(f"The gap between bytes must be at least 2 cycles, not {gap_cycles}")
        self.base, self.n_bytes, self.gap_cycles = base, n_bytes, gap_cycles
        self.information = information(base=base, n_bytes=n_bytes, clock_hz=clock_hz, baud=baud,
                                       gap_s=gap_cycles / clock_hz)
        super().__init__({
            "i_valid": In(1), "i_byte": In(8),
            "o": Out(stream.Signature(8)),
            "bus": Out(AxiLite(address_width=ADDRESS_WIDTH)),
            "memory_request": Out(1), "memory_write": Out(1),
            "memory_address": Out(range(n_bytes // WORD_BYTES)), "memory_o": Out(64),
            "memory_grant": In(1), "memory_valid": In(1), "memory_i": In(64),
            "active": Out(1), "damaged": Out(1),
        })
        self._crc = crc.Processor(crc.Parameters(crc.catalog.CRC32_ISO_HDLC, data_width=8))
        self._sequence = Signal(8)
        self._command = Signal(8)
        self._count = Signal(8)
        self._address = Signal(32)
        self._status = Signal(8)
        self._previous = Signal(8)          # sequence number of the last request that was answered
        self._word = Signal(64)
        self._bytes_left = Signal(range(HEADER_BYTES + CRC_BYTES))
        self._words_left = Signal(range(MAX_WORDS + 1))
        self._writes = ((self._command == Command.WRITE_MEMORY)
                        | (self._command == Command.WRITE_REGISTER))
        self._take = Signal()           # a byte is awaited
        self._lost = Signal()           # for too long already
        # The request is a register, since so much hangs on it in the memory.
        self._granted = self.memory_request & self.memory_grant

    def elaborate(self, platform):
        m = Module()
        m.submodules.crc = self._crc
        gap = Signal(range(self.gap_cycles))
        m.d.sync += [gap.eq(Mux(self.i_valid | ~self._take, 0, gap + 1)), self.damaged.eq(0)]
        m.d.comb += [
            self._lost.eq(gap == self.gap_cycles - 1),
            self._crc.data.eq(Mux(self.o.valid, self.o.payload, self.i_byte)),
            # A byte that comes during a reply belongs to no packet.
            self._crc.valid.eq(Mux(self.o.valid, self.o.ready,
                                   self.i_valid & (self._take | ~self.active))),
            self.o.payload.eq(self._word[:8]),
            self.memory_address.eq(self._address[3:]), self.memory_o.eq(self._word),
            self.bus.awaddr.eq(self._address), self.bus.awprot.eq(0),
            self.bus.wdata.eq(self._word[:32]), self.bus.wstrb.eq(0xF), self.bus.bready.eq(1),
            self.bus.araddr.eq(self._address), self.bus.arprot.eq(0), self.bus.rready.eq(1),
        ]
        with m.FSM() as fsm:
            m.d.comb += self.active.eq(~fsm.ongoing("Magic"))
            self._receive_header(m)
            self._decode(m)
            self._receive_payload(m)
            self._write_register(m)
            self._reply(m)
            self._read(m)
        return m

    def _await(self, m, register, *, following, counts=True):
        """Take a byte into ``register``, and go to ``following`` after the last one."""
        m.d.comb += self._take.eq(1)
        with m.If(self.i_valid):
            m.d.sync += self._bytes_left.eq(self._bytes_left - 1)
            with m.If(counts):
                m.d.sync += register.eq(Cat(register[8:], self.i_byte))
            with m.If(self._bytes_left == 1):
                m.next = following
        with m.If(self._lost):
            m.d.sync += self.damaged.eq(1)
            m.next = "Magic"

    def _receive_header(self, m):
        header = Cat(self._sequence, self._command, self._count, self._address)
        with m.State("Magic"):
            # The host waits as long as it likes before a request, so no gap ends this state.
            m.d.comb += self._crc.start.eq(1)
            m.d.sync += self._bytes_left.eq(HEADER_BYTES - 1 + CRC_BYTES)
            with m.If(self.i_valid & (self.i_byte == REQUEST_MAGIC)):
                m.next = "Header"
        with m.State("Header"):
            self._await(m, header, following="Check-Header", counts=self._bytes_left > CRC_BYTES)
        with m.State("Check-Header"):
            m.d.sync += [self._words_left.eq(self._count + 1), self._bytes_left.eq(WORD_BYTES)]
            with m.If(self._crc.match_detected):
                m.next = "Decode"
            with m.Else():
                m.d.sync += self.damaged.eq(1)
                m.next = "Magic"

    def _decode(self, m):
        bits = (self.n_bytes - 1).bit_length()
        end = self._address[3:bits] + self._count       # the last word, if it is inside
        inside = Signal()
        m.d.sync += inside.eq((self._address[bits:] == self.base >> bits)
                              & (self._address[:3] == 0) & ~end[bits - 3:].any())
        with m.State("Decode"):
            m.d.comb += self._crc.start.eq(1)
            m.d.sync += self._status.eq(Reply.REFUSED)
            with m.Switch(self._command):
                with m.Case(Command.READ_MEMORY, Command.WRITE_MEMORY):
                    with m.If(inside):
                        m.d.sync += self._status.eq(Reply.OK)
                with m.Case(Command.WRITE_REGISTER):
                    with m.If(self._count == 0):
                        m.d.sync += self._status.eq(Reply.OK)
                with m.Case(Command.READ_REGISTER, Command.READ_INFORMATION):
                    m.d.sync += self._status.eq(Reply.OK)
            m.next = "Reply"
            with m.If(self._writes):        # what is refused is received all the same
                m.next = "Payload"

    def _receive_payload(self, m):
        to_memory = self._command == Command.WRITE_MEMORY
        with m.State("Payload"):
            self._await(m, self._word, following="Store")
        m.d.sync += self.memory_write.eq(to_memory)
        with m.State("Store"):
            stored = Signal()
            m.d.comb += stored.eq(self._granted | ~to_memory | (self._status != Reply.OK))
            m.d.sync += self.memory_request.eq(~stored)
            with m.If(stored):
                m.d.sync += self._words_left.eq(self._words_left - 1)
                with m.If(to_memory):
                    m.d.sync += self._address.eq(self._address + WORD_BYTES)
                with m.If(self._words_left == 1):
                    m.d.sync += self._bytes_left.eq(CRC_BYTES)
                    m.next = "Payload-Checksum"
                with m.Else():
                    m.d.sync += self._bytes_left.eq(WORD_BYTES)
                    m.next = "Payload"
        with m.State("Payload-Checksum"):
            self._await(m, self._word, following="Check-Payload", counts=C(0))
        with m.State("Check-Payload"):
            m.next = "Reply"
            with m.If(~self._crc.match_detected):
                m.d.sync += [self._status.eq(Reply.DAMAGED), self.damaged.eq(1)]
            with m.Elif((self._command == Command.WRITE_REGISTER) & (self._status == Reply.OK)
                        & (self._sequence != self._previous)):
                m.d.sync += [self.bus.awvalid.eq(1), self.bus.wvalid.eq(1)]
                m.next = "Write-Register"

    def _write_register(self, m):
        with m.State("Write-Register"):
            with m.If(self.bus.awready):
                m.d.sync += self.bus.awvalid.eq(0)
            with m.If(self.bus.wready):
                m.d.sync += self.bus.wvalid.eq(0)
            with m.If(self.bus.bvalid):
                m.next = "Reply"

    def _reply(self, m):
        with m.State("Reply"):
            m.d.comb += self._crc.start.eq(1)
            m.d.sync += [
                self._word.eq(Cat(C(REPLY_MAGIC, 8), self._sequence, self._status, self._count)),
                self._bytes_left.eq(REPLY_HEADER_BYTES),
                self._words_left.eq(Mux(self._writes | (self._status != Reply.OK), 0,
                                        self._count + 1)),
            ]
            # What arrived damaged was not carried out, so its repetition must be.
            with m.If(self._status != Reply.DAMAGED):
                m.d.sync += self._previous.eq(self._sequence)
            m.next = "Send"
        with m.State("Send"):
            self._send(m, following="Sent")
        with m.State("Sent"):
            m.d.sync += self._bytes_left.eq(WORD_BYTES)
            with m.If(self._words_left == 0):
                m.d.sync += [self._word.eq(self._crc.crc), self._bytes_left.eq(CRC_BYTES)]
                m.next = "Send-Checksum"
            with m.Else():
                m.d.sync += self._words_left.eq(self._words_left - 1)
                m.next = "Read"
        with m.State("Send-Checksum"):
            self._send(m, following="Magic")

    def _send(self, m, *, following):
        m.d.comb += self.o.valid.eq(1)
        with m.If(self.o.ready):
            m.d.sync += [self._word.eq(self._word[8:]), self._bytes_left.eq(self._bytes_left - 1)]
            with m.If(self._bytes_left == 1):
                m.next = following

    def _read(self, m):
        with m.State("Read"):
            with m.Switch(self._command):
                with m.Case(Command.READ_MEMORY):
                    m.d.sync += self.memory_request.eq(~self._granted)
                    with m.If(self._granted):
                        m.next = "Read-Memory"
                with m.Case(Command.READ_REGISTER):
                    m.d.sync += self.bus.arvalid.eq(1)
                    m.next = "Read-Register"
                with m.Default():
                    with m.Switch(self._address):
                        for number, word in enumerate(self.information):
                            with m.Case(number):
                                m.d.sync += self._word.eq(word)
                        with m.Default():
                            m.d.sync += self._word.eq(0)
                    m.d.sync += self._address.eq(self._address + 1)
                    m.next = "Send"
        with m.State("Read-Memory"):
            with m.If(self.memory_valid):
                m.d.sync += [self._word.eq(self.memory_i),
                             self._address.eq(self._address + WORD_BYTES)]
                m.next = "Send"
        with m.State("Read-Register"):
            with m.If(self.bus.arready):
                m.d.sync += self.bus.arvalid.eq(0)
            with m.If(self.bus.rvalid):
                m.d.sync += [self._word.eq(self.bus.rdata),
                             self._address.eq(self._address + 4)]
                m.next = "Send"
