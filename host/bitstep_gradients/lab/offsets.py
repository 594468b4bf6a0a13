"""``python -m bitstep_gradients.lab.offsets``: codecs in bit-centred training over shards.

What crosses the network in an outer step, two vectors of a number for each feature from every
shard, is coded and decoded on its way: offsets as they are, gradients as differences to the last
one that was sent. Nothing else of the training changes.
"""

import argparse
import re
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.cli.options import integer
from bitstep.data import load
from bitstep.data.dataset import DataError
from bitstep.devices import open_device
from bitstep.estimators import LowPrecisionRegressor
from bitstep.pipeline.bit_planes import PLANES
from bitstep.pipeline.job import EpochSteps
from bitstep.training.pipelines import pipeline_of
from bitstep.training.shards.parts import Part, make_shards, merge, shard_plan_of, summarize
from bitstep.training.shards.passes import train_shards
from bitstep.training.shards.shard import Move, Order, Sums
from bitstep.training.shards.shards import LocalShards
from bitstep.training.shards.summed import summed_outputs, summed_rows
from bitstep_gradients import Key, make_codec
from bitstep_lab.markdown import print_header, print_row

WORD_BYTES = 8
CODED: dict[str, tuple[dict[str, Any] | None, dict[str, Any] | None]] = {
    "none": (None, None),
    "offsets of 8 bits": ({"bits": 8}, None),
    "offsets of 4 bits": ({"bits": 4}, None),
    "offsets of 2 bits": ({"bits": 2}, None),
    "offsets and differences of gradients of 8 bits": ({"bits": 8}, {"bits": 8}),
    "offsets of 4 bits, differences of 8 bits": ({"bits": 4}, {"bits": 8})}


class CodedShards(LocalShards):
    """Shards whose answers are messages of codec ``dqsg``.

    Parameters
    ----------
    shards, device
        See :class:`bitstep.training.shards.shards.LocalShards`.
    offsets, gradients : dict or None
        Options of the codec; None: 64-bit numbers.

    Attributes
    ----------
    sent : int
        Bytes of the vectors so far.
    """

    def __init__(self, shards: Sequence[Any], device: Any, offsets: dict[str, Any] | None,
                 gradients: dict[str, Any] | None):
        super().__init__(shards, device)
        self._offsets, self._gradients = (
            None if one is None else make_codec("dqsg", payload="range", **one)
            for one in (offsets, gradients))
        self._last: dict[int, np.ndarray] = {}
        self.sent = self._calls = 0

    def each(self, name: str, method: str, *arguments: Any, **options: Any) -> list[Any]:
        """See :class:`bitstep.training.shards.shards.Shards`."""
        found = super().each(name, method, *arguments, **options)
        self._calls += 1
        if method == "move":
            return [self._move(number, one) for number, one in enumerate(found)]
        if method == "sums":
            return [self._sums(number, one, arguments[2][0]) for number, one in enumerate(found)]
        return found

    def _move(self, number: int, move: Move) -> Move:
        if move.move is None:
            return move
        return Move(self._through(self._offsets, number, move.move), move.overflow, move.counters,
                    move.bytes_read)

    def _sums(self, number: int, sums: Sums, order: Order) -> Sums:
        (found,), step = sums.outputs, order.epochs[0]
        words = np.append(found.words, found.intercept).astype(np.float64)
        if self._gradients is None:
            self.sent += WORD_BYTES * len(words)
            return sums
        # Of the unit that the sums of all passes have: it changes with the point.
        unit = 2.0 ** -order.parts["label_shift"] / (
            EpochSteps.scale(step.mantissa, step.shift) * 4.0 ** (step.planes or PLANES))
        last = self._last.get(number, np.zeros(len(words)))
        last = self._last[number] = last + self._through(self._gradients, number,
                                                         words * unit - last)
        words = np.rint(last / unit).astype(np.int64)
        return Sums([found.__class__(words[:-1], int(words[-1]), found.overflow, found.derivatives,
                                     found.counters)], sums.shared)

    def _through(self, codec: Any, number: int, vector: np.ndarray) -> np.ndarray:
        """A vector on its way."""
        if codec is None:
            self.sent += WORD_BYTES * len(vector)
            return vector
        key = Key(0, step=self._calls, rank=number)
        # Codecs take float32, whose range is less: the scale goes along.
        scale = float(np.abs(vector).max()) or 1.0
        message = codec.encode((vector / scale).astype(np.float32), key)
        self.sent += len(message) + WORD_BYTES
        return codec.decode(message, key).astype(np.float64) * scale


