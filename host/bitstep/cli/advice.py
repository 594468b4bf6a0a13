"""Advice after a training: ways out where it failed or learned nothing."""

import numpy as np

from bitstep.cli.problem import Problem, Request
from bitstep.options.table import SCHEDULES
from bitstep.pipeline.encodings import encoding_of
from bitstep.pipeline.losses import formula_of
from bitstep.training.losses import Moments
from bitstep.training.noise_floor import advice, noise_floor
from bitstep.training.scores.clipping import costly_clipping
from bitstep.training.scores.scoring import above_constant, best_constant, falls
from bitstep.training.train import class_targets, lost_updates
from bitstep.training.trained import TrainedModel


def warning_of(request: Request, model: TrainedModel, losses: list[float]) -> str | None:
    """A sentence on a training that learned nothing, or ended before its goal; None for others."""
    objective, problem = request.objective, request.problem
    if short := model.short_of(request.training.tol, len(request.training.steps), objective):
        return short
    lost = None if objective.proximal else lost_updates(model, np.array(losses))
    found = above_constant(losses, model.kept, baseline(problem), objective.rule)
    if lost or found is None:
        return lost
    if falls(losses):
        ways = ["more --epochs"]
        if request.schedule not in SCHEDULES:
            ways.append(f"larger steps in {request.schedule}")
        elif request.resolved.step_asked:
            ways.append("--step auto")
        return f"{found}; it was still falling, try {' or '.join(ways)}"
    held = "".join(f" or a {'larger' if name == 'box' else 'smaller'} --{name}"
                   for name in objective.held_by)
    return f"{found}; {remedy(request)}{held}"


def clipping_of(request: Request, model: TrainedModel, loss: float) -> str | None:
    """A sentence on values that are clipped, where that costs much.

    Parameters
    ----------
    loss : float
        Training loss of the epoch whose model is kept.
    """
    problem = request.problem
    if problem.train_set is None or request.training.exact:
        return None
    return costly_clipping(
        problem.beyond_clip, class_targets(problem.train_set.labels, problem.classes),
        problem.weights, formula_of(problem.loss), model.coefs[model.kept],
        model.intercepts[model.kept], loss)


def baseline(problem: Problem) -> float:
    """Training loss of the best constant, which any useful model is below."""
    rule = formula_of(problem.loss)
    if problem.train_set is not None:
        targets = class_targets(problem.train_set.labels, problem.classes)
        return best_constant(problem.loss, targets, problem.weights)
    found = []
    for data in problem.outputs:
        moments = Moments()
        for part in data.labels.blocks(data.n_rows):
            moments.add(data.label_offset + data.label_scale * part)
        found.append((moments.mean, moments.variance))
    return rule.baseline(found)


def remedy(request: Request, *, swept: bool = False) -> str:
    """Ways out for a training that diverged, or left the range of its numbers.

    Parameters
    ----------
    request : Request
    swept : bool
        True if the steps are those of ``--sweep``.
    """
    step, rows = request.training.steps[0], request.problem.request
    if request.schedule not in SCHEDULES:
        ways = [f"smaller ones in {request.schedule}"]
    elif swept:
        ways = [f"--sweep step={rounded(step / 4, 2)},..."]
    else:
        ways = [f"--step {rounded(step / 4, 2)}"]
        if request.resolved.step_asked:
            ways.append("--step auto")
    if rows.bits <= 3 and encoding_of(rows.encoding).corrected:
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
        Training loss of the epoch whose model is kept.
    """
    found = noise_floor(request.problem.outputs[0].rows, request.objective, request.training,
                        weights=model.weights[model.kept], steps=model.steps[:model.kept + 1],
                        loss=loss)
    return advice(found, request.problem.request.bits)
