"""Error feedback with and without momentum: the table of docs/gradients.md."""

from pathlib import Path

import numpy as np
import pytest

from bitstep_gradients.lab.contestants import parse_contestant
from bitstep_gradients.lab.tasks import make_task
from bitstep_gradients.lab.training import Batches, descend, gradients_of
from bitstep_gradients.lab.workers import Workers

PAGE = Path(__file__).resolve().parents[3] / "docs/gradients.md"
STEPS, STEP = 60, 0.125


def loss(text, momentum):
    """Loss of FC-300-100 after some steps; the step is divided by the gain of the momentum."""
    model, samples = make_task("fc")
    parameters = model.first_parameters(0)
    workers = Workers(parse_contestant(text), {name: one.shape for name, one in parameters.items()},
                      n_workers=4, seed=0, n_steps=STEPS)
    batches = Batches(samples, 4, 32, 0)
    velocity = {name: np.zeros_like(one) for name, one in parameters.items()}
    for step in range(STEPS):
        losses, gradients = gradients_of(model, parameters, batches.draw())
        average = workers.exchange(step, gradients, losses).average
        velocity = {name: np.float32(momentum) * one + average[name]
                    for name, one in velocity.items()}
        descend(parameters, STEP * (1 - momentum), velocity)
    return model.score(parameters, samples.features, samples.labels).loss


@pytest.mark.slow
@pytest.mark.parametrize("text", ["none", "one-bit:feedback=1", "sign:feedback=1",
                                  "top-k:share=0.01,feedback=1"])
def test_table_of_the_documentation(text):
    row = next(line for line in PAGE.read_text(encoding="utf-8").splitlines()
               if line.startswith(f"| `{text}` |") and line.count("|") == 4)
    without, with_it = (float(cell) for cell in row.strip("| ").split(" | ")[1:])
    assert loss(text, 0.0) == pytest.approx(without, rel=0.15)
    assert loss(text, 0.9) == pytest.approx(with_it, rel=0.15)
    assert (with_it > 2 * without) == (text != "none")
