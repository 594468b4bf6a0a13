"""An SDRAM chip with the timings of its data sheet; a command that breaks one raises an error."""

from collections import deque
from dataclasses import dataclass

import numpy as np

FLOATING = 0x5EED           # of the data pins while nobody drives them

# Levels of RAS#, CAS#, WE#.
_COMMANDS = {
    (1, 1, 1): "NOP", (0, 1, 1): "ACTIVE", (1, 0, 1): "READ", (1, 0, 0): "WRITE",
    (1, 1, 0): "BURST TERMINATE", (0, 1, 0): "PRECHARGE", (0, 0, 1): "REFRESH",
    (0, 0, 0): "LOAD MODE",
}


@dataclass(frozen=True)
class Part:
    """Timings of a chip in ns, unless the name says cycles, as its data sheet has them.

    Attributes
    ----------
    power_up, refreshes
        Time from a stable clock to the first command; refreshes before the first use.
    rcd, rp, ras, ras_longest, rc, rfc, rrd, wr, mrd, mrd_cycles, refresh
        tRCD, tRP, tRAS, tRC, tRFC, tRRD, tWR, tMRD, and the time for all rows' refreshes, tREF.
    clock
        Shortest cycle, by CAS latency.
    """

    name: str
    power_up: float
    refreshes: int
    rcd: float
    rp: float
    ras: float
    rc: float
    rfc: float
    rrd: float
    wr: float
    mrd: float
    mrd_cycles: int
    clock: dict
    ras_longest: float = 120_000
    refresh: float = 64e6


# "256Mb: x4, x8, x16 SDRAM", Micron, table 12 and initialisation.
MICRON_75 = Part("MT48LC16M16A2-75", power_up=100_000, refreshes=2, rcd=20, rp=20, ras=44, rc=66,
                 rfc=66, rrd=15, wr=15, mrd=0, mrd_cycles=2, clock={2: 10, 3: 7.5})
# AS4C16M16SA, Alliance, rev. 3.0, table 16 and the note on power-up.
ALLIANCE_7 = Part("AS4C16M16SA-7", power_up=200_000, refreshes=2, rcd=21, rp=21, ras=42, rc=63,
                  rfc=63, rrd=14, wr=14, mrd=14, mrd_cycles=1, clock={2: 10, 3: 7})


class SdramViolation(AssertionError):
    """A chip was used as its data sheet forbids; the message says which rule, when and by what."""


