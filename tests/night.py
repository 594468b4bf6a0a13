"""Targets of make, one after the other: ``python tests/night.py make TARGET ...``.

A target that fails does not keep the next from running. The table at the end has a line for each,
and the exit code is 1 if one failed.
"""

import subprocess
import sys
import time


def run(make: str, targets: list[str]) -> list[tuple[str, str, float]]:
    """Make every target; return (target, result, seconds) of each."""
    results = []
    for target in targets:
        print(f"--- {target}", flush=True)
        start = time.monotonic()
        code = subprocess.run([make, target]).returncode
        results.append((target, f"failed ({code})" if code else "passed", time.monotonic() - start))
    return results


def main(arguments: list[str]) -> int:
    """Print the table; return the exit code."""
    results = run(arguments[0], arguments[1:])
    print(f"\n{'target':<18}{'result':<14}{'seconds':>9}")
    for target, result, seconds in results:
        print(f"{target:<18}{result:<14}{seconds:>9.0f}")
    return int(any(result != "passed" for _, result, _ in results))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
