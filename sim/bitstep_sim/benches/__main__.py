"""``python -m bitstep_sim.benches``: run every bench, print a table, exit with 1 if any failed."""

import argparse
import sys

from bitstep_sim.benches.registry import BENCHES, Bench
from bitstep_sim.benches.runner import BenchError, run_bench
from bitstep_sim.board.verilator import ToolError


def main(arguments: list[str] | None = None) -> int:
    """Run the benches whose name or configuration contains a word; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m bitstep_sim.benches", description=__doc__)
    parser.add_argument("word", nargs="?", default="", help="run only benches with this word")
    parser.add_argument("--seed", type=int, default=0, help="seed of data and stalls (default 0)")
    options = parser.parse_args(arguments)

    chosen = [bench for bench in BENCHES
              if options.word in f"{bench.name} {bench.configuration}"]
    print(f"{'bench':<12} {'configuration':<36} {'tests':>5} {'passed':>6} {'seconds':>7}")
    ok = [_run(bench, options.seed) for bench in chosen]
    if not ok:
        print(f"No bench has {options.word!r} in its name or configuration", file=sys.stderr)
    return 0 if ok and all(ok) else 1


def _run(bench: Bench, seed: int) -> bool:
    print(f"{bench.name:<12} {bench.configuration:<36}", end=" ", flush=True)
    try:
        result = run_bench(bench.verilog(), bench.module, seed=seed,
                           environment=bench.environment)
    except (BenchError, ToolError) as error:
        print(f"failed: {error}")
        return False
    print(f"{result.tests:>5} {result.passed:>6} {result.seconds:>7.1f}", flush=True)
    if not result.ok:
        print(f"  failed; output in {result.log}")
    return result.ok


if __name__ == "__main__":
    sys.exit(main())
