"""Configurations and drawn jobs that several tests of the simulated board share."""

import dataclasses
import functools
import itertools
import os
import random
import zlib

from hypothesis import HealthCheck, seed
from hypothesis import strategies as st

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import MODEL_LIMIT
from bitstep.pipeline.parts.widths import BUS_WIDTHS
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep_sim.testing.covering_jobs import LINEAR, allowed_lookahead, cover
from bitstep_sim.testing.random_jobs import random_job

PROFILE = {"database": None, "suppress_health_check": list(HealthCheck)}

CONFIGS = [
    PipelineConfig(bits=1, max_features=80, lookahead=8),
    PipelineConfig(bits=3, max_features=80, lookahead=2),
    PipelineConfig(bits=4, row_format="two_levels", max_features=80, lookahead=8),
    PipelineConfig(bits=8, max_features=80, lookahead=0),
    PipelineConfig(bits=2, row_format="two_levels", max_features=80, lookahead=8,
                   update_interval=4),
    PipelineConfig(bits=5, max_features=80, lookahead=8),
]
REFETCH = PipelineConfig(bits=3, max_features=60, lookahead=7, refetch=True, proximal=True)
FLOAT = PipelineConfig(bits=32, row_format="float32", max_features=6, lookahead=6, proximal=True)
LOGISTIC = PipelineConfig(bits=4, max_features=48, lookahead=3, loss_family="logistic",
                          update_interval=6, proximal=True)
TABLES = [
    PipelineConfig(bits=4, max_features=60, lookahead=4, codebooks=True, proximal=True),
    PipelineConfig(bits=5, max_features=60, lookahead=2, codebooks=True, update_interval=4),
]
# Wider buses, all of several ports, at the sizes that users have: rows of 256 features, batches of
# 64 and 256 rows.
WIDE = [
    PipelineConfig(bits=8, bus_width=128, row_ports=2, max_features=256, lookahead=1,
                   update_interval=4),
    PipelineConfig(bits=7, bus_width=256, row_ports=4, row_format="two_levels", max_features=256,
                   lookahead=3),
    PipelineConfig(bits=8, bus_width=512, row_ports=2, max_features=256, lookahead=3,
                   update_interval=4),
]
# Pipelines with hundreds of features, and what rounds, packs or shares their rows.
FEW_BITS = PipelineConfig(bits=8, max_features=4096, lookahead=8, proximal=True, model_bits=16,
                          rounded_updates=True)
SEVERAL = PipelineConfig(bits=8, max_features=4096, lookahead=3, models=4, proximal=True)
# Five rows of three features leave a code of a beat unused, and three places of labels.
PACKED = PipelineConfig(max_features=3, lookahead=0, models=3, packed=True)
# The same, of rows that may have weights: those of a beat have a step each.
PACKED_WEIGHTS = dataclasses.replace(PACKED, row_weights=True)
LARGE = PipelineConfig(bits=8, max_features=512, lookahead=2, update_interval=4)
# Rows that are fetched again with their weights; at night with a fast clock, too.
WEIGHTED_REFETCH = PipelineConfig(bits=4, max_features=60, lookahead=7, refetch=True,
                                  proximal=True, row_weights=True)
FAST_WEIGHTED_REFETCH = PipelineConfig(bits=3, max_features=60, lookahead=3, refetch=True,
                                       proximal=True, update_interval=4, row_weights=True)
# Configurations that share a covering array.
COVERED = ((*CONFIGS, *WIDE), (REFETCH,), (FLOAT, LOGISTIC, *TABLES), (WEIGHTED_REFETCH,),
           (FAST_WEIGHTED_REFETCH,))
# By day those two whose rows are read again share one.
COVERED_BY_DAY = (COVERED[0], (REFETCH, WEIGHTED_REFETCH), COVERED[2], COVERED[4])


