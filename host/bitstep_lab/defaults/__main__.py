"""``python -m bitstep_lab.defaults``: the tables of docs/results/defaults.md."""

import argparse
import ast
import sys
import time

from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.data.dataset import DataError
from bitstep.data.near import did_you_mean
from bitstep_lab.defaults.contest import CONTESTANTS, contest, tables
from bitstep_lab.defaults.problems import HALVES, MAX_ROWS, drawn, problems, skipped


def main() -> None:
    """Print the tables and the time they took."""
    parser = argparse.ArgumentParser(prog="python -m bitstep_lab.defaults", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of generated data, folds and "
                        "estimators (default: %(default)s)")
    parser.add_argument("--data-home", metavar="DIR", help="folder of cadata and cpusmall "
                        "(default: without them)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="problems whose names begin so "
                        "(default: all)")
    parser.add_argument("--half", choices=HALVES, help="problems of one half: choose defaults on "
                        "one, confirm them on the other (default: both)")
    parser.add_argument("--rows", type=int, default=MAX_ROWS, metavar="N", help="most rows of a "
                        "problem, evenly spaced (default: %(default)s)")
    parser.add_argument("--draw", type=int, metavar="N", help="train on N rows of a problem, drawn "
                        "with replacement, and test on its own (default: 5 folds of these)")
    parser.add_argument("--contestants", nargs="+", metavar="NAME", default=CONTESTANTS,
                        choices=CONTESTANTS, help=f"some of {', '.join(CONTESTANTS)} (default: "
                        "all)")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="parameters of "
                        "our estimators in place of defaults, such as scaler='minmax'")
    arguments = parser.parse_args()
    if arguments.seed < 0:
        parser.error(f"--seed must be at least 0, not {arguments.seed}")
    if arguments.seed >= 1 << 32:       # scikit-learn has no more
        parser.error(f"--seed must be below 2**32, not {arguments.seed}")
    if arguments.rows < 10:
        parser.error(f"--rows must be at least 10, not {arguments.rows}")
    if arguments.draw is not None and arguments.draw < 10:
        parser.error(f"--draw must be at least 10, not {arguments.draw}")
    try:
        ours = {name: ast.literal_eval(value) for name, _, value in
                (pair.partition("=") for pair in arguments.set)}
    except (SyntaxError, ValueError):
        parser.error("--set must be followed by NAME=VALUE, with a value in Python, not "
                     f"{' '.join(arguments.set)}")
    known = {**LowPrecisionClassifier().get_params(), **LowPrecisionRegressor().get_params()}
    if unknown := next((name for name in ours if name not in known), None):
        parser.error(f"--set must name a parameter of our estimators, not {unknown!r}"
                     + did_you_mean(unknown, known))
    try:
        found = problems(arguments.seed, arguments.data_home, arguments.rows)
    except DataError as error:
        raise SystemExit(f"error: {error}") from None
    chosen = [one for one in found
              if (arguments.only is None or one.name.startswith(tuple(arguments.only)))
              and arguments.half in (None, one.half)]
    if arguments.draw is not None:
        chosen = [drawn(one, arguments.draw) for one in chosen]
    if not chosen:
        parser.error(f"no problem's name begins with {' or '.join(arguments.only or ['anything'])}")
    for need, names in skipped(arguments.data_home).items():
        print(f"skipped, for they need {need}: {', '.join(names)}", file=sys.stderr)
    start = time.perf_counter()
    try:
        results = contest(chosen, arguments.contestants, arguments.seed, ours,
                          lambda one: print(one.problem.name, file=sys.stderr, flush=True))
    except ValueError as error:     # the estimators check what they are given as they begin
        if not ours:
            raise
        parser.error(f"--set {' '.join(arguments.set)}: {error}")
    print(tables(results))
    print(f"\n{len(chosen)} problems, {time.perf_counter() - start:.0f} s, of which "
          f"{time.process_time():.0f} s computing")


if __name__ == "__main__":
    main()
