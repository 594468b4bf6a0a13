"""``python -m bitstep_sim.proofs``: prove every property, print a table, exit with 1 if one is not
proved; ``--mutations``: show that each property breaks by a fault in the RTL.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from bitstep_sim.proofs.formal import FAILED, PROVED, ProverError, mutated, prove
from bitstep_sim.proofs.properties import PROPERTIES


def main(arguments: list[str] | None = None) -> int:
    """Prove the properties whose name or component contains a word; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bitstep_sim.proofs", description=__doc__)
    parser.add_argument("word", nargs="?", default="", help="only properties with this word")
    parser.add_argument("--mutations", action="store_true",
                        help="one fault for each property, which must break it")
    parser.add_argument("--keep", type=Path, help="folder for designs, logs and traces")
    options = parser.parse_args(arguments)
    chosen = [prop for prop in PROPERTIES if options.word in f"{prop.name} {prop.component}"]
    if not chosen:
        print(f"No property has {options.word!r} in its name or component", file=sys.stderr)
        return 1
    width = max(len(prop.name) for prop in PROPERTIES)
    print(f"{'property':<{width}} {'component':<15} {'method':<13} {'seconds':>7}  result")
    good = 0
    for prop in chosen:
        print(f"{prop.name:<{width}} {prop.component:<15} {prop.method:<13}", end=" ", flush=True)
        if options.mutations:
            good += _breaks(prop)
            continue
        try:
            outcome = prove(prop, keep=options.keep and options.keep / prop.name)
        except (ProverError, LookupError) as error:
            print(f"{'':>7}  error: {error}", flush=True)
            continue
        good += outcome.result == PROVED
        print(f"{outcome.seconds:>7.1f}  {outcome.result} {outcome.detail}".rstrip(), flush=True)
    print(f"{good} of {len(chosen)} properties " + ("break" if options.mutations else "proved"))
    return 0 if good == len(chosen) else 1


def _breaks(prop) -> bool:
    """Whether a counterexample exists with the fault in the RTL, in a process of its own."""
    with mutated(prop.mutation) as folder:
        path = os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")]).rstrip(os.pathsep)
        ended = subprocess.run(
            [sys.executable, "-m", "bitstep_sim.proofs.one", prop.name], capture_output=True,
            text=True, env={**os.environ, "PYTHONPATH": path})
    result, seconds, detail = [*ended.stdout.strip().split("\t"), "", "", ""][:3]
    if ended.returncode != 0:
        result, detail = "error", ended.stderr.strip().splitlines()[-1:]
    change = f"{prop.mutation.file}: {prop.mutation.old!r} -> {prop.mutation.new!r}"
    print(f"{seconds:>7}  {'breaks' if result == FAILED else result} {detail}; {change}",
          flush=True)
    return result == FAILED


if __name__ == "__main__":
    sys.exit(main())
