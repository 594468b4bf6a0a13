"""``python -m bitstep_lab.many_machines``: the tables of docs/results/dask.md."""

import argparse
import json
import re
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise, product
from pathlib import Path
from typing import Any

import dask.array as da
import numpy as np
from distributed import wait
from sklearn.linear_model import LogisticRegression, Ridge

from bitstep.cli.options import UsageError, integer
from bitstep.cli.paths import check_writable
from bitstep.dask import LowPrecisionClassifier, LowPrecisionRegressor
from bitstep.dask.engine import Engine
from bitstep.data.dataset import DataError
from bitstep.pipeline.boards import FACTS
from bitstep_lab.many_machines import contestants
from bitstep_lab.many_machines.boards import Setting, draw, pass_seconds, speedups, step_seconds
from bitstep_lab.many_machines.clusters import local_cluster, resident_mb
from bitstep_lab.many_machines.sets import (
    NAMED,
    generated,
    generated_rows,
    named_set,
    objective,
    optimum,
)
from bitstep_lab.markdown import print_header, print_row

LOSSES = ("least-squares", "logistic")
SHARDS = (1, 4, 16, 64)
GOALS = (1e-2, 1e-4, 1e-6)
COUNTS = (1, 2, 4, 8, 16, 32, 64)
TASKS, REPEATS = 64, 10
STEPS = 2, 10               # outer steps of two trainings, whose difference counts
LARGE = 10_000_000, 100
MEMORY_FEATURES = 20


def shape_of(text: str) -> tuple[int, int]:
    """Rows and features of an option such as 20000x20."""
    found = re.fullmatch(r"0*([1-9]\d*)x0*([1-9]\d*)", text)
    if not found:
        raise argparse.ArgumentTypeError(f"must be such as 20000x20, not {text!r}")
    return int(found[1]), int(found[2])


def set_of(text: str) -> str | tuple[int, int]:
    """A set by name, or rows and features of a generated one."""
    try:
        return text if text in NAMED else shape_of(text)
    except argparse.ArgumentTypeError:
        raise argparse.ArgumentTypeError(
            f"must be one of {', '.join(NAMED)}, or such as 20000x20, not {text!r}") from None


def equal_optimum(arguments: argparse.Namespace) -> None:
    """Outer steps by shards, and the distance to scikit-learn's optimum of the same objective."""
    print_header("set, rows, shards, s, outer steps, certified gap, objective above "
                 "scikit-learn's, distance of the models")
    for one in arguments.sets:
        fitted = list(_fitted(one, arguments))
        features, labels = named_set(one, arguments.data_home) if isinstance(one, str) \
            else generated_rows(one[0], one[1], max(arguments.shards))
        peer: Any = LogisticRegression(C=1.0, tol=1e-10, max_iter=10_000) if one == "digits" \
            else Ridge(alpha=1.0)
        least = objective(peer.fit(features, labels), features, labels)
        for shards, (model, seconds) in zip(arguments.shards, fitted, strict=True):
            above = objective(model, features, labels) / least - 1
            apart = np.linalg.norm(model.coef_ - peer.coef_) / np.linalg.norm(peer.coef_)
            gap = "-" if model.gap_ is None else f"{model.gap_ / least:.0e}"
            print_row(one if isinstance(one, str) else "generated",
                      f"{len(features):,} x {features.shape[1]}", shards, f"{seconds:.1f}",
                      model.n_iter_, gap, f"{above:.0e}", f"{apart:.0e}")


def _fitted(one: str | tuple[int, int],
            arguments: argparse.Namespace) -> Iterator[tuple[Any, float]]:
    """Models of a set by numbers of shards, and the seconds that each took."""
    kind: Any = LowPrecisionClassifier if one == "digits" else LowPrecisionRegressor
    with local_cluster(arguments.workers) as client:
        if isinstance(one, str):
            features, labels = map(da.from_array, named_set(one, arguments.data_home))
        else:
            rows = generated(one[0], one[1], max(arguments.shards))
            features, labels = rows[:, :-1], rows[:, -1]
        for shards in arguments.shards:
            ends: Any = tuple(np.diff(np.linspace(0, len(features), shards + 1).astype(int)))
            started = time.perf_counter()
            model = kind(client=client, random_state=0, tol=arguments.tol).fit(
                features.rechunk((ends, -1)), labels.rechunk((ends,)))
            yield model, time.perf_counter() - started


