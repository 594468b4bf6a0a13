"""Clock and resources on an ECP5, as place and route confirms them:
``python -m bitstep_hw.boards.ecp5 --clock-only bits=4 bits=1,recursion=3``.
"""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from amaranth.back import rtlil

from bitstep.config import PipelineConfig
from bitstep_hw.boards.clock_harness import ClockHarness
from bitstep_hw.boards.timing import clocks, describe_paths, resources
from bitstep_hw.boards.tools import Flow, Target, ToolError
from bitstep_hw.top import Top

FOLDER = Path("build/ecp5")


def parse_config(text: str) -> PipelineConfig:
    """Configuration from ``field=value,...``; fields that are not given have their defaults, and
    ``lookahead=auto`` (the default) stands for what rows of any length need.

    Raises
    ------
    ValueError
        If there is no such field or its value is out of range.
    """
    fields = {field.name: field.default for field in dataclasses.fields(PipelineConfig)}
    choices: dict = {"lookahead": "auto"}
    for item in filter(None, text.split(",")):
        name, _, value = item.partition("=")
        if name not in fields:
            raise ValueError(f"{name!r} is no field of a configuration; fields are: "
                             f"{', '.join(fields)}")
        choices[name] = _value(name, value, fields[name])
    automatic = choices["lookahead"] == "auto"
    config = PipelineConfig(**{**choices, "lookahead": 0} if automatic else choices)
    return config.with_lookahead() if automatic and not config.refetch else config


def _value(name, text, default):
    if name == "lookahead" and text == "auto":
        return text
    if isinstance(default, bool):
        if text not in ("True", "False"):
            raise ValueError(f"{name} must be True or False, not {text!r}")
        return text == "True"
    if isinstance(default, int):
        try:
            return int(text)
        except ValueError:
            raise ValueError(f"{name} must be an integer, not {text!r}") from None
    return text


def measure(config: PipelineConfig, *, clock_mhz: float, seed: int, folder: Path) -> dict:
    """Synthesize, place and route the top for ``config`` alone; returns nextpnr's report."""
    rtl = rtlil.convert(ClockHarness(Top(config)), name="clock_harness", emit_src=False)
    flow = Flow(folder, rtl, top="clock_harness", target=Target())
    routed = flow.place_and_route(clock_mhz=clock_mhz, seed=seed)
    return json.loads((routed / "report.json").read_text(encoding="utf-8"))


def main() -> int:
    """Measure each configuration, and print a line and the critical path as soon as it is known."""
    parser = argparse.ArgumentParser(
        description="Clock and resources on an ECP5-85, speed grade 6, by Yosys and nextpnr.")
    parser.add_argument("configs", nargs="+", type=parse_config, metavar="CONFIG",
                        help="field=value,... as in bits=4,lookahead=6")
    parser.add_argument("--clock-only", action="store_true", required=True,
                        help="measure the pipeline alone")
    parser.add_argument("--clock-mhz", type=float, default=150.0,
                        help="clock that place and route aims at (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the placer (%(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER,
                        help="where results are kept (%(default)s)")
    arguments = parser.parse_args()
    for config in arguments.configs:
        try:
            report = measure(config, clock_mhz=arguments.clock_mhz, seed=arguments.seed,
                             folder=arguments.folder)
        except ToolError as error:
            print(error, file=sys.stderr)
            return 1
        clock = clocks(report)[0]
        used = ", ".join(f"{name} {number:,} of {total:,}"
                         for name, (number, total) in resources(report).items())
        print(f"{config.name}: {clock.achieved_mhz:.1f} MHz (aimed at "
              f"{clock.constraint_mhz:.0f}); {used}")
        print(describe_paths(report), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
