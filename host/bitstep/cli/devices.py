"""``bitstep devices``: what is installed, and whether it can be used."""

import argparse
import inspect
from typing import Any

from bitstep.cli.common import table
from bitstep.devices import available, device_class
from bitstep.devices.base import DeviceError


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    return commands.add_parser(
        "devices", help="list the devices that are installed",
        description="List the devices that are installed, their options, and what is missing for "
        "those that cannot be used.")


def run(arguments: argparse.Namespace) -> int:
    """Print the list."""
    rows = []
    for name, point in available().items():
        try:
            kind = device_class(name)
        except DeviceError as error:
            rows.append([name, "no", str(error)])
            continue
        options = [parameter for parameter in inspect.signature(kind).parameters
                   if parameter not in ("config", "progress")]
        rows.append([name, "yes", f"{point.value}; options: {', '.join(options) or 'none'}"])
    print(table(["device", "usable", "details"], rows))
    return 0