def rows_of(name: str, data_home: str | Path | None) -> tuple[np.ndarray, np.ndarray]:
    """Rows and labels of a named set, or drawn ones of a name such as 20000x20."""
    if drawn := re.fullmatch(r"(\d+)x(\d+)", name):
        rng, (n_rows, n_features) = np.random.default_rng(0), map(int, drawn.groups())
        if not n_rows or not n_features:
            raise DataError(f"{name}: a drawn set must have at least one row and one feature")
        features = rng.standard_normal((n_rows, n_features))
        return features, features @ rng.standard_normal(n_features) + rng.standard_normal(n_rows)
    data = load(name, data_home=data_home)
    order = np.random.default_rng(0).permutation(data.n_rows)
    return np.asarray(data.features, np.float64)[order], np.asarray(data.labels)[order]


def coded_training(features: np.ndarray, labels: np.ndarray, shards: int, epochs: int,
                   offsets: dict[str, Any] | None, gradients: dict[str, Any] | None
                   ) -> tuple[np.ndarray, float]:
    """Least squares without a penalty.

    Returns
    -------
    excess : ndarray of float64, shape (outer steps,)
        (loss - least) / least after every outer step.
    step_bytes : float
        Bytes of the vectors of a shard in an outer step.
    """
    # With planes every outer step has inner passes, whose offsets are what is coded.
    estimator = LowPrecisionRegressor(solver="bit-centred", l2=0.0, epochs=epochs, tol=0.0,
                                      planes=4, random_state=0)
    ends = np.linspace(0, len(features), shards + 1).astype(np.intp)
    parts = [Part(f"Part {number}", features[start:stop], labels[start:stop])
             for number, (start, stop) in enumerate(pairwise(ends))]
    summaries = [summarize(one, False) for one in parts]
    resolved = estimator._resolved_for(features.shape[1])
    plan = shard_plan_of(merge(summaries), resolved.rows.scaler)
    made = [shard for number, (part, found) in enumerate(zip(parts, summaries, strict=True))
            for shard in make_shards(part, plan, number, found)]
    rows = summed_rows([one.facts for one in made], plan.scaler, plan.bus_width, 0)
    objective = resolved.objective(rows.n_rows)
    config = pipeline_of(rows, objective)
    with open_device("cpu", config) as device, device.keep_rows():
        coded = CodedShards(made, device, offsets, gradients)
        model = train_shards(coded, summed_outputs(rows, plan.labels()), config, objective,
                             resolved.training(rows, objective))
    whole = np.column_stack([np.ones(len(features)), features])
    best = np.linalg.lstsq(whole, labels, rcond=None)[0]
    least = np.sum((whole @ best - labels) ** 2)
    models = np.column_stack([model.intercepts[:, 0], model.coefs[:, 0]])
    return (np.sum((whole @ (models - best).T) ** 2, axis=0) / least,
            coded.sent / (len(made) * model.epochs_done))


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(prog="python -m bitstep_gradients.lab.offsets",
                                     description=(__doc__ or "").partition("\n\n")[2])
    parser.add_argument("--data-home", metavar="DIR", help="folder of cadata and cpusmall")
    parser.add_argument("--sets", nargs="+", default=["cadata", "cpusmall", "50000x100"],
                        metavar="SET", help="names, or drawn ones such as 20000x20")
    parser.add_argument("--shards", type=integer(1), default=16)
    parser.add_argument("--steps", type=integer(1), default=40,
                        help="outer steps (default: 40)")
    arguments = parser.parse_args()
    try:
        sets = {name: rows_of(name, arguments.data_home) for name in arguments.sets}
    except DataError as error:
        raise SystemExit(f"error: {error}") from None
    print_header("set, coded, outer steps to 1e-4, to 1e-8, distance at the end, bytes of vectors "
                 "a shard and outer step")
    for name, (features, labels) in sets.items():
        for coded, options in CODED.items():
            try:
                excess, sent = coded_training(features, labels, arguments.shards, arguments.steps,
                                              *options)
            except ValueError:      # words of the pipeline have no room for such a model
                print_row(name, coded, "diverges", "diverges", "-", "-")
                continue
            print_row(name, coded, *(_first(excess, goal) for goal in (1e-4, 1e-8)),
                      f"{excess[-1]:.0e}", f"{sent:.0f}")


def _first(excess: np.ndarray, goal: float) -> str:
    found = np.flatnonzero(excess <= goal)
    return str(found[0] + 1) if len(found) else "-"


if __name__ == "__main__":
    main()
