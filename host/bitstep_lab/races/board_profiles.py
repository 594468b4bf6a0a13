"""Board profiles: clocks and memories, which turn cycles of a simulation into device time."""

from dataclasses import dataclass, replace

from bitstep.checks import check_choice
from bitstep.pipeline.boards import FACTS, BoardFacts


@dataclass(frozen=True)
class Profile:
    """A board, as far as speed is concerned.

    Attributes
    ----------
    name : str
    bus_width : {64, 128, 256, 512}
        Bits of a beat of the row bus.
    clock_hz : float
        Clock of pipeline and bus.
    memory_gbps : float or None
        Bandwidth of the memory in 10^9 bytes per second, shared by all ports; None: no limit but
        the buses'.
    memory_latency : int
        Cycles from an address to its data.
    source : str
        Where the figures are from.
    """

    name: str
    bus_width: int
    clock_hz: float
    memory_gbps: float | None
    memory_latency: int
    source: str

    @property
    def bus_gbps(self) -> float:
        """Bandwidth of the row bus, in 10^9 bytes per second."""
        return self.bus_width / 8 * self.clock_hz / 1e9

    @property
    def stream_gbps(self) -> float:
        """The ceiling of the row stream: bus or memory, in 10^9 bytes per second."""
        return self.bus_gbps if self.memory_gbps is None else min(self.bus_gbps, self.memory_gbps)

    def overridden(self, *, clock_hz: float | None = None, memory_gbps: float | None = None,
                   memory_latency: int | None = None, bus_width: int | None = None) -> "Profile":
        """This profile with other figures; its source says which.

        Parameters
        ----------
        clock_hz, memory_gbps : float, optional
        memory_latency : int, optional
            In cycles. A figure that is None stays.
        bus_width : int, optional
            Of several ports, on a board that has them.

        Raises
        ------
        ValueError
            If the board has no ports for the bus.
        """
        if bus_width is not None and self.name in FACTS:
            FACTS[self.name].ports_for(bus_width)
        changes = {name: value for name, value in (
            ("clock_hz", clock_hz), ("memory_gbps", memory_gbps),
            ("memory_latency", memory_latency), ("bus_width", bus_width)) if value is not None}
        if not changes:
            return self
        said = ", ".join(f"{name} {value:g}" for name, value in changes.items())
        return replace(self, **changes,     # type: ignore[arg-type]
                       source=f"{self.source} Changed by options: {said}.")


# Of an access through the memory controller: a round figure, not measured on boards. Rows are
# fetched ahead, so it matters at the start of an epoch and for rows that are fetched again.
LATENCY_S = 0.3e-6


def _of_board(facts: BoardFacts) -> Profile:
    """A board that PYNQ runs on, at the clock that its bitstreams are built for."""
    clock_hz = 1e6 * facts.clock_mhz
    port_gbps = facts.port_width / 8 * clock_hz / 1e9
    return Profile(
        facts.name, facts.port_width, clock_hz, facts.memory_gbps, round(LATENCY_S * clock_hz),
        f"One {facts.port_width}-bit port at {facts.clock_mhz} MHz carries {port_gbps:g} GB/s; the "
        f"memory is {facts.memory}, {facts.memory_gbps:g} GB/s. Latency: "
        f"{LATENCY_S * 1e6:g} us, assumed.")


PROFILES = {profile.name: profile for profile in (
    *map(_of_board, FACTS.values()),
    Profile("paper", 512, 200e6, 6.5, 60,
            "The platform of ZipML and Kara et al. (FCCM 2017): 64 bytes a cycle at 200 MHz, fed "
            "by 6.5 GB/s of memory. Latency: 0.3 us, assumed."),
    Profile("paper-ideal", 512, 200e6, None, 60,
            "As paper, without the memory's limit: 12.8 GB/s of the bus."),
)}


def profile(name: str, **changes: float | int | None) -> Profile:
    """A profile by name, with changes as for :meth:`Profile.overridden`.

    Raises
    ------
    ValueError
        If there is no such profile.
    """
    check_choice("profile", name, PROFILES)
    return PROFILES[name].overridden(**changes)     # type: ignore[arg-type]
