"""Files that a training writes: space for them in advance, and no model lost at the end."""

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from bitstep.cli.problem import Problem
from bitstep.training.files.checkpoint_writer import CheckpointWriter
from bitstep.training.files.model_file import LinearModel
from bitstep.writing import ReservedSpace

# Bytes beside the numbers, generously: names and options; and a drawing, which is compressed.
HEADER_BYTES, PLOT_BYTES = 16384, 262144
CHARACTER_BYTES = 4         # of a model file's header
NUMBER_BYTES, EPOCH_BYTES = 32, 256     # of a number and of an epoch's entry in JSON


def output_sizes(arguments: argparse.Namespace, problem: Problem, epochs: int) -> dict[str, int]:
    """About the bytes of the files that a training with so many epochs writes, and no less."""
    outputs = len(problem.outputs)
    numbers = outputs * (problem.outputs[0].n_features + 1) + len(problem.classes)
    named = CHARACTER_BYTES * len(json.dumps(problem.feature_names))
    sizes = {arguments.out: 8 * numbers + named + HEADER_BYTES,
             arguments.report: NUMBER_BYTES * numbers + EPOCH_BYTES * epochs + HEADER_BYTES,
             arguments.plot: PLOT_BYTES}
    return {path: n_bytes for path, n_bytes in sizes.items() if path is not None}


def reserve_outputs(sizes: dict[str, int], writer: CheckpointWriter | None) -> ReservedSpace:
    """Keep space for files until they are written, and write the first state of a checkpoint.

    Parameters
    ----------
    sizes : dict of str to int
        Of :func:`output_sizes`.
    writer : CheckpointWriter or None
        Its file must have space twice, since each state is whole before it replaces the last.

    Raises
    ------
    OSError
        If there is not so much space, or the checkpoint cannot be written; it names the file.
    """
    if writer is None:
        return ReservedSpace(sizes)
    # Given back at once: the checkpoint grows into it.
    space = ReservedSpace({**sizes, writer.path: 2 * writer.checkpoint.final_bytes()})
    space.release(writer.path)
    if not writer.complete:
        try:
            writer.save()
        except BaseException:
            space.release()
            raise
    return space


class Outputs:
    """Files of a training that is over; each is tried, whatever happens to the others.

    Parameters
    ----------
    space : ReservedSpace
        Of :func:`reserve_outputs`; what is kept for a file is given back just before.

    Attributes
    ----------
    written : list of str
    """

    def __init__(self, space: ReservedSpace):
        self._space = space
        self.written: list[str] = []
        self._errors: list[str] = []

    def write(self, path: str | None, write: Callable[[str], None]) -> bool:
        """Write a file by a function of its name; False if it cannot be written."""
        if path is None:
            return True
        self._space.release(path)
        try:
            write(path)
        except OSError as error:
            self._errors.append(f"{path} cannot be written ({error})")
            return False
        self.written.append(path)
        return True

    def write_model(self, path: str | None, model: LinearModel,
                    writer: CheckpointWriter | None) -> None:
        """Write a model file; where that fails, the model is kept elsewhere.

        Parameters
        ----------
        path : str or None
            None if it is not asked for.
        model : LinearModel
        writer : CheckpointWriter or None
            Checkpoint of the training. If the last state is not in its file, it is written now.
        """
        kept = True
        if writer is not None and not writer.complete:
            kept = self.write(writer.path, lambda _: writer.save())
        if self.write(path, model.save) and (path or kept):
            return
        if writer is not None and kept:
            self._errors.append(f"the model is in the checkpoint {writer.path}: the same command "
                                f"with --resume {writer.path} writes it")
        else:
            self._errors.append(_rescue(model))

    def check(self) -> None:
        """Raise OSError if a file could not be written; it says where the model is."""
        if self._errors:
            raise OSError("; ".join(self._errors))


def _rescue(model: LinearModel) -> str:
    """Write a model to some other folder, or else print it, and say where it is."""
    for folder in (tempfile.gettempdir(), Path.home(), "/dev/shm", "."):
        path = Path(folder).resolve() / f"bitstep-model-{os.getpid()}.npz"
        try:
            model.save(path)
        except OSError:
            continue
        return f"the model is in {path}: move it to where it should be"
    print(json.dumps({"coef": model.coef.tolist(), "intercept": model.intercept.tolist(),
                      "classes": model.classes.tolist(), "config": model.config}),
          file=sys.stderr)
    return "the model is in no file: it is printed above, as JSON"
