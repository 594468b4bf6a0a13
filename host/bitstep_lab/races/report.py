"""Runs every experiment and writes the report: JSON, CSV, drawings, and one page of them all."""

import csv
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from bitstep.writing import write_json
from bitstep_lab.races import plots
from bitstep_lab.races.board_profiles import profile
from bitstep_lab.races.contestants import Race
from bitstep_lab.races.experiments import Experiment, experiments, named
from bitstep_lab.races.judging import seconds_an_epoch
from bitstep_lab.races.race import Track, run_race
from bitstep_lab.races.race_data import is_at_hand, race_data
from bitstep_lab.races.report_page import write_page
from bitstep_lab.races.run_store import RunStore, code_version, machine

COLUMNS: tuple[str, ...] = (
    "experiment", "figure", "data", "rows", "features", "model", "profile", "contestant", "kind",
    "bits", "encoding", "lookahead", "refetch", "threads", "batch", "step", "epoch", "loss",
    "accuracy", "seconds", "cycles", "gbps", "refetched")
SUMMARY: tuple[str, ...] = (
    "experiment", "figure", "data", "model", "profile", "contestant", "status", "line", "target",
    "epochs", "seconds", "end_to_end_s", "x_float", "x_cpu", "x_cpu_end_to_end",
    "seconds_an_epoch", "gbps", "refetched", "quantize_s", "transfer_s")


