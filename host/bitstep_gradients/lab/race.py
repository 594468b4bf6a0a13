"""One race: a model and its data, trained with every codec and several seeds."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from bitstep_gradients.lab.contestants import Contestant
from bitstep_gradients.lab.perceptrons import Model, Parameters
from bitstep_gradients.lab.training import (
    Batches,
    Setting,
    are_finite,
    descend,
    gradients_of,
    train,
)
from bitstep_gradients.lab.workers import Workers
from bitstep_lab.races.run_store import RunStore, code_version, digest
from bitstep_lab.samples import Samples

UNCOMPRESSED = Contestant("none", "none")
TUNING_SEEDS = (1_000_000, 1_000_001, 1_000_002)    # none of a race: those count from 0
FIRST_STEP, LEAST_STEP, LARGEST_STEP = 2.0**-3, 2.0**-12, 2.0**4
BUDGET_SHARE = 10               # the budget: float32's bytes of one step in so many


@dataclass(frozen=True)
class Race:
    """A comparison of codecs.

    Parameters
    ----------
    model, samples
        See :func:`bitstep_gradients.lab.tasks.make_task`.
    contestants : tuple of Contestant
    setting : Setting
        With ``step`` 0: tuned for uncompressed gradients.
    n_seeds : int
        Seeds 0, 1, ... of every contestant.
    """

    model: Model
    samples: Samples
    contestants: tuple[Contestant, ...]
    setting: Setting
    n_seeds: int


class Runs:
    """Runs of a race, each of which is done once and stored.

    Parameters
    ----------
    race : Race
    store : RunStore
    progress : callable
        Called with a line of text before a run; returns a function that is called with the number
        of finished steps.
    trainer : callable, optional
        Trains in place of :func:`bitstep_gradients.lab.training.train`, with the same parameters
        and result; for the two-phase scheme there must be one.
    """

    def __init__(self, race: Race, store: RunStore,
                 progress: Callable[[str], Callable[[int], None]],
                 trainer: Callable[..., dict[str, Any]] | None = None):
        self._race, self._store, self._progress = race, store, progress
        self._trainer = trainer
        samples = race.samples
        self._facts = digest(
            code_version(("bitstep_gradients",), races=()), race.model.name,
            samples.features, samples.labels, samples.test_features, samples.test_labels)

    def train(self, contestant: Contestant, setting: Setting, seed: int) -> dict[str, Any]:
        """Result of a training; see :func:`bitstep_gradients.lab.training.train`."""
        race = self._race
        line = f"{race.model.name}, {setting.n_workers} workers, {contestant.text}, seed {seed}"
        if seed in TUNING_SEEDS:
            line = f"{race.model.name}, {setting.n_workers} workers, tuning: step {setting.step:g}"
        trainer = self._trainer or train
        return self._once("train", line, (contestant, setting, seed), lambda tick: trainer(
            race.model, race.samples, contestant, setting, seed=seed, progress=tick))

    def probe(self, setting: Setting) -> dict[str, Any]:
        """Result of :func:`probe` with seed 0."""
        race = self._race
        line = f"{race.model.name}, {setting.n_workers} workers, errors of all codecs"
        return self._once("probe", line, (race.contestants, setting), lambda tick: probe(
            race.model, race.samples, race.contestants, setting, progress=tick))

    def _once(self, kind, line, facts, run):
        key = f"{kind}-{digest(self._facts, repr(facts))}"
        found = self._store.get(key)
        if found is None:
            found = run(self._progress(line))
            self._store.put(key, found)
        return found


def run_race(race: Race, store: RunStore, progress: Callable[[str], Callable[[int], None]],
             trainer: Callable[..., dict[str, Any]] | None = None) -> dict[str, Any]:
    """Run a race.

    Parameters
    ----------
    race : Race
    store : RunStore
        Results of runs that are not repeated.
    progress, trainer : callable
        See :class:`Runs`.

    Returns
    -------
    dict
        ``model``, ``data``, ``n_values``, ``setting``, ``step_tuned``, ``n_seeds``, ``results``
        (one a contestant and seed) and ``probe``.
    """
    runs, setting, model = Runs(race, store, progress, trainer), race.setting, race.model
    n_values = sum(value.size for value in model.first_parameters(0).values())
    if not setting.step:
        setting = replace(setting, step=tuned_step(runs, setting))
    results = [runs.train(contestant, setting, seed) for contestant in race.contestants
               for seed in range(race.n_seeds)]
    return {"model": model.name, "data": race.samples.name, "n_values": n_values,
            "setting": asdict(setting), "step_tuned": not race.setting.step,
            "n_seeds": race.n_seeds, "results": results, "probe": runs.probe(setting)}


def tuned_step(runs: Runs, setting: Setting) -> float:
    """The power of 2 with which uncompressed gradients have the least loss, by climbing from
    :data:`FIRST_STEP`. What counts is the mean over the points of a curve, and the worst of
    :data:`TUNING_SEEDS`: a step at the edge of divergence may end well.
    """
    alone = replace(setting, budget=0, max_steps=setting.n_steps)
    losses: dict[float, float] = {}

    def loss(step):
        if step not in losses:
            found = [runs.train(UNCOMPRESSED, replace(alone, step=step), seed)
                     for seed in TUNING_SEEDS]
            losses[step] = max(
                float(np.mean([point["loss"] for point in one["points"]]))
                if one["status"] == "ok" else np.inf for one in found)
        return losses[step]

    best = FIRST_STEP
    factor = 2.0 if loss(2 * best) < loss(best) else 0.5
    while LEAST_STEP <= best * factor <= LARGEST_STEP \
            and (loss(best * factor) < loss(best) or loss(best) == np.inf):
        best *= factor
    return best


def probe(model: Model, samples: Samples, contestants: tuple[Contestant, ...], setting: Setting, *,
          progress: Callable[[int], None] = lambda step: None) -> dict[str, Any]:
    """Train without compression, and encode the same gradients with every codec.

    Parameters
    ----------
    model, samples, setting
        See :func:`bitstep_gradients.lab.training.train`.
    contestants : tuple of Contestant
        Error feedback is left out: it has no part in an exchange whose result is not used.
    progress : callable
        Called with the number of finished steps.

    Returns
    -------
    dict
        ``steps``, ``errors`` and ``bits`` (of a value), lists by contestant, until the
        training leaves the finite numbers. An error is the
        squared distance of the decoded gradients to the gradients, over all ranks and tensors, by
        their squared norm.
    """
    parameters = model.first_parameters(0)
    shapes = {name: value.shape for name, value in parameters.items()}
    shadows = {one.text: Workers(
        replace(one, feedback=None), shapes, n_workers=setting.n_workers, seed=0,
        n_steps=setting.n_steps, min_size=setting.min_size, update_every=setting.update_every)
        for one in contestants}
    batches = Batches(samples, setting.n_workers, setting.batch, 0)
    steps: list[int] = []
    errors: dict[str, list[float]] = {text: [] for text in shadows}
    bits: dict[str, list[float]] = {text: [] for text in shadows}
    n_values = sum(value.size for value in parameters.values())
    average: Parameters = {name: np.zeros(shape, np.float32) for name, shape in shapes.items()}
    for step in range(setting.n_steps):
        losses, gradients = gradients_of(model, parameters, batches.draw())
        if not are_finite(gradients):
            break
        is_point = step % setting.every == 0
        if is_point or step % setting.update_every == 0:
            for text, workers in shadows.items():
                workers.remember(average)
                done = workers.exchange(step, gradients, losses)
                if is_point:
                    errors[text].append(done.error)
                    bits[text].append(8 * done.sent / n_values)
            steps += [step] * is_point
        for name in parameters:
            exact = np.mean([one[name] for one in gradients], axis=0, dtype=np.float64)
            average[name] = np.asarray(exact, np.float32)
        descend(parameters, setting.step, average)
        progress(step + 1)
    return {"steps": steps, "errors": errors, "bits": bits}
