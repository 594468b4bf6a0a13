"""Compiled epochs with refetching against the epochs in Python, for drawn jobs and memories."""

import dataclasses

import numpy as np
import pytest
from fakes import make_job

from bitstep.cycles import Memory
from bitstep.cycles.rows.epoch import EpochClock
from bitstep.cycles.run import RunClock
from bitstep.cycles.shape import Shape
from bitstep.cycles.streams.simulated import SimulatedStreams
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import LabelFormat, Loss

pytest.importorskip("numba")
MEMORIES = (Memory(60, 32.5), Memory(200, 3.7), Memory(1, 13.0), Memory(60), Memory(32, 0.5))


class EveryRow(EpochClock):
    """Epochs of which no row is multiplied: that rounds debts of the memory in long epochs."""

    def _skip(self, seen, key, most):
        return 0


def draw_shape(rng, n_features) -> Shape:
    """Shape of a job with refetching: tails of a beat, short periods, any look-ahead."""
    config = PipelineConfig(
        bits=int(rng.integers(1, 9)), bus_width=int(rng.choice([64, 128, 512])), refetch=True,
        max_features=max(64, n_features), proximal=bool(rng.random() < 0.4),
        update_interval=int(rng.choice([2, 4])))
    n_rows = int(rng.integers(1, 20 if n_features > 256 else 200))
    options = {"proximal_period": int(rng.choice([1, 5, 64]))} if config.proximal else {}
    job = make_job(np.zeros((n_rows, n_features), int), np.ones(n_rows, int), bits=config.bits,
                   config=config, epochs=int(rng.integers(1, 4)), loss=Loss.HINGE,
                   label_format=LabelFormat.SIGN, cell_half_levels=1,
                   fine_rows=np.zeros((n_rows, n_features), np.int16),
                   correction_period=int(rng.choice([0, 0, 1, 7, 64])), **options)
    lookahead = int(rng.integers(0, config.ahead.of_rows(job.beats) + 1))
    shape = Shape.of(job, config, lookahead if rng.random() < 0.5 else None)
    return dataclasses.replace(shape, warm=bool(rng.random() < 0.5))


def run(shape, memory, events, *, overflowed, epochs=None):
    """Counters and ends of a run, by another clock of its epochs if there is one."""
    streams = SimulatedStreams(shape, memory)
    clock = RunClock(shape, streams)
    assert type(clock.epochs) is not EpochClock
    if epochs is not None:
        clock.epochs = epochs(shape, streams)
    clock.run(shape.epochs - overflowed, overflowed, events)
    return clock.counters(None), clock.ends


@pytest.mark.by_day(3)
@pytest.mark.covering(1)
@pytest.mark.parametrize("n_features", [1, 8, 17, 64, 100, 256, 4096])
@pytest.mark.parametrize("seed", range(4))
def test_every_counter(seed, n_features):
    rng = np.random.default_rng([seed, n_features])
    shape = draw_shape(rng, n_features)
    share = float(rng.choice([0, 0.02, 0.3, 1]))
    lowest = 0 if shape.lookahead else 1        # without look-ahead every open row is fetched
    events = [[(row, int(rng.integers(lowest, 3)))
               for row in np.flatnonzero(rng.random(shape.rows) < share).tolist()]
              for _ in range(shape.epochs)]
    memory, overflowed = MEMORIES[int(rng.integers(len(MEMORIES)))], seed == 0
    assert run(shape, memory, events, overflowed=overflowed) \
        == run(shape, memory, events, overflowed=overflowed, epochs=EveryRow)
