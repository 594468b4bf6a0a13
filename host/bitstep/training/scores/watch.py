"""Progress of a training: epochs, loss, accuracy and rows a second, while it runs.

A thread of its own looks twice a second at the last models that the device has shown, and scores
them on a few of the rows that are trained on, for at most a hundredth of the time. So the training
itself only counts epochs.
"""

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from bitstep.progress import Progress
from bitstep.training.planning import Plan
from bitstep.training.scores.scoring import ScoredRows

LOOK_S = 0.5            # between two looks
SHARE = 0.01            # of the time, that scores may take
_LOOK_VALUES = 1 << 19  # features that a look reads: some milliseconds
_LEAST_ROWS, _MOST_ROWS = 64, 4096


class TrainingWatch:
    """Progress of a training, for ``on_epoch`` of :func:`bitstep.training.train.train_model`; a
    context manager, within which it is shown.

    Parameters
    ----------
    progress : Progress
        Counts rows; its total is ``epochs`` times ``n_rows``.
    epochs, n_models, n_rows : int
        Of the training: epochs of each model, models, and rows of an epoch.
    device : str
        Name of the device.
    scored : ScoredRows or None
        Some of the rows (:func:`rows_to_look_at`); None shows no loss.
    """

    def __init__(self, progress: Progress, epochs: int, n_models: int, n_rows: int, *,
                 device: str, scored: ScoredRows | None = None):
        self._progress, self._epochs, self._n_models = progress, epochs, n_models
        self._n_rows, self._device, self._scored = n_rows, device, scored
        self._done = self._first = 0
        self._began: float | None = None
        self._latest: dict[int, tuple[Plan, np.ndarray, int]] = {}
        self._seen: tuple[int, str] = (-1, "")
        self._next_score = 0.0
        self._lock, self._stop = threading.Lock(), threading.Event()
        self._started = time.monotonic()
        self._thread = threading.Thread(target=self._run, name="bitstep-progress", daemon=True)

    @property
    def total(self) -> int:
        """Epochs of all models."""
        return self._epochs * self._n_models

    def __call__(self, done: int) -> None:
        """Take in the number of finished epochs, summed over the models."""
        if self._began is None:     # what was before may be compiling, or a checkpoint
            self._began, self._first = time.monotonic(), done
        self._done = done

    def show(self, number: int, plan: Plan, words: np.ndarray, intercept: int) -> None:
        """Take in the weights of a model."""
        self._latest[number] = plan, words, intercept

    def say(self, text: str) -> None:
        """Print a line that stays."""
        with self._lock:
            self._progress.say(text)

    def __enter__(self) -> "TrainingWatch":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._next_score = 0.0
        self.look()
        self._progress.close()

    def look(self) -> None:
        """Show the state."""
        with self._lock:
            self._progress.to(self._done * self._n_rows // self._n_models, self.text())

    def text(self) -> str:
        """The state in words."""
        if not self._done:
            first = "; device cpu compiles its loops first, once on a machine" \
                if self._device == "cpu" else ""
            return f"no epoch of {self._epochs} finished yet{first}"
        began = time.monotonic()
        if self._seen[0] != self._done and began >= self._next_score:
            self._seen = self._done, self._measures()
            ended = time.monotonic()
            self._next_score = ended + (ended - began) / SHARE
        parts = [f"epoch {self._done // self._n_models} of {self._epochs}", self._seen[1],
                 self._speed()]
        return ", ".join(filter(None, parts))

    def _speed(self) -> str:
        """Rows a second, since the first epoch."""
        if self._progress.shows_rate:
            return ""
        epochs = self._done - self._first
        seconds = time.monotonic() - (self._began or 0.0)
        if epochs <= 0 or seconds <= 0:
            return ""
        rate = epochs * self._n_rows / self._n_models / seconds
        scale, name = next((pair for pair in ((1e9, " G"), (1e6, " M"), (1e3, " k"))
                            if rate >= pair[0]), (1.0, ""))
        return f"{rate / scale:.3g}{name} rows/s"

    def _measures(self) -> str:
        """Loss and accuracy of the models that the device has shown last."""
        latest = sorted(self._latest.copy().items())
        if not latest or self._scored is None:
            return ""
        plans, models, intercepts = zip(*(state for _, state in latest), strict=True)
        scored = replace(self._scored, targets=self._scored.targets[:, [one for one, _ in latest]])
        values = scored.outputs(plans, np.stack(models), intercepts)
        loss = scored.mean_loss(values) - scored.noise(plans, np.stack(models))
        found = f"loss {loss:.4g}"
        if scored.classes and len(latest) == self._n_models:
            found += f", accuracy {100 * scored.accuracy(values):.2f} %"
        count = len(scored.values)
        return found if count == self._n_rows else f"{found} (of {count:,} rows)"

    def _run(self) -> None:
        while not self._stop.wait(LOOK_S):
            self.look()


def restarts_shown(on_epoch: Any) -> Callable[[str], None] | None:
    """What is told of jobs that start again; None unless ``on_epoch`` is a watch."""
    return on_epoch.say if isinstance(on_epoch, TrainingWatch) else None


def words_shown(on_epoch: Any) -> Callable[[int, Plan, np.ndarray, int], None] | None:
    """What models are to be shown to; None unless ``on_epoch`` is a watch."""
    return on_epoch.show if isinstance(on_epoch, TrainingWatch) else None


def rows_to_look_at(n_features: int) -> int:
    """Rows that a look scores."""
    return min(max(_LOOK_VALUES // n_features, _LEAST_ROWS), _MOST_ROWS)
