"""``python -m bitstep_sim.proofs``: prove every property but the slow ones and find runs that reach
what it claims; print a table, exit with 1 if one is not proved or not reached. What the
same prover has proved of the same design is not proved again without ``--anew`` or ``--keep``.
``--mutations``: show that each property breaks by each of its faults in the RTL.
"""

import argparse
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

from bitstep_sim.proofs.prover import ProverError, check_tools, prove
from bitstep_sim.proofs.tasks import PROPERTIES, breaks, find, proved


def main(arguments: list[str] | None = None) -> int:
    """Prove the properties whose name or component contains a word; return the exit code.

    ``--search`` looks for a run that breaks the only property named so, in this process's RTL.
    """
    options = _parser().parse_args(arguments)
    if options.search:
        outcome = prove(find(options.word), search=True)
        print(f"{outcome.result}\t{outcome.seconds:.1f}\t{outcome.detail}")
        return 0
    everything = options.all or options.mutations or bool(options.word)
    chosen = [prop for prop in PROPERTIES if everything or not prop.slow]
    left = len(PROPERTIES) - len(chosen)
    chosen = [prop for prop in chosen if options.word in f"{prop.name} {prop.component}"]
    if not chosen:
        print(f"No property has {options.word!r} in its name or component", file=sys.stderr)
        return 1
    try:
        check_tools()
    except ProverError as error:
        print(error, file=sys.stderr)
        return 1
    # Long runs take longest: they begin first.
    chosen.sort(key=lambda prop: prop.depth if prop.bounded else 0, reverse=True)
    width = max(len(prop.name) for prop in PROPERTIES)
    print(f"{'property':<{width}} {'component':<15} {'method':<13} {'seconds':>7}  result")
    good = tasks = 0
    with ProcessPoolExecutor(max(options.jobs, 1)) as pool:
        if options.mutations:
            running = {pool.submit(breaks, prop.name, mutation): prop
                       for prop in chosen for mutation in prop.mutations}
        else:
            running = {pool.submit(proved, prop.name, options.keep, options.anew): prop
                       for prop in chosen}
        for future in as_completed(running):
            prop, (is_good, seconds, text) = running[future], future.result()
            good, tasks = good + is_good, tasks + 1
            print(f"{prop.name:<{width}} {prop.component:<15} {prop.method:<13} {seconds:>7}  "
                  f"{text}".rstrip(), flush=True)
    print(f"{good} of {tasks} " + ("faults break their properties" if options.mutations
                                   else "properties proved"))
    if left:
        print(f"{left} slow properties are left to --all")
    return 0 if good == tasks else 1


def _parser():
    parser = argparse.ArgumentParser(prog="python -m bitstep_sim.proofs", description=__doc__)
    parser.add_argument("word", nargs="?", default="",
                        help="only properties with this word, the slow ones among them")
    parser.add_argument("--all", action="store_true",
                        help="the slow ones, too, which take longest")
    parser.add_argument("--mutations", action="store_true",
                        help="faults for each property, each of which must break it")
    parser.add_argument("--anew", action="store_true",
                        help="prove again what was proved before")
    parser.add_argument("--jobs", type=int, default=2, help="how many at a time (2)")
    parser.add_argument("--keep", type=Path, help="folder for designs, logs and traces")
    # One fault in a process of its own, which this command starts itself.
    parser.add_argument("--search", action="store_true", help=argparse.SUPPRESS)
    return parser


if __name__ == "__main__":
    sys.exit(main())
