"""One race: contestants on the same rows, with the same steps and the same finishing line."""

import math
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import numpy as np

from bitstep.quantization import quantize_rows
from bitstep.training.losses import mean_losses
from bitstep.training.schedules import automatic_step, schedule_steps
from bitstep_lab.float_sgd import sgd
from bitstep_lab.races.board_runs import run_pipeline
from bitstep_lab.races.contestants import (
    FLOAT,
    Pipeline,
    Race,
    Task,
    label_middle,
    scale_rows,
)
from bitstep_lab.races.cpu_runs import run_cpu
from bitstep_lab.races.reference import optimum
from bitstep_lab.races.run_store import RunStore, code_version, digest, machine

TOLERANCE = 1.01        # of the optimum: the finishing line
GRID = tuple(2.0 ** np.arange(-3, 5))   # of the automatic step


def run_race(race: Race, *, store: RunStore | None = None,
             progress: Callable[[str], None] = lambda line: None,
             device_options: dict[str, Any] | None = None) -> dict[str, Any]:
    """Run every contestant.

    Parameters
    ----------
    race : Race
    store : RunStore, optional
        Finished runs are taken from it and put into it.
    progress : callable
        Called with a line of text before each run.
    device_options : dict, optional
        Of the simulated board, such as ``progress``.

    Returns
    -------
    dict
        What JSON can hold: ``data``, ``model``, ``profile``, ``steps``, ``optimum``, ``targets``
        (the finishing lines: 1.01 x the optimum, and 1.01 x the float pipeline's last loss), and
        ``results``: one for each contestant, as :func:`bitstep_lab.races.board_runs.run_pipeline`
        returns it, with ``name``, ``finish`` (see :func:`finish`), ``speedup`` over the float
        pipeline and over the fastest CPU run.
    """
    store = store or RunStore(None)
    scaled, targets = scale_rows(race.data.dataset.features)[1], race.targets
    remembered = _Memory(race, store, progress)
    best = remembered("optimum", [],
                      lambda: optimum(scaled, targets, loss=race.kind.loss, l2=race.l2))
    results = []
    for contestant in race.contestants:
        batch = getattr(contestant, "batch", None) or race.batch
        step = race.step or remembered(
            f"step for batches of {batch}", [race.epochs, race.schedule],
            lambda batch=batch: tuned_step(race, batch, scaled, targets, TOLERANCE * best))
        task = Task(race, schedule_steps(race.schedule, step=step, epochs=race.epochs), batch)
        result = _run(contestant, task, store, progress, device_options or {})
        results.append({"name": contestant.name, "kind": type(contestant).__name__.lower(),
                        **asdict(contestant), "batch": batch, "step": step, **result})
    found = {**_description(race), "outputs": targets.shape[1], "optimum": best,
             "results": results}
    judge(found)
    return found


class _Memory:
    """Values of a race that take long: each is computed once, and kept in the store."""

    def __init__(self, race: Race, store: RunStore, progress: Callable[[str], None]):
        self._race, self._store, self._progress = race, store, progress
        dataset = race.data.dataset
        self._identity = [digest(dataset.features, dataset.labels), race.model, race.l2]
        self._known: dict[str, Any] = {}

    def __call__(self, name: str, more: list[Any], compute: Callable[[], float]) -> float:
        """The value of a name; ``more`` is what it depends on besides data, model and l2."""
        key = digest([name, *self._identity, *more])
        found = self._known.get(key) or self._store.get(key)
        if found is None:
            self._progress(f"{self._race.data.key}, {self._race.model}: {name}")
            found = {"value": compute()}
            self._store.put(key, found)
        self._known[key] = found
        return found["value"]


def _description(race: Race) -> dict[str, Any]:
    """Data and parameters of a race as JSON holds them."""
    data, dataset = race.data, race.data.dataset
    return {
        "data": data.title, "key": data.key, "rows": dataset.n_rows, "all_rows": data.all_rows,
        "n_features": dataset.n_features, "source": data.source, "model": race.model,
        "loss": race.kind.sklearn_loss, "profile": asdict(race.profile),
        "epochs": race.epochs, "batch": race.batch, "schedule": race.schedule, "l2": race.l2,
        "seed": race.seed, "step_tuned": race.step is None}


def _run(contestant, task, store, progress, device_options):
    """One run, or its stored result."""
    key = digest([asdict(contestant), type(contestant).__name__, *task.identity(),
                  asdict(task.race.profile) if isinstance(contestant, Pipeline) else machine(),
                  code_version() if isinstance(contestant, Pipeline) else
                  code_version(("bitstep_lab.baselines",), bench=("contestants.py",
                                                                  "cpu_runs.py"))])
    found, race = store.get(key), task.race
    if found is None:
        progress(f"{race.data.key}, {race.model}, {race.profile.name}: {contestant.name}")
        if isinstance(contestant, Pipeline):
            found = run_pipeline(contestant, task, **device_options)
        else:
            try:
                found = run_cpu(contestant, task)
            except ImportError as error:
                return {"status": f"not run: {error}"}      # not stored: it may be installed
        store.put(key, found)
    return found


