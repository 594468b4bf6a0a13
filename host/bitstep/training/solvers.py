"""The solvers: what each chooses for rows, objective and epochs where a user leaves it open."""

from typing import Any

from bitstep.options.rules import Request
from bitstep.options.table import (
    CENTRED_PLANES,
    DEFAULT_EPOCHS,
    OUTER_STEPS,
    PATIENCE,
    SOLVERS,
    TOL,
    VALIDATION_FRACTION,
)
from bitstep.pipeline.parts.formats import BIT_PLANES


def automatic_schedule(step: object, whole: bool) -> str:
    """Name of the schedule that suits a training.

    ``linear`` has gone furthest after its last epoch: steps stay long while the model is far off,
    along the directions of collinear columns above all, and are short at the end [1]. It has to
    know how many epochs there will be. A step that a user chose was tuned with ``inverse``.

    [1] Defazio, Cutkosky, Mehta, Mishchenko: Optimal linear decay learning rate schedules and
    further refinements, 2023.

    Parameters
    ----------
    step : float, "auto" or None
        As asked for.
    whole : bool
        False if the training may stop before its last epoch, or is one of several calls.
    """
    return "linear" if whole and step in (None, "auto") else "inverse"


class Solver:
    """Solver ``sgd``; others differ from it.

    Attributes
    ----------
    exact : bool
        True if it ends at the optimum of the rows as they are, so that columns had better not be
        clipped, if its penalty is on weights of standardized columns, and if ``tol`` is a bound
        on the gap to that optimum, not on the progress of an epoch.
    scaler : str
        How columns are scaled for a model with an intercept.
    """

    exact = False
    scaler = "quantile"

    def l2(self, rows_meant: int) -> float:
        """Ridge penalty, for rows that stand for so many."""
        del rows_meant
        return 0.0

    def automatic_planes(self, n_epochs: int) -> tuple[int, ...] | str:
        """What ``planes="auto"`` is for so many epochs: chosen after each of them."""
        del n_epochs
        return "auto"

    def defaults(self, request: Request) -> dict[str, Any]:
        """Options that a request may leave open."""
        fills: dict[str, Any] = {}
        stops = request["early_stopping"] or request["tol"]
        if stops:
            fills["n_iter_no_change"] = PATIENCE
        if request["early_stopping"]:
            fills["validation_fraction"] = VALIDATION_FRACTION
        whole = not (stops or request["partial_fit"])
        fills["schedule"] = automatic_schedule(request["step"], whole)
        if request.asked.get("schedule") is not None or fills["schedule"] != "linear":
            fills["epochs"] = DEFAULT_EPOCHS        # else the rows say
        if request.facts.get("stored_encoding") == BIT_PLANES:
            fills["planes"] = "auto"
        return fills


class BitCentred(Solver):
    """Solver ``bit-centred``, whose epochs are outer steps."""

    exact = True
    scaler = "minmax"

    def l2(self, rows_meant: int) -> float:
        """As of LogisticRegression and Ridge of scikit-learn."""
        return 1 / rows_meant

    def automatic_planes(self, n_epochs: int) -> tuple[int, ...]:
        """As many for every outer step that has inner passes."""
        return (CENTRED_PLANES,) * n_epochs

    def defaults(self, request: Request) -> dict[str, Any]:
        """See :meth:`Solver.defaults`."""
        return {"planes": "auto", "epochs": OUTER_STEPS,
                "tol": None if request.facts.get("partial_fit") else TOL}


_SOLVERS = dict(zip(SOLVERS, (Solver(), BitCentred()), strict=True))


def solver_of(name: str) -> Solver:
    """The solver of a name.

    Raises
    ------
    ValueError
        If none has it.
    """
    if not isinstance(name, str) or name not in _SOLVERS:
        raise ValueError(f"solver must be one of {', '.join(map(repr, SOLVERS))}, not {name!r}")
    return _SOLVERS[name]