class SdramChip:
    """A chip of 4 banks of rows of 512 columns of 16 bits; all inputs are those of a clock edge.

    Self refresh, power-down and auto precharge are not modelled; their use is an error.

    Parameters
    ----------
    clock_hz : float
        The clock.
    part : Part
        The chip.
    row_bits : int
        Bits of a row's number; 13 for the chip of 32 MiB. With fewer rows, all of them must be
        refreshed in as much less time.
    power_up_ns : float, optional
        Instead of the part's, to make tests short.

    Attributes
    ----------
    content : ndarray of uint16, shape (4, rows, 512)
    refreshes : list of int
        Cycles of all refreshes, those of the initialisation among them.
    commands : dict of str to int
        Number of each command.
    """

    def __init__(self, *, clock_hz, part=MICRON_75, row_bits=13, power_up_ns=None):
        self.part, self.period = part, 1e9 / clock_hz
        self.power_up = part.power_up if power_up_ns is None else power_up_ns
        self.rows = 1 << row_bits
        self.content = np.full((4, self.rows, 512), 0xA5A5, np.uint16)
        self.refreshes, self.commands = [], dict.fromkeys(_COMMANDS.values(), 0)
        self._window = part.refresh * self.rows / 8192
        self._recent = deque(maxlen=self.rows)
        self._open = [None] * 4
        # Cycle of the last event of its kind, in a bank or in all.
        self._activated, self._precharged, self._written = [{} for _ in range(3)]
        self._last = {}
        self._length = self._latency = 0        # of bursts, and of CAS; 0 before LOAD MODE
        self._outputs = {}              # by cycle: (bank, row, column)
        self._burst = None              # of a WRITE: (bank, row, column, first cycle)
        self._masks = {}                # of data that is read, by cycle
        self._drove = None
        self._started = None

    def violate(self, rule, cycle, what):
        """Raise SdramViolation."""
        raise SdramViolation(f"{self.part.name}, cycle {cycle}: {rule}: {what}")

    def edge(self, cycle, *, cke, csn, rasn, casn, wen, a, ba, dqm, d_o, d_oe):
        """Return the data pins at a clock edge. Edges without a command, and without data on the
        pins, may be left out.

        Parameters
        ----------
        cycle : int
            Number of the edge; 0 is the first one.
        cke, csn, rasn, casn, wen, a, ba, dqm : int
            Inputs of the chip.
        d_o, d_oe : int
            What the controller drives, if it does.

        Raises
        ------
        SdramViolation
            If that is not allowed.
        """
        command = "NOP" if csn else _COMMANDS[rasn, casn, wen]
        if not cke and (self._started is not None or command != "NOP"):
            self.violate("CKE", cycle, "CKE is low, which is power-down or self refresh")
        self._check_refresh(cycle)
        if command != "NOP":
            self._check_start(cycle, command)
            self.commands[command] += 1
            getattr(self, f"_{command.lower().replace(' ', '_')}")(cycle, a, ba)
        if dqm:
            self._masks[cycle + 2] = dqm
        self._write_data(cycle, dqm, d_o, d_oe)
        return self._read_data(cycle, d_o, d_oe)

    def _since(self, cycle, last):
        return float("inf") if last is None else (cycle - last) * self.period

    def _need(self, rule, cycle, last, ns, what):
        found = self._since(cycle, last)
        if found < ns - 1e-6:
            self.violate(rule, cycle, f"{what} after {found:g} ns, must be {ns:g} ns or more")

    def _check_start(self, cycle, command):
        if cycle * self.period < self.power_up - 1e-6:
            self.violate("initialisation", cycle, f"{command} {cycle * self.period:g} ns after "
                         f"power-up, must be {self.power_up:g} ns or more")
        if command in ("ACTIVE", "READ", "WRITE") and self._started is None:
            self.violate("initialisation", cycle, f"{command} before PRECHARGE of all banks, "
                         f"{self.part.refreshes} REFRESH and LOAD MODE")
        if command in ("ACTIVE", "REFRESH", "LOAD MODE"):
            self._need("tRFC", cycle, self._last.get("REFRESH"), self.part.rfc, command)
            self._need("tMRD", cycle, self._last.get("LOAD MODE"), self.part.mrd, command)
            self._need("tMRD", cycle, self._last.get("LOAD MODE"),
                       self.part.mrd_cycles * self.period, command)

    def _check_refresh(self, cycle):
        """All rows within tREF: a row is refreshed again after all others."""
        if self._started is None:
            return
        full = len(self._recent) == self.rows
        oldest = max(self._recent[0], self._started) if full else self._started
        if self._since(cycle, oldest) > self._window:
            self.violate("tREF", cycle, f"a row was not refreshed for {self._window / 1e3:g} us")
        for bank, row in enumerate(self._open):
            if row is not None and self._since(cycle, self._activated[bank]) > \
                    self.part.ras_longest:
                self.violate("tRAS", cycle, f"a row is open for more than {self.part.ras_longest}")

    def _active(self, cycle, a, ba):
        if self._open[ba] is not None:
            self.violate("ACTIVE", cycle, f"bank {ba} has row {self._open[ba]} open")
        self._need("tRP", cycle, self._precharged.get(ba), self.part.rp, "ACTIVE")
        self._need("tRC", cycle, self._activated.get(ba), self.part.rc, "ACTIVE")
        self._need("tRRD", cycle, self._last.get("ACTIVE"), self.part.rrd, "ACTIVE")
        self._open[ba] = a % self.rows
        self._activated[ba] = self._last["ACTIVE"] = cycle

    def _access(self, cycle, a, ba, command):
        if self._open[ba] is None:
            self.violate("closed row", cycle, f"{command} of bank {ba}")
        if a >> 10 & 1:
            self.violate(command, cycle, "auto precharge is not modelled")
        self._need("tRCD", cycle, self._activated[ba], self.part.rcd, command)
        self._cut(cycle, command)
        return ba, self._open[ba], a & 0x1FF

    def _columns(self, column):
        length = self._length
        return [column - column % length + (column + i) % length for i in range(length)]

    def _read(self, cycle, a, ba):
        bank, row, column = self._access(cycle, a, ba, "READ")
        first = cycle + self._latency
        self._outputs = {at: what for at, what in self._outputs.items() if at < first}
        for i, each in enumerate(self._columns(column)):
            self._outputs[first + i] = bank, row, each

    def _write(self, cycle, a, ba):
        bank, row, column = self._access(cycle, a, ba, "WRITE")
        self._outputs = {at: what for at, what in self._outputs.items() if at <= cycle}
        self._burst = bank, row, self._columns(column), cycle

    def _burst_terminate(self, cycle, a, ba):
        self.violate("BURST TERMINATE", cycle, "is not modelled")

    def _cut(self, cycle, command):
        """End a burst that is written, which the controllers here never do."""
        if self._burst is not None and cycle < self._burst[3] + len(self._burst[2]):
            self.violate("burst", cycle, f"{command} within a burst that is written")

    def _precharge(self, cycle, a, ba):
        for bank in range(4) if a >> 10 & 1 else [ba]:
            if self._open[bank] is None:
                self._precharged.setdefault(bank, cycle)
                continue
            if self._burst is not None and self._burst[0] == bank:
                self._cut(cycle, "PRECHARGE")
            self._need("tRAS", cycle, self._activated[bank], self.part.ras, "PRECHARGE")
            self._need("tWR", cycle, self._written.get(bank), self.part.wr, "PRECHARGE")
            self._outputs = {at: what for at, what in self._outputs.items()
                             if what[0] != bank or at < cycle + self._latency}
            self._open[bank], self._precharged[bank] = None, cycle
        if a >> 10 & 1:
            self._last["PRECHARGE ALL"] = cycle

    def _all_closed(self, cycle, command):
        for bank, row in enumerate(self._open):
            if row is not None:
                self.violate(command, cycle, f"bank {bank} has row {row} open")
            self._need("tRP", cycle, self._precharged.get(bank), self.part.rp, command)

    def _refresh(self, cycle, a, ba):
        self._all_closed(cycle, "REFRESH")
        for bank in range(4):
            self._need("tRC", cycle, self._activated.get(bank), self.part.rc, "REFRESH")
        if "PRECHARGE ALL" not in self._last:
            self.violate("initialisation", cycle, "REFRESH before PRECHARGE of all banks")
        self._last["REFRESH"] = cycle
        self.refreshes.append(cycle)
        self._recent.append(cycle)
        self._start(cycle)

    def _load_mode(self, cycle, a, ba):
        self._all_closed(cycle, "LOAD MODE")
        if "PRECHARGE ALL" not in self._last:
            self.violate("initialisation", cycle, "LOAD MODE before PRECHARGE of all banks")
        latency = a >> 4 & 7
        # Interleaved and full-page bursts, test modes, writes of single columns.
        if a & ~0x77 or a & 7 > 3 or ba or latency not in self.part.clock:
            self.violate("LOAD MODE", cycle, f"mode {a:#x}, bank {ba} is not modelled")
        if self.period < self.part.clock[latency] - 1e-6:
            self.violate("tCK", cycle, f"a clock of {self.period:g} ns with a CAS latency of "
                         f"{latency}, must be {self.part.clock[latency]:g} ns or more")
        self._length, self._latency = 1 << (a & 7), latency
        self._last["LOAD MODE"] = cycle
        self._start(cycle)

    def _start(self, cycle):
        if self._started is None and self._latency and len(self.refreshes) >= self.part.refreshes:
            self._started = cycle

    def _write_data(self, cycle, dqm, d_o, d_oe):
        if self._burst is None:
            return
        bank, row, columns, first = self._burst
        number = cycle - first
        if number >= len(columns):
            self._burst = None
            return
        if not d_oe:
            self.violate("write data", cycle, "nobody drives the pins")
        keep = (dqm & 1) * 0xFF | (dqm >> 1) * 0xFF00
        old = int(self.content[bank, row, columns[number]])
        self.content[bank, row, columns[number]] = old & keep | d_o & ~keep
        self._written[bank] = cycle

    def _read_data(self, cycle, d_o, d_oe):
        what = self._outputs.pop(cycle, None)
        mask = self._masks.pop(cycle, 0)
        if d_oe and (what is not None or self._drove == cycle - 1):
            self.violate("contention", cycle, "chip and controller drive the pins")
        if what is None:
            return d_o if d_oe else FLOATING
        self._drove = cycle
        keep = (mask & 1) * 0xFF | (mask >> 1) * 0xFF00
        return int(self.content[what]) & ~keep | FLOATING & keep
