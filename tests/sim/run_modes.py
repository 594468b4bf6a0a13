"""Runs of every mode of the pipeline, each on a pipeline that has it."""

from typing import Any

from centred_runs import constants_of, gradient_job
from drawn_jobs import (
    CONFIGS,
    EVERY_CYCLE,
    FAST_REFETCH,
    FLOAT,
    LOGISTIC,
    PACKED,
    PACKED_WEIGHTS,
    REFETCH,
    TABLES,
    WEIGHTED,
    WEIGHTED_REFETCH,
)

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.results import RunResult
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job
from bitstep_sim.testing.random_jobs import random_job, random_jobs

MODELS = PipelineConfig(bits=4, max_features=256, lookahead=1, models=2, loss_family="logistic",
                        update_interval=6)
FEW_BITS = PipelineConfig(bits=4, max_features=100, lookahead=4, model_bits=8,
                          rounded_updates=True, codebooks=True, proximal=True)
BIT_PLANE_FAST = PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=272, lookahead=4,
                            update_interval=4, proximal=True)
BIT_PLANE_LOGISTIC = PipelineConfig(row_format=BIT_PLANES, bits=16, max_features=4096, lookahead=2,
                                update_interval=6, loss_family="logistic")


def sizes(n_features, n_rows, other) -> dict[str, Any]:
    """Options of a job: sizes and seed, ``other`` ones of a run that follows."""
    if other:
        return {"n_features": -(-n_features // 3), "n_rows": n_rows + 4, "seed": 1}
    return {"n_features": n_features, "n_rows": n_rows}


def plain(config, other=False):
    """A run with all that a pipeline has."""
    loss = Loss.LOGISTIC if config.loss_family == "logistic" else Loss.HINGE if config.refetch \
        else Loss.LEAST_SQUARES
    batch = 1 if config.refetch else 2
    period = batch * 4 * config.corrections
    if config.row_format == "float32":
        period = 2 * config.lookahead + 2
    job = random_job(
        config, **sizes(min(config.rows.capacity, 2 * config.rows.lanes - 1), 9, other), warm=True,
        batch=batch, loss=loss, correction_period=period, cell_half_levels=2 * config.refetch,
        weighted=config.row_weights and not other,
        proximal_period=batch * 3 * config.proximal, model_bits=config.model_bits,
        update_bits=8 * config.rounded_updates)
    return lambda device: device.train_models([job])


def several(config, other=False):
    """A run with as many models as a pipeline has; another one has one less."""
    loss = Loss.LOGISTIC if config.loss_family == "logistic" else Loss.LEAST_SQUARES
    jobs = random_jobs(config, config.models - other, **sizes(3, 13, other), batch=4, warm=True,
                       loss=loss, speeds=[0.3, 0.1], weighted=config.row_weights and not other)
    return lambda device: device.train_models(jobs)


def inner_pass(config, other=False):
    """A pass of bit-centred training, with derivatives as labels."""
    loss = Loss.LOGISTIC if config.loss_family == "logistic" else Loss.SQUARED_HINGE
    shape = sizes(20, 9, other)
    job = random_bit_plane_job(config, **shape, planes=(4,), speed=0.01, loss=loss,
                           label_format=LabelFormat.INT32, correction_period=3,
                           **constants_of(shape["n_features"], 1, 1 << 12))
    return lambda device: device.train_models([job])


def full_pass(config, other=False):
    """The sum of all gradients, then a run that writes the rows' derivatives."""
    loss = Loss.LOGISTIC if config.loss_family == "logistic" else Loss.SQUARED_HINGE
    job = gradient_job(config, **sizes(20, 9, other), loss=loss, scale=1e-6)
    return lambda device: device.gradient(job, derivative_planes=6)


# Name -> configuration, and the function of it that returns a run, or another one: a function of a
# device.
MODES = {
    **{config.name: (config, plain) for config in (
        *CONFIGS, REFETCH, FAST_REFETCH, FLOAT, LOGISTIC, *TABLES, FEW_BITS, *WEIGHTED,
        *EVERY_CYCLE, WEIGHTED_REFETCH)},
    "packed": (PACKED, several), "packed-weights": (PACKED_WEIGHTS, several),
    "models": (MODELS, several),
    "bit_planes": (BIT_PLANE_FAST, inner_pass),
    "bit-planes-logistic": (BIT_PLANE_LOGISTIC, inner_pass),
    "gradient": (BIT_PLANE_FAST, full_pass), "gradient-logistic": (BIT_PLANE_LOGISTIC, full_pass),
}
# Of these are the runs that CI tries.
QUICK = [CONFIGS[5].name, REFETCH.name, FEW_BITS.name, WEIGHTED[0].name,
         EVERY_CYCLE[0].name, "packed", "models", "bit_planes", "gradient"]


def values_of(found):
    """Arrays of what a run gives, for a comparison."""
    if not isinstance(found, list):
        return [found.words, found.intercept, found.derivatives]
    assert all(isinstance(one, RunResult) for one in found)
    return [array for one in found for array in (one.models, one.intercepts)]