def race(arguments: argparse.Namespace) -> None:
    """Contestants on the same persisted partitions."""
    n_rows, n_features = arguments.rows
    contestants.parts_of_dask_glm()         # before the first training, not after
    for loss, correlation in product(arguments.losses, arguments.correlations):
        classes = loss == LOSSES[1]
        print(f"\nLoss {loss}, {n_rows:,} x {n_features}, "
              f"neighbouring columns correlated by {correlation:g}, {arguments.parts} partitions, "
              f"{arguments.workers} workers")
        with local_cluster(arguments.workers) as client:
            rows = generated(n_rows, n_features, arguments.parts, classes=classes,
                             correlation=correlation).persist()
            wait(rows)
            best = optimum(client, rows, classes=classes)
            print_header("by, rounds, MB between processes, of the second run: s to 1e-2, s to "
                         "1e-4, s to 1e-6, s in all, distance at the end")
            for run in _runs(classes):
                _print_run(client, rows, run, best)


def _runs(classes: bool) -> list[Callable[[Any, Any], contestants.Run]]:
    def with_kind(function: Any) -> Any:
        return lambda client, rows: function(client, rows, classes=classes)

    return [with_kind(contestants.bitstep), *([] if classes else [contestants.admm]),
            *map(with_kind, (contestants.lbfgs, contestants.scikit))]


def _print_run(client: Any, rows: Any, run: Any, best: Any) -> None:
    """A row of the race's table: the second run, whose first one compiled and imported."""
    run(client, rows)
    found = run(client, rows)
    excess = best.excess(np.array(found.models))
    times = []
    for goal in GOALS:
        at = np.flatnonzero(excess <= goal)
        times.append(f"{found.seconds[at[0]]:.2f} ({at[0] + 1})" if len(at) else "-")
    print_row(found.name, found.rounds, f"{found.bytes_between / 1e6:.2f}", *times,
              f"{found.seconds[-1]:.2f}", f"{max(excess[-1], 0):.0e}")


def memory(arguments: argparse.Namespace) -> None:
    """Memory of the process of client and scheduler, at two sizes of rows."""
    print_header("rows, MB of the rows, MB of client and scheduler before the training, after it")
    for n_rows in arguments.sizes:
        done = subprocess.run(
            [sys.executable, "-m", "bitstep_lab.many_machines", "memory", "--one", str(n_rows),
             "--workers", str(arguments.workers)], check=True, capture_output=True, text=True)
        found = json.loads(done.stdout.splitlines()[-1])
        print_row(f"{n_rows:,} x {MEMORY_FEATURES}", f"{4 * n_rows * MEMORY_FEATURES / 1e6:,.0f}",
                  *(f"{one:.0f}" for one in found))


def _memory_of(n_rows: int, workers: int) -> None:
    with local_cluster(workers) as client:
        def train(rows: Any) -> None:
            LowPrecisionRegressor(client=client, epochs=4, tol=0.0, random_state=0).fit(
                rows[:, :-1], rows[:, -1])

        train(generated(1_000, MEMORY_FEATURES, 16))        # what is imported and compiled once
        before = resident_mb()
        train(generated(n_rows, MEMORY_FEATURES, 16))
        print(json.dumps([before, resident_mb()]))


def scale(arguments: argparse.Namespace) -> None:
    """Processor time of tasks and outer steps by workers of this machine; the model of boards."""
    print_header("workers, ms a task of client and scheduler, ms an outer step of the busiest "
                 "worker, of client and scheduler, of both, of both by the model, speedup")
    n_rows, n_features = arguments.rows
    task_ms, both = [], []
    for workers in arguments.points:
        with local_cluster(workers) as client:
            task_ms.append(1e3 * task_seconds(client))
            rows = generated(n_rows, n_features, arguments.parts).persist()
            wait(rows)
            busiest, own = step_cpu_ms(client, rows)
        both.append(busiest + own)
        if len(both) == 1:
            passes = busiest * workers
        modelled = passes / workers + 2 * arguments.parts * task_ms[-1]
        print_row(workers, f"{task_ms[-1]:.2f}", f"{busiest:.0f}", f"{own:.0f}", f"{both[-1]:.0f}",
                  f"{modelled:.0f}", f"{both[0] / both[-1]:.2f}")
    settings = [Setting(arguments.board, rows, columns, float(np.median(task_ms)))
                for rows, columns in arguments.shapes]
    for setting in settings:
        alone = pass_seconds(setting.board, setting.n_rows, setting.n_features)
        print(f"\n{setting.n_rows:,} x {setting.n_features} on {setting.board}: "
              f"{alone:.3g} s of passes an outer step on one board")
        print_header("boards, ms of passes, network at 1 Gbit/s, at 10 Gbit/s, scheduler, speedup "
                     "at 1 Gbit/s, at 10 Gbit/s")
        for count, slow, fast in zip(COUNTS, speedups(setting, COUNTS, 1),
                                     speedups(setting, COUNTS, 10), strict=True):
            parts, quick = (step_seconds(setting, count, gbps) for gbps in (1, 10))
            print_row(count, *(f"{1e3 * one:.2f}" for one in (
                parts["passes"], parts["network"], quick["network"], parts["scheduler"])),
                f"{slow:.1f}", f"{fast:.1f}")
    if arguments.plot:
        draw(settings, COUNTS, Path(arguments.plot))


