"""``python -m bitstep_lab.exactness``: the tables of docs/results/exactness.md."""

import argparse
from collections.abc import Sequence

import numpy as np

from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.registers import Loss
from bitstep_lab.exactness.curves import GOAL, MARKS, Curve, batches, curves
from bitstep_lab.exactness.problems import CLASS_SETS, HELD_OUT, SETS, Problem, problem
from bitstep_lab.exactness.times import GOALS, Timed, times
from bitstep_lab.races.board_profiles import PROFILES, profile
from bitstep_lab.races.plot_styles import digits


def main() -> None:
    """Print a Markdown table for each set."""
    parser = argparse.ArgumentParser(
        prog="python -m bitstep_lab.exactness",
        description="Distance to the optimum by bytes of rows read, of bit-centred training, of "
        "scheduled precision, of fixed bits, and of SGD, SVRG and SAGA in float. Needs numba.")
    losses = [LOSSES[loss].name for loss in (
        Loss.LEAST_SQUARES, Loss.LOGISTIC, Loss.SQUARED_HINGE)]
    parser.add_argument("--loss", choices=losses, default=losses[0],
                        help=f"default: {losses[0]}; the others have l2 = 1 / rows")
    parser.add_argument("--sets", nargs="+", metavar="SET",
                        help=f"of {', '.join((*SETS, *HELD_OUT))}; with another loss of "
                        f"{', '.join(CLASS_SETS)} (default: the first {len(SETS)}, or these)")
    parser.add_argument("--seed", type=int, default=0, metavar="N",
                        help="of the order of rows, and of generated ones (default: 0)")
    parser.add_argument("--data-home", metavar="DIR", help="folder with files of named data sets")
    parser.add_argument("--profile", nargs="+", choices=PROFILES, help="print seconds to given "
                        "distances on these boards, instead of distances after bytes")
    parser.add_argument("--period", type=int, metavar="T", help="with --profile: rows "
                        "between corrections of bit-centred training (default: chosen)")
    parser.add_argument("--batches", type=int, nargs="+", default=(), metavar="B",
                        help="print epochs to the goal of bit-centred training by 4 bits whose "
                        "inner passes have batches of so many rows, a line for each set")
    options = parser.parse_args()
    if options.seed < 0:
        parser.error(f"--seed must be at least 0, not {options.seed}")
    if options.period is not None and (options.period < 1 or not options.profile):
        parser.error("--period must be at least 1 and needs --profile")
    if options.batches and (options.profile or min(options.batches) < 1):
        parser.error("--batches must be at least 1, and does not go together with --profile")
    loss = next(one for one, rule in LOSSES.items() if rule.name == options.loss)
    sets = options.sets or (CLASS_SETS if LOSSES[loss].signs else SETS)
    if options.batches:
        print(f"| epochs to {GOAL:g} | " + " | ".join(map(str, options.batches)) + " |")
        print("| --- |" + " --- |" * len(options.batches))
        for name in sets:
            chosen = _chosen(name, options, loss)
            cells = [_epochs(curve) for curve in batches(chosen, options.batches)]
            print(f"| {name} | {' | '.join(cells)} |", flush=True)
        return
    for name in sets:
        chosen = _chosen(name, options, loss)
        rows, features = chosen.features.shape
        print(f"\n**{name}** ({rows:,} x {features:,}"
              + (f", {chosen.targets.shape[1]} classes" if chosen.targets.shape[1] > 1 else "")
              + f"; {chosen.source})\n", flush=True)
        if options.profile:
            print("| ms to | " + " | ".join(f"{goal:g}" for goal in GOALS)
                  + f" | {GOALS[-1]:g}, pipeline alone | |")
            print("| --- |" + " --- |" * (len(GOALS) + 2))
            for curve in times(chosen, [profile(one) for one in options.profile],
                               options.period or 0):
                print(time_line(curve, GOALS), flush=True)
            continue
        print("| | " + " | ".join(map(str, MARKS)) + f" | epochs to {GOAL:g} | |")
        print("| --- |" + " --- |" * (len(MARKS) + 2))
        for curve in curves(chosen):
            print(line(curve), flush=True)


def _chosen(name: str, options: argparse.Namespace, loss: Loss) -> Problem:
    """A problem; without its data, or where the loss is not for them, the command ends."""
    try:
        return problem(name, options.data_home, options.seed, loss)
    except ValueError as error:
        raise SystemExit(f"error: {error}") from None


def line(curve: Curve) -> str:
    """A row of the table."""
    cells = [_number(curve.at(mark)) for mark in MARKS]
    return f"| {curve.name} | {' | '.join(cells)} | {_epochs(curve)} | {curve.choice} |"


def _epochs(curve: Curve) -> str:
    goal = curve.goal()
    return f"{goal:.2f}" if np.isfinite(goal) else "-"


def time_line(curve: Timed, goals: Sequence[float]) -> str:
    """A row of the table of times."""
    found = [*(curve.goal(goal) for goal in goals), curve.alone(goals[-1])]
    cells = [digits(1e3 * seconds if np.isfinite(seconds) else None) for seconds in found]
    return f"| {curve.label} | {' | '.join(cells)} | {curve.choice} |"


def _number(value: float) -> str:
    return "-" if not np.isfinite(value) or value > 1e6 else f"{value:.1e}"


if __name__ == "__main__":
    main()
