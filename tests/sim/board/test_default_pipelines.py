"""The pipelines that boards have by default, with all lanes and ports, on the simulated board."""

import pytest
from counted import are_equal, counters_of

from bitstep.doctor.jobs import expected_of, training_jobs
from bitstep.pipeline.boards import FACTS
from bitstep_sim.board.device import SimDevice

PIPELINES = {config.name: config for facts in FACTS.values()
             for config in (*map(facts.config, facts.bus_widths), facts.bit_plane_config())}


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_models_are_those_of_the_golden_model(name):
    """In second runs, too, and counters are those of the cycle model."""
    config = PIPELINES[name]
    with SimDevice(config) as device:
        for title, job in training_jobs(config).items():
            models, intercepts = expected_of(job)
            runs = [device.train(job, timeout_s=300) for _ in range(2)]
            for run in runs:
                assert run.models.tolist() == models.tolist(), title
                assert run.intercepts.tolist() == intercepts.tolist(), title
                are_equal(*counters_of(config, job, config.ahead.of_job(job), {}, run))
