"""One training by several workers, with one codec and one seed."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bitstep_lab.gradients.contestants import Contestant
from bitstep_lab.gradients.perceptrons import Model, Parameters
from bitstep_lab.gradients.samples import Samples
from bitstep_lab.gradients.workers import Exchange, Workers

EXPLODED = 1e4              # times the first loss: the run has diverged


@dataclass(frozen=True)
class Setting:
    """Everything but codec and seed that a training depends on.

    Parameters
    ----------
    n_workers : int
    batch : int
        Rows of a worker and step.
    step : float
        Step size of SGD, constant.
    n_steps : int
        Steps at which codecs are compared.
    budget : float
        Bytes of a rank at which codecs are compared; 0: none. Steps go on until it is used up.
    max_steps : int
        At most, at least ``n_steps``.
    every : int
        Steps from one judgement of the model to the next.
    min_size, update_every
        See :class:`bitstep_lab.gradients.workers.Workers`.
    """

    n_workers: int
    batch: int
    step: float
    n_steps: int
    budget: float
    max_steps: int
    every: int
    min_size: int = 0
    update_every: int = 50


class Batches:
    """Batches of all workers: every row once in a random order, then again in another one.

    Parameters
    ----------
    samples : Samples
    n_workers, batch : int
    seed : int
    """

    def __init__(self, samples: Samples, n_workers: int, batch: int, seed: int):
        self._samples, self._n_workers, self._batch = samples, n_workers, batch
        self._rng = np.random.Generator(np.random.PCG64(seed))
        self._order = np.zeros(0, np.int64)

    def draw(self) -> list[tuple[np.ndarray, np.ndarray]]:
        """Features and labels of every worker's next batch."""
        count = self._n_workers * self._batch
        while len(self._order) < count:
            self._order = np.append(self._order, self._rng.permutation(len(self._samples.labels)))
        taken, self._order = self._order[:count], self._order[count:]
        return [(self._samples.features[rows], self._samples.labels[rows])
                for rows in np.split(taken, self._n_workers)]


class _Record:
    """What is written down of a training, and when it ends."""

    def __init__(self, model: Model, samples: Samples, setting: Setting):
        self._model, self._samples, self._setting = model, samples, setting
        self.step, self.sent, self._last = 0, 0.0, 0.0
        self.points: list[dict[str, Any]] = []
        self.levels: list[dict[str, Any]] = []
        self.times: list[tuple[float, float]] = []
        self.found: dict[str, Any] = {"status": "ok", "at_steps": None, "at_budget": None,
                                      "bytes_a_step": None}

    def goes_on(self) -> bool:
        """Return True if there is a next step."""
        if self.found["status"] != "ok":
            return False
        return self.step < self._setting.n_steps or (
            self.step < self._setting.max_steps
            and self.sent + self._last <= self._setting.budget)

    def begin(self, parameters: Parameters) -> None:
        """Judge the model before the first step."""
        self._judge(parameters, {"error": None, "bits": None})

    def diverged(self) -> None:
        """Write that the model has left the finite numbers, or all reason."""
        self.found["status"] = f"diverged at step {self.step}"

    def write(self, parameters: Parameters, done: Exchange, workers: Workers) -> None:
        """Write a step, and judge the model where a point is due."""
        setting, facts = self._setting, {"error": done.error, "bits": workers.bits(self.step)}
        if self.step % setting.update_every == 0 and (levels := workers.levels()):
            self.levels.append({"step": self.step, "levels": levels})
        self.step, self.sent, self._last = self.step + 1, self.sent + done.sent, done.sent
        self.times.append((done.encode_s, done.decode_s))
        # The last step within the budget; if messages grew, perhaps the one after it.
        is_first = self.sent <= setting.budget or (
            self.step > 1 and self.sent - self._last <= setting.budget)
        ends = self.found["at_budget"] is None and is_first \
            and self.sent + self._last > setting.budget
        if self.step % setting.every and self.step not in (setting.n_steps, setting.max_steps) \
                and not ends:
            return
        if not self._judge(parameters, facts):
            self.diverged()
            return
        if self.step == setting.n_steps:
            self.found |= {"at_steps": len(self.points) - 1, "bytes_a_step": self.sent / self.step}
        if ends:
            self.found["at_budget"] = len(self.points) - 1

    def _judge(self, parameters: Parameters, facts: dict[str, Any]) -> bool:
        samples = self._samples
        with np.errstate(over="ignore", invalid="ignore"):
            train = self._model.score(parameters, samples.features, samples.labels)
            test = self._model.score(parameters, samples.test_features, samples.test_labels)
        first = self.points[0]["loss"] if self.points else train.loss
        if not (np.isfinite(train.loss) and train.loss <= EXPLODED * max(first, 1e-3)):
            return False
        self.points.append({"step": self.step, "bytes": self.sent, "loss": train.loss,
                            "test_loss": test.loss, "accuracy": test.accuracy, **facts})
        return True


def train(model: Model, samples: Samples, contestant: Contestant, setting: Setting, *, seed: int,
          progress: Callable[[int], None] = lambda step: None) -> dict[str, Any]:
    """Train a model.

    Parameters
    ----------
    model : Model
    samples : Samples
    contestant : Contestant
    setting : Setting
    seed : int
        Of the first parameters, the batches and the random words.
    progress : callable
        Called with the number of finished steps.

    Returns
    -------
    result : dict
        ``status`` (``ok``, or at which step it diverged), ``points`` (``step``, ``bytes`` a rank so
        far, ``loss``, ``test_loss``, ``accuracy``, ``error``, ``bits`` of a controller), ``levels``
        after updates, ``at_steps`` and ``at_budget`` (numbers of points, or None), ``bytes_a_step``
        up to ``n_steps``, ``encode_s`` and ``decode_s`` of a rank and step: the least of all steps,
        because other work on the machine only ever adds to it.
    """
    parameters = model.first_parameters(seed)
    shapes = {name: value.shape for name, value in parameters.items()}
    workers = Workers(contestant, shapes, n_workers=setting.n_workers, seed=seed,
                      n_steps=setting.n_steps, min_size=setting.min_size,
                      update_every=setting.update_every)
    batches = Batches(samples, setting.n_workers, setting.batch, seed)
    record = _Record(model, samples, setting)
    record.begin(parameters)
    while record.goes_on():
        losses, gradients = gradients_of(model, parameters, batches.draw())
        if not all(np.isfinite(value).all() for one in gradients for value in one.values()):
            record.diverged()
            break
        done = workers.exchange(record.step, gradients, losses)
        for name, value in parameters.items():
            parameters[name] = value - np.float32(setting.step) * done.average[name]
        record.write(parameters, done, workers)
        progress(record.step)
    encode_s, decode_s = np.min(record.times, axis=0).tolist() if record.times else (None, None)
    return {"contestant": asdict(contestant), "seed": seed, **record.found,
            "points": record.points, "levels": record.levels, "encode_s": encode_s,
            "decode_s": decode_s, "n_values": sum(value.size for value in parameters.values())}


def gradients_of(model: Model, parameters: Parameters, batches: list[tuple[np.ndarray, np.ndarray]]
                 ) -> tuple[list[float], list[Parameters]]:
    """Losses and gradients of the workers' batches."""
    with np.errstate(over="ignore", invalid="ignore"):
        both = [model.gradient(parameters, *batch) for batch in batches]
    return [loss for loss, _ in both], [gradient for _, gradient in both]
