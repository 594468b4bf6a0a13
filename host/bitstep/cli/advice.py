"""Advice after a training: ways out where it failed or learned nothing."""

import numpy as np

from bitstep.cli.problem import Request
from bitstep.quantization import ENCODINGS
from bitstep.training.noise_floor import advice, noise_floor
from bitstep.training.train import lost_updates
from bitstep.training.trained import TrainedModel


def warning_of(request: Request, model: TrainedModel, losses: list[float]) -> str | None:
    """A sentence on a training that learned nothing, or ended before its goal; None for others."""
    objective, problem = request.objective, request.problem
    if short := model.short_of(request.training.tol):
        return short
    lost = None if objective.proximal else lost_updates(model, np.array(losses))
    if lost or losses[-1] <= 1.1 * problem.baseline:    # nothing to learn gives a little above 1
        return lost
    constant = "the labels' mean" if objective.rule.quadratic else "the best constant"
    held = "".join(f" or a {change} --{name}" for name, change in (
        ("l2", "smaller"), ("l1", "smaller"), ("box", "larger")) if getattr(objective, name))
    return (f"the training loss is {losses[-1]:.6g}, but predicting {constant} has "
            f"{problem.baseline:.6g}; {remedy(request)}{held}")


def remedy(request: Request) -> str:
    """Ways out for a training that diverged, or left the range of its numbers."""
    step, rows = request.training.steps[0], request.problem.request
    ways = [f"--step {rounded(step / 4, 2)}"]
    if request.step_asked:
        ways.append("--step auto")
    if rows.bits <= 3 and rows.encoding in ENCODINGS and ENCODINGS[rows.encoding].corrected:
        ways.append("more --bits")      # the noise of few bits, amplified, asks for short steps
    return f"the first step was {rounded(step, 3)}, try {' or '.join(ways)}"


def rounded(value: float, digits: int) -> str:
    """A number with some significant digits, without an exponent where :g has none."""
    return f"{float(f'{value:.{digits}g}'):g}"


def noise_of(request: Request, model: TrainedModel, loss: float) -> str | None:
    """A sentence on the noise of the codes; None where it hardly counts.

    Parameters
    ----------
    loss : float
        Training loss of the last epoch.
    """
    found = noise_floor(request.problem.outputs[0].rows, request.objective, request.training,
                        weights=model.weights[-1], steps=model.steps, loss=loss)
    return advice(found, request.problem.request.bits)