def _every_width():
    """Every width of code and of bus; look-ahead 0, some, or more than any row needs; as many ports
    of rows as there can be, or half as many.
    """
    for number, (bus_width, bits) in enumerate(itertools.product(BUS_WIDTHS, range(1, 9))):
        lanes = bus_width // bits
        lookahead, update_interval = [(0, 2), (1, 4), (8, 4), (5, 2), (11, 2)][number % 5]
        yield PipelineConfig(
            bits=bits, bus_width=bus_width,
            row_ports=max(min(bus_width // 64, 4) >> number % 2, 1), max_features=3 * lanes,
            update_interval=update_interval,
            row_format="two_levels" if bits > 1 and (bits + number // 8) % 3 == 0 else "one_level",
            lookahead=lookahead if lanes < 100 else min(lookahead, 2))  # else compiled for minutes


MORE_CONFIGS = [
    *_every_width(),
    PipelineConfig(bits=4, bus_width=128, max_features=100, minibatch=False),
    PipelineConfig(bits=4, bus_width=128, max_features=100, corrections=False),
    PipelineConfig(bits=2, max_features=100, lookahead=3, minibatch=False, corrections=False),
    *(PipelineConfig(bits=bits, max_features=60, lookahead=lookahead,
                     update_interval=update_interval,
                     refetch=True, proximal=bits % 2 == 0, corrections=bits != 6)
      for bits, lookahead, update_interval in (
          (1, 7, 2), (1, 0, 4), (2, 4, 2), (4, 7, 4), (5, 0, 2), (6, 9, 4), (7, 3, 2), (8, 7, 2))),
    PipelineConfig(bits=4, bus_width=256, row_ports=4, max_features=200, lookahead=7,
                   refetch=True),
    *(PipelineConfig(bits=bits, max_features=60, lookahead=lookahead,
                     update_interval=update_interval, refetch=True, row_weights=True,
                     proximal=bits in (5, 8), corrections=bits != 1, minibatch=bits != 2,
                     bus_width=128 if bits == 6 else 64, row_ports=2 if bits == 6 else 1)
      for bits, lookahead, update_interval in (
          (1, 7, 2), (2, 0, 4), (5, 0, 2), (6, 3, 2), (8, 9, 4))),
    *(PipelineConfig(bits=32, row_format="float32", bus_width=bus_width,
                     row_ports=2 if bus_width == 256 else 1, max_features=3 * lanes - 1,
                     lookahead=lookahead, update_interval=update_interval,
                     proximal=lookahead in (7, 12))
      for bus_width, lanes, lookahead, update_interval in (
          (64, 2, 0, 2), (64, 2, 12, 4), (128, 4, 4, 4), (256, 8, 2, 2), (512, 16, 7, 2))),
    *(PipelineConfig(bits=bits, row_format=row_format, max_features=40, lookahead=lookahead,
                     loss_family="logistic", update_interval=6, proximal=lookahead in (2, 4))
      for bits, row_format, lookahead in (
          (1, "one_level", 2), (8, "one_level", 0), (3, "two_levels", 4), (32, "float32", 3))),
]


# Rows that may have weights, beside their labels: with a fast clock, and with the logistic loss.
WEIGHTED = [
    PipelineConfig(bits=4, max_features=60, lookahead=3, update_interval=4, proximal=True,
                   row_weights=True),
    PipelineConfig(bits=8, max_features=40, lookahead=2, update_interval=6, loss_family="logistic",
                   row_weights=True),
]
# Batches whose rows enter one beat a cycle, of both loss families, and of floating-point rows.
EVERY_CYCLE = [
    PipelineConfig(bits=4, max_features=640, lookahead=15, update_interval=1, proximal=True),
    PipelineConfig(bits=8, max_features=40, lookahead=19, update_interval=1,
                   loss_family="logistic", row_weights=True),
    PipelineConfig(bits=32, row_format="float32", max_features=7, lookahead=14, update_interval=1),
    # Batches that begin before the updates of the batch before are there. With weights a row of up
    # to 16 lanes enters the solver before its largest derivative.
    PipelineConfig(bits=4, max_features=640, lookahead=15, update_interval=1, batch_lookahead=7,
                   proximal=True, row_weights=True),
    PipelineConfig(bits=8, max_features=40, lookahead=19, update_interval=1, batch_lookahead=7,
                   loss_family="logistic", row_weights=True),
]
# With a fast clock.
FAST_REFETCH = PipelineConfig(bits=4, max_features=60, lookahead=2, refetch=True, proximal=True,
                              update_interval=4)
FAST_FLOAT = PipelineConfig(bits=32, row_format="float32", max_features=6, lookahead=2,
                            update_interval=4)
# Boards that no test by day compiles (conftest.py).
BY_NIGHT = [*CONFIGS[:4], *WIDE[1:], LARGE, TABLES[1], WEIGHTED[1], *EVERY_CYCLE[1:3],
            EVERY_CYCLE[4], FAST_REFETCH, FAST_FLOAT, FAST_WEIGHTED_REFETCH]


def tonight(cases, count):
    """As many of the cases, others in every run: ``make test-slow`` ends in hours, and meets all of
    them in a few nights.
    """
    return random.Random(os.environ["BITSTEP_TEST_SEED"]).sample(list(cases), count)


def losses(config):
    """What a pipeline can minimise."""
    return (Loss.LOGISTIC,) if config.loss_family == "logistic" else LINEAR


@st.composite
def jobs(draw, config):
    """A job and a value of LOOKAHEAD. Look-ahead is part of the meaning of floating-point rows, so
    there the job asks for it.
    """
    lanes, beats = config.rows.lanes, config.rows.max_beats
    n_features = draw(st.sampled_from(sorted({
        1, 2, max(lanes - 1, 1), lanes, lanes + 1, 2 * lanes, config.rows.capacity - 1,
        config.rows.capacity
    } & set(range(1, config.rows.capacity + 1))))
        | st.integers(1, config.rows.capacity))
    beats = config.rows.beats(n_features)
    lookahead = draw(st.sampled_from(allowed_lookahead(config, beats))
                     | st.just(config.ahead.of_rows(beats)))
    d = lookahead
    n_rows = draw(st.sampled_from([1, 2, d + 1, d + 2, 2 * d + 1, 2 * d + 3]) | st.integers(1, 60))
    loss = draw(st.sampled_from(losses(config)))
    cell = 0
    if config.refetch:      # that is what the pipeline was made for
        loss = draw(st.just(Loss.HINGE) | st.just(loss))
        cell = draw(st.sampled_from(range(1, 5))) if loss == Loss.HINGE else 0
        n_rows = draw(st.just(n_rows) | st.integers(100, 300))      # until rows become inactive
    if config.max_features >= 256:
        n_rows = draw(st.just(n_rows) | st.integers(100, 600))
    batch = draw(st.sampled_from([1, 2, 3, max(d, 1), d + 1, d + 2, 2 * d + 2, 64, 256, n_rows + 5])
                 if config.minibatch and not cell else st.just(1))
    multiple = draw(st.sampled_from([0, 1, 2, 3, 7, 40]) if config.corrections else st.just(0))
    steps = draw(st.sampled_from([0, 1, 2, 5, 30]) if config.proximal else st.just(0))
    if config.row_format == "float32":
        config = dataclasses.replace(config, lookahead=lookahead)
        if multiple and batch * multiple <= lookahead:
            multiple += lookahead
    job = random_job(
        config, n_features=n_features, n_rows=n_rows, batch=batch,
        correction_period=batch * multiple, proximal_period=batch * steps,
        seed=draw(st.integers(0, (1 << 32) - 1)), loss=loss, cell_half_levels=cell,
        epochs=draw(st.integers(1, 4)), label_format=draw(st.sampled_from(LabelFormat)),
        copies=draw(st.integers(1, 3)), intercept=draw(st.booleans()), warm=draw(st.booleans()),
        weighted=config.row_weights and draw(st.booleans()))
    if cell and steps:      # a box as narrow as it is for a test of it leaves few rows undecided
        limit = draw(st.sampled_from([job.box_limit, 1 << 20, MODEL_LIMIT]))
        job = dataclasses.replace(job, box_limit=limit)
    return job, job.lookahead if config.row_format == "float32" else lookahead


def fresh_seed(name):
    """A seed of hypothesis for the test ``name``, another one in every run (tests/conftest.py)."""
    return seed(zlib.crc32(f"{os.environ['BITSTEP_TEST_SEED']} {name}".encode()))


@functools.lru_cache
def _cover(configs, salt):
    return cover(list(configs), salt=salt)


def covering_rows(config, salt="", parts=("first", "second"), shared=COVERED):
    """Rows of the arrays that a configuration shares, in each of which every three options' values
    meet in other company.
    """
    configs = next(configs for configs in shared if config in configs)
    return [row for part in parts for row in _cover(configs, f"{part} {salt}")]
