"""What takes part in a race, and one run of it: losses after every epoch, and the time it took.

Every contestant sees the same rows in the same order, takes the same steps, and is judged by the
same objective in float64: the mean loss on the features as they are, not as they were quantized,
plus the penalty.
"""

import time
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitstep.bench.profiles import Profile
from bitstep.bench.shapes import RaceData
from bitstep.bench.store import digest
from bitstep.config import FLOAT_BITS
from bitstep.devices import open_device
from bitstep.driver import Driver
from bitstep.losses import accuracies, mean_losses
from bitstep.models import MODELS, Model
from bitstep.planning import pipeline_for
from bitstep.quantization import Scaler, encode, fit_scaler, quantize
from bitstep.registers import OFFSETS, Loss
from bitstep.runs import SaturationError
from bitstep.training import class_outputs, class_targets, report_counters, train_model

POLLS = 256             # looks at the device in the time that an epoch's beats take, at least
TIMEOUT_S = 600.0
REPEATS = 3             # of a CPU run, unless it takes longer than
REPEAT_BELOW_S = 10.0


@dataclass(frozen=True, kw_only=True)
class Pipeline:
    """A pipeline on the profile's board.

    Attributes
    ----------
    bits, encoding
        See :func:`bitstep.quantization.quantize`.
    lookahead : int or "auto"
    batch : int or None
        None: the race's.
    refetch : bool
    """

    bits: int
    encoding: str
    lookahead: int | str = "auto"
    batch: int | None = None
    refetch: bool = False

    @property
    def name(self) -> str:
        """As plots and tables call it."""
        text = "float" if self.bits == FLOAT_BITS else \
            f"{self.bits} bit{'s' * (self.bits > 1)} {self.encoding}"
        if self.refetch:
            text += ", refetching"
        if self.lookahead != "auto":
            text += f", look-ahead {self.lookahead}"
        return text if self.batch is None else f"{text}, batch {self.batch}"


FLOAT = Pipeline(bits=FLOAT_BITS, encoding="float")


@dataclass(frozen=True, kw_only=True)
class Cpu:
    """A baseline of :func:`bitstep.baselines.train_cpu` on this machine's cores.

    Attributes
    ----------
    method : {"sgd", "hogwild", "minibatch", "lowprec"}
    threads : int
    batch : int or None
        None: the race's.
    """

    method: str
    threads: int = 1
    batch: int | None = None

    @property
    def name(self) -> str:
        """As plots and tables call it."""
        text = f"CPU {self.method}, {self.threads} thread{'s' * (self.threads > 1)}"
        return text if self.batch is None else f"{text}, batch {self.batch}"


@dataclass(frozen=True)
class Sklearn:
    """scikit-learn's SGDRegressor or SGDClassifier, one thread."""

    @property
    def name(self) -> str:
        """As plots and tables call it."""
        return "scikit-learn"


Contestant = Pipeline | Cpu | Sklearn


@dataclass(frozen=True, eq=False)
class Task:
    """What every contestant of a race is given.

    Attributes
    ----------
    data : RaceData
    model : str
        A key of :data:`bitstep.models.MODELS`.
    profile : Profile
    steps : ndarray of float64, shape (epochs,)
        In scaled feature space.
    batch : int
    l2 : float
    seed : int
        Of codes, and of threads' order.
    """

    data: RaceData
    model: str
    profile: Profile
    steps: np.ndarray
    batch: int
    l2: float
    seed: int

    @property
    def kind(self) -> Model:
        """Task, loss and names of the model."""
        return MODELS[self.model]

    @property
    def classes(self) -> np.ndarray:
        """Classes; empty for a regression."""
        return np.zeros(0) if self.kind.task == "regression" else np.unique(
            self.data.dataset.labels)

    @property
    def targets(self) -> np.ndarray:
        """Targets of the outputs, shape (n_rows, n_outputs)."""
        labels = self.data.dataset.labels
        return labels[:, None] if self.kind.task == "regression" else class_targets(
            labels, self.classes)

    def objective(self, coefs: np.ndarray, intercepts: np.ndarray,
                  weights: np.ndarray) -> np.ndarray:
        """Mean loss on the features plus penalty, of models of shape (n_models, n_outputs, ...).

        Parameters
        ----------
        coefs, intercepts
            In the features' units.
        weights
            In scaled feature space, where the penalty counts.
        """
        with np.errstate(over="ignore", invalid="ignore"):
            losses = mean_losses(self.kind.loss, self.data.dataset.features, self.targets, coefs,
                                 intercepts)
            return losses + self.l2 / 2 * (weights ** 2).sum(axis=2).mean(axis=1)

    def identity(self) -> list[Any]:
        """What a run depends on besides contestant, profile and code."""
        dataset = self.data.dataset
        return [digest(dataset.features, dataset.labels, self.steps), self.model, self.batch,
                self.l2, self.seed]

    def judged(self, coefs, intercepts, weights) -> dict[str, Any]:
        """Losses and accuracies of every epoch."""
        dataset = self.data.dataset
        found = {"losses": self.objective(coefs, intercepts, weights).tolist()}
        if len(self.classes):
            found["accuracy"] = accuracies(dataset.features, dataset.labels, self.classes, coefs,
                                           intercepts).tolist()
        return found


