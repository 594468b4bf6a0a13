"""An examination of a device: ``bitstep doctor``. Needs NumPy alone.

Every check says what it expected, what it found and what to do; every wait has a limit; a check
that fails does not keep the others from being done where they can be.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bitstep.devices.register_device import RegisterDevice
from bitstep.doctor import facts, memory, registers, runs, speed, sweep
from bitstep.doctor.report import Finding, Report, Verdict
from bitstep.doctor.session import Session

__all__ = ["Finding", "Report", "Verdict", "examine"]

TIMEOUT_S = 10.0
MEMORY_BYTES = 16 << 20
# By section: the checks, each with the title under which it is named if it cannot be done.
CHECKS = {
    "Clock": [(facts.clock, "clock")],
    "Registers": [
        (registers.identity, "identity"), (registers.patterns, "writable registers"),
        (registers.read_only, "read-only registers"), (registers.empty_run, "refused run")],
    "Interrupt": [(runs.interrupt, "interrupt")],
    "Memory": [(memory.buffers, "buffers of a job"), (memory.words, "weights of a model"),
               (memory.large, "large buffer")],
    "Training": [(runs.trainings, "training"), (runs.counters, "counters")],
    "Abort": [(runs.abort, "abort and what follows")],
    "Speed": [(speed.stream, "speed of the row stream")],
}
SWEEP = {"Clock sweep": [(sweep.clock_sweep, "clock sweep")]}
WITHOUT_REGISTERS = ("Training",)       # what a device without registers can show


def examine(opening: Callable[[], Any], *, manifest: str | Path | None = None,
            tell: Callable[[str], None] | None = None, timeout_s: float = TIMEOUT_S,
            memory_bytes: int = MEMORY_BYTES, clock_sweep: bool = False) -> Report:
    """Open a device, examine and close it.

    Parameters
    ----------
    opening : callable
        Returns the open device.
    manifest : path, optional
        JSON file that was made with the bitstream; default: what the device names.
    tell : callable, optional
        Called with each part of the report as soon as it is known.
    timeout_s : float
        Longest time without an end of a short run.
    memory_bytes : int
        Size of the largest buffer to test; where there is less, a half of it and so on.
    clock_sweep : bool
        True to look for the fastest clock, too: see :func:`bitstep.doctor.sweep.clock_sweep`.

    Returns
    -------
    Report
    """
    report = Report(tell)
    report.say("bitstep doctor: a report on a device. Findings are ok, warning, FAILED or skipped; "
               "the result\nis the last section.")
    facts.system(report)
    report.section("Device")
    content = facts.manifest(report, manifest) if manifest else {}
    try:
        device = opening()
    except Exception as error:
        report.fail("open the device", expected="a device that is what its manifest says",
                    found=str(error) or type(error).__name__,
                    remedy="as the message says, then run bitstep doctor again; nothing else can "
                    "be checked before")
        report.finish()
        return report
    try:
        report.ok("open the device")
        facts.device_facts(report, device)
        named = getattr(device, "manifest", None)
        if named and not manifest:
            content = facts.manifest(report, named)
        session = Session(device, report, timeout_s=timeout_s, memory_bytes=memory_bytes)
        session.results["manifest"] = content
        try:
            _check(session, {**CHECKS, **(SWEEP if clock_sweep else {})})
        finally:                                # also on Ctrl-C
            if isinstance(device, RegisterDevice):
                with contextlib.suppress(Exception):
                    session.stop()
        facts.changed_facts(report, device)
    finally:
        _close(device, report)
    report.finish()
    return report


def _close(device: Any, report: Report) -> None:
    """Close a device; a board that went away must not take the report with it."""
    try:
        device.close()
    except Exception as error:          # whatever a driver or a library raises
        report.section("End")
        report.fail("close the device", expected="a device that gives back what it holds",
                    found=str(error) or type(error).__name__, remedy="see that the board is still "
                    "connected, restart what uses it, then run bitstep doctor again")


def _check(session: Session, sections: dict[str, list]) -> None:
    plain = not isinstance(session.device, RegisterDevice)
    for section, checks in sections.items():
        session.report.section(section)
        if plain and section not in WITHOUT_REGISTERS:
            session.report.skip("all checks", f"do not apply: device '{session.device.name}' has "
                                "no registers, no memory of its own and no clock")
            continue
        for check, title in checks:
            session.guard(check, title)
