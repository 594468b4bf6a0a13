"""``python -m bitstep_lab.defaults``: the table of docs/results/defaults.md."""

import argparse
import ast
import time

from bitstep_lab.defaults.contest import table
from bitstep_lab.defaults.problems import problems


def main() -> None:
    """Print the table and the time it took."""
    parser = argparse.ArgumentParser(prog="python -m bitstep_lab.defaults", description=__doc__)
    parser.add_argument("--seed", type=int, default=0, help="of generated data, folds and "
                        "estimators (default: %(default)s)")
    parser.add_argument("--data-home", metavar="DIR", help="folder of cadata and cpusmall "
                        "(default: without them)")
    parser.add_argument("--only", nargs="+", metavar="NAME", help="problems whose names begin so "
                        "(default: all)")
    parser.add_argument("--set", nargs="+", default=[], metavar="NAME=VALUE", help="parameters of "
                        "our estimators in place of defaults, such as scaler='minmax'")
    arguments = parser.parse_args()
    if arguments.seed < 0:
        parser.error(f"--seed must be at least 0, not {arguments.seed}")
    try:
        ours = {name: ast.literal_eval(value) for name, _, value in
                (pair.partition("=") for pair in arguments.set)}
    except (SyntaxError, ValueError):
        parser.error("--set must be followed by NAME=VALUE, with a value in Python, not "
                     f"{' '.join(arguments.set)}")
    chosen = [one for one in problems(arguments.seed, arguments.data_home)
              if arguments.only is None or one.name.startswith(tuple(arguments.only))]
    start = time.perf_counter()
    print(table(chosen, arguments.seed, ours))
    print(f"{time.perf_counter() - start:.0f} s, of which {time.process_time():.0f} s computing")


if __name__ == "__main__":
    main()
