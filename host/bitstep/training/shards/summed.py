"""Data sets of all shards as a training sees them: sizes, scales and means, without rows."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bitstep.pipeline.bit_planes import PLANES
from bitstep.pipeline.registers import LabelFormat
from bitstep.quantization import BitPlaneRows, LabelStream, LevelSums, QuantizedDataset, Scaler
from bitstep.quantization.weights import WeightSums, merged_sums
from bitstep.training.shards.shard import ShardFacts


@dataclass(frozen=True, eq=False, kw_only=True)
class SummedRows(BitPlaneRows):
    """Rows of all shards, none of which is here; their ``excess`` is that of each shard.

    Attributes
    ----------
    sums : WeightSums
        Facts of the weights of all rows.
    of_codes : ndarray of float64, shape (16, 2, n_features)
        ``code_moments`` of all rows.
    """

    sums: WeightSums
    of_codes: np.ndarray

    def __post_init__(self):
        pass

    @property
    def weight_sums(self) -> WeightSums:
        """See :class:`bitstep.quantization.bit_planes.BitPlaneRows`."""
        return self.sums

    def code_moments(self, planes: int) -> np.ndarray:
        """See :meth:`bitstep.quantization.bit_planes.BitPlaneRows.code_moments`."""
        return self.of_codes[planes - 1]


@dataclass(frozen=True, eq=False)
class SummedDataset(QuantizedDataset):
    """One output of all shards.

    Attributes
    ----------
    output : int
        Its number.
    """

    output: int = 0

    def __post_init__(self):
        pass


def summed_rows(facts: Sequence[ShardFacts], scaler: Scaler, bus_width: int,
                seed: int) -> SummedRows:
    """What shards know of their rows, as of one set of rows."""
    features, sums = len(scaler.centre), merged_sums([one.weight_sums for one in facts])
    found = LevelSums.together([one.level_sums for one in facts]).moments(
        sums.total if sums.weighted else sums.n_rows)
    return SummedRows(
        n_rows=sums.n_rows, n_features=features, bus_width=bus_width, stored=(), scaler=scaler,
        excess=np.zeros((PLANES, features)), seed=seed, moments=found[-1],
        # Rounded as those of rows in one place are, which keep the differences.
        of_codes=found[-1] + (found - found[-1]), sums=sums)


def summed_outputs(rows: SummedRows, labels: Sequence[LabelStream],
                   names: tuple[str, ...] | None = None) -> list[SummedDataset]:
    """Data sets of the outputs whose labels these are, without the labels themselves; ``names``
    are those of the columns.
    """
    return [SummedDataset(rows, one, number, feature_names=names)
            for number, one in enumerate(labels)]


def class_labels() -> LabelStream:
    """Labels of a class of all shards, without the labels themselves."""
    return LabelStream(np.empty(0, np.uint8), LabelFormat.SIGN, 1.0, 0.0, np.array([-1.0, 1.0]),
                       limit=1)


def mean_of(values: Sequence[np.ndarray | float], facts: Sequence[ShardFacts]) -> np.ndarray:
    """Mean of values of the shards with the weights of their rows; of one shard the value
    itself.
    """
    count = sum(one.weight_sums.total for one in facts)
    found = np.zeros(np.shape(values[0]))
    for value, one in zip(values, facts, strict=True):
        found = found + one.weight_sums.total / count * np.asarray(value)
    return found
