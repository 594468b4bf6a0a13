"""``bitstep devices``: the installed devices, and the reason if one cannot be used."""

import argparse
import inspect
from typing import Any

from bitstep.devices import available, device_class
from bitstep.pipeline.results import DeviceError
from bitstep.writing import text_table


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    return commands.add_parser(
        "devices", help="list the devices that are installed",
        description="List the devices that are installed, their options, and what is missing for "
        "those that cannot be used.")


def run(arguments: argparse.Namespace) -> int:
    """Print the list."""
    rows, options = [], {}
    for name in available():
        try:
            kind = device_class(name)
        except DeviceError as error:
            rows.append([name, "no", str(error)])
            continue
        problem = kind.problem() if hasattr(kind, "problem") else ""
        if problem:
            rows.append([name, "no", problem])
            continue
        rows.append([name, "yes", (kind.__doc__ or "").partition("\n")[0]])
        options[name] = [parameter for parameter in inspect.signature(kind).parameters
                         if parameter not in ("config", "progress")]
    print(text_table(["device", "usable", "details"], rows))
    for name, known in options.items():
        if known:
            print(f"\nOptions of {name} in Python, as in device={{'name': {name!r}, ...}}:\n  "
                  f"{', '.join(known)}")
    return 0