class OtherRace(Protocol):
    """A race of another kind, with a part of the page of its own.

    Attributes
    ----------
    key, title, text, data : str
        See :class:`bitstep_lab.races.experiments.Experiment`.
    """

    @property
    def key(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def data(self) -> str: ...

    def run(self, out: Path, data_home: str | None, track: Track) -> str:
        """Run it, write its files into the folder of the report, and return its part as HTML."""
        ...


def run_curves(out: Path, *, quick: bool, only: list[str] | None = None,
               data_home: str | None = None, rtl: bool = False,
               progress: Callable[[str], None],
               device_options: dict[str, Any] | None = None,
               others: Sequence[OtherRace] = ()) -> Path:
    """Run everything that was not run yet, and write the report.

    Parameters
    ----------
    out : Path
        Folder: ``index.html``, ``curves.csv``, ``summary.csv``, ``plots/``, ``races/`` and
        ``runs/``, the results that a later call takes up.
    quick, rtl : bool
        The small report; see :class:`bitstep_lab.races.race.Race`.
    only : list of str, optional
        Keys of the races to run; default: all.
    data_home : str, optional
        Folder with files of named data sets.
    progress : callable
        Called with a line of text before each run.
    device_options : dict, optional
        Of the simulated board.
    others : sequence of OtherRace
        Races of another kind, which come last.

    Returns
    -------
    Path

    Raises
    ------
    ValueError
        If ``only`` names no experiment.
    KeyboardInterrupt
        On Ctrl-C; finished runs are kept.
    """
    both = named([*experiments(quick), *others], only)
    chosen = [one for one in both if isinstance(one, Experiment)]
    last = [one for one in both if not isinstance(one, Experiment)]
    for folder in (out, out / "plots", out / "races"):
        folder.mkdir(parents=True, exist_ok=True)
    started, store, races, skipped = time.perf_counter(), RunStore(out / "runs"), [], []
    for number, experiment in enumerate(chosen, start=1):
        if not is_at_hand(experiment.data, data_home):
            skipped.append(_missing(experiment))
            continue
        race = run_experiment(
            experiment, data_home, rtl,
            Track(store, lambda line, number=number: progress(f"{number} of {len(chosen)}: {line}"),
                  device_options or {}))
        write_json(str(out / "races" / f"{experiment.key}.json"), race)
        drawn = [kind for kind in experiment.plots
                 if plots.draw(kind, race, out / "plots" / f"{experiment.key}-{kind}")]
        races.append((experiment, race, drawn))
    skipped += [_missing(one) for one in last if not is_at_hand(one.data, data_home)]
    there, track = (one for one in last if is_at_hand(one.data, data_home)), Track(store, progress)
    sections = [(one, one.run(out, data_home, track)) for one in there]
    _write_tables(out, races)
    about = {"quick": quick, "machine": machine(), "code": code_version(),
             "seconds": time.perf_counter() - started, "skipped": skipped,
             "ceilings": _ceilings(store)}
    return write_page(out, races, about, sections)


def _missing(race):
    """A sentence that says why a race was left out."""
    return f"{race.title}: there is no file of {race.data}, and nothing generates one."


def run_experiment(experiment: Experiment, data_home: str | None, rtl: bool,
                   track: Track) -> dict[str, Any]:
    """Run the race of an experiment.

    Parameters
    ----------
    experiment : Experiment
    data_home : str or None
        Folder with files of named data sets.
    rtl : bool
        See :class:`bitstep_lab.races.race.Race`.
    track : Track

    Returns
    -------
    dict
        The race, with the experiment's key and figure.
    """
    race = Race(race_data(experiment.data, rows=experiment.rows, data_home=data_home),
                experiment.model, profile(experiment.profile), experiment.contestants,
                epochs=experiment.epochs, batches=experiment.batches, l2=experiment.l2,
                step=experiment.step, rtl=rtl)
    found = run_race(race, track)
    return {"experiment": experiment.key, "figure": experiment.figure, **found}


def _ceilings(store):
    """Speed of this machine's memory; None if numba is not installed."""
    found = store.get("memory")
    if found is not None and found["machine"] == machine():
        return found["gbps"]
    try:
        from bitstep_lab.baselines import memory_copy_ceiling, memory_read_ceiling
        count = machine()["cores"]
        size = 1 << 28
        gbps = {f"{what}, {threads} thread{'s' * (threads > 1)}": measure(size, threads=threads)
                for what, measure in (("copy", memory_copy_ceiling), ("read", memory_read_ceiling))
                for threads in sorted({1, count})}
    except ImportError:
        return None
    store.put("memory", {"machine": machine(), "gbps": gbps})
    return gbps


def _write_tables(out, races):
    with open(out / "curves.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore")
        writer.writeheader()
        for _, race, _ in races:
            for result in race["results"]:
                writer.writerows(_epochs_of(race, result))
    with open(out / "summary.csv", "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, SUMMARY)
        writer.writeheader()
        for _, race, _ in races:
            for result in race["results"]:
                writer.writerow(_summary(race, result))


def _epochs_of(race, result):
    """One row of curves.csv for each epoch."""
    for at, loss in enumerate(result.get("losses", ())):
        yield {**race, **result, "data": race["key"], "features": race["n_features"],
               "profile": race["profile"]["name"] if result["kind"] == "pipeline" else "",
               "contestant": result["name"], "epoch": at + 1, "loss": loss,
               "accuracy": result["accuracy"][at] if "accuracy" in result else "",
               **{name: result[name][at] if result.get(name) else ""
                  for name in ("seconds", "cycles")}}


def _summary(race, result):
    """One row of summary.csv."""
    line = race["line"]
    finish, host = result["finish"][line] or {}, result.get("host", {})
    return {"experiment": race["experiment"], "figure": race["figure"], "data": race["key"],
            "model": race["model"],
            "profile": race["profile"]["name"] if result["kind"] == "pipeline" else "",
            "contestant": result["name"], "status": result["status"], "line": line,
            "target": race["targets"][line], "epochs": finish.get("epochs"),
            "seconds": finish.get("seconds"), "end_to_end_s": finish.get("end_to_end"),
            "x_float": result["speedup"]["float"], "x_cpu": result["speedup"]["cpu"],
            "x_cpu_end_to_end": result["speedup"]["cpu_end_to_end"],
            "seconds_an_epoch": seconds_an_epoch(race, result),
            "gbps": result.get("gbps"), "refetched": result.get("refetched"),
            "quantize_s": host.get("quantize_s"), "transfer_s": host.get("transfer_s")}
