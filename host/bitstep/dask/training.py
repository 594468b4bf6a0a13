"""Training of a model on the parts of a data set that workers have."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from types import SimpleNamespace
from typing import Any

import numpy as np
from dask.delayed import Delayed, delayed

from bitstep.dask.devices import DeviceChoice
from bitstep.dask.engine import DaskShards, Engine, on_worker
from bitstep.dask.mapped import kept_shards
from bitstep.pipeline.config import PipelineConfig
from bitstep.training.choices import Resolved, one_vs_rest
from bitstep.training.pipelines import pipeline_for
from bitstep.training.raised import Raised
from bitstep.training.shards.parts import (
    ClassWeights,
    Part,
    ShardPlan,
    Summary,
    left_out_classes,
    make_shards,
    merge,
    shard_plan_of,
    summarize,
    weighed_part,
)
from bitstep.training.shards.summed import SummedDataset, SummedRows, summed_outputs, summed_rows
from bitstep.training.weighing import Weighed, weigh_together


def part_summary(make: Callable[..., Part], sources: Sequence[Any], classes: bool,
                 left_out: Sequence[Any]) -> Summary:
    """Facts of a part, which ``make`` makes of its sources."""
    return on_worker(lambda: summarize(make(*sources), classes, left_out))


def part_weighed(make: Callable[..., Part], sources: Sequence[Any],
                 weights: ClassWeights) -> Weighed:
    """Facts of the weights of a part's rows times those of their classes."""
    return on_worker(lambda: weighed_part(make(*sources), weights))


def part_shards(make: Callable[..., Part], sources: Sequence[Any], plan: ShardPlan, first: int,
                summary: Summary) -> list[Any]:
    """The shards of a part."""
    return on_worker(lambda: kept_shards(make_shards(make(*sources), plan, first, summary)))


@dataclass(frozen=True, eq=False)
class Collected:
    """Shards of all parts, and what is known of them together.

    Attributes
    ----------
    shards : DaskShards
    config : PipelineConfig
    summary : Summary
    plan : ShardPlan
    rows : SummedRows
    outputs : list of SummedDataset
    rows_meant : int
        Rows that those of all parts stand for.
    note : str or None
        See :attr:`bitstep.training.raised.Raised.note`.
    """

    shards: DaskShards
    config: PipelineConfig
    summary: Summary
    plan: ShardPlan
    rows: SummedRows
    outputs: list[SummedDataset]
    rows_meant: int
    note: str | None


def _task(name: str, function: Callable[..., Any], make: Callable[..., Part],
          sources: Sequence[Any], *arguments: Any) -> Delayed:
    # Every training has tasks of its own: two of one name would be one.
    return delayed(function, pure=False)(make, list(sources), *arguments,
                                         dask_key_name=f"bitstep-{name}-{uuid.uuid4().hex}")


@contextmanager
def collected(engine: Engine, make: Callable[..., Part], sources: Sequence[Sequence[Any]],
              resolved: Resolved, device: DeviceChoice, *, class_weight: Any = None,
              class_labels: Callable[[Any, np.ndarray], Any] = lambda weight, classes: weight,
              **options: Any) -> Iterator[Collected]:
    """Shards of all parts, each on a worker, for a training.

    Parts are read twice, for the scale of all of them and to become shards, and not kept besides:
    a collection that takes long to compute should be persisted. With weights of rows and of
    classes parts are read once more, for their products.

    Parameters
    ----------
    engine : Engine
    make : callable
        Makes a :class:`bitstep.training.shards.parts.Part` of the sources of a part, on a worker.
    sources : sequence of sequence
        Of each part; some may be of class Delayed.
    resolved : Resolved
        What is trained, by solver ``bit-centred``.
    device : DeviceChoice
    class_weight : "balanced", dict or None
        See :func:`bitstep.training.weights.class_factors`.
    class_labels : callable
        Called with ``class_weight`` and the labels of all parts; gives ``class_weight`` by these
        labels, where options name them in text.
    options
        Of :class:`bitstep.training.shards.parts.ShardPlan`: ``seed``, ``shuffle``, ``shard_rows``
        and ``fit_intercept``.

    Raises
    ------
    ValueError
        If columns are to be clipped.
    DataError, DeviceError
        If parts cannot be used, or workers are lost for good.
    """
    rows, kind = resolved.rows, resolved.kind
    if rows.scaler == "quantile":
        raise ValueError("scaler must be 'minmax' or 'maxabs' over shards, not 'quantile', which "
                         "clips columns and so goes to another optimum than that of the rows")
    classes = kind.task == "classification"
    left_out = left_out_classes(class_weight)
    summaries: list[Summary] = engine.gather(engine.compute([
        _task("scale", part_summary, make, one, classes, left_out) for one in sources]))
    summary = merge(summaries)
    weights = ClassWeights.of(summary, class_labels(class_weight, summary.classes))
    weighed = None if weights is None else weights.weighed(summary)
    if weights is not None and weighed is None:
        weighed = weigh_together(engine.gather(engine.compute([
            _task("weigh", part_weighed, make, one, weights) for one in sources])))
    plan = shard_plan_of(summary, rows.scaler, weights, weighed, bus_width=rows.bus_width,
                         **options)
    config = pipeline_for(n_features=len(summary.low), bits=rows.bits, encoding=rows.encoding,
                          bus_width=rows.bus_width, loss=kind.loss,
                          row_weights=plan.rule.weighted)
    tasks, first = [], 0
    for one, found in zip(sources, summaries, strict=True):
        tasks.append(_task("quantize", part_shards, make, one, plan, first, found))
        first += len(plan.pieces(found.n_rows))
    shards = DaskShards(engine, engine.compute(tasks), device, config)
    try:
        found = [one.raised for one in shards.facts if one.raised is not None]
        note = reduce(Raised.__add__, found).note if found else None
        together = summed_rows(shards.facts, plan.scaler, plan.bus_width, plan.seed)
        yield Collected(shards, config, summary, plan, together,
                        summed_outputs(together, plan.labels(), summary.names),
                        # Factors that make classes even are no numbers of rows.
                        (summary.weighed.rule() if isinstance(class_weight, str)
                         else plan.rule).rows_meant, note)
    finally:
        shards.close()


def on_devices(resolved: Resolved, data: Collected) -> tuple[Resolved, str | None]:
    """The request on the devices of the workers, and a sentence if classes would be trained
    together on others: they are if the device of every shard can.
    """
    found = data.shards.each("devices", "joint_classes")
    lacking = next((name for name, joint in found if not joint), "")
    device, count = SimpleNamespace(joint_classes=not lacking), len(data.outputs)
    return (resolved.of_outputs(count, device), one_vs_rest(resolved, count, device, lacking))
