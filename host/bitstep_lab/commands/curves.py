"""``bitstep curves``: every race of the speedup report, and the report."""

import argparse
from typing import Any

from bitstep.cli.options import UsageError
from bitstep.cli.paths import check_folder
from bitstep.cli.progress import StatusLine

RTL_HELP = ("run every pipeline on the simulated board, which is slow; else the native device runs "
            "them, its cycle model counts, and an epoch of one pipeline of each race is compared "
            "with the RTL")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    parser = commands.add_parser(
        "curves", help="run all races and write the report of speedup and convergence",
        description="Race pipelines of every width against float hardware, the CPU and "
        "scikit-learn, and write DIR/index.html, with plots and CSV files beside it. A later call "
        "goes on where one was interrupted.",
        epilog="Example: bitstep curves --quick --out build/curves. How to read it: "
        "docs/results/races.md.")
    parser.add_argument("--out", metavar="DIR", help="folder of the report (needed but for --list)")
    parser.add_argument("--quick", action="store_true", help="few widths and rows: a minute or two "
                        "on 2 cores")
    parser.add_argument("--only", action="append", metavar="KEY", help="run this experiment only; "
                        "may be repeated (--list shows the keys)")
    parser.add_argument("--rtl", action="store_true", help=RTL_HELP)
    parser.add_argument("--list", action="store_true", help="show the experiments and run nothing")
    parser.add_argument("--data-home", metavar="DIR", help="folder with files of named data sets "
                        "(default: $BITSTEP_DATA, else the cache folder); without a file a "
                        "generator of the same shape stands in")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Run what was not run yet, and write the report."""
    from bitstep_lab.races.compiled import pipelines_of
    from bitstep_lab.races.experiments import Experiment, experiments, named
    others = _exact_races(arguments.quick)
    try:
        chosen = named([*experiments(arguments.quick), *others], arguments.only)
    except ValueError as error:
        raise UsageError(f"--only: {error}") from error
    if arguments.list:
        mine = [one for one in chosen if isinstance(one, Experiment)]
        for experiment in mine:
            figure = f", figure {experiment.figure}" if experiment.figure else ""
            print(f"{experiment.key}: {experiment.title}{figure}, {len(experiment.contestants)} "
                  "contestants")
        for race in chosen[len(mine):]:
            print(f"{race.key}: {race.title}")
        print(f"{pipelines_of(mine, rtl=arguments.rtl)} pipelines to compile")
        return 0
    if not arguments.out:
        raise UsageError("--out must name the folder of the report, and is missing; add "
                         "--out DIR, or --list to see the experiments")
    out = check_folder(arguments.out)
    try:
        from matplotlib.figure import Figure  # before hours of work, not after
        del Figure
        from bitstep_lab.races.report import run_curves
    except ImportError as error:
        raise RuntimeError(f"bitstep curves needs matplotlib and scipy ({error}): "
                           'pip install "bitstep[sklearn,sim,bench]"') from error
    status, line = StatusLine("board"), Progress()
    try:
        page = run_curves(out, quick=arguments.quick, only=arguments.only,
                          data_home=arguments.data_home, rtl=arguments.rtl, progress=line,
                          device_options={"progress": status}, others=others)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(
            f"interrupted; what is finished is in {out / 'runs'}, and the same command goes on "
            "from there") from None
    finally:
        status.clear()
    print(f"wrote {page}")
    return 0


def _exact_races(quick: bool) -> tuple[Any, ...]:
    """Races to the optimum; none of a quick report, or without numba and scikit-learn."""
    if quick:
        return ()
    try:
        import sklearn

        from bitstep_lab.exactness.race import EXACT_RACES
        del sklearn
    except ImportError:
        return ()
    return EXACT_RACES


class Progress:
    """One line on standard error for each run, with the time since the start."""

    def __init__(self):
        import time
        self._clock = time.perf_counter
        self._start = self._clock()

    def __call__(self, text: str) -> None:
        """Show a line."""
        import sys
        seconds = int(self._clock() - self._start)
        print(f"[{seconds // 60:3d}:{seconds % 60:02d}] {text}", file=sys.stderr, flush=True)
