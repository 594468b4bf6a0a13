"""Controller of an SDRAM chip: words of 64 bits, each a burst of four columns."""

from amaranth import Array, C, Cat, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep_hw.boards.serial.sdram.timing import (
    BANKS,
    BURST,
    COLUMN_BITS,
    DATA_WIDTH,
    ROW_BITS,
    SdramCycles,
)

WORD_BITS = COLUMN_BITS - 2         # number of a word in its page
REFRESHES = 8                       # of the initialisation
ALL_BANKS = 1 << 10                 # bit of the address: PRECHARGE closes the rows of all banks
PIN_DELAY = 2                       # registers between the controller and the chip, to and fro

# RAS#, CAS#, WE#, from the lowest bit.
NOP, ACTIVE, READ, WRITE, PRECHARGE, REFRESH, LOAD_MODE = (
    0b111, 0b110, 0b101, 0b001, 0b010, 0b100, 0b000)


class SdramPins(wiring.Signature):
    """Pins of a chip but for its clock, seen from the controller.

    Registers lie between them and the chip: data that stands on its pins at the edge that takes a
    command is in ``d_i`` ``PIN_DELAY`` cycles after the command was here.
    """

    def __init__(self):
        super().__init__({
            "cke": Out(1), "csn": Out(1, init=1), "rasn": Out(1, init=1), "casn": Out(1, init=1),
            "wen": Out(1, init=1), "a": Out(ROW_BITS), "ba": Out(2), "dqm": Out(2, init=0b11),
            "d_o": Out(DATA_WIDTH), "d_oe": Out(1), "d_i": In(DATA_WIDTH),
        })


