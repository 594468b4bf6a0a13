"""Checkpoints: the state of a training in a file, from which it goes on bit for bit.

Nothing but model and intercept goes from one epoch to the next (docs/number-formats.md): a
correction that is due is dropped at an epoch's end, and the dither's keys, the steps and the copy
of the rows follow from the number of the epoch. So a job of the epochs that are left, which starts
from the weights, gives the models that a job of all epochs would have given.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.data.npz import has_arrays
from bitstep.pipeline.job import TrainingJob
from bitstep.pipeline.parts.widths import USUAL_BUS_WIDTH
from bitstep.pipeline.results import RunResult
from bitstep.quantization import QuantizedDataset
from bitstep.training.files.checked_file import FileKind
from bitstep.training.trained import Restart


class CheckpointError(ValueError):
    """A file is no checkpoint, is damaged, or is one of another training."""


KIND = FileKind("bitstep-checkpoint", 2, "a checkpoint", "`bitstep train --checkpoint`",
                "start the training again", CheckpointError)


@dataclass
class CentredState:
    """State of one output of a bit-centred training
    (:meth:`bitstep.training.centred.run.CentredRun.kept`).

    Attributes
    ----------
    numbers : dict of str to Any
    arrays : dict of str to ndarray
    ended : bool
        True if no outer step is left.
    """

    numbers: dict[str, Any]
    arrays: dict[str, np.ndarray]
    ended: bool

    @property
    def epochs_done(self) -> int:
        """Finished outer steps."""
        return len(self.arrays["gradients"])


@dataclass
class Checkpoint:
    """State of a training.

    Attributes
    ----------
    settings : dict of str to Any
        Options that the bits depend on, with every default filled in, by the names of the command
        line.
    data : dict of str to Any
        Sizes and digests of rows, labels and scaling (:func:`describe_data`).
    steps : list of float
        Step of every epoch, finished or not.
    n_outputs : int
    jobs : list of dict
        Integers of the jobs of the outputs begun (:func:`describe_job`).
    results : list of RunResult
        Models of the finished epochs of the outputs begun.
    centred : list of CentredState
        Of solver ``bit-centred``: states of the outputs begun, in place of jobs and results.
    seconds : float
        Time that was spent on them.
    stopped : bool
        True if the training ended before its last epoch (:mod:`bitstep.training.scores.stopping`).
    restarts : list of Restart
        Outputs that left their range and started again.
    """

    settings: dict[str, Any]
    data: dict[str, Any]
    steps: list[float]
    n_outputs: int
    jobs: list[dict[str, Any]] = field(default_factory=list)
    results: list[RunResult] = field(default_factory=list)
    centred: list[CentredState] = field(default_factory=list)
    seconds: float = 0.0
    stopped: bool = False
    restarts: list[Restart] = field(default_factory=list)

    @property
    def epochs_done(self) -> int:
        """Finished epochs, summed over the outputs."""
        return sum(one.epochs_done for one in self._outputs)

    @property
    def _outputs(self) -> Sequence[RunResult | CentredState]:
        """Those begun."""
        return self.centred or self.results

    @property
    def finished(self) -> bool:
        """True if no epoch is left."""
        if self.centred:
            return len(self.centred) == self.n_outputs and self.centred[-1].ended
        return self.stopped or self.epochs_done == self.n_outputs * len(self.steps)

    def position(self) -> str:
        """Return the last finished epoch in words."""
        last = self._outputs[-1].epochs_done if self._outputs else 0
        of = f"epoch {last} of {len(self.steps)}"
        if self.n_outputs == 1:
            return of
        return f"{of} of class {max(len(self._outputs), 1)} of {self.n_outputs}"

    def save(self, path: str | Path) -> None:
        """Write the file, whole or not at all.

        Raises
        ------
        OSError
            If it cannot be written; a file of that name stays as it is.
        """
        # Written again after every epoch: as text they would be most of a file of few features.
        arrays = {"steps": np.array(self.steps, np.float64)}
        for number, result in enumerate(self.results):
            arrays |= {f"models_{number}": result.models, f"intercepts_{number}": result.intercepts}
        for number, state in enumerate(self.centred):
            arrays |= {f"centred_{number}_{name}": array for name, array in state.arrays.items()}
        KIND.write(path, {
            "settings": self.settings, "data": self.data,
            "n_outputs": self.n_outputs, "jobs": self.jobs, "seconds": self.seconds,
            "stopped": self.stopped, "restarts": [asdict(one) for one in self.restarts],
            "counters": [dict(result.counters) for result in self.results],
            "centred": [[state.numbers, [*state.arrays], state.ended] for state in self.centred]},
            arrays)

    def final_bytes(self) -> int:
        """Return about the size of the file after the last epoch."""
        # Of a word; of a bit-centred training the model, its move and its change of the gradient.
        size = 24 if self.settings.get("solver") else 4
        model = size * (self.data["features"] + 1)
        header = 16384 + 8 * len(self.steps) + self.n_outputs * 2048
        return self.n_outputs * len(self.steps) * model + header


def is_checkpoint(path: str | Path) -> bool:
    """True if a file is an .npz with the members of a checkpoint."""
    return has_arrays(path, "header", "checksum", "steps")


def load_checkpoint(path: str | Path) -> Checkpoint:
    """Read a checkpoint.

    Raises
    ------
    CheckpointError
        If there is none, it is damaged, or another version wrote it.
    """
    header, arrays = KIND.read(path)
    try:
        results = [RunResult(arrays[f"models_{number}"], arrays[f"intercepts_{number}"], counters)
                   for number, counters in enumerate(header["counters"])]
        centred = [CentredState(numbers, {
            name: arrays[f"centred_{number}_{name}"] for name in names}, ended)
            for number, (numbers, names, ended) in enumerate(header.get("centred", []))]
        steps = arrays["steps"].tolist() if "steps" in arrays else header["steps"]
        found = {name: header[name] for name in (
            "settings", "data", "n_outputs", "jobs", "seconds")}
    except KeyError as error:
        raise CheckpointError(f"{path}: the checkpoint lacks {error}; {KIND.remedy}") from error
    return Checkpoint(**found, steps=steps, results=results, centred=centred,
                      stopped=header.get("stopped", False),
                      restarts=[Restart(**one) for one in header.get("restarts", [])])


def job_after(job: TrainingJob, done: int, model: np.ndarray, intercept: int) -> TrainingJob:
    """The job of the epochs after the first ``done``, which gives the models that ``job`` would
    give.

    Parameters
    ----------
    job : TrainingJob
    done : int
        Fewer than all epochs.
    model, intercept : ndarray of int32, int
        Words after these epochs.
    """
    if not done:
        return job
    turn = done % len(job.rows)         # an epoch reads the copy after the one before it
    return replace(job, epochs=job.epochs[done:], rows=(*job.rows[turn:], *job.rows[:turn]),
                   model=model, intercept=intercept)


def describe_data(outputs: Sequence[QuantizedDataset]) -> dict[str, Any]:
    """Sizes and digests of what is trained on, of which JSON can hold every one.

    Parameters
    ----------
    outputs : sequence of QuantizedDataset
        The same rows with the labels of each output.
    """
    rows = outputs[0].rows
    return {"rows": rows.n_rows, "features": rows.n_features, "classes": len(outputs),
            "scaling": digest_of(rows.scaler.centre, rows.scaler.scale),
            # On a board the same codes may stand in wider beats.
            "codes": digest_of(*(rows if rows.row_format == "float32"
                                 else rows.for_bus(USUAL_BUS_WIDTH)).stored),
            "fine rows": None if rows.fine_rows is None else digest_of(rows.fine_rows),
            "codebooks": None if rows.codebooks is None else digest_of(rows.codebooks),
            "labels": [[digest_of(data.labels.stored), data.label_scale, data.label_offset]
                       for data in outputs]}


def describe_job(job: TrainingJob) -> dict[str, Any]:
    """Integers of a job beside rows and labels, of which JSON can hold every one."""
    epochs = np.array([epoch.words() for epoch in job.epochs], np.uint64)
    few = {"bits of model and updates": [job.model_bits, job.update_bits]} \
        if job.few_bits else {}         # older checkpoints have no such entry
    return few | {
            "label format": int(job.label_format), "label shift": job.label_shift,
            "intercept level": job.intercept_level, "batch": job.batch, "loss": int(job.loss),
            "correction period": job.correction_period,
            "table of coefficients": digest_of(job.coefficients), "epoch table": digest_of(epochs),
            "proximal period": job.proximal_period, "box limit": job.box_limit,
            "refetching": job.cell_half_levels,
            # Only floating-point rows depend on it.
            "look-ahead": job.lookahead if job.config.rows.floating else None}


def digest_of(*arrays: np.ndarray) -> str:
    """SHA-256 of arrays, with their shapes and types, as hexadecimal digits."""
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(f"{array.shape} {array.dtype.str}".encode())
        digest.update(np.ascontiguousarray(array).data)
    return digest.hexdigest()