def run_pipeline(contestant: Pipeline, task: Task, **options: Any) -> dict[str, Any]:
    """Train on the simulated board.

    Parameters
    ----------
    options
        Of the device, such as ``progress``.

    Returns
    -------
    dict
        ``status`` ("ok", or why there is no model), ``losses`` after every epoch, ``seconds`` of
        device time from the start to the end of every epoch (the sum over the outputs),
        ``cycles``, ``stalls``, ``bytes_read``, ``gbps``, ``host`` (seconds of quantizing and of
        the transfer), ``refetched`` (share of the rows visited), ``rows_ahead`` (the look-ahead
        that was used), ``pipeline``.

    Raises
    ------
    KeyboardInterrupt
        On Ctrl-C; there is no result of a part.
    """
    dataset, profile = task.data.dataset, task.profile
    started = time.perf_counter()
    data = quantize(dataset.features, dataset.labels, bits=contestant.bits,
                    encoding=contestant.encoding, bus_width=profile.bus_width, seed=task.seed,
                    full=contestant.refetch)
    quantize_s = time.perf_counter() - started
    outputs = [data] if task.kind.task == "regression" else class_outputs(
        data, dataset.labels, task.classes)
    moved = sum(copy.nbytes for copy in data.rows) + sum(each.labels.nbytes for each in outputs)
    moved += 0 if data.full is None else data.full.nbytes
    config = pipeline_for(
        n_features=data.n_features, bits=data.bits, encoding=data.encoding,
        bus_width=profile.bus_width, loss=task.kind.loss, refetch=contestant.refetch,
        lookahead=0 if contestant.lookahead == "auto" else contestant.lookahead)
    if contestant.lookahead == "auto" and not contestant.refetch:
        config = config.with_lookahead()        # for rows of any length: fewer boards to compile
    beats = config.beats(data.n_features)
    result = {
        "host": {"quantize_s": quantize_s, "transfer_s": moved / profile.stream_gbps / 1e9,
                 "transfer_bytes": moved},
        "rows_ahead": config.effective_lookahead(beats), "beats_per_row": beats,
        "pipeline": config.name}
    device = open_device("sim", config, clock_hz=profile.clock_hz,
                         memory_latency=profile.memory_latency, memory_gbps=profile.memory_gbps,
                         **options)
    watched = EpochClock(device, max(64, data.n_rows * beats // POLLS), len(task.steps))
    with Driver(watched) as driver:
        try:
            model = train_model(
                outputs, driver, config, steps=task.steps, batch=contestant.batch or task.batch,
                l2=task.l2, loss=task.kind.loss, refetch=contestant.refetch, timeout_s=TIMEOUT_S,
                on_epoch=watched.on_epoch)
        except SaturationError as error:
            return {**result, "status": str(error)}
    if model.interrupted:
        raise KeyboardInterrupt
    counters = report_counters(model.counters)
    cycles = watched.cycles(counters["cycles"])
    visited = counters["beats"] // beats
    return {**result, "status": "ok",
            **task.judged(model.coefs, model.intercepts, model.weights),
            "cycles": cycles.tolist(), "seconds": (cycles / profile.clock_hz).tolist(),
            "stalls": counters["stall_cycles"], "bytes_read": counters["bytes_read"],
            "gbps": counters["bytes_read"] / (cycles[-1] / profile.clock_hz) / 1e9,
            "refetched": counters["refetched_rows"] / visited if contestant.refetch else None}


class EpochClock:
    """A simulated device that is looked at often, so that the end of every epoch is timed.

    Parameters
    ----------
    device : SimDevice
    interval : int
        Cycles between two looks, the precision of an epoch's end. The last one is exact.
    epochs : int
        Epochs of a run; there is one run for each output.
    """

    def __init__(self, device: Any, interval: int, epochs: int):
        self._device, self._interval, self._epochs = device, interval, epochs
        self._ends: list[np.ndarray] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def wait(self, done: Any, timeout_s: float) -> bool:
        """As the device's, in steps of the interval."""
        deadline = time.monotonic() + timeout_s
        while not (result := done()) and time.monotonic() < deadline:
            self._device.board.run(self._interval)
        return result

    def on_epoch(self, done: int) -> None:
        """Note the cycle counter; ``done`` epochs of all outputs are done."""
        run, epoch = divmod(done - 1, self._epochs)
        if run == len(self._ends):
            self._ends.append(np.zeros(self._epochs, np.int64))
        low, high = (self._device.read(OFFSETS[f"CYCLES_{half}"]) for half in ("LO", "HI"))
        ends = self._ends[run]
        first = np.count_nonzero(ends)          # several may have ended since the last look
        ends[first:epoch + 1] = high << 32 | low

    def cycles(self, total: int) -> np.ndarray:
        """Cycles from the start to the end of every epoch, the sum over the outputs.

        Parameters
        ----------
        total : int
            Counted for all runs; the last entry.
        """
        ends = np.sum(self._ends, axis=0)
        return np.append(ends[:-1], total)


def run_cpu(contestant: Cpu | Sklearn, task: Task) -> dict[str, Any]:
    """Train on this machine's cores, in scaled feature space.

    A run is repeated, and an epoch's time is the median of its repetitions; the losses are those
    of the first.

    Returns
    -------
    dict
        As :func:`run_pipeline`, as far as it applies; ``host`` has the seconds of scaling, and of
        quantizing for ``lowprec``.

    Raises
    ------
    ImportError
        If what the baseline needs is not installed.
    """
    dataset = task.data.dataset
    started = time.perf_counter()
    scaler, scaled = scale_rows(dataset.features)
    rows = scaled
    if isinstance(contestant, Cpu) and contestant.method == "lowprec":
        rows = encode(scaled, bits=8, encoding="nearest")
    host = {"quantize_s": time.perf_counter() - started, "transfer_s": 0.0}
    middle = label_middle(task.targets, task.kind.task)
    runs, seconds = [], []
    try:
        for target in (task.targets - middle).T.astype(np.float32):
            target = np.ascontiguousarray(target)
            repeated = [_train(contestant, task, rows, target)]
            while len(repeated) < REPEATS and repeated[0].seconds.sum() < REPEAT_BELOW_S:
                repeated.append(_train(contestant, task, rows, target))
            runs.append(repeated[0])
            seconds.append(np.median([run.seconds for run in repeated], axis=0))
    except ArithmeticError as error:        # it diverged
        return {"status": str(error), "host": host}
    weights = np.stack([run.weights for run in runs], axis=1)
    intercepts = np.stack([run.intercepts for run in runs], axis=1) + middle
    total = np.sum(seconds, axis=0)
    n_bytes = sum(run.bytes_per_epoch for run in runs) * len(total)
    return {"status": "ok", **task.judged(*scaler.unscale_model(weights, intercepts), weights),
            "seconds": np.cumsum(total).tolist(), "gbps": n_bytes / total.sum() / 1e9,
            "bytes_read": n_bytes, "host": host}


def _train(contestant, task, rows, target):
    from bitstep.baselines import train_cpu, train_sklearn
    common = {"loss": task.kind.loss, "steps": task.steps.tolist(), "l2": task.l2}
    if isinstance(contestant, Sklearn):
        return train_sklearn(rows, target, **common)
    return train_cpu(rows, target, method=contestant.method, threads=contestant.threads,
                     batch=contestant.batch or task.batch, **common)


def scale_rows(features: np.ndarray) -> tuple[Scaler, np.ndarray]:
    """The scaler of the pipelines, and float32 rows in scaled feature space."""
    scaler = fit_scaler(features)
    return scaler, np.ascontiguousarray((features - scaler.centre) / scaler.scale, np.float32)


def label_middle(targets: np.ndarray, task: str) -> float:
    """Where a regression starts: the middle of the labels' range, as pipelines do; else 0."""
    return float(targets.min() / 2 + targets.max() / 2) if task == "regression" else 0.0


def with_batch(contestant: Pipeline, batch: int) -> Pipeline:
    """The same pipeline with another batch."""
    return replace(contestant, batch=batch)


def trains(contestant: Pipeline, loss: Loss) -> bool:
    """Whether a pipeline's encoding suits a loss: corrections are those of least squares."""
    return loss == Loss.LEAST_SQUARES or contestant.encoding in (
        "nearest", "stochastic", "double", "float")
