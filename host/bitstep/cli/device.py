"""The options that choose a device, for commands that open one."""

import argparse
from contextlib import suppress
from typing import Any

from bitstep.cli.options import UsageError, integer, number
from bitstep.cli.progress import StatusLine
from bitstep.devices import DeviceError, available, default_device, device_class, options_of
from bitstep.pipeline.parts.widths import MAX_CLOCK_MHZ, MAX_MEMORY_LATENCY, MEMORY_GBPS

# Types of options.
CLOCK_MHZ = number(0, high=MAX_CLOCK_MHZ)
LATENCY = integer(1, MAX_MEMORY_LATENCY)
BANDWIDTH = number(MEMORY_GBPS[0], high=MEMORY_GBPS[1])

# Options of the command line and the parameters of a device's class.
_PARAMETERS = {"clock_mhz": "clock_hz", "memory_latency": "memory_latency",
               "memory_gbps": "memory_gbps", "wave": "wave", "port": "port",
               "device_models": "models", "manifest": "manifest", "bitfile": "bitfile"}


def add_device_options(group: Any, default: str | None = None) -> None:
    """Declare the options of :func:`device_options`.

    Parameters
    ----------
    group : argument group
    default : str, optional
        Device if none is named; None: :func:`bitstep.devices.default_device`.
    """
    group.add_argument("--device", default=default or default_device(), metavar="NAME",
                       help="cpu (compiled loops), sim (the RTL), golden (NumPy) or another of "
                       "`bitstep devices` (default: %(default)s)")
    group.add_argument("--clock-mhz", type=CLOCK_MHZ, metavar="F", help="clock of the pipeline")
    group.add_argument("--memory-latency", type=LATENCY, metavar="N",
                       help="cpu, sim: cycles from an address to its data, at most "
                       f"{MAX_MEMORY_LATENCY}")
    group.add_argument("--memory-gbps", type=BANDWIDTH, metavar="F",
                       help="cpu, sim: memory bandwidth in 10^9 bytes per second, above "
                       f"{MEMORY_GBPS[0]:g}")
    group.add_argument("--wave", metavar="FILE", help="sim: write a waveform (.fst); slow")
    group.add_argument("--port", metavar="PORT", help="uart: serial port of the board, such as "
                       "/dev/ttyUSB0")
    group.add_argument("--manifest", metavar="FILE.json", help="uart: what was made with the "
                       "bitstream on the board (bitstreams/)")
    group.add_argument("--bitfile", metavar="FILE.bit", help="pynq: bitstream to load, with its "
                       ".hwh and .json beside it (default: one that `bitstep deploy` left for "
                       "such a pipeline)")


def device_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the options for the device's class.

    Raises
    ------
    UsageError
        If there is no such device, or it does not have one of the options.
    """
    if arguments.device not in available():
        raise UsageError(f"--device must be one of {', '.join(available())}, "
                         f"not {arguments.device!r}")
    known = options_of(device_class(arguments.device))
    if arguments.wave and not arguments.wave.endswith(".fst"):
        raise UsageError(f"--wave writes the format FST; the file name must end in .fst, "
                         f"not {arguments.wave!r}")
    for name, parameter in _PARAMETERS.items():
        if getattr(arguments, name, None) is not None and parameter not in known:
            option = f"--{name.removeprefix('device_').replace('_', '-')}"
            raise UsageError(f"{option} is not possible with --device {arguments.device}; it is "
                             f"for --device {' or '.join(_devices_with(parameter)) or 'none'}")
    options = named_options(arguments)
    if "progress" in known:
        options["progress"] = StatusLine(arguments.device)
    return options


def named_options(arguments: argparse.Namespace) -> dict[str, Any]:
    """Options of the device that a command was given, by the names of its class's parameters."""
    values = {name: getattr(arguments, name, None) for name in _PARAMETERS}
    return {_PARAMETERS[name]: value * 1e6 if name == "clock_mhz" else value
            for name, value in values.items() if value is not None}


def _devices_with(parameter: str) -> list[str]:
    """Names of the usable devices whose class has a parameter."""
    found = []
    for name in available():
        with suppress(DeviceError):
            if parameter in options_of(device_class(name)):
                found.append(name)
    return found
