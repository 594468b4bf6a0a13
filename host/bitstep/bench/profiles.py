"""Board profiles: what turns the cycles of an RTL simulation into seconds of device time."""

from dataclasses import dataclass, replace


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
        """What the row bus can carry, in 10^9 bytes per second."""
        return self.bus_width / 8 * self.clock_hz / 1e9

    @property
    def stream_gbps(self) -> float:
        """The ceiling of the row stream: bus or memory, in 10^9 bytes per second."""
        return self.bus_gbps if self.memory_gbps is None else min(self.bus_gbps, self.memory_gbps)

    def overridden(self, *, clock_hz: float | None = None, memory_gbps: float | None = None,
                   memory_latency: int | None = None) -> "Profile":
        """This profile with other figures; what is None stays.

        The source of the result says what was changed.
        """
        changes = {name: value for name, value in (
            ("clock_hz", clock_hz), ("memory_gbps", memory_gbps),
            ("memory_latency", memory_latency)) if value is not None}
        if not changes:
            return self
        said = ", ".join(f"{name} {value:g}" for name, value in changes.items())
        return replace(self, **changes,     # type: ignore[arg-type]
                       source=f"{self.source} Changed by options: {said}.")


# Latencies are round figures for an access through the memory controller, not measured on boards:
# rows are fetched ahead, so they matter at the start of an epoch and for rows that are fetched
# again. Clocks are those of the targets; place and route has not confirmed them.
_ZYNQ = ("One 64-bit AXI_HP port at 100 MHz carries 0.8 GB/s; the memory is 16 bits of DDR3 at "
         "1,050 MT/s, 2.1 GB/s. Latency: 0.3 us, assumed.")
PROFILES = {profile.name: profile for profile in (
    Profile("pynq-z1", 64, 100e6, 2.1, 30, _ZYNQ),
    Profile("pynq-z2", 64, 100e6, 2.1, 30, _ZYNQ),
    Profile("ultra96", 128, 200e6, 8.5, 60,
            "One 128-bit port at 200 MHz carries 3.2 GB/s; the memory is 32 bits of LPDDR4 at "
            "2,133 MT/s, 8.5 GB/s. Latency: 0.3 us, assumed."),
    Profile("kv260", 128, 200e6, 19.2, 60,
            "One 128-bit port at 200 MHz carries 3.2 GB/s; the memory is 64 bits of DDR4 at "
            "2,400 MT/s, 19.2 GB/s. Latency: 0.3 us, assumed."),
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
    if name not in PROFILES:
        raise ValueError(f"profile must be one of {', '.join(PROFILES)}, not {name!r}")
    return PROFILES[name].overridden(**changes)     # type: ignore[arg-type]
