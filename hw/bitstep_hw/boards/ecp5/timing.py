"""Clock, critical paths and resources from nextpnr's report."""

import re
from collections import Counter
from dataclasses import dataclass

# What the report counts, by the names of Lattice's documents.
RESOURCES = {"LUT4": "TRELLIS_COMB", "FF": "TRELLIS_FF", "EBR": "DP16KD", "MULT18": "MULT18X18D",
             "LUTRAM": "TRELLIS_RAMW"}


@dataclass(frozen=True)
class Clock:
    """A clock as place and route report it.

    Attributes
    ----------
    name : str
        Its net.
    achieved_mhz, constraint_mhz : float
        Fastest clock, and the one that was asked for.
    """

    name: str
    achieved_mhz: float
    constraint_mhz: float


def clocks(report: dict) -> list[Clock]:
    """Every clock of a report, the one with the least slack (in proportion) first."""
    found = [Clock(name, entry["achieved"], entry["constraint"])
             for name, entry in report["fmax"].items()]
    return sorted(found, key=lambda clock: clock.achieved_mhz / clock.constraint_mhz)


def resources(report: dict) -> dict[str, tuple[int, int]]:
    """Used and available number of each resource."""
    used = report["utilization"]
    return {name: (used[cell]["used"], used[cell]["available"])
            for name, cell in RESOURCES.items() if cell in used}


def describe_paths(report: dict) -> str:
    """The slowest path within and between clocks, a line for each cell and net, times in ns."""
    lines = []
    for path in report["critical_paths"]:
        total = sum(step["delay"] for step in path["path"])
        routing = sum(step["delay"] for step in path["path"] if step["type"] == "routing")
        start, end = _endpoint(path["path"][0]["from"]), _endpoint(path["path"][-1]["to"])
        lines.append(f"{path['from']} -> {path['to']}: {total:.2f} ns, {routing:.2f} of it "
                     f"routing\n  from {start}\n  to   {end}")
        at, merged = 0.0, []
        for step in path["path"]:
            at += step["delay"]
            what = f"net {_tidy(step['net'])}" if step["type"] == "routing" else \
                f"{_tidy(step['from']['cell'])} {step['from']['port']} -> {step['to']['port']}"
            # A carry chain is one thing to look at, not 20.
            if merged and step["delay"] < 0.1:
                merged[-1][3] += 1
                merged[-1][0] = at
                merged[-1][1] += step["delay"]
            else:
                merged.append([at, step["delay"], f"{step['type']:<9} {what}", 0])
        lines += [f"  {at:6.2f} (+{delay:.2f}) {what}"
                  + (f" and {more} short steps" if more else "")
                  for at, delay, what, more in merged]
    return "\n".join(lines)


def describe_endpoints(report: dict, limit_ns: float, *, most: int = 40) -> str:
    """Registers whose data arrives later than a limit, those of all lanes and rows as one line:
    the latest arrival in ns, how many of the bits are late, and their name with # for numbers.

    Parameters
    ----------
    limit_ns : float
        Arrival, without the register's own setup time.
    most : int
        Lines at most, the latest first.
    """
    worst: dict[str, float] = {}
    late: Counter[str] = Counter()
    for net in report.get("detailed_net_timings", ()):
        for end in net["endpoints"]:
            arrival = max(end["delay"])
            if arrival > limit_ns and net["event"] == end["event"]:
                name = re.sub(r"\d+", "#", _tidy(end["cell"]).removesuffix(" ..."))
                name += "" if end["port"] in ("DI", "M") else f".{end['port']}"
                worst[name] = max(worst.get(name, 0.0), arrival)
                late[name] += 1
    names = sorted(worst, key=lambda name: -worst[name])
    lines = [f"  {worst[name]:6.2f} ns  {late[name]:5} late  {name}" for name in names[:most]]
    if len(names) > most:
        lines.append(f"  and {len(names) - most} more")
    return "\n".join([f"{sum(late.values())} endpoints are later than {limit_ns:g} ns", *lines])


def _endpoint(place: dict) -> str:
    return f"{_tidy(place['cell'])}.{place['port']}" if "cell" in place else str(place)


def _tidy(name: str) -> str:
    """A name without the suffixes that synthesis adds for every primitive."""
    return re.sub(r"_(LUT4|PFUMX|L6MUX21|CCU2C|TRELLIS_FF)(_[A-Z0-9]+)*$", "", name) \
        + (" ..." if re.search(r"_(LUT4|PFUMX|L6MUX21|CCU2C)_", name) else "")
