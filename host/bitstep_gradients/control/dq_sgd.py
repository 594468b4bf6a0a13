"""DQ-SGD: bits of every step by norm, weight of the step and budget."""

import numpy as np

from bitstep.checks import check_bool, check_integer, is_number
from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.control.controller import BitController
from bitstep_gradients.control.schedule import (
    LEVELS,
    MAX_BITS,
    MIN_BITS,
    estimated_alpha,
    fixed_error,
    log2_of,
    power_of_two,
    powers,
    step_weights,
)

LARGEST_GAIN = 1e300


class DqSgd(BitController):
    """Controller of the DQ-SGD paper (eq. 17, algorithm 1): M >= c G_t sqrt(alpha**(T - 1 - t)),
    with the least M of 2 to 8 bits.

    The budget is one of three. ``error`` is eq. 16's, in squared norms of gradients: the paper's
    epsilon with a hat; its hyperparameter k is nowhere defined, and taken as sqrt(T / error) here.
    ``like_bits`` is the error that fixed bits would have if all norms were like those of the first
    ``norm_steps`` steps (appendix C). ``mean_bits`` limits the bits instead, and the controller
    finds the error: it expects norms to go on falling at their mean rate so far, and spends at
    every update what is left.

    G_t is the root mean square over ranks and buckets of the codec's scales; the last one known
    stands for the steps after it. The paper's c = sqrt(T / error) leaves about half the budget
    unspent, because bits are rounded up. With ``plan`` every update takes the least c whose rounded
    bits keep what is left of the budget, if norms do not rise.

    Parameters
    ----------
    codec : Codec
        See :class:`BitController`.
    steps : int
        T, steps of the training. Steps after them have the weight 1.
    alpha : float or "loss"
        Contraction of the training in a step, greater than 0 and at most 1; the paper takes .994
        for 1,000 steps and .999 for 6,000. ``"loss"``: estimated from the losses of the statistics
        (eq. 24).
    error : float, optional
        Budget; positive.
    like_bits, mean_bits : float, optional
        Budget; from 2 to 8.
    norm_steps : int
        First steps that tell the norm for ``like_bits``: the largest value that their running mean
        square has had so far, without norms of 0. The very first norm can be far below the others.
    plan : bool
        If false, the paper's c. ``mean_bits`` cannot do without a plan.
    interval, first_bits
        See :class:`BitController`.

    Raises
    ------
    TypeError, ValueError
        For a parameter outside its range, no budget or two.
    """

    start = {"square": 0.0, "usual_square": 0.0, "norm_sum": 0.0, "norm_count": 0.0,
             "first_loss": 0.0, "loss_step": 0.0, "alpha": 1.0, "gain": 0.0, "rate": 1.0,
             "spent_error": 0.0, "spent_bits": 0.0,
             "sum_n": 0.0, "sum_t": 0.0, "sum_tt": 0.0, "sum_y": 0.0, "sum_ty": 0.0}

    def __init__(self, codec: Codec, *, steps: int, alpha: "float | str",
                 error: float | None = None, like_bits: float | None = None,
                 mean_bits: float | None = None, norm_steps: int = 100, plan: bool = True,
                 interval: int = 100, first_bits: int = 8):
        super().__init__(codec, interval=interval, first_bits=first_bits)
        check_integer("steps", steps, 1)
        check_integer("norm_steps", norm_steps, 1)
        check_bool("plan", plan)
        if alpha != "loss" and not (is_number(alpha) and 0 < alpha <= 1):
            raise ValueError('alpha must be greater than 0 and at most 1, or "loss", not '
                             f"{alpha!r}")
        budgets = {"error": error, "like_bits": like_bits, "mean_bits": mean_bits}
        given = [name for name, value in budgets.items() if value is not None]
        if len(given) != 1:
            raise ValueError("give one budget of error, like_bits and mean_bits, not "
                             f"{' and '.join(given) or 'none'}")
        for name, low, high in (("error", 0, np.inf), ("like_bits", MIN_BITS, MAX_BITS),
                                ("mean_bits", MIN_BITS, MAX_BITS)):
            value = budgets[name]
            if value is not None and not (is_number(value, low) and 0 < value <= high):
                limits = f"from {low} to {high}" if low else "positive and finite"
                raise ValueError(f"{name} must be {limits}, not {value!r}")
        if mean_bits is not None and not plan:
            raise ValueError("mean_bits needs a plan; leave plan away")
        self.steps, self.alpha, self.plan = int(steps), alpha, bool(plan)
        self.norm_steps = int(norm_steps)
        self.error, self.like_bits, self.mean_bits = error, like_bits, mean_bits
        if alpha != "loss":
            self.state["alpha"] = float(alpha)

    @property
    def budget(self) -> float:
        """Budget of error, once updates have told the norms; infinite for ``mean_bits``."""
        if self.error is not None:
            return float(self.error)
        if self.like_bits is None:
            return float("inf")
        return fixed_error(self.like_bits, self.state["usual_square"]**0.5, self.steps,
                           self.state["alpha"])

    def _bits(self, steps):
        ratios = self._ratios(steps, int(self.state["step"]))
        return MIN_BITS + np.sum(self.state["gain"] > ratios, axis=0)

    def _ratios(self, steps, last):
        """Gain c beyond which a step needs more than 2, 3 .. 7 bits: shape (6, steps)."""
        decay = powers(self.state["rate"], np.maximum(steps - last, 0))
        squares = self.state["square"] * decay * step_weights(steps, self.steps,
                                                              self.state["alpha"])
        with np.errstate(divide="ignore", over="ignore"):
            return LEVELS[:-1, None] / np.sqrt(squares)

    def _learn(self, step, facts):
        if self.alpha == "loss" and facts["loss"] < 0:      # before anything is changed
            raise ValueError('alpha="loss" needs the loss of every rank, which is at least 0: '
                             "statistics(vector, loss=...), or the attribute loss of the "
                             "Aggregator or Compression, set before the step")
        state, square = self.state, facts["scale"]**2
        past, squares = self._since_update(step, square)
        self._spend(past, squares)
        self._follow_loss(step, facts["loss"])
        self._follow_norm(squares, square)
        if self.mean_bits is not None and square:
            self._fit_rate(step, log2_of(square))
        state["square"] = square
        state["gain"] = self._gain(step)

    def _fit_rate(self, step, height):
        """Slope of the squared norms' logarithms by least squares, drawn to 0 as if slopes of
        training varied by 4 / T and logarithms by 1/2: norms of batches are noisy.
        """
        state = self.state
        for name, value in (("n", 1), ("t", step), ("tt", step**2), ("y", height),
                            ("ty", step * height)):
            state[f"sum_{name}"] += value
        n, t = state["sum_n"], state["sum_t"]
        slope = (state["sum_ty"] - t * state["sum_y"] / n) \
            / (state["sum_tt"] - t**2 / n + self.steps**2 / 64)
        state["rate"] = power_of_two(max(min(slope, 0.0), -1.0))

    def _since_update(self, step, square):
        """Steps since the last update, and their squared norms on a line between."""
        state, last = self.state, int(self.state["step"])
        past = np.arange(last, min(step, self.steps))
        first = state["square"] if state["updates"] else square
        return past, first + (square - first) * (past - last) / max(step - last, 1)

    def _spend(self, past, squares):
        """Account for the bits and the error of steps."""
        state = self.state
        if past.size:
            bits = self._all_bits(past)
            weights = step_weights(past, self.steps, state["alpha"])
            state["spent_bits"] += float(np.sum(bits))
            state["spent_error"] += float(np.sum(weights * squares / LEVELS[bits - MIN_BITS]**2))

    def _follow_norm(self, squares, square):
        """Follow the mean squared norm of the first steps, the present one included. It is never
        taken back: a budget that falls would leave nothing for the steps that are left.
        """
        state = self.state
        remaining = self.norm_steps - int(state["norm_count"])
        counted = squares[squares > 0][:remaining]
        state["norm_sum"] += float(np.sum(counted))
        state["norm_count"] += counted.size
        with_present = counted.size < remaining and square > 0
        count = state["norm_count"] + with_present
        if count:
            mean = (state["norm_sum"] + with_present * square) / count
            state["usual_square"] = max(state["usual_square"], mean)

    def _follow_loss(self, step, loss):
        if self.alpha != "loss":
            return
        if not self.state["updates"]:
            self.state |= {"first_loss": loss, "loss_step": float(step)}
        past = step - int(self.state["loss_step"])
        if past:
            self.state["alpha"] = estimated_alpha(loss, self.state["first_loss"], past)

    def _gain(self, step):
        """c = sqrt(T / epsilon), or that of a plan for the steps that are left."""
        steps = np.arange(step, self.steps)
        if not steps.size and (self.plan or self.mean_bits is not None):
            return self.state["gain"]
        if self.mean_bits is not None:
            rest = int(self.mean_bits * self.steps - self.state["spent_bits"])
            return self._planned(self._ratios(steps, step), rest - MIN_BITS * steps.size)
        if not self.budget:         # all norms were 0 so far
            return 0.0
        if not self.plan:
            return (self.steps / self.budget)**0.5
        ratios = self._ratios(steps, step)
        return self._planned(ratios, _bits_for(ratios, self.budget - self.state["spent_error"]))

    def _planned(self, ratios, n_bits):
        """The largest gain with which steps take so many bits beyond 2 a step."""
        ratios = ratios.reshape(-1)
        if n_bits >= ratios.size:
            return LARGEST_GAIN
        if n_bits <= 0:
            return 0.0
        return min(float(np.partition(ratios, n_bits)[n_bits]), LARGEST_GAIN)


def _bits_for(ratios, error):
    """Bits beyond 2 a step that keep an error, taken in the order of the ratios."""
    order = np.argsort(ratios, axis=None, kind="stable")
    squares = (LEVELS[:-1, None] / ratios)**2       # weight G**2 of every step, for every bit
    gains = squares * (1 / LEVELS[:-1]**2 - 1 / LEVELS[1:]**2)[:, None]
    errors = np.sum(squares[0]) - np.cumsum(gains.reshape(-1)[order])
    return int(np.sum(np.append(np.sum(squares[0]), errors) > error))
