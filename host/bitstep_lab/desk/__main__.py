"""``python -m bitstep_lab.desk``: the table of docs/results/performance.md on speed at a desk.

Every fit has a process of its own, for its peak of memory; the first fit of a process loads
compiled loops, so the second one is timed, too.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from typing import Any

import numpy as np

from bitstep_lab.markdown import markdown_table

SHAPES = ((20_000, 20), (100_000, 1_000), (1_000_000, 100))
MB = 1e-3 if sys.platform == "linux" else 1e-6      # of the unit in which the system counts


def drawn(n_rows: int, n_features: int, task: str, classes: int = 2
          ) -> tuple[np.ndarray, np.ndarray]:
    """Gaussian rows, float32, with labels of a linear or a logistic model."""
    rng = np.random.default_rng(0)
    features = rng.standard_normal((n_rows, n_features), np.float32)
    outputs = features @ (2 * rng.standard_normal(n_features) / np.sqrt(n_features)
                          ).astype(np.float32)
    if task == "regression":
        return features, outputs + rng.standard_normal(n_rows, np.float32)
    if classes == 2:
        return features, (rng.random(n_rows) < 1 / (1 + np.exp(-outputs))).astype(np.int64)
    outputs = 4 * features @ (rng.standard_normal((n_features, classes)) / np.sqrt(n_features)
                              ).astype(np.float32)
    # The largest of such sums is drawn by the softmax of the outputs.
    return features, (outputs + rng.gumbel(size=outputs.shape)).argmax(axis=1)


def measured(contestant: str, task: str, n_rows: int, n_features: int, classes: int
             ) -> dict[str, float]:
    """Seconds of the first and of the second fit, processor time of the second, and the peak of
    memory beyond the rows'.
    """
    model = _model(contestant, task)
    features, labels = drawn(n_rows, n_features, task, classes)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    found: dict[str, float] = {}
    for name in ("first", "second"):
        started, worked = time.perf_counter(), time.process_time()
        model.fit(features, labels)
        found[name] = time.perf_counter() - started
        found["cpu"] = time.process_time() - worked
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return found | {"memory": MB * (after - before)}


def _model(contestant: str, task: str) -> Any:
    if contestant == "scikit-learn":
        from sklearn.linear_model import LogisticRegression, Ridge
        return Ridge() if task == "regression" else LogisticRegression()
    from bitstep import LowPrecisionClassifier, LowPrecisionRegressor
    options: dict[str, Any] = {"solver": contestant, "random_state": 0}
    return LowPrecisionRegressor(**options) if task == "regression" \
        else LowPrecisionClassifier(loss="log_loss", **options)


def main() -> None:
    """Print the table, or, in a process of its own, the figures of one contestant."""
    parser = argparse.ArgumentParser(prog="python -m bitstep_lab.desk", description=__doc__)
    parser.add_argument("--shapes", nargs="+", metavar="ROWSxFEATURES", help="(default: "
                        f"{' '.join(f'{rows}x{columns}' for rows, columns in SHAPES)})")
    parser.add_argument("--tasks", nargs="+", choices=["classification", "regression"],
                        default=["classification", "regression"], help="(default: both)")
    parser.add_argument("--classes", type=int, default=2, metavar="N",
                        help="of classifications (default: 2)")
    parser.add_argument("--empty-cache", action="store_true", help="compile all loops again, as "
                        "the first fit of a fresh machine does")
    parser.add_argument("--one", nargs=5, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        contestant, task, *shape = arguments.one
        print(json.dumps(measured(contestant, task, *map(int, shape))))
        return
    if arguments.classes < 2:
        parser.error(f"--classes must be at least 2, not {arguments.classes}")
    try:
        shapes = SHAPES if arguments.shapes is None else [
            tuple(map(int, shape.split("x"))) for shape in arguments.shapes]
        if any(len(shape) != 2 or min(shape) < 1 for shape in shapes):
            raise ValueError
    except ValueError:
        parser.error("--shapes must be such as 20000x20")
    rows = []
    for task in arguments.tasks:
        for shape in shapes:
            numbers = *shape, arguments.classes
            found = {name: _in_process(name, task, numbers, arguments.empty_cache)
                     for name in ("scikit-learn", "bit-centred", "sgd")}
            peer = found["scikit-learn"]
            rows += [[task + f" of {arguments.classes}" * (task == "classification"
                                                            and arguments.classes > 2),
                      f"{shape[0]:,} x {shape[1]:,}", name, f"{one['first']:.2f}",
                      f"{one['second']:.2f}", f"{one['second'] / peer['second']:.2f}",
                      f"{one['cpu'] / peer['cpu']:.2f}", f"{one['memory']:,.0f}"]
                     for name, one in found.items()]
    print(markdown_table(["task", "rows", "by", "first fit, s", "second fit, s",
                          "times scikit-learn's", "the same of processor time",
                          "peak of memory beyond the rows, MB"], rows))


def _in_process(contestant: str, task: str, shape: tuple, empty_cache: bool) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | ({"XDG_CACHE_HOME": folder} if empty_cache else {})
        done = subprocess.run(
            [sys.executable, "-m", "bitstep_lab.desk", "--one", contestant, task,
             *map(str, shape)], env=environment, capture_output=True, text=True)
    if done.returncode:
        # Linux ends a process that takes too much memory, and says nothing.
        said = done.stderr.splitlines() or [f"its process ended with {done.returncode}"]
        raise SystemExit(f"error: {task} of {shape[0]} x {shape[1]} by {contestant}: {said[-1]}")
    return json.loads(done.stdout.splitlines()[-1])


if __name__ == "__main__":
    main()
