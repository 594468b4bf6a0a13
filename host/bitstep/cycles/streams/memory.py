"""Memory behind the pipeline's buses, as far as it decides about cycles."""

from dataclasses import dataclass

from bitstep.checks import check_integer, is_number
from bitstep.pipeline.parts.widths import MAX_CLOCK_MHZ, MAX_MEMORY_LATENCY, MEMORY_GBPS

# Up to this latency the readers' queues cover every wait but the first (docs/pipeline.md).
_COVERED_LATENCY = 32
_AUX_BYTES = 8          # of a beat of each of the three buses but that of the rows
_UNLIMITED = 1 << 20    # bytes per cycle, more than all ports move


@dataclass(frozen=True)
class Memory:
    """Memory that answers every burst after the same time and stalls at no other cause.

    Parameters
    ----------
    latency : int
        Cycles from the address of a burst to its first beat, and from the last beat that is
        written to its response; at least 1.
    bytes_per_cycle : float or None
        Bandwidth that all buses share, above 0; None does not limit it.

    Raises
    ------
    ValueError
        If a number is out of its range.
    """

    latency: int = 20
    bytes_per_cycle: float | None = None

    def __post_init__(self):
        if self.latency < 1:
            raise ValueError(f"Memory latency must be at least 1 cycle, not {self.latency}")
        if self.bytes_per_cycle is not None and not self.bytes_per_cycle > 0:
            raise ValueError(f"Memory bandwidth must be above 0 bytes per cycle, "
                             f"not {self.bytes_per_cycle}")

    @classmethod
    def of(cls, clock_hz: float, memory_latency: int, memory_gbps: float | None) -> "Memory":
        """Memory of a device.

        Parameters
        ----------
        clock_hz : float
            The pipeline's clock, below 1e12.
        memory_latency : int
            Cycles, 1 to 100,000.
        memory_gbps : float or None
            Bandwidth in 10^9 bytes a second, between 0.01 and 1e6; None: without limit.

        Raises
        ------
        ValueError
            If one of them is none.
        """
        if not is_number(clock_hz) or not 0 < clock_hz < 1e6 * MAX_CLOCK_MHZ:
            raise ValueError("clock_hz must be a number between 0 and "
                             f"{1e6 * MAX_CLOCK_MHZ:g}, not {clock_hz!r}")
        check_integer("memory_latency", memory_latency, 1, MAX_MEMORY_LATENCY)
        if memory_gbps is None:
            return cls(memory_latency)
        low, high = MEMORY_GBPS
        if not is_number(memory_gbps) or not low < memory_gbps < high:
            raise ValueError(f"memory_gbps must be None or a number between {low:g} and "
                             f"{high:g}, not {memory_gbps!r}")
        return cls(memory_latency, memory_gbps * 1e9 / clock_hz)

    def is_ample(self, beat_bytes: int) -> bool:
        """Return True if nothing waits for this memory but for the first beats of a run.

        Parameters
        ----------
        beat_bytes : int
            Bytes of a beat of the rows' bus.
        """
        peak = beat_bytes + 3 * _AUX_BYTES      # of all buses, in one cycle
        return self.latency <= _COVERED_LATENCY and (
            self.bytes_per_cycle is None or self.bytes_per_cycle >= peak)


class SharedMemory:
    """Latency, and bandwidth that all ports share: in a cycle that begins with little debt every
    port may move a beat, which is put on the debt.
    """

    def __init__(self, memory: Memory):
        self.latency = memory.latency
        self.rate = memory.bytes_per_cycle or _UNLIMITED
        self.debt = -2 * self.rate      # what two idle cycles save is kept
        self.available = True

    def tick(self):
        """Begin a cycle."""
        rate, debt = self.rate, self.debt
        self.debt = debt = debt - rate if debt > -rate else -2 * rate
        self.available = debt < rate

    def pass_idle(self, cycles):
        """Pass so many cycles without a beat."""
        while cycles and self.debt > -2 * self.rate:
            self.tick()
            cycles -= 1
