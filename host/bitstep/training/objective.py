"""A training run as a user describes it: what is minimised, and how."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from bitstep.options.models import model_of
from bitstep.options.rules import Request
from bitstep.options.table import EPSILON, OPTIONS
from bitstep.options.words import PYTHON
from bitstep.pipeline.losses import LOSSES, MULTINOMIAL, LossFunction
from bitstep.pipeline.parts.widths import BOUND_WIDTH
from bitstep.pipeline.registers import Loss
from bitstep.quantization import QuantizedDataset
from bitstep.training.planes import check_planes
from bitstep.training.solvers import solver_of


@dataclass(frozen=True, kw_only=True)
class Objective:
    """Objective of a training, over scaled features u and with |x_j| <= box::

        mean over the rows of loss(u.x + intercept, y) + l2/2 sum_j s_j x_j^2 + l1 |x|_1

    The intercept is free of all three (ZipML, section 1: the regulariser R).

    Parameters
    ----------
    loss : Loss
        All but least squares and the Huber loss need labels of two classes; all but least squares
        an encoding without corrections (``nearest``, ``stochastic``, ``double`` or ``float``).
    l2 : float
        Ridge penalty on the scaled weights; at least 0. For every loss it is part of the diagonal
        corrections.
    standardized : bool
        True: l2 is a penalty on weights of standardized columns, so s_j is the variance of column
        j of u, or without an intercept its mean square. It is for bit-plane rows, which know
        these, and solver ``bit-centred``. False: s_j is 1.
    l1 : float
        Lasso penalty on the scaled weights; at least 0.
    box : float or None
        Largest magnitude of a scaled weight, in label units; None for no limit.
    epsilon : float
        Bound of the derivative of the Huber loss, above 0, in units of the labels' spread
        (:attr:`bitstep.quantization.dataset.QuantizedDataset.label_spread`).
    refetch : bool
        True to fetch rows that could be on either side of the hinge again, with 16 bits a value
        (ZipML, appendix G.4); for the hinge loss, a batch of 1 and data with ``fine_rows``.
    multinomial : bool
        True if the outputs are those of the classes of a multinomial logistic regression, which are
        trained together; for the logistic loss, solver ``bit-centred``, and a device that has
        passes of all classes.

    Raises
    ------
    ValueError
        If a penalty is out of range, or the loss cannot be decided by refetching.
    """

    loss: Loss = Loss.LEAST_SQUARES
    l2: float = 0.0
    standardized: bool = False
    l1: float = 0.0
    box: float | None = None
    refetch: bool = False
    epsilon: float = EPSILON
    multinomial: bool = False

    def __post_init__(self):
        OPTIONS["epsilon"].kind.check("epsilon", self.epsilon)
        object.__setattr__(self, "loss", Loss(self.loss))
        for name in ("l2", "l1"):
            OPTIONS[name].kind.check(name, getattr(self, name))
        if self.box is not None:
            OPTIONS["box"].kind.check("box", self.box)
        Request(PYTHON, {"refetch": self.refetch, "model": model_of(self.loss)}).check()
        if self.multinomial and self.loss != Loss.LOGISTIC:
            raise ValueError(f"multinomial needs the logistic loss, not {self.loss.name}")

    @property
    def rule(self) -> LossFunction:
        """Formula and needs of the loss."""
        return MULTINOMIAL if self.multinomial else LOSSES[self.loss]

    def options(self) -> dict[str, Any]:
        """Options of the penalties and the loss, by name, as reports and checkpoints have them."""
        return {"l2": self.l2, "l1": self.l1, "box": self.box,
                "epsilon": self.epsilon if self.rule.clipped else None, "refetch": self.refetch}

    def bound_of(self, data: QuantizedDataset) -> int:
        """Bound of the derivative in units of a stored label, at least 1; 0 of other losses."""
        if not self.rule.clipped:
            return 0
        return int(np.clip(np.rint(self.epsilon * data.label_spread), 1, (1 << BOUND_WIDTH) - 1))

    def penalties(self, rows: Any, fit_intercept: bool = True) -> np.ndarray:
        """l2 s_j of every column of QuantizedRows or, where they are standardized, BitPlaneRows."""
        return self.l2 * (rows.penalty_units(fit_intercept) if self.standardized
                          else np.ones(rows.n_features))

    @property
    def strongly_convex(self) -> bool:
        """True if a ridge penalty bends the objective along every weight, so that its gradient
        bounds what is left to the optimum.
        """
        return self.l2 > 0

    @property
    def proximal(self) -> bool:
        """True if training takes proximal steps."""
        return self.l1 > 0 or self.box is not None

    @property
    def held_by(self) -> list[str]:
        """Names of the options that keep weights small."""
        return [name for name in ("l2", "l1", "box") if getattr(self, name)]


def loss_of(objective: Objective, outputs: Sequence[QuantizedDataset]) -> LossFunction:
    """The loss of an objective, with the bound that it has on the labels of each output."""
    return objective.rule.within(np.array(
        [objective.bound_of(data) * data.label_scale for data in outputs]))


@dataclass(frozen=True, kw_only=True, eq=False)
class Training:
    """Steps of a training, x <- x - step (mean gradient of a batch), and their precision.

    Parameters
    ----------
    steps : array of float, shape (epochs,)
        Step of every epoch, in scaled feature space, from the first one on.
    batch : int
        Rows of a batch, 1 to 2**32 - 1.
    fit_intercept : bool
        True to train an intercept.
    correction_period : int, "auto" or "within"
        Rows between diagonal corrections, a multiple of ``batch`` and less than the rows;
        ``"auto"``: see :func:`bitstep.training.stepping.automatic_period`; where no such multiple
        is less than the rows, :mod:`bitstep.training.loop.corrections` corrects between epochs, or
        ``"within"`` is refused. Without effect if nothing is to be corrected.
    model_range : float or None
        Largest weight that must be representable, as a multiple of the largest label. A smaller
        one gives a finer model; a weight beyond it ends the run with an error. None:
        :func:`bitstep.training.ranges.automatic_range`, which may grow
        (:mod:`bitstep.training.loop.growing`).
    planes : tuple of int, "auto" or None
        Bit planes of bit-plane rows that each epoch reads, 1 to 16; ``"auto"``: see
        :mod:`bitstep.training.loop.precision`. None for rows of fixed bits.
    solver : {"sgd", "bit-centred"}
        ``bit-centred``: the epochs are outer steps, and ``steps`` and ``planes`` those of their
        inner passes (:mod:`bitstep.training.centred.least_squares`).
    tol : float
        Of solver ``bit-centred``: training stops once the largest component of the gradient is at
        most this multiple of that at weights of 0. Of solver ``sgd`` see ``stopping``.
    stopping : bitstep.training.scores.stopping.Stopping or None
        Rule by which a training of solver ``sgd`` may stop early; None for all epochs.
    certified : bool
        Of solver ``bit-centred``: False where rows do not stand for the objective that was asked
        for, as copies that deviate from their weights do, so that no gap may be claimed.
    curvature : bool
        Of solver ``bit-centred``: True if other steps may stand in for inner passes: the host's
        curvature (:mod:`bitstep.training.centred.curvature`), or a gradient of standardized
        columns.
    model_bits, update_bits : int
        Bits of the model's weights that dot products meet, and of the updates, 2 to 16; 0: all
        (docs/number-formats.md).

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """

    steps: np.ndarray | Sequence[float]
    batch: int = 1
    fit_intercept: bool = True
    correction_period: int | str = "auto"
    model_range: float | None = None
    planes: tuple[int, ...] | str | None = None
    solver: str = "sgd"
    tol: float = 0.0
    stopping: Any = None
    certified: bool = True
    curvature: bool = False
    model_bits: int = 0
    update_bits: int = 0

    def __post_init__(self):
        steps = np.asarray(self.steps, np.float64)
        if steps.ndim != 1 or not len(steps) or not (np.isfinite(steps) & (steps > 0)).all():
            raise ValueError(f"steps must be positive numbers, one an epoch, not {steps.tolist()}")
        object.__setattr__(self, "steps", steps)
        for name in ("batch", "model_range", "tol", "model_bits", "update_bits"):
            if name != "model_range" or self.model_range is not None:
                OPTIONS[name].kind.check(name, getattr(self, name))
        solver_of(self.solver)          # refuses other names
        if self.tol and not self.exact:
            raise ValueError("tol needs solver 'bit-centred', whose full passes know the gradient, "
                             f"not {self.solver!r}, which stops by the rule of stopping")
        for name in ("model_bits", "update_bits"):
            object.__setattr__(self, name, int(getattr(self, name)))
        Request(PYTHON, {
            "solver": self.solver, "early_stopping": self.stopping is not None,
            "model_bits": self.model_bits, "update_bits": self.update_bits}).check()

    @property
    def exact(self) -> bool:
        """True if its solver ends at the optimum."""
        return solver_of(self.solver).exact

    @property
    def asked_planes(self) -> list[int] | str | None:
        """``planes`` of a request that has this training: those of inner passes may be open."""
        if self.curvature:
            return "auto"
        return [*self.planes] if isinstance(self.planes, tuple) else self.planes

    @property
    def few_bits(self) -> bool:
        """True if the model that dot products meet, or updates, have few bits."""
        return bool(self.model_bits or self.update_bits)


def check_data(data: QuantizedDataset, training: Training) -> None:
    """Raise ValueError unless planes and intercept of a training suit the data."""
    check_planes(data.encoding, training.planes, len(training.steps))
    if not training.fit_intercept and data.label_offset != 0:
        raise ValueError("A model without an intercept needs labels that are not centred; quantize "
                         "with center_labels=False")
