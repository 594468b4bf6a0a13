"""Bitstreams for a ULX3S-85F, and clock and resources on its FPGA as place and route confirms them:
``python -m bitstep_hw.boards.ecp5.flow bits=4,lookahead=1``.
"""

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from amaranth.back import rtlil

from bitstep.options.types import Integer, Number
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.manifest import FileSum, Manifest, read_manifest
from bitstep.pipeline.parts.widths import MAX_CLOCK_MHZ
from bitstep.pipeline.results import DeviceError
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
SDRAM_DEFAULT = "bits=4,lookahead=3,update_interval=4,max_features=1024"
SEED = 1
PIPELINE_MHZ = 150.0
LATE_NS = 9.0
# Of bitstreams with each kind of memory. An SDRAM takes minutes to fill, so its line has the
# highest rate of the board's USB bridge, to which its clock can be divided.
BITSTREAM_MHZ = {"on-chip": 40.0, "sdram": 75.0}
N_BLOCKS = 208          # block memories of the chip, of 2 KiB
MOST_KIB = 1 << (2 * N_BLOCKS).bit_length() - 1     # a power of two that they hold
BAUD = {"on-chip": 1_000_000, "sdram": 3_000_000}


def _report(routed: Path) -> dict:
    return json.loads((routed / "report.json").read_text(encoding="utf-8"))


def measure(config: PipelineConfig, *, clock_mhz: float, seed: int, alpha: float | None,
            folder: Path) -> dict:
    """Synthesize, place and route the top for ``config`` alone; return nextpnr's report.

    Parameters
    ----------
    config : PipelineConfig
    clock_mhz : float
        Clock that is aimed at.
    seed : int
        Seed of the placer.
    alpha : float or None
        See :meth:`bitstep_hw.boards.ecp5.tools.Flow.place_and_route`.
    folder : Path
        Folder of finished steps.
    """
    # Any identity does; 0 keeps the placement of a pipeline whose gates stay the same.
    top = ClockHarness(Top(config))
    rtl = rtlil.convert(top, name="clock_harness", emit_src=False)
    flow = Flow(folder, rtl, top="clock_harness", target=ulx3s.TARGET)
    return _report(flow.place_and_route(clock_mhz=clock_mhz, seed=seed, alpha=alpha))


def build(system: SystemConfig, *, seeds: Sequence[int], alpha: float | None, folder: Path,
          tell: Callable[[str], None] = lambda line: None) -> tuple[Path, Manifest]:
    """Build the bitstream of the board for ``system``; return its path and its manifest.

    Parameters
    ----------
    system : SystemConfig
    seeds : sequence of int
        Seeds of the placer, tried one after the other until one reaches the clock.
    alpha : float or None
        See :meth:`bitstep_hw.boards.ecp5.tools.Flow.place_and_route`.
    folder : Path
        Folder of finished steps.
    tell : callable
        Called with a line for each seed that was tried.

    Raises
    ------
    ToolError
        If a tool is missing or fails, or the clock is not reached with any seed; the message says
        which is.
    """
    rtl = rtlil.convert(ulx3s.Ulx3s(system), name="ulx3s", emit_src=False)
    flow = Flow(folder, rtl, top="ulx3s", target=ulx3s.TARGET)
    found = []
    for seed in seeds:
        routed = flow.place_and_route(clock_mhz=system.clock_hz / 1e6, seed=seed, alpha=alpha,
                                      constraints=ulx3s.constraints(
                                          sdram=system.memory == "sdram"))
        report = _report(routed)
        clock = clocks(report)[0]
        tell(f"seed {seed}: {clock.achieved_mhz:.1f} MHz for {clock.constraint_mhz:g}")
        if clock.achieved_mhz >= clock.constraint_mhz:
            bitstream = flow.pack(routed)
            return bitstream, manifest(system, report, clock, bitstream, seed=seed, alpha=alpha)
        found.append((clock, report))
    clock, report = max(found, key=lambda entry: entry[0].achieved_mhz)
    raise ToolError(
        f"{system.pipeline.name} reaches {clock.achieved_mhz:.1f} MHz on this board, not "
        f"{clock.constraint_mhz:g}, with --seed {_listed(seeds)} {_placed_by(alpha)}: build it "
        f"with --clock-mhz {clock.achieved_mhz // 5 * 5:g}, or try other seeds, another "
        f"--placer-alpha or --placer\n{describe_paths(report)}")


def _placed_by(alpha):
    return "--placer static" if alpha is None else f"--placer-alpha {alpha:g}"


def _listed(seeds):
    return ",".join(map(str, seeds))


