"""Coverage of benches and tests: ``python -m bitstep_sim.coverage rtl|jobs|faults``.

``rtl``: lines and toggles of the RTL, from Verilator, over the cocotb benches. ``jobs``: which
configurations and options the tests on the simulated board drew, counted where they are run, in
:meth:`bitstep.pipeline.device.Device.train`. ``faults``: which faults in the RTL generators the
tests find (:mod:`bitstep_sim.faults`).
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.losses import LOSSES
from bitstep_sim.fault_runs import run_fault
from bitstep_sim.faults import FAULTS

LOG = "BITSTEP_COVERAGE"        # environment variable: file to which jobs are written
_TESTS = ("tests/sim/board/test_equivalence.py", "tests/sim/board/test_overflow.py",
          "tests/sim/board/test_counters.py", "tests/sim/board/test_endings.py")


# Lines and toggles

@dataclass(frozen=True)
class Point:
    """A thing that may happen: ``kind`` is line, branch or toggle; ``name`` says where."""

    kind: str
    module: str
    name: str


def read_points(text: str) -> Counter[Point]:
    """Count the hits of each point in the text of Verilator's ``coverage.dat``.

    Instances of a module count together.
    """
    points: Counter[Point] = Counter()
    for match in re.finditer(r"^C '(.*)' (\d+)$", text, re.MULTILINE):
        fields = dict(part.split("\x02", 1) for part in match[1].split("\x01") if part)
        kind, _, module = fields["page"].removeprefix("v_").partition("/")
        where = f"{fields.get('l', '')}:{fields.get('n', '')}:{fields.get('o', '')}"
        points[Point(kind, module, where)] += int(match[2])
    return points


def component(module: str) -> str:
    """Component of a module of the hierarchy: its last name, without number."""
    name = re.sub(r"\$\d+$", "", module).rsplit(".", 1)[-1]
    return re.sub(r"_\d+$", "", name)


def measure_rtl() -> Counter[Point]:
    """Run every bench with coverage.

    Raises
    ------
    RuntimeError
        If one fails.
    """
    from bitstep_sim.benches import runner
    from bitstep_sim.benches.registry import BENCHES
    from bitstep_sim.board import verilog as rtl

    points: Counter[Point] = Counter()
    plain = runner.BUILD_ARGS
    runner.BUILD_ARGS = (*plain, "--coverage-line", "--coverage-toggle")
    try:
        for number, bench in enumerate(BENCHES):
            config = bench.environment.get("CONFIG")
            # With its hierarchy, so that points have a component.
            verilog = bench.verilog() if config is None else \
                rtl.generate(PipelineConfig(**json.loads(config)), flat=False)
            result = runner.run_bench(verilog, bench.module, environment=bench.environment)
            if not result.ok:
                raise RuntimeError(f"The bench {bench.name} {bench.configuration} failed: "
                                   f"{result.log}")
            for point, hits in read_points(
                    (result.log.parent / "coverage.dat").read_text()).items():
                # Lines of different tops are different lines.
                points[Point(point.kind, point.module, f"{number}:{point.name}")] += hits
    finally:
        runner.BUILD_ARGS = plain
    return points


def print_rtl(points: Counter[Point], *, missing: bool) -> None:
    """A row for each component: points of each kind, and how many of them were hit."""
    kinds = ("line", "branch", "toggle")
    counts: dict[str, dict[str, list[int]]] = defaultdict(
        lambda: {kind: [0, 0] for kind in kinds})
    for point, hits in points.items():
        if point.kind in kinds:
            for name in (component(point.module), "all"):
                cell = counts[name][point.kind]
                cell[0] += hits > 0
                cell[1] += 1
    print(f"{'component':<20}" + "".join(f"{kind:>26}" for kind in kinds))
    for name in sorted(counts, key=lambda name: (name == "all", name)):
        cells = ""
        for hit, total in (counts[name][kind] for kind in kinds):
            share = f"{hit / total:.1%}" if total else "-"
            cells += f"{f'{hit} of {total}':>19}{share:>7}"
        print(f"{name:<20}{cells}")
    if missing:
        for point in sorted((point for point, hits in points.items() if not hits),
                            key=lambda point: (point.kind, point.module, point.name)):
            print(f"never: {point.kind:<7} {point.module} {point.name}")


# Jobs

def pytest_configure(config) -> None:
    """As a plug-in of pytest (``-p bitstep_sim.coverage``): note every job that a device runs."""
    from bitstep.devices.golden import GoldenDevice
    from bitstep.devices.register_device import RegisterDevice
    for kind in (GoldenDevice, RegisterDevice):
        kind.begin = _noted(kind.begin)


def _noted(plain):
    def begin(self, jobs, *arguments, **options):
        asked = getattr(self, "registers", None)
        lookahead = asked.get("LOOKAHEAD") if isinstance(asked, dict) else None
        with open(os.environ[LOG], "a", encoding="utf-8") as file:
            for job in jobs:
                file.write(json.dumps(describe(job, lookahead)) + "\n")
        return plain(self, jobs, *arguments, **options)

    return begin


def describe(job, lookahead: int | None = None) -> dict[str, str]:
    """Aspects of a job that are counted, by name."""
    config = job.config
    if lookahead is None:
        lookahead = config.ahead.of_rows(job.beats)
    used = {0: "0", config.stages.required_lookahead(job.beats): "all"}.get(lookahead, "some")

    def several(number):
        return "several" if number > 1 else "one"

    def yes(flag):
        return "yes" if flag else "no"

    return {
        "bits": str(config.bits), "row_format": config.row_format,
        "loss_family": config.loss_family,
        "bus": str(config.bus_width), "row ports": str(config.row_ports),
        "update_interval": str(config.update_interval),
        "look-ahead": used, "batch": several(job.batch), "loss": job.loss.name,
        "corrections": yes(job.correction_period), "proximal": yes(job.proximal_period),
        "refetch": yes(job.cell_half_levels), "labels": job.label_format.name,
        "intercept": yes(job.intercept_level), "beats": several(job.beats),
        "rows": several(job.n_rows), "copies": several(len(job.rows)),
        "epochs": several(len(job.epochs)), "warm": yes(job.model.any()),
        "full last beat": yes(job.n_features % config.rows.lanes == 0),
    }


# Aspects of which every pair of values should meet, and pairs that no pipeline has.
_CROSSED = ("row_format", "look-ahead", "batch", "loss", "corrections", "proximal", "refetch",
            "labels", "beats")


def impossible(pair: dict[str, str]) -> bool:
    """Tell if no job can have both values."""
    def is_a(**wanted):
        return all(pair.get(name) in value for name, value in wanted.items())

    return (is_a(refetch=["yes"], loss=[loss.name for loss, of_loss in LOSSES.items()
                                        if not of_loss.one_sided])
            or is_a(refetch=["yes"], batch=["several"])
            or is_a(refetch=["yes"], row_format=["two_levels", "float32"])
            or is_a(refetch=["yes"], labels=["INT16", "INT32"])
            or is_a(labels=["INT16", "INT32"], loss=[loss.name for loss, of_loss in LOSSES.items()
                                                     if of_loss.signs]))


def unmet_pairs(jobs: list[dict[str, str]]) -> tuple[list[str], int]:
    """Pairs of values of the aspects ``_CROSSED`` that no job has although each value occurs.

    Returns
    -------
    list of str
        The pairs.
    int
        Number of pairs that are possible.
    """
    values = {name: sorted({job[name] for job in jobs}) for name in _CROSSED}
    unmet, total = [], 0
    for a, b in combinations(_CROSSED, 2):
        met = {(job[a], job[b]) for job in jobs}
        for pair in ((x, y) for x in values[a] for y in values[b]):
            if (len(values[a]) > 1 and len(values[b]) > 1
                    and not impossible({a: pair[0], b: pair[1]})):
                total += 1
                if pair not in met:
                    unmet.append(f"{a} {pair[0]} with {b} {pair[1]}")
    return unmet, total


def measure_jobs() -> list[dict[str, str]]:
    """Run the tests of random jobs and return the aspects of their jobs.

    Raises
    ------
    RuntimeError
        If one fails.
    """
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "jobs"
        log.touch()
        # The failures of a test run are what pytest prints; figures of a broken run mean nothing.
        ended = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "bitstep_sim.coverage", *_TESTS],
            env={**os.environ, LOG: str(log)}, capture_output=True, text=True)
        if ended.returncode != 0:
            raise RuntimeError(f"The tests failed:\n{ended.stdout[-2000:]}")
        return [json.loads(line) for line in log.read_text().splitlines()]


def print_jobs(jobs: list[dict[str, str]]) -> None:
    """A row for each aspect with how many jobs have each value, and the pairs that never met."""
    print(f"{len(jobs)} jobs, {len({tuple(job.items()) for job in jobs})} different by these "
          "aspects")
    for name in jobs[0]:
        counts = Counter(job[name] for job in jobs)
        print(f"{name:<15} " + ", ".join(
            f"{value}: {number}" for value, number in sorted(counts.items())))
    unmet, total = unmet_pairs(jobs)
    print(f"{total - len(unmet)} of {total} possible pairs of values of {', '.join(_CROSSED)}")
    for pair in unmet:
        print(f"never: {pair}")


def print_faults(word: str, jobs: int = 1) -> int:
    """Run every fault with ``word`` in its kind or file, so many at a time; return the number of
    survivors.
    """
    chosen = [fault for fault in FAULTS if word in f"{fault.kind} {fault.mutation.file}"]
    survivors = 0
    with ThreadPoolExecutor(max(jobs, 1)) as pool:
        for fault, result in zip(chosen, pool.map(run_fault, chosen), strict=True):
            if result == "survives" and fault.equivalent:
                result = "equal"
            survivors += result == "survives"
            print(f"{result:<9} {fault.kind:<24} {fault.mutation.file}: "
                  f"{fault.mutation.old.strip()!r} -> {fault.mutation.new.strip()!r} "
                  f"{fault.equivalent}".rstrip(), flush=True)
    print(f"{survivors} of {len(chosen)} faults survive")
    return survivors


def main(arguments: list[str] | None = None) -> int:
    """Print figures; return the exit code, 1 if a fault survives."""
    parser = argparse.ArgumentParser(prog="python -m bitstep_sim.coverage", description=__doc__)
    parser.add_argument("what", choices=["rtl", "jobs", "faults"])
    parser.add_argument("word", nargs="?", default="", help="only faults with this word")
    parser.add_argument("--jobs", type=int, default=1, help="faults at a time (default: 1)")
    parser.add_argument("--missing", action="store_true", help="list lines and bits never reached")
    options = parser.parse_args(arguments)
    if options.what == "rtl":
        print_rtl(measure_rtl(), missing=options.missing)
    elif options.what == "jobs":
        print_jobs(measure_jobs())
    elif not any(options.word in f"{one.kind} {one.mutation.file}" for one in FAULTS):
        print(f"No fault has {options.word!r} in its kind or file", file=sys.stderr)
        return 1
    else:
        return 1 if print_faults(options.word, options.jobs) else 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
