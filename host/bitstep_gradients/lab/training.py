"""One training by several workers, with one codec and one seed."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from bitstep_gradients import Codec
from bitstep_gradients.errors import DivergenceError
from bitstep_gradients.lab.contestants import Contestant
from bitstep_gradients.lab.perceptrons import Model, Parameters
from bitstep_gradients.lab.workers import Exchange, Workers, bits_of, levels_of
from bitstep_lab.samples import Samples

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
        See :class:`bitstep_gradients.lab.workers.Workers`.
    exchange : str
        A key of ``bitstep_gradients.exchange.EXCHANGES``.
    transport : {"memory", "gloo"}
        Workers in one process, or processes of torch.distributed. No result depends on it but
        times, and the counters of the exchange.
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
    exchange: str = "all_gather"
    transport: str = "memory"


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


class Record:
    """What is written down of a training, and when it ends.

    Parameters
    ----------
    model : Model
    samples : Samples
    setting : Setting
    parameters : dict of str to ndarray
        Before the first step, which is judged.
    """

    def __init__(self, model: Model, samples: Samples, setting: Setting, parameters: Parameters):
        self._model, self._samples, self._setting = model, samples, setting
        self.step, self.sent, self._last = 0, 0.0, 0.0
        self.points: list[dict[str, Any]] = []
        self.levels: list[dict[str, Any]] = []
        self.times: list[tuple[float, float]] = []
        self._traffic: list[tuple[float, float]] = []
        self._n_values = sum(value.size for value in parameters.values())
        self.found: dict[str, Any] = {"status": "ok", "at_steps": None, "at_budget": None,
                                      "bytes_a_step": None, "sent_a_step": None,
                                      "received_a_step": None}
        self._judge(parameters, {"error": None, "bits": None})

    def goes_on(self) -> bool:
        """Return True if there is a next step."""
        if self.found["status"] != "ok":
            return False
        return self.step < self._setting.n_steps or (
            self.step < self._setting.max_steps
            and self.sent + self._last <= self._setting.budget)

    def diverged(self) -> None:
        """Write that the model has left the finite numbers, or all reason."""
        self.found["status"] = f"diverged at step {self.step}"

    def write(self, parameters: Parameters, done: Exchange, codecs: Mapping[str, Codec]) -> None:
        """Write a step, and judge the model where a point is due."""
        setting, facts = self._setting, {"error": done.error, "bits": bits_of(codecs, self.step)}
        if self.step % setting.update_every == 0 and (levels := levels_of(codecs)):
            self.levels.append({"step": self.step, "levels": levels})
        if done.traffic is not None:
            self._traffic.append(done.traffic)
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
            if self._traffic:
                sent, received = np.mean(self._traffic, axis=0).tolist()
                self.found |= {"sent_a_step": sent, "received_a_step": received}
        if ends:
            self.found["at_budget"] = len(self.points) - 1

    def result(self, contestant: Contestant, seed: int) -> dict[str, Any]:
        """Result of :func:`train`."""
        encode_s, decode_s = np.min(self.times, axis=0).tolist() if self.times else (None, None)
        return {"contestant": asdict(contestant), "seed": seed, **self.found,
                "points": self.points, "levels": self.levels, "encode_s": encode_s,
                "decode_s": decode_s, "n_values": self._n_values}

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
    """Train a model by workers within this process, by all_gather.

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
        up to ``n_steps``, ``sent_a_step`` and ``received_a_step`` (the exchange's counters; None
        without one), ``encode_s`` and ``decode_s`` of a rank and step: the least of all steps,
        because other work on the machine only ever adds to it.
    """
    parameters = model.first_parameters(seed)
    shapes = {name: value.shape for name, value in parameters.items()}
    workers = Workers(contestant, shapes, n_workers=setting.n_workers, seed=seed,
                      n_steps=setting.n_steps, min_size=setting.min_size,
                      update_every=setting.update_every)
    batches = Batches(samples, setting.n_workers, setting.batch, seed)
    record = Record(model, samples, setting, parameters)
    while record.goes_on():
        losses, gradients = gradients_of(model, parameters, batches.draw())
        if not are_finite(gradients):
            record.diverged()
            break
        try:
            done = workers.exchange(record.step, gradients, losses)
        except DivergenceError:
            record.diverged()
            break
        descend(parameters, setting.step, done.average)
        record.write(parameters, done, workers.codecs)
        progress(record.step)
    return record.result(contestant, seed)


def descend(parameters: Parameters, step: float, average: Parameters) -> None:
    """Take a step of SGD; a run that diverges may leave the finite numbers."""
    with np.errstate(over="ignore", invalid="ignore"):
        for name, value in parameters.items():
            parameters[name] = value - np.float32(step) * average[name]


def are_finite(gradients: list[Parameters]) -> bool:
    """Return True if no worker's gradient has NaN or infinity."""
    return all(np.isfinite(value).all() for one in gradients for value in one.values())


def gradients_of(model: Model, parameters: Parameters, batches: list[tuple[np.ndarray, np.ndarray]]
                 ) -> tuple[list[float], list[Parameters]]:
    """Losses and gradients of the workers' batches."""
    with np.errstate(over="ignore", invalid="ignore"):
        both = [model.gradient(parameters, *batch) for batch in batches]
    return [loss for loss, _ in both], [gradient for _, gradient in both]