def judge(race: dict[str, Any]) -> None:
    """Add finishing lines, finishes and speedups to the results of a race, in place.

    The first line is 1.01 x the optimum. Where the float pipeline does not reach it within the
    epochs, the second line decides: 1.01 x the loss that the float pipeline ends with. (Not its
    least: losses of a hinge go up and down, and one lucky epoch is no line for others.)
    """
    reference = next((result for result in race["results"]
                      if result.get("encoding") == FLOAT.encoding and result["status"] == "ok"),
                     None)
    race["targets"] = {"optimum": TOLERANCE * race["optimum"]}
    race["line"] = "optimum"
    if reference is not None and math.isfinite(reference["losses"][-1]):
        race["targets"]["float"] = TOLERANCE * reference["losses"][-1]
        if min(reference["losses"]) > race["targets"]["optimum"]:
            race["line"] = "float"
    for result in race["results"]:
        result["finish"] = {line: finish(result, target)
                            for line, target in race["targets"].items()}
    line = race["line"]
    cpus = [result["finish"][line]["seconds"] for result in race["results"]
            if result["kind"] != "pipeline" and result["finish"][line]]
    for result in race["results"]:
        mine, base = result["finish"][line], reference and reference["finish"][line]
        result["speedup"] = {
            "float": base["seconds"] / mine["seconds"] if mine and base else None,
            "cpu": min(cpus) / mine["seconds"] if mine and cpus else None,
            "cpu_end_to_end": min(cpus) / mine["end_to_end"] if mine and cpus else None}


def finish(result: dict[str, Any], target: float) -> dict[str, Any] | None:
    """When a contestant first has a loss of at most ``target``; None if it never has.

    Returns
    -------
    dict or None
        ``epochs``, ``seconds``, and ``end_to_end``: with the host's quantizing (of a CPU run:
        scaling) and the transfer.
    """
    if result["status"] != "ok":
        return None
    reached = [number for number, loss in enumerate(result["losses"])
               if loss is not None and loss <= target]
    if not reached:
        return None
    seconds = result["seconds"][reached[0]]
    host = result["host"]
    return {"epochs": reached[0] + 1, "seconds": seconds,
            "end_to_end": seconds + host["quantize_s"] + host["transfer_s"]}


def tuned_step(race: Race, batch: int, scaled: np.ndarray, targets: np.ndarray,
               target: float) -> float:
    """First step that suits the float pipeline best, with batches of ``batch`` rows.

    Of 1/8 to 16 times the automatic step, the one with which SGD in float64 first reaches the
    finishing line, or, where none does, has the least loss at the end. The float pipeline is that
    SGD but for the rounding of its arithmetic.
    """
    rows = quantize_rows(race.data.dataset.features, bits=FLOAT.bits, encoding=FLOAT.encoding,
                         seed=race.seed)
    first = automatic_step(rows, batch, loss=race.kind.loss) * np.array(GRID)
    shares = schedule_steps(race.schedule, step=1.0, epochs=race.epochs)
    middle = label_middle(targets, race.kind.task)
    weights, intercepts = sgd(scaled, targets - middle, first_steps=first, shares=shares,
                              loss=race.kind.loss, batch=batch, l2=race.l2)
    losses = _grid_losses(race, scaled, targets, weights, intercepts + middle)
    reached = np.where((losses <= target).any(axis=0), (losses <= target).argmax(axis=0),
                       race.epochs)
    return float(first[np.lexsort((losses[-1], reached))[0]])


def _grid_losses(race, rows, targets, weights, intercepts):
    """Objective of every epoch and first step; infinite where SGD diverged."""
    epochs, n_first, n_outputs, n_features = weights.shape
    good = np.isfinite(weights).all(axis=(2, 3)) & (np.abs(weights).max(axis=(2, 3)) < 1e100)
    flat = np.where(good[..., None, None], weights, 0.0).reshape(-1, n_outputs, n_features)
    offsets = np.where(good[..., None], intercepts, 0.0).reshape(-1, n_outputs)
    losses = mean_losses(race.kind.loss, rows, targets, flat, offsets)
    losses += race.l2 / 2 * (flat ** 2).sum(axis=2).mean(axis=1)
    return np.where(good, losses.reshape(epochs, n_first), np.inf)


def rows_of(race: dict[str, Any]) -> list[list[Any]]:
    """The results as rows of a table; see :data:`HEAD`."""
    line, out = race["line"], []
    for result in race["results"]:
        mine = result["finish"][line]
        host = result.get("host", {})
        out.append([
            result["name"], min(result["losses"]) if result["status"] == "ok" else None,
            mine and mine["epochs"], mine and mine["seconds"],
            (result["seconds"][-1] / race["epochs"]) if result["status"] == "ok" else None,
            result.get("gbps"), result["speedup"]["float"], result["speedup"]["cpu"],
            sum(host.get(name, 0.0) for name in ("quantize_s", "transfer_s")) if host else None,
            mine and mine["end_to_end"]])
    return out


HEAD = ["contestant", "least loss", "epochs", "seconds", "s an epoch", "GB/s", "x float", "x CPU",
        "host s", "end to end s"]