class SdramController(wiring.Component):
    """Serves words in the order in which they are asked for; keeps the last row of each bank open.

    The number of a word is row, bank, column, from the highest bit: words that follow each other
    are in one page until it ends, then in the next bank. So a stream of rows opens a page once in
    512 cycles, and what is read or written beside it keeps its own page open while the stream is in
    one of the three other banks; with the bank in the highest bits, all of a small job would be in
    one bank, and each change between rows and labels would close a page.

    A word takes 4 cycles where its page is open. Refreshes come between two words. A page that is
    opened is read or written before it is closed, which takes longer than tRAS and, with what comes
    before it is opened again, than tRC: these are not counted. Stores a word.

    Parameters
    ----------
    cycles : SdramCycles
        Timings.
    row_bits : int
        Rows in a bank that are used; fewer make a smaller memory.

    Raises
    ------
    ValueError
        If the rows are out of range.

    Members
    -------
    request, write : In(1), address : In(row_bits + 9), i : In(64), strobe : In(8)
        A word is asked for, or its bytes that ``strobe`` names are written; held until ``grant``.
        Which of several is asked for may change while ``take`` is 0.
    take : Out(1)
        The request, if there is one, is the next that is granted.
    grant : Out(1)
        Strobe: the word's command is given; after it, ``take`` is 0 for a cycle.
    o : Out(64)
        The word that was asked for, ``latency`` cycles after the grant.
    pins : Out(SdramPins())
        The chip.
    """

    def __init__(self, *, cycles: SdramCycles, row_bits: int = ROW_BITS):
        if not 1 <= row_bits <= ROW_BITS:
            raise ValueError(f"The bits of a row's number must be 1 to {ROW_BITS}, not {row_bits}")
        self.cycles, self.row_bits = cycles, row_bits
        # The pins, the chip's latency, and 4 parts of a word; the grant comes with the command.
        self.latency = PIN_DELAY + cycles.cas_latency + BURST
        super().__init__({
            "request": In(1), "write": In(1), "address": In(WORD_BITS + 2 + row_bits),
            "i": In(64), "strobe": In(8),
            "take": Out(1), "grant": Out(1), "o": Out(64),
            "pins": Out(SdramPins()),
        })
        self._bank = Signal(2)
        self._row = Signal(row_bits)
        self._column = Signal(WORD_BITS)
        self._writes = Signal()
        self._word = Signal(64)
        self._strobe = Signal(8)
        longest = max(cycles.rfc, cycles.mrd, cycles.rp, cycles.rrd)
        self._opening = Signal(range(longest + 1))      # cycles until ACTIVE, REFRESH, LOAD MODE
        self._closing = Signal(range(cycles.precharge_after_write + 1))     # until PRECHARGE
        self._reading = Signal(range(BURST + 1))
        self._writing = Signal(range(cycles.turnaround + 1))
        self._open = Array(Signal(name=f"open_{bank}") for bank in range(BANKS))
        self._rows = Array(Signal(row_bits, name=f"row_{bank}") for bank in range(BANKS))
        self._accessing = Signal(range(cycles.rcd + 1))     # until READ or WRITE after ACTIVE
        self._due = Signal()
        self._issue = Signal()

    def elaborate(self, platform):
        m = Module()
        pins, cycles = self.pins, self.cycles
        self._command(m, NOP)
        m.d.sync += pins.cke.eq(1)
        # A register: ports need a while to see it, and to say what they want next. A word takes 4
        # cycles all the same.
        m.d.sync += self.grant.eq(self._issue)
        for timer in (self._opening, self._closing, self._accessing, self._reading, self._writing):
            m.d.sync += timer.eq(Mux(timer == 0, 0, timer - 1))
        self._move_data(m)

        since = Signal(range(cycles.refresh))
        ready = Signal()
        m.d.sync += since.eq(Mux(ready & (since != cycles.refresh - 1), since + 1, 0))
        with m.If(since == cycles.refresh - 1):
            m.d.sync += self._due.eq(1)

        with m.FSM():
            self._initialise(m, ready)
            self._serve(m)
            self._refresh(m)
        return m

    def _command(self, m, command, *, address=0, bank=0):
        pins = self.pins
        m.d.sync += [Cat(pins.rasn, pins.casn, pins.wen).eq(C(command, 3)), pins.a.eq(address),
                     pins.ba.eq(bank)]

    def _move_data(self, m):
        """Four columns from or to a word; masks are for data that is written."""
        pins = self.pins
        word = Signal(48)
        strobe = Signal(6)
        sending = Signal(BURST - 1)
        first = Signal()
        m.d.comb += first.eq(self._issue & self._writes)
        m.d.sync += [
            sending.eq(Cat(first, sending)),
            word.eq(Mux(first, self._word[16:], word >> 16)),
            strobe.eq(Mux(first, self._strobe[2:], strobe >> 2)),
            pins.d_o.eq(Mux(first, self._word[:16], word[:16])),
            pins.d_oe.eq(first | sending.any()),
            pins.dqm.eq(Mux(first, ~self._strobe[:2], Mux(sending.any(), ~strobe[:2], 0))),
            self.o.eq(Cat(self.o[16:], pins.d_i)),
        ]

    def _initialise(self, m, ready):
        cycles, pins = self.cycles, self.pins
        waiting = Signal(range(cycles.power_up + 1), init=cycles.power_up)
        left = Signal(range(REFRESHES + 1), init=REFRESHES)
        mode = cycles.cas_latency << 4 | BURST.bit_length() - 1     # sequential bursts
        with m.State("Power-Up"):
            m.d.sync += [pins.csn.eq(1), pins.dqm.eq(0b11), waiting.eq(waiting - 1)]
            with m.If(waiting == 0):
                m.next = "First-Precharge"
        with m.State("First-Precharge"):
            m.d.sync += [pins.csn.eq(0), pins.dqm.eq(0b11), self._opening.eq(cycles.rp - 1)]
            self._command(m, PRECHARGE, address=ALL_BANKS)
            m.next = "First-Refreshes"
        with m.State("First-Refreshes"):
            m.d.sync += pins.dqm.eq(0b11)
            with m.If(self._opening == 0):
                with m.If(left != 0):
                    self._command(m, REFRESH)
                    m.d.sync += [left.eq(left - 1), self._opening.eq(cycles.rfc - 1)]
                with m.Else():
                    self._command(m, LOAD_MODE, address=mode)
                    m.d.sync += [ready.eq(1), self._opening.eq(cycles.mrd - 1)]
                    m.next = "Idle"

    def _serve(self, m):
        cycles = self.cycles
        hit = Signal()
        closed = Signal()
        with m.State("Idle"):
            m.d.comb += self.take.eq(~self._due)
            m.d.sync += [
                Cat(self._column, self._bank, self._row).eq(self.address),
                self._writes.eq(self.write), self._word.eq(self.i), self._strobe.eq(self.strobe),
            ]
            with m.If(self._due):
                m.next = "Precharge-All"
            with m.Elif(self.request):
                m.next = "Look"
        with m.State("Look"):
            is_open = self._open[self._bank]
            m.d.sync += [hit.eq(is_open & (self._rows[self._bank] == self._row)),
                         closed.eq(~is_open)]
            m.next = "Access"
        with m.State("Access"):
            busy = Mux(self._writes, self._writing, self._reading) != 0
            with m.If(hit & ~busy & (self._accessing == 0)):
                m.d.comb += self._issue.eq(1)
                self._access(m)
                m.next = "Granted"
            with m.If(closed):
                m.next = "Activate"
            with m.Elif(~hit & (self._closing == 0)):
                self._command(m, PRECHARGE, bank=self._bank)
                m.d.sync += [self._open[self._bank].eq(0), self._opening.eq(cycles.rp - 1)]
                m.next = "Activate"
        with m.State("Granted"):
            m.next = "Idle"
        with m.State("Activate"):
            with m.If(self._opening == 0):
                self._command(m, ACTIVE, address=self._row, bank=self._bank)
                m.d.sync += [
                    self._open[self._bank].eq(1), self._rows[self._bank].eq(self._row),
                    self._opening.eq(cycles.rrd - 1), self._accessing.eq(cycles.rcd - 1),
                    hit.eq(1), closed.eq(0),
                ]
                m.next = "Access"

    def _access(self, m):
        cycles = self.cycles
        column = Cat(C(0, 2), self._column)
        m.d.sync += [self._reading.eq(BURST - 1), self._writing.eq(BURST - 1)]
        with m.If(self._writes):
            self._command(m, WRITE, address=column, bank=self._bank)
            m.d.sync += self._closing.eq(cycles.precharge_after_write - 1)
        with m.Else():
            self._command(m, READ, address=column, bank=self._bank)
            m.d.sync += [self._writing.eq(cycles.turnaround - 1), self._closing.eq(BURST - 1)]

    def _refresh(self, m):
        cycles = self.cycles
        with m.State("Precharge-All"):
            with m.If(self._closing == 0):
                self._command(m, PRECHARGE, address=ALL_BANKS)
                m.d.sync += [is_open.eq(0) for is_open in self._open]
                m.d.sync += self._opening.eq(cycles.rp - 1)
                m.next = "Refresh"
        with m.State("Refresh"):
            with m.If(self._opening == 0):
                self._command(m, REFRESH)
                m.d.sync += [self._due.eq(0), self._opening.eq(cycles.rfc - 1)]
                m.next = "Idle"
