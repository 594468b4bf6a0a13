"""``python -m bitstep_lab.exactness``: the tables of docs/results/exactness.md."""

import argparse

import numpy as np

from bitstep_lab.exactness.curves import GOAL, MARKS, Curve, curves
from bitstep_lab.exactness.problems import HELD_OUT, SETS, problem


def main() -> None:
    """Print a Markdown table for each set."""
    parser = argparse.ArgumentParser(
        prog="python -m bitstep_lab.exactness",
        description="Distance to the optimum of least squares by bytes of rows read, of "
        "bit-centred training, of scheduled precision, of fixed bits, and of SGD and SVRG in "
        "float. Needs numba.")
    parser.add_argument("--sets", nargs="+", metavar="SET", default=SETS,
                        help=f"of {', '.join((*SETS, *HELD_OUT))} (default: the first "
                        f"{len(SETS)})")
    parser.add_argument("--data-home", metavar="DIR", help="folder with files of named data sets")
    options = parser.parse_args()
    for name in options.sets:
        chosen = problem(name, options.data_home)
        rows, features = chosen.features.shape
        print(f"\n**{name}** ({rows:,} x {features:,}"
              + (f", {chosen.targets.shape[1]} classes" if chosen.targets.shape[1] > 1 else "")
              + f"; {chosen.source})\n", flush=True)
        print("| | " + " | ".join(map(str, MARKS)) + f" | epochs to {GOAL:g} | |")
        print("| --- |" + " --- |" * (len(MARKS) + 2))
        for curve in curves(chosen):
            print(line(curve), flush=True)


def line(curve: Curve) -> str:
    """A row of the table."""
    cells = [_number(curve.at(mark)) for mark in MARKS]
    goal = curve.goal()
    last = f"{goal:.2f}" if np.isfinite(goal) else "-"
    return f"| {curve.name} | {' | '.join(cells)} | {last} | {curve.choice} |"


def _number(value: float) -> str:
    return "-" if not np.isfinite(value) or value > 1e6 else f"{value:.1e}"


if __name__ == "__main__":
    main()
