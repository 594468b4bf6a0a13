"""One race: contestants on the same rows, with the same steps and the same finishing line."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from bitstep.quantization import quantize_rows
from bitstep.training.losses import mean_losses
from bitstep.training.schedules import automatic_step, schedule_steps
from bitstep_lab.float_sgd import sgd
from bitstep_lab.races.board_runs import check_on_rtl, run_pipeline
from bitstep_lab.races.contestants import (
    FLOAT,
    Contestant,
    Pipeline,
    Race,
    Task,
    label_middle,
    sample_of,
    scale_rows,
    with_batches,
)
from bitstep_lab.races.cpu_runs import run_cpu
from bitstep_lab.races.judging import TOLERANCE, best_runs, judge
from bitstep_lab.races.reference import optimum
from bitstep_lab.races.run_store import RunStore, code_version, digest, machine

GRID = tuple(2.0 ** np.arange(-3, 5))   # of the automatic step


@dataclass(frozen=True)
class Track:
    """Means of the runs of a race.

    Parameters
    ----------
    store : RunStore
        Finished runs are taken from it and put into it.
    progress : callable
        Called with a line of text before each run.
    device_options : dict
        Of the simulated board, such as ``progress``.
    """

    store: RunStore = field(default_factory=lambda: RunStore(None))
    progress: Callable[[str], None] = lambda line: None
    device_options: dict[str, Any] = field(default_factory=dict)

    def remembered(self, key: str, line: str,
                   compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """The stored result of a key, or a new one, which a line announces."""
        found = self.store.get(key)
        if found is None:
            self.progress(line)
            found = compute()
            self.store.put(key, found)
        return found


def run_race(race: Race, track: Track | None = None) -> dict[str, Any]:
    """Run every contestant.

    Parameters
    ----------
    race : Race
    track : Track, optional
        Default: nothing is stored or said.

    Returns
    -------
    dict
        What JSON can hold: ``data``, ``model``, ``profile``, ``steps``, ``optimum``, ``targets``
        (the finishing lines: 1.01 x the optimum, and 1.01 x the float pipeline's last loss),
        ``rtl`` (see :func:`~bitstep_lab.races.judging.rtl_sentence`), and ``results``: one for each
        contestant, as :func:`bitstep_lab.races.board_runs.run_pipeline` returns it, with ``name``,
        ``finish`` (see :func:`~bitstep_lab.races.judging.finish`), ``speedup`` over the float
        pipeline and over the fastest CPU run.
    """
    track = track or Track()
    scaled, targets = scale_rows(race.data.dataset.features)[1], race.targets
    remembered = _Memory(race, track)
    best = remembered("optimum", [],
                      lambda: optimum(scaled, targets, loss=race.kind.loss, l2=race.l2))

    def task_of(contestant: Contestant) -> Task:
        batch = getattr(contestant, "batch", None) or race.batches[0]
        step = race.step or remembered(
            f"step for batches of {batch}", [race.epochs, race.schedule],
            lambda: tuned_step(race, batch, scaled, targets, TOLERANCE * best))
        return Task(race, schedule_steps(race.schedule, step=step, epochs=race.epochs), batch)

    sample = None if race.rtl else sample_of(race.contestants)
    runs, check = [], None
    for each in race.contestants:
        runs.append([_result(one, task_of(one), track)
                     for one in with_batches(each, race.batches)])
        if each is sample:
            check = _check(each, task_of(each), track)
    found = {**_description(race), "outputs": targets.shape[1], "optimum": best,
             "rtl": {"all": race.rtl, "check": check}, "results": best_runs(runs, best)}
    judge(found)
    return found


def _result(contestant: Contestant, task: Task, track: Track) -> dict[str, Any]:
    """A run, with who ran and how."""
    return {"name": contestant.name, "kind": type(contestant).__name__.lower(),
            **asdict(contestant), "batch": task.batch, "step": float(task.steps[0]),
            **_run(contestant, task, track)}


class _Memory:
    """Values of a race that take long: each is computed once, and kept in the store."""

    def __init__(self, race: Race, track: Track):
        self._race, self._track = race, track
        dataset = race.data.dataset
        self._identity = [digest(dataset.features, dataset.labels), race.model, race.l2]
        self._known: dict[str, Any] = {}

    def __call__(self, name: str, more: list[Any], compute: Callable[[], float]) -> float:
        """The value of a name; ``more`` is what it depends on besides data, model and l2."""
        key = digest([name, *self._identity, *more])
        if key not in self._known:
            self._known[key] = self._track.remembered(
                key, f"{self._race.data.key}, {self._race.model}: {name}",
                lambda: {"value": compute()})["value"]
        return self._known[key]


def _description(race: Race) -> dict[str, Any]:
    """Data and parameters of a race as JSON holds them."""
    data, dataset = race.data, race.data.dataset
    return {
        "data": data.title, "key": data.key, "rows": dataset.n_rows, "all_rows": data.all_rows,
        "n_features": dataset.n_features, "source": data.source, "model": race.model,
        "loss": race.kind.sklearn_loss, "profile": asdict(race.profile),
        "epochs": race.epochs, "batches": list(race.batches), "schedule": race.schedule,
        "l2": race.l2, "seed": race.seed, "step_tuned": race.step is None}


def _run(contestant, task, track):
    """One run, or its stored result."""
    if isinstance(contestant, Pipeline):
        rtl = task.race.rtl
        return track.remembered(
            _pipeline_key("run", contestant, task, rtl), _line(task, contestant.name),
            lambda: run_pipeline(contestant, task, rtl=rtl,
                                 **track.device_options if rtl else {}))
    key = digest([asdict(contestant), type(contestant).__name__, *task.identity(), machine(),
                  code_version(("bitstep_lab.baselines",), races=("contestants.py",
                                                                  "cpu_runs.py"))])
    try:
        return track.remembered(key, _line(task, contestant.name),
                                lambda: run_cpu(contestant, task))
    except ImportError as error:
        return {"status": f"not run: {error}"}      # not stored: it may be installed


def _check(contestant, task, track):
    """The comparison of one pipeline with the RTL, or its stored result."""
    found = track.remembered(
        _pipeline_key("check", contestant, task, True),
        _line(task, f"{contestant.name}, an epoch on the RTL"),
        lambda: check_on_rtl(contestant, task, **track.device_options))
    return {"name": contestant.name, **found}


def _pipeline_key(what, contestant, task, rtl):
    """Key of a pipeline's result: everything that it depends on."""
    version = code_version() if rtl else code_version(("bitstep",))
    return digest([what, asdict(contestant), rtl, *task.identity(), asdict(task.race.profile),
                   version])


def _line(task, name):
    """A line that says what runs."""
    race = task.race
    return f"{race.data.key}, {race.model}, {race.profile.name}: {name}"


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
    weights, intercepts = sgd(scaled, targets - middle, np.outer(shares, first),
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
