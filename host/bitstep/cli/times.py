"""Where training on some data is fastest: at a desk, on boards, or by scikit-learn."""

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from bitstep.cli.options import default_model
from bitstep.cycles import Memory, count_epochs
from bitstep.data.dataset import Dataset
from bitstep.devices import default_device, device_class, open_device
from bitstep.options.rules import Request
from bitstep.options.words import PYTHON
from bitstep.pipeline.boards import FACTS, BoardFacts
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.parts.formats import BIT_PLANES, MAX_BIT_PLANE_FEATURES
from bitstep.pipeline.registers import LabelFormat
from bitstep.quantization import (
    QuantizedDataset,
    label_bits_of,
    quantize_bit_planes,
    quantize_labels,
    quantize_rows,
)
from bitstep.training.choices import resolve, resolve_scaler
from bitstep.training.pipelines import pipeline_of_all
from bitstep.training.schedules import automatic_batch, automatic_epochs
from bitstep.training.train import class_outputs, train_model
from bitstep.writing import duration, text_table

SAMPLE_VALUES = 1 << 19         # of the rows that are trained on to measure
SAMPLE_ROWS = 1 << 15
LATENCY_S = 0.3e-6              # of an access to a board's memory, assumed
BITS = 4                        # of the codes on boards
IDLE_S = 0.15                   # threads of BLAS turn for 0.1 s after their last work
REPEATS, ENOUGH_S = 5, 0.3      # a measurement is repeated, but not beyond so much time


class Place(NamedTuple):
    """Where the data can be trained on.

    Attributes
    ----------
    name : str
    seconds : float
    source : str
        How the seconds are known.
    """

    name: str
    seconds: float
    source: str


def print_times(dataset: Dataset) -> None:
    """Print the time of a training in every place, and a sentence on which is fastest."""
    here, missing = measured(dataset)
    boards = on_boards(dataset)
    if missing:
        print(missing)
    if found := [*here, *boards]:
        print(text_table(["time to train", "", "by"],
                         [[one.name, duration(one.seconds), one.source] for one in found]))
    print(verdict(here, boards))


def verdict(here: list[Place], boards: list[Place]) -> str:
    """One sentence on what is fastest."""
    if not boards and not here:
        return "Nothing is known about the time of these data."
    places = sorted([*here, *boards], key=lambda place: place.seconds)
    first, others = places[0], [place for place in places[1:] if place.name != places[0].name]
    text = f"Fastest: {first.name}, {duration(first.seconds)}"
    if first in boards:
        text += (" (a prediction of the cycle model, without the way of the rows to the board; by "
                 "SGD, which ends near the optimum that trainings here reach)")
        others = here
    if others:
        second = min(others, key=lambda place: place.seconds)
        ratio = second.seconds / first.seconds
        text += f"; {second.name} takes {ratio:,.{0 if ratio >= 10 else 1}f} times as long"
    return text + "."


def measured(dataset: Dataset) -> tuple[list[Place], str]:
    """Times of this machine, by trainings on some of the rows; and what could not be measured."""
    features, labels, factor, source = _sample(dataset)
    is_classes = dataset.task == "classification"
    if is_classes and len(np.unique(labels)) < 2:
        return [], "The time of this machine needs rows of two classes."
    places, missing = [], ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")         # of the sample
        if dataset.n_features > MAX_BIT_PLANE_FEATURES:
            missing = ("The time of bitstep here is not known: it is measured on bit-plane rows, "
                       f"which are for up to {MAX_BIT_PLANE_FEATURES:,} features. ")
        else:
            places = [Place(f"bitstep, device {default_device()}, here", factor * _seconds(
                lambda: _train(features, labels, dataset.task)), source)]
        try:
            name, seconds = _of_peer(features, labels, is_classes)
        except ImportError:
            return places, f"{missing}The time of scikit-learn is not known: it is not installed."
    peer = Place(f"scikit-learn's {name}, here", factor * seconds, source)
    return [*places, peer], missing.strip()


def _of_peer(features: np.ndarray, labels: np.ndarray, is_classes: bool) -> tuple[str, float]:
    """Name and seconds of scikit-learn's estimator on standardized columns, as its objective asks
    for; by one thread, if that is faster: of few rows, or of a busy machine, threads wait for each
    other.
    """
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from threadpoolctl import threadpool_limits
    peer: Any = LogisticRegression() if is_classes else Ridge()

    def work() -> None:
        make_pipeline(StandardScaler(), peer).fit(features, labels)

    time.sleep(IDLE_S)
    with threadpool_limits(1):
        alone = _seconds(work)
    return type(peer).__name__, min(alone, _seconds(work))


