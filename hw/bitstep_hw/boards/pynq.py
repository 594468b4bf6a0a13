"""Bitstreams for boards that PYNQ runs on, by Vivado: ``python -m bitstep_hw.boards pynq-z2``."""

import argparse
import functools
import shlex
import sys
from pathlib import Path

from bitstep.options.types import Integer, Number
from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.boards.choice import parse_config
from bitstep_hw.boards.vivado import ToolError
from bitstep_hw.boards.vivado.flow import build, collect, find_vivado
from bitstep_hw.boards.vivado.sources import write_sources
from bitstep_hw.boards.zynq import BOARDS, PynqBoard

FOLDER = Path("build/vivado")
BITSTREAMS = Path("bitstreams")
# Bits of the default pipelines: first the one that says most about a board, last the largest.
BUILD_ORDER = (4, 2, 8, 1)


def _parse(board: PynqBoard, text: str, bit_planes: bool) -> PipelineConfig:
    """Return the default configuration for some bits, or the one that is written out."""
    if bit_planes and text.isdecimal():
        raise ValueError(f"Bits must not be given with --bit-planes, not {text}: a pipeline for "
                         f"bit-plane "
                         "rows reads 1 to 16 of them; give fields, such as max_features=1024")
    config = board.facts.config(int(text)) if text.isdecimal() \
        else parse_config(text, bit_planes=bit_planes)
    board.check(config)
    return config


def _chosen(board: PynqBoard, texts: list[str], bit_planes: bool) -> list[PipelineConfig]:
    """Return the configurations that are asked for, or the default ones."""
    if bit_planes and not texts:
        return [board.facts.bit_plane_config()]
    defaults = [str(bits) for bits in BUILD_ORDER if bits in board.facts.bus_widths]
    configs = (_parse(board, text, bit_planes) for text in texts or defaults)
    return list(dict.fromkeys(configs))


def main(name: str, arguments: list[str] | None = None) -> int:
    """Build the bitstreams of a board; the exit code is 2 where there is no Vivado, and 1 if one
    of them failed.
    """
    board = BOARDS[name]
    parser = _parser(board)
    chosen = parser.parse_args(arguments)
    try:
        configs = _chosen(board, chosen.configs, chosen.bit_planes)
    except ValueError as error:
        parser.error(str(error))
    if chosen.tcl_only is not None:
        chosen.tcl_only.mkdir(parents=True, exist_ok=True)    # an error comes before the work
        again = shlex.join([name, *["--bit-planes"] * chosen.bit_planes, "--collect",
                            str(chosen.tcl_only), *chosen.configs])
        for config in configs:
            print(f"wrote {write_sources(board, config, chosen.tcl_only, jobs=chosen.jobs)}: run "
                  "`vivado -mode batch -source build.tcl` in it, bring its files back, then "
                  f"`python -m bitstep_hw.boards {again}`")
        return 0
    try:
        if chosen.collect is not None:
            if not chosen.configs and not chosen.bit_planes:    # as in the archives of a release
                configs.append(board.facts.bit_plane_config())
            folders = _finished(board, configs, chosen.collect,
                                bool(chosen.configs) or chosen.bit_planes)
            actions = {config: functools.partial(collect, board, config, folder, BITSTREAMS,
                                                 tell=_tell)
                       for config, folder in folders.items()}
        else:
            vivado = find_vivado(board)
            actions = {config: functools.partial(
                build, board, config, vivado, folder=chosen.folder, target=BITSTREAMS,
                jobs=chosen.jobs, timeout_s=chosen.timeout * 3600, tell=_tell)
                for config in configs}
    except ToolError as error:
        print(error, file=sys.stderr)
        return error.code
    return _run_all(actions)


def _parser(board):
    parser = argparse.ArgumentParser(
        prog=f"python -m bitstep_hw.boards {board.name}",
        description=f"Bitstream, .hwh and manifest for {board.title} by Vivado, which must be on "
        "PATH. What was built before is not built again. If one fails, the others are built "
        "nevertheless.")
    parser.add_argument(
        "configs", nargs="*", metavar="CONFIG",
        help="bits of one of the board's default pipelines, or field=value,... for another, whose "
        "other fields are the package's defaults, not the board's "
        f"(bus_width={PipelineConfig.bus_width}, "
        f"update_interval={PipelineConfig.update_interval}, ...; default: "
        f"{' '.join(map(str, BUILD_ORDER))}; with --collect those of them that are there, and the "
        "default one for bit-plane rows)")
    parser.add_argument("--bit-planes", action="store_true", help="pipelines for bit-plane rows "
                        "(`bitstep quantize --bit-planes`); without CONFIG the board's default one")
    where = parser.add_mutually_exclusive_group()
    where.add_argument("--tcl-only", type=Path, metavar="DIR",
                       help="only write the sources for Vivado, each pipeline's into a folder of "
                       "its own in DIR; needs no Vivado")
    where.add_argument("--collect", type=Path, metavar="DIR",
                       help="check and take over what Vivado built elsewhere from the sources in "
                       "DIR; needs no Vivado")
    parser.add_argument("--folder", type=Path, default=FOLDER,
                        help="where Vivado works (default: %(default)s)")
    parser.add_argument("--jobs", type=Integer(1), default=2,
                        help="of Vivado at once (%(default)s)")
    parser.add_argument("--timeout", type=Number(0), default=6.0, metavar="HOURS",
                        help="limit of time for each bitstream (%(default)s)")
    return parser


def _tell(line):
    print(line, flush=True)


def _finished(board, configs, folder, named):
    """Folder of each configuration in ``folder``; of those that nobody named, of what there is."""
    folders = {config: folder / f"{board.name}-{config.name}" for config in configs}
    present = {config: path for config, path in folders.items() if path.is_dir()}
    others = sorted(path.name for path in folder.glob(f"{board.name}-*")
                    if path.is_dir() and path not in folders.values())
    whose = "a pipeline that was not named" if named else "no default pipeline"
    left = f"{', '.join(others)}, of {whose}: name its CONFIG, as for --tcl-only"
    if not present:
        raise ToolError(f"{folder} must hold a folder that --tcl-only wrote, such as "
                        f"{next(iter(folders.values())).name}, and has "
                        + (left if others else "none"))
    if others and not named:
        _tell(f"note: {folder} also holds {left}")
    return folders if named else present


def _run_all(actions):
    """Carry out what is to be done for each configuration, whatever becomes of the others."""
    failed = {}
    for config, action in actions.items():
        try:
            _tell(f"wrote {action()}, .bit and .hwh")
        except (ToolError, OSError) as error:
            failed[config.name] = error
            print(error, file=sys.stderr, flush=True)
    if failed:
        print(f"{len(failed)} of {len(actions)} failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0
