"""Training of a model on the parts of a data set that workers have."""

import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from dask.delayed import Delayed, delayed

from bitstep.dask.devices import DeviceChoice
from bitstep.dask.engine import DaskShards, Engine, on_worker
from bitstep.pipeline.config import PipelineConfig
from bitstep.training.shards.parts import (
    Part,
    Summary,
    Weaving,
    make_shards,
    merge,
    summarize,
    weaving_of,
)
from bitstep.training.shards.summed import SummedDataset, SummedRows, summed_outputs, summed_rows


def part_summary(make: Callable[..., Part], sources: Sequence[Any], classes: bool) -> Summary:
    """Facts of a part, which ``make`` makes of its sources."""
    return on_worker(lambda: summarize(make(*sources), classes))


def part_shards(make: Callable[..., Part], sources: Sequence[Any], weaving: Weaving, first: int,
                summary: Summary) -> list[Any]:
    """The shards of a part."""
    return on_worker(lambda: make_shards(make(*sources), weaving, first, summary))


@dataclass(frozen=True, eq=False)
class Collected:
    """Shards of all parts, and what is known of them together.

    Attributes
    ----------
    shards : DaskShards
    summary : Summary
    weaving : Weaving
    rows : SummedRows
    outputs : list of SummedDataset
    """

    shards: DaskShards
    summary: Summary
    weaving: Weaving
    rows: SummedRows
    outputs: list[SummedDataset]


def _task(name: str, function: Callable[..., Any], make: Callable[..., Part],
          sources: Sequence[Any], *arguments: Any) -> Delayed:
    # Every training has tasks of its own: two of one name would be one.
    return delayed(function, pure=False)(make, list(sources), *arguments,
                                         dask_key_name=f"bitstep-{name}-{uuid.uuid4().hex}")


@contextmanager
def collected(engine: Engine, make: Callable[..., Part], sources: Sequence[Sequence[Any]],
              config_of: Callable[[Summary], PipelineConfig], device: DeviceChoice, *,
              classes: bool, scaler: str, **options: Any) -> Iterator[Collected]:
    """Shards of all parts, each on a worker, for a training.

    Parts are read twice, for the scale of all of them and to become shards, and not kept besides:
    a collection that takes long to compute should be persisted.

    Parameters
    ----------
    engine : Engine
    make : callable
        Makes a :class:`bitstep.training.shards.parts.Part` of the sources of a part, on a worker.
    sources : sequence of sequence
        Of each part; some may be of class Delayed.
    config_of : callable
        The pipeline for the parts whose summary it is given.
    device : DeviceChoice
    classes : bool
        True of a classification.
    scaler, options
        See :func:`bitstep.training.shards.parts.weaving_of`.
    """
    summaries: list[Summary] = engine.gather(engine.compute([
        _task("scale", part_summary, make, one, classes) for one in sources]))
    summary = merge(summaries)
    weaving = weaving_of(summary, scaler, **options)
    config = config_of(summary)
    tasks, first = [], 0
    for one, found in zip(sources, summaries, strict=True):
        tasks.append(_task("weave", part_shards, make, one, weaving, first, found))
        first += len(weaving.pieces(found.n_rows))
    shards = DaskShards(engine, engine.compute(tasks), device, config)
    try:
        rows = summed_rows(shards.facts, weaving.scaler, weaving.bus_width, weaving.seed)
        yield Collected(shards, summary, weaving, rows, summed_outputs(rows, weaving.labels()))
    finally:
        shards.close()