def _train(features: np.ndarray, labels: np.ndarray, task: str) -> None:
    """Quantize rows and train on them, bit-centred, with the defaults of the command line."""
    resolved = resolve(Request(PYTHON, {"model": default_model(task, None),
                                        "solver": "bit-centred"}))
    rows = quantize_bit_planes(features, scaler=resolve_scaler(None, "bit-centred"))
    if task == "classification":
        outputs = class_outputs(rows, labels, np.unique(labels))
    else:
        outputs = [QuantizedDataset(rows, quantize_labels(
            labels, len(labels), label_bits=label_bits_of(BIT_PLANES)))]
    resolved = resolved.of_outputs(len(outputs), device_class(default_device()))
    objective = resolved.objective(rows.n_rows)
    wish = objective, resolved.training(rows, objective)
    config = pipeline_of_all(rows, [wish], "auto")
    with open_device(default_device(), config) as device:
        train_model(outputs, device, config, *wish)


def _sample(dataset: Dataset) -> tuple[np.ndarray, np.ndarray, float, str]:
    """Some rows and labels, how many times as many there are, and how times are known."""
    n_rows = min(dataset.n_rows, SAMPLE_ROWS, max(32, SAMPLE_VALUES // dataset.n_features))
    chosen = np.sort(np.random.default_rng(0).permutation(dataset.n_rows)[:n_rows])
    factor = dataset.n_rows / n_rows
    return (dataset.features[chosen], dataset.labels[chosen], factor,
            "measured" if factor == 1 else f"measured on {n_rows:,} rows, times {factor:.4g}")


def _seconds(work: Callable[[], Any]) -> float:
    """Least seconds of some calls after a first one, which may compile or import."""
    work()
    found, begun = [], time.perf_counter()
    while len(found) < REPEATS and (not found or time.perf_counter() - begun < ENOUGH_S):
        started = time.perf_counter()
        work()
        found.append(time.perf_counter() - started)
    return min(found)


def on_boards(dataset: Dataset) -> list[Place]:
    """Times of SGD on every board that has a pipeline for such rows: to quantize them on this
    machine, and to train by the cycle model. The way of the rows to the board is not counted.
    """
    outputs = 1 if dataset.task == "regression" or len(np.unique(dataset.labels)) <= 2 \
        else len(np.unique(dataset.labels))
    known = [(board, outputs * seconds) for board in FACTS.values()
             if (seconds := board_seconds(board, dataset.n_rows, dataset.n_features)) is not None]
    if not known:
        return []
    features, _, factor, _ = _sample(dataset)
    quantizing = factor * _seconds(lambda: quantize_rows(features, bits=BITS))
    return [Place(f"board {board.name}", quantizing + seconds,
                  f"{duration(quantizing)} to quantize here, {duration(seconds)} on the board: "
                  f"{automatic_epochs(dataset.n_rows)} epochs of SGD on {BITS} bits in batches of "
                  f"{automatic_batch(dataset.n_rows)}, {board.clock_mhz} MHz assumed")
            for board, seconds in known]


def board_seconds(board: BoardFacts, n_rows: int, n_features: int) -> float | None:
    """Seconds of a training of one output on a board; None if it has no pipeline for such rows."""
    config, clock_hz = board.config(BITS), 1e6 * board.clock_mhz
    if n_features > config.rows.capacity:
        return None
    width = config.rows.beats(n_features) * config.rows.beat_bytes
    if n_rows * config.rows.beats(n_features) >= 1 << 32:
        return None
    none = np.zeros(n_features, np.int32)
    # No row is looked at, so they need no memory.
    job = TrainingJob(
        config=config, n_features=n_features,
        rows=(np.broadcast_to(np.zeros(1, np.uint8), (n_rows, width)),),
        labels=np.broadcast_to(np.zeros(1, np.uint8), (-(-n_rows // 4) * 8,)),
        label_format=LabelFormat.INT16, label_shift=0, intercept_level=0,
        batch=automatic_batch(n_rows), correction_period=0, coefficients=none, model=none,
        epochs=(EpochSteps(1, 1),) * automatic_epochs(n_rows))
    memory = Memory.of(clock_hz, round(LATENCY_S * clock_hz), board.memory_gbps)
    cycles = count_epochs(job, memory)[0]["cycles"]
    assert cycles is not None
    return cycles / clock_hz
