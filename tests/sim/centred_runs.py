"""Jobs of bit-centred training, and whole trainings on simulated boards."""

from dataclasses import replace

import numpy as np

from bitstep.devices import open_device
from bitstep.pipeline.job import EpochSteps
from bitstep.training.choices import resolve_training
from bitstep.training.train import train_model
from bitstep_sim.board.device import SimDevice
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job


def constants_of(n_features, seed, size=1 << 22):
    """Fields of a job: a constant for each word and one for the intercept."""
    *constants, intercept = np.random.default_rng(seed).integers(-size, size, n_features + 1)
    return {"constants": np.array(constants, np.int32), "constant_intercept": int(intercept)}


def gradient_job(config, *, n_features, n_rows, seed=0, scale=3e-3, **options):
    """A job whose gradient fits; words and labels have all sizes."""
    job = random_bit_plane_job(config, n_features=n_features, n_rows=n_rows, seed=seed,
                               planes=(16,),
                           **options)
    mantissa = max(min(round(scale * 2.0 ** 24), (1 << 18) - 1), 1)
    return replace(job, epochs=(EpochSteps(mantissa, 3, planes=16, key=seed),))


def trained(name, config, data, objective, **options):
    """A training by the device of this name."""
    training = resolve_training(data.rows, objective, solver="bit-centred", **options)
    with open_device(name, config) as device:
        found = train_model([data], device, config, objective, training)
        if isinstance(device, SimDevice):
            assert device.kept_rows is None
            assert not device._allocator.blocks
    return found


def check_training(config, data, objective, **options):
    """What the simulated board trains is what device cpu trains."""
    sim, cpu = (trained(name, config, data, objective, **options) for name in ("sim", "cpu"))
    np.testing.assert_array_equal(sim.coefs, cpu.coefs)
    np.testing.assert_array_equal(sim.intercepts, cpu.intercepts)
    np.testing.assert_array_equal(sim.gradients, cpu.gradients)
    assert sim.counters == cpu.counters
    return sim
