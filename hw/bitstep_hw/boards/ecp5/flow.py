"""Bitstreams for a ULX3S-85F, and clock and resources on its FPGA as place and route confirms them:
``python -m bitstep_hw.boards.ecp5.flow bits=4,lookahead=1``.
"""

import argparse
import dataclasses
import json
import sys
from pathlib import Path

from amaranth.back import rtlil

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.manifest import FileSum, Manifest
from bitstep_hw.boards.choice import parse_config
from bitstep_hw.boards.ecp5 import ulx3s
from bitstep_hw.boards.ecp5.clock_harness import ClockHarness
from bitstep_hw.boards.ecp5.timing import (
    Clock,
    clocks,
    describe_endpoints,
    describe_paths,
    resources,
)
from bitstep_hw.boards.ecp5.tools import ALPHA, Flow, ToolError, versions
from bitstep_hw.boards.serial.system import MEMORIES, SystemConfig, usual_rates
from bitstep_hw.top import Top, identity

BOARD = "ulx3s-85f"
FOLDER = Path("build/ecp5")
BITSTREAMS = Path("bitstreams")
# What `make bitstream` builds: see docs/boards-ecp5.md for what other choices cost.
DEFAULT = "bits=4,lookahead=1,max_features=1024"
BIT_PLANE_DEFAULT = "lookahead=1,max_features=1024"
# Of each memory, in MHz and baud. An SDRAM takes minutes to fill, so its line has the highest rate
# of the board's USB bridge, to which 45 MHz are divided exactly.
CLOCKS = {"on-chip": 40.0, "sdram": 45.0}
RATES = {"on-chip": 1_000_000, "sdram": 3_000_000}


def _report(routed: Path) -> dict:
    return json.loads((routed / "report.json").read_text(encoding="utf-8"))


def measure(config: PipelineConfig, *, clock_mhz: float, seed: int, alpha: float,
            folder: Path) -> dict:
    """Synthesize, place and route the top for ``config`` alone; return nextpnr's report.

    Parameters
    ----------
    config : PipelineConfig
    clock_mhz : float
        Clock that is aimed at.
    seed : int
        Seed of the placer.
    alpha : float
        See :meth:`bitstep_hw.boards.ecp5.tools.Flow.place_and_route`.
    folder : Path
        Folder of finished steps.
    """
    # Any identity does; 0 keeps the placement of a pipeline whose gates stay the same.
    top = ClockHarness(Top(config))
    rtl = rtlil.convert(top, name="clock_harness", emit_src=False)
    flow = Flow(folder, rtl, top="clock_harness", target=ulx3s.TARGET)
    return _report(flow.place_and_route(clock_mhz=clock_mhz, seed=seed, alpha=alpha))


def build(system: SystemConfig, *, seed: int, folder: Path) -> tuple[Path, Manifest]:
    """Build the bitstream of the board for ``system``; return its path and its manifest.

    Parameters
    ----------
    system : SystemConfig
    seed : int
        Seed of the placer.
    folder : Path
        Folder of finished steps.

    Raises
    ------
    ToolError
        If a tool is missing or fails, or the clock is not reached; the message says which is.
    """
    rtl = rtlil.convert(ulx3s.Ulx3s(system), name="ulx3s", emit_src=False)
    flow = Flow(folder, rtl, top="ulx3s", target=ulx3s.TARGET)
    routed = flow.place_and_route(clock_mhz=system.clock_hz / 1e6, seed=seed,
                                  constraints=ulx3s.constraints(sdram=system.memory == "sdram"))
    report = _report(routed)
    clock = clocks(report)[0]
    if clock.achieved_mhz < clock.constraint_mhz:
        raise ToolError(
            f"{system.pipeline.name} reaches {clock.achieved_mhz:.1f} MHz on this board, not "
            f"{clock.constraint_mhz:g}: build it with --clock-mhz {clock.achieved_mhz // 5 * 5:g}, "
            f"or try another --seed\n{describe_paths(report)}")
    bitstream = flow.pack(routed)
    return bitstream, manifest(system, report, clock, bitstream, seed=seed)


def manifest(system: SystemConfig, report: dict, clock: Clock, bitstream: Path, *,
             seed: int) -> Manifest:
    """Make the manifest of a bitstream, which the device ``uart`` reads.

    Parameters
    ----------
    system : SystemConfig
    report : dict
        nextpnr's report.
    clock : Clock
        Clock of the pipeline in it.
    bitstream : Path
        The .bit.
    seed : int
        Seed of the placer.
    """
    surroundings = dataclasses.asdict(system)
    del surroundings["pipeline"]
    if system.memory == "on-chip":      # as in manifests from before there was another one
        del surroundings["memory"]
    return Manifest(
        board=BOARD, config=system.pipeline, identity=identity(system.pipeline),
        system=surroundings,
        clock_mhz={"constraint": clock.constraint_mhz, "achieved": round(clock.achieved_mhz, 2)},
        resources={name: {"used": used, "available": available}
                   for name, (used, available) in resources(report).items()},
        tools=versions(), seed=seed, bitstream=FileSum.of(bitstream))


