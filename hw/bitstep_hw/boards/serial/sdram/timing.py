"""Timings of an SDRAM with single data rate, in ns and in cycles of a clock."""

import math
from dataclasses import dataclass

BANKS = 4
ROW_BITS = 13               # 8,192 rows of 512 columns of 16 bits in each of 4 banks: 32 MiB
COLUMN_BITS = 9
DATA_WIDTH = 16
BURST = 4                   # columns of an access: a word of 64 bits
N_BYTES = BANKS << ROW_BITS + COLUMN_BITS + 1
CAS_2_MHZ = 55              # above, data with a CAS latency of 2 is late, and 3 is chosen


@dataclass(frozen=True, kw_only=True)
class SdramTiming:
    """The slowest of the timings that are published for the chips on ULX3S boards.

    Of MT48LC16M16A2 -75 ("256Mb: x4, x8, x16 SDRAM", Micron, table 12): ``ras_ns``, ``rc_ns``,
    ``rfc_ns``, ``rrd_ns``, ``wr_ns``, and -6A for ``access_2_ns``. Of AS4C16M16SA-7 (Alliance,
    rev. 3.0, table 16 and the note on power-up): ``rcd_ns``, ``rp_ns``, ``mrd_ns``, ``hold_ns``,
    ``power_up_ns``. The first page of IS42S16160D-7 (ISSI) is within these.

    Parameters
    ----------
    power_up_ns : float
        Stable clock before the first command.
    rcd_ns, rp_ns, ras_ns, rc_ns, rrd_ns : float
        ACTIVE to READ or WRITE, PRECHARGE to ACTIVE, ACTIVE to PRECHARGE, ACTIVE to ACTIVE of a
        bank, and of two banks.
    rfc_ns, mrd_ns, wr_ns : float
        Length of AUTO REFRESH and of LOAD MODE REGISTER; last data written to PRECHARGE. The latter
        two are 2 cycles at least.
    refresh_ns : float
        Time in which each row must be refreshed, divided by the rows.
    access_2_ns, access_3_ns, hold_ns : float
        Clock edge to data that is read, by CAS latency, and how long it stays after the next edge.
    clock_2_ns, clock_3_ns : float
        Shortest cycle, by CAS latency.
    input_setup_ns, input_hold_ns : float
        Commands and data before and after the clock edge.
    """

    power_up_ns: float = 200_000
    rcd_ns: float = 21
    rp_ns: float = 21
    ras_ns: float = 44
    rc_ns: float = 66
    rrd_ns: float = 15
    rfc_ns: float = 66
    mrd_ns: float = 15
    wr_ns: float = 15
    refresh_ns: float = 64e6 / 8192
    access_2_ns: float = 7.5
    access_3_ns: float = 5.4
    hold_ns: float = 2.5
    clock_2_ns: float = 10
    clock_3_ns: float = 7.5
    input_setup_ns: float = 1.5
    input_hold_ns: float = 0.8


@dataclass(frozen=True)
class SdramCycles:
    """Timings in cycles of a clock; what the controller counts.

    Parameters
    ----------
    timing : SdramTiming
    clock_hz : int
        The clock.
    cas_latency : {2, 3}, optional
        Cycles from READ to the edge that takes the first data; 2 up to ``CAS_2_MHZ``, else 3.

    Raises
    ------
    ValueError
        If the clock is too fast for the latency, or so slow that refreshing takes all the time.
    """

    timing: SdramTiming
    clock_hz: int
    cas_latency: int = 0

    def __post_init__(self):
        if not self.cas_latency:
            slow = self.clock_hz <= CAS_2_MHZ * 1_000_000
            object.__setattr__(self, "cas_latency", 2 if slow else 3)
        if self.cas_latency not in (2, 3):
            raise ValueError(f"The CAS latency must be 2 or 3, not {self.cas_latency}")
        shortest = self.timing.clock_2_ns if self.cas_latency == 2 else self.timing.clock_3_ns
        if self.clock_hz > 1e9 / shortest:
            raise ValueError(f"With a CAS latency of {self.cas_latency} the SDRAM's clock must be "
                             f"at most {1e3 / shortest:.0f} MHz, not {self.clock_hz / 1e6:g}")
        # So the controller need not count them.
        assert self.rcd + BURST >= self.ras
        assert self.rcd + BURST + self.rp >= self.rc
        if self._refresh_period < 2 * self.refresh_delay:
            lowest = math.ceil(2e3 * self.refresh_delay / self.timing.refresh_ns)
            raise ValueError(f"The SDRAM must be refreshed every {self.timing.refresh_ns:.0f} ns, "
                             f"for which its clock must be at least {lowest} MHz, not "
                             f"{self.clock_hz / 1e6:g}")

    def of(self, ns: float) -> int:
        """Return the cycles that take at least ``ns``; at least 1."""
        return max(1, math.ceil(round(ns * self.clock_hz / 1e9, 6)))

    @property
    def access_ns(self) -> float:
        """Clock edge to data that is read."""
        return self.timing.access_2_ns if self.cas_latency == 2 else self.timing.access_3_ns

    @property
    def power_up(self) -> int:
        """Cycles before the first command."""
        return self.of(self.timing.power_up_ns)

    @property
    def rcd(self) -> int:
        """ACTIVE to READ or WRITE."""
        return self.of(self.timing.rcd_ns)

    @property
    def rp(self) -> int:
        """PRECHARGE to ACTIVE."""
        return self.of(self.timing.rp_ns)

    @property
    def ras(self) -> int:
        """ACTIVE to PRECHARGE."""
        return self.of(self.timing.ras_ns)

    @property
    def rc(self) -> int:
        """ACTIVE to ACTIVE of the same bank."""
        return self.of(self.timing.rc_ns)

    @property
    def rrd(self) -> int:
        """ACTIVE to ACTIVE of another bank."""
        return self.of(self.timing.rrd_ns)

    @property
    def rfc(self) -> int:
        """AUTO REFRESH to the next command."""
        return self.of(self.timing.rfc_ns)

    @property
    def mrd(self) -> int:
        """LOAD MODE REGISTER to the next command."""
        return max(2, self.of(self.timing.mrd_ns))

    @property
    def wr(self) -> int:
        """Last data written to PRECHARGE."""
        return max(2, self.of(self.timing.wr_ns))

    @property
    def turnaround(self) -> int:
        """READ to WRITE: the data that is read, and a cycle in which nobody drives."""
        return self.cas_latency + BURST + 1

    @property
    def precharge_after_write(self) -> int:
        """WRITE to PRECHARGE."""
        return BURST - 1 + self.wr

    @property
    def word(self) -> int:
        """The longest that a word can take from its request on: another row is open, which was
        opened just now and written to, or the bus is busy with data that is read.
        """
        return 4 + max(self.turnaround, self.precharge_after_write) + self.rp + self.rcd

    @property
    def refresh_delay(self) -> int:
        """The longest that a refresh can be late: a word, and until its row may be closed."""
        return self.word + max(self.precharge_after_write, BURST) + self.rp + 2

    @property
    def _refresh_period(self) -> int:
        return math.floor(round(self.timing.refresh_ns * self.clock_hz / 1e9, 6))

    @property
    def refresh(self) -> int:
        """Cycles from a refresh to the next one; shorter than the average that the chip needs by
        the longest that one can be late.
        """
        return self._refresh_period - self.refresh_delay

    @property
    def wait(self) -> int:
        """The longest that a request waits that comes before all others."""
        return self.word + self.refresh_delay + self.rfc + 2