def manifest(system: SystemConfig, report: dict, clock: Clock, bitstream: Path, *,
             seed: int, alpha: float | None = ALPHA) -> Manifest:
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
    alpha : float or None
        See :meth:`bitstep_hw.boards.ecp5.tools.Flow.place_and_route`.
    """
    surroundings = dataclasses.asdict(system)
    del surroundings["pipeline"]
    if system.memory == "on-chip":      # as in manifests from before there was another one
        del surroundings["memory"]
    return Manifest(
        board=BOARD, config=system.pipeline, identity=identity(system.pipeline),
        system=surroundings,
        clock_mhz={"constraint": round(clock.constraint_mhz, 2),
                   "achieved": round(clock.achieved_mhz, 2)},
        resources={name: {"used": used, "available": available}
                   for name, (used, available) in resources(report).items()},
        tools=versions(), seed=seed, placer="static" if alpha is None else None,
        placer_alpha=None if alpha == ALPHA else alpha, bitstream=FileSum.of(bitstream))


def _print_measured(config, arguments):
    for seed in _or(arguments.seed, [SEED]):
        report = measure(config, clock_mhz=_or(arguments.clock_mhz, PIPELINE_MHZ), seed=seed,
                         alpha=_alpha(arguments, None), folder=arguments.folder)
        clock = clocks(report)[0]
        used = ", ".join(f"{name} {number:,} of {total:,}"
                         for name, (number, total) in resources(report).items())
        print(f"{config.name}, seed {seed}: {clock.achieved_mhz:.1f} MHz (aimed at "
              f"{clock.constraint_mhz:.0f}); {used}")
        print(describe_paths(report))
        print(describe_endpoints(report, _or(arguments.late_ns, LATE_NS)), flush=True)


def _alpha(arguments, known):
    """Alpha as the options say, or as the manifest ``known`` where they say nothing."""
    if arguments.placer_alpha is not None:
        return arguments.placer_alpha       # which makes it the placer heap
    if (arguments.placer or (known and known.placer)) == "static":
        return None
    return _or(known and known.placer_alpha, ALPHA)


def _or(given, default):
    return default if given is None else given


def _system(config, arguments, known):
    """What is to be built, seeds and alpha: as the options say, and as the manifest ``known`` where
    they say nothing, if there is one.
    """
    memory = arguments.memory
    surroundings = {"memory": memory, "memory_bytes": MEMORIES[memory],
                    "clock_hz": round(BITSTREAM_MHZ[memory] * 1e6), "baud": BAUD[memory],
                    **(known.system if known else {})}
    if arguments.memory_kib is not None:
        surroundings["memory_bytes"] = arguments.memory_kib * 1024
    if arguments.clock_mhz is not None:
        surroundings["clock_hz"] = round(arguments.clock_mhz * 1e6)
    if arguments.baud is not None:
        surroundings["baud"] = arguments.baud
    return (SystemConfig(pipeline=config, **surroundings),
            _or(arguments.seed, [_or(known and known.seed, SEED)]), _alpha(arguments, known))


def _write_built(config, arguments):
    stem = f"{BOARD}-{config.name}" + ("-sdram" if arguments.memory == "sdram" else "")
    path = BITSTREAMS / f"{stem}.json"
    known = None
    if arguments.check:
        try:
            known = read_manifest(path, "a bitstream for this board", "baud", "clock_hz", "seed")
        except DeviceError as error:
            raise ToolError(f"--check needs the manifest that a build wrote: {error}") from error
    system, seeds, alpha = _system(config, arguments, known)
    print(f"line: {system.baud:,} baud; usual rates at {system.clock_hz / 1e6:g} MHz: "
          + ", ".join(f"{baud:,}" for baud in usual_rates(system.clock_hz)), flush=True)
    bitstream, found = build(system, seeds=seeds, alpha=alpha, folder=arguments.folder,
                             tell=lambda line: print(line, flush=True))
    target = arguments.folder / f"{stem}.bit"
    target.write_bytes(bitstream.read_bytes())
    print(f"{target}: {target.stat().st_size:,} bytes, "
          f"{found.clock_mhz['achieved']:.1f} MHz reached for {found.clock_mhz['constraint']:g}, "
          + ", ".join(f"{name} {entry['used']:,} of {entry['available']:,}"
                      for name, entry in found.resources.items()))
    if arguments.check:
        if path.read_text(encoding="utf-8") != found.text():
            raise ToolError(f"{path} is not what this build gives: build it again with "
                            "`make bitstream` and commit it")
        print(f"{path} is what this build gives")
        return
    path.parent.mkdir(exist_ok=True)
    found.write(path)
    print(f"wrote {path}", flush=True)


def _seeds(text):
    try:
        return [int(seed) for seed in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"seeds must be integers with commas between, such as 1,2,3, not {text!r}") from None


def main(arguments: list[str] | None = None) -> int:
    """Build or measure each configuration."""
    parser = argparse.ArgumentParser(
        prog="python -m bitstep_hw.boards ecp5-85",
        description="Bitstreams for a ULX3S-85F, or clock and resources of pipelines alone on its "
        "FPGA (ECP5-85, speed grade 6), by Yosys, nextpnr and ecppack. Takes from 5 minutes to "
        "half an hour a configuration; what was done before is not done again.")
    parser.add_argument("configs", nargs="*", metavar="CONFIG",
                        help=f"field=value,... (default: {DEFAULT}, with --bit-planes "
                             f"{BIT_PLANE_DEFAULT}, else with --memory sdram {SDRAM_DEFAULT})")
    parser.add_argument("--bit-planes", action="store_true",
                        help="pipelines for bit-plane rows (`bitstep quantize --bit-planes`)")
    kind = parser.add_mutually_exclusive_group()
    kind.add_argument("--clock-only", action="store_true",
                      help="measure pipelines alone; make no bitstream")
    kind.add_argument("--check", action="store_true",
                      help="build, and compare with the manifest in bitstreams/; what no option "
                      "says is as the manifest has it")
    parser.add_argument("--late-ns", type=Number(0, above=False),
                        help="with --clock-only: list the registers whose data arrives later "
                        f"({LATE_NS:g})")
    parser.add_argument("--clock-mhz", type=Number(0, high=MAX_CLOCK_MHZ),
                        help="clock that place and route aims at, and "
                        f"which the bitstream has (default: {BITSTREAM_MHZ['on-chip']:g}, with "
                        f"--memory sdram {BITSTREAM_MHZ['sdram']:g}; {PIPELINE_MHZ:g} with "
                        "--clock-only)")
    parser.add_argument("--memory", choices=tuple(MEMORIES), default="on-chip",
                        help="shared memory: the FPGA's block memories, or the board's SDRAM of "
                        "32 MiB (%(default)s)")
    parser.add_argument("--memory-kib", type=Integer(1), metavar="KIB",
                        help="its size in KiB (default: "
                        + ", ".join(f"{kind} {size // 1024}" for kind, size in MEMORIES.items())
                        + ")")
    parser.add_argument("--baud", type=Integer(1), help="of the line (default: "
                        + ", ".join(f"{kind} {rate}" for kind, rate in BAUD.items())
                        + "); the usual rates of the clock are printed")
    parser.add_argument("--seed", type=_seeds, metavar="SEED,...",
                        help="of the placer; several are tried one after the other until one "
                        f"reaches the clock, and with --clock-only all are measured ({SEED})")
    parser.add_argument("--placer", choices=("heap", "static"),
                        help="nextpnr's placer (heap); what one leaves to route for an hour, the "
                        "other may place better")
    parser.add_argument("--placer-alpha", type=Number(0), metavar="ALPHA",
                        help=f"nextpnr's --placer-heap-alpha ({ALPHA})")
    parser.add_argument("--folder", type=Path, default=FOLDER,
                        help="where results are kept (%(default)s)")
    chosen = parser.parse_args(arguments)
    if chosen.placer == "static" and chosen.placer_alpha is not None:
        parser.error("--placer-alpha is of the placer heap; leave one of the two out")
    if chosen.memory == "on-chip" and (chosen.memory_kib or 0) > MOST_KIB:
        parser.error(f"--memory-kib must be at most {MOST_KIB}, the largest power of two that the "
                     f"chip's {N_BLOCKS} block memories hold, not {chosen.memory_kib}; give less, "
                     "or --memory sdram")
    if chosen.clock_only and (chosen.memory_kib, chosen.baud) != (None, None):
        parser.error("--memory-kib and --baud are of a bitstream, and --clock-only makes none; "
                     "leave them out")
    if chosen.clock_only and chosen.configs and chosen.memory == "sdram":
        parser.error("--memory chooses the CONFIG that --clock-only measures where none is named; "
                     "leave one of the two out")
    if chosen.late_ns is not None and not chosen.clock_only:
        parser.error("--late-ns is of --clock-only; give both, or none")
    default = SDRAM_DEFAULT if chosen.memory == "sdram" else DEFAULT
    try:
        configs = [parse_config(text, bit_planes=chosen.bit_planes) for text in
                   chosen.configs or [BIT_PLANE_DEFAULT if chosen.bit_planes else default]]
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