def _print_measured(config, arguments):
    report = measure(config, clock_mhz=arguments.clock_mhz, seed=arguments.seed,
                     alpha=arguments.placer_alpha, folder=arguments.folder)
    clock = clocks(report)[0]
    used = ", ".join(f"{name} {number:,} of {total:,}"
                     for name, (number, total) in resources(report).items())
    print(f"{config.name}: {clock.achieved_mhz:.1f} MHz (aimed at "
          f"{clock.constraint_mhz:.0f}); {used}")
    print(describe_paths(report))
    print(describe_endpoints(report, arguments.late_ns), flush=True)


def _write_built(config, arguments):
    n_bytes = arguments.memory_kib * 1024 if arguments.memory_kib else MEMORIES[arguments.memory]
    system = SystemConfig(pipeline=config, memory=arguments.memory, memory_bytes=n_bytes,
                          clock_hz=round(arguments.clock_mhz * 1e6), baud=arguments.baud)
    print(f"line: {system.baud:,} baud; usual rates at {arguments.clock_mhz:g} MHz: "
          + ", ".join(f"{baud:,}" for baud in usual_rates(system.clock_hz)), flush=True)
    bitstream, found = build(system, seed=arguments.seed, folder=arguments.folder)
    stem = f"{BOARD}-{config.name}" + ("-sdram" if system.memory == "sdram" else "")
    target = arguments.folder / f"{stem}.bit"
    target.write_bytes(bitstream.read_bytes())
    print(f"{target}: {target.stat().st_size:,} bytes, "
          f"{found.clock_mhz['achieved']:.1f} MHz reached for {found.clock_mhz['constraint']:g}, "
          + ", ".join(f"{name} {entry['used']:,} of {entry['available']:,}"
                      for name, entry in found.resources.items()))
    path = BITSTREAMS / f"{stem}.json"
    if arguments.check:
        if not path.exists() or path.read_text(encoding="utf-8") != found.text():
            raise ToolError(f"{path} is not what this build gives: build it again with "
                            "`make bitstream` and commit it")
        print(f"{path} is what this build gives")
        return
    path.parent.mkdir(exist_ok=True)
    found.write(path)
    print(f"wrote {path}", flush=True)


def main(arguments: list[str] | None = None) -> int:
    """Build or measure each configuration."""
    parser = argparse.ArgumentParser(
        description="Bitstreams for a ULX3S-85F, or clock and resources of pipelines alone on its "
        "FPGA (ECP5-85, speed grade 6), by Yosys, nextpnr and ecppack. Takes from 5 minutes to "
        "half an hour a configuration; what was done before is not done again.")
    parser.add_argument("configs", nargs="*", metavar="CONFIG",
                        help=f"field=value,... (default: {DEFAULT}, with --bit-planes "
                             f"{BIT_PLANE_DEFAULT})")
    parser.add_argument("--bit-planes", action="store_true",
                        help="pipelines for bit-plane rows (`bitstep quantize --bit-planes`)")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--clock-only", action="store_true",
                      help="measure pipelines alone; make no bitstream")
    kind.add_argument("--check", action="store_true",
                      help="build, and compare with the manifest in bitstreams/")
    parser.add_argument("--late-ns", type=float, default=9.0, help="with --clock-only: list the "
                        "registers whose data arrives later (%(default)s)")
    parser.add_argument("--clock-mhz", type=float, help="clock that place and route aims at, and "
                        "which the bitstream has (default: 40, with --memory sdram 45; 150 with "
                        "--clock-only)")
    parser.add_argument("--memory", choices=tuple(MEMORIES), default="on-chip",
                        help="shared memory: the FPGA's block memories, or the board's SDRAM of "
                        "32 MiB (%(default)s)")
    parser.add_argument("--memory-kib", type=int, metavar="KIB",
                        help="its size in KiB (default: 128, with --memory sdram 32768)")
    parser.add_argument("--baud", type=int,
                        help="of the line (default: 1000000, with --memory sdram 3000000); the "
                        "usual rates of the clock are printed")
    parser.add_argument("--seed", type=int, default=1, help="of the placer (%(default)s)")
    parser.add_argument("--placer-alpha", type=float, default=ALPHA, metavar="ALPHA",
                        help="with --clock-only: nextpnr's --placer-heap-alpha (%(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER,
                        help="where results are kept (%(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.clock_mhz is None:
        chosen.clock_mhz = 150.0 if chosen.clock_only else CLOCKS[chosen.memory]
    if chosen.baud is None:
        chosen.baud = RATES[chosen.memory]
    try:
        configs = [parse_config(text, bit_planes=chosen.bit_planes) for text in
                   chosen.configs or [BIT_PLANE_DEFAULT if chosen.bit_planes else DEFAULT]]
    except ValueError as error:
        parser.error(str(error))
    for config in configs:
        try:
            (_print_measured if chosen.clock_only else _write_built)(config, chosen)
        except (ToolError, ValueError) as error:
            print(error, file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