def task_seconds(client: Any) -> float:
    """Seconds of processor time of client and scheduler for a task of a pass that does nothing: the
    least mean over some passes.
    """
    engine = Engine(client)
    futures = client.map(lambda number: [number], range(TASKS), pure=False)
    wait(futures)
    found = []
    for _ in range(REPEATS):
        started = time.process_time()
        engine.submit("nothing", len, futures)
        found.append((time.process_time() - started) / TASKS)
    return min(found)


def step_cpu_ms(client: Any, rows: Any) -> tuple[float, float]:
    """Milliseconds of processor time an outer step, of the busiest worker, and of this process, in
    which client and scheduler are. Others on this machine hardly change them.
    """
    marks = []
    for epochs in (STEPS[0], *STEPS):
        contestants.bitstep(client, rows, classes=False, epochs=epochs)
        marks.append({**client.run(time.process_time), "": time.process_time()})
    short, long = ({name: later[name] - sooner[name] for name in later}
                   for sooner, later in pairwise(marks))
    found = {name: 1e3 * (long[name] - short[name]) / (STEPS[1] - STEPS[0]) for name in long}
    own = found.pop("")
    return max(found.values()), own


def main() -> None:
    """Print a table, or several."""
    parser = argparse.ArgumentParser(prog="python -m bitstep_lab.many_machines",
                                     description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)

    def command(name: str, run: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        found = commands.add_parser(name, help=(run.__doc__ or "").splitlines()[0])
        found.set_defaults(run=run)
        found.add_argument("--workers", type=integer(1), default=2, metavar="N",
                           help="processes (default: 2)")
        return found

    one = command("optimum", equal_optimum)
    one.add_argument("--data-home", metavar="DIR", help="folder of cadata and cpusmall")
    one.add_argument("--sets", nargs="+", type=set_of, default=NAMED,
                     metavar="SET", help=f"some of {', '.join(NAMED)} and ROWSxFEATURES of "
                                         "generated ones (default: those with names)")
    one.add_argument("--shards", nargs="+", type=integer(1), default=SHARDS, metavar="N",
                     help=f"(default: {' '.join(map(str, SHARDS))})")
    one.add_argument("--tol", type=float, default=1e-4, help="(default: 1e-4)")
    one = command("race", race)
    one.add_argument("--rows", type=shape_of, default=(1_000_000, 100), metavar="ROWSxFEATURES",
                     help="generated ones (default: 1000000x100)")
    one.add_argument("--parts", type=integer(1), default=16, metavar="N",
                     help="partitions (default: 16)")
    one.add_argument("--losses", nargs="+", choices=LOSSES, default=LOSSES,
                     help="(default: both)")
    one.add_argument("--correlations", nargs="+", type=float, default=[0.0, 0.9], metavar="R",
                     help="of neighbouring columns (default: 0 0.9)")
    one = command("memory", memory)
    one.add_argument("--sizes", nargs="+", type=integer(1), default=[200_000, 4_000_000],
                     metavar="ROWS", help="(default: 200000 4000000)")
    one.add_argument("--one", type=int, help=argparse.SUPPRESS)
    one = command("scale", scale)
    one.add_argument("--rows", type=shape_of, default=(1_000_000, 100), metavar="ROWSxFEATURES",
                     help="generated ones (default: 1000000x100)")
    one.add_argument("--parts", type=integer(1), default=16, metavar="N",
                     help="partitions (default: 16)")
    one.add_argument("--points", nargs="+", type=integer(1), default=[1, 2, 4, 8], metavar="N",
                     help="numbers of workers (default: 1 2 4 8)")
    one.add_argument("--board", default="pynq-z2", choices=FACTS, help="(default: pynq-z2)")
    one.add_argument("--shapes", nargs="+", type=shape_of, default=[(1_000_000, 100), LARGE],
                     metavar="ROWSxFEATURES",
                     help=f"rows of the boards (default: 1000000x100 {LARGE[0]}x{LARGE[1]})")
    one.add_argument("--plot", metavar="FILE", help="draw the model of boards")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")     # of contestants, and of trainings that end by their steps
    if getattr(arguments, "one", None):
        _memory_of(arguments.one, arguments.workers)
        return
    try:
        check_writable(getattr(arguments, "plot", None))
    except UsageError as error:
        parser.error(f"--plot: {error}")
    try:
        arguments.run(arguments)
    except (DataError, ImportError) as error:
        raise SystemExit(f"error: {error}") from None


if __name__ == "__main__":
    main()
