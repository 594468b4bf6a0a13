"""Resolution of a request: defaults for what a user leaves open, and the rules between options.

Estimators, the command line, races and reports resolve their options here.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitstep.data.views import RowView
from bitstep.options.models import MODELS, Model, model_of
from bitstep.options.rules import Request, RuleError, kept_if_alike, why_not_centred
from bitstep.options.table import (
    AUTO,
    DEFAULT_EPOCHS,
    EPSILON,
    OPTIONS,
    SCHEDULES,
)
from bitstep.options.words import PYTHON
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.encodings import encoding_of
from bitstep.pipeline.losses import LOSSES
from bitstep.pipeline.parts.formats import (
    BIT_PLANE_BITS,
    BIT_PLANES,
    FLOAT_BITS,
    MAX_BIT_PLANE_FEATURES,
)
from bitstep.pipeline.parts.widths import BUS_WIDTHS, USUAL_BUS_WIDTH
from bitstep.pipeline.registers import Loss
from bitstep.quantization import (
    ENCODINGS,
    BitPlaneRows,
    QuantizedRows,
    Scaler,
    quantize_bit_planes,
    quantize_rows,
)
from bitstep.quantization.scaling import clipped_share
from bitstep.training.objective import Objective, Training
from bitstep.training.planes import resolve_planes
from bitstep.training.schedules import (
    LEAST_BITS_OF_MANY_EPOCHS,
    automatic_batch,
    automatic_epochs,
    automatic_step,
    centred_step,
    listed_steps,
    schedule_steps,
)
from bitstep.training.scores.scoring import SCORED_ROWS, ScoredRows
from bitstep.training.scores.stopping import Stopping
from bitstep.training.solvers import solver_of


class OptimumWarning(UserWarning):
    """Solver ``bit-centred`` goes to another optimum than that of the rows."""


@dataclass(frozen=True, kw_only=True)
class RowChoice:
    """Rows that a model is trained on.

    Attributes
    ----------
    bits, encoding, levels, bus_width, scaler, copies, seed
        See :func:`bitstep.quantization.quantize_rows`.
    refetch : bool
        True if rows are fetched again with 16 bits a value.
    shuffle : bool or None
        True if rows are drawn at random; None of a quantized file, which does not say.
    solver : {"sgd", "bit-centred"}
        That they are for.
    """

    bits: int
    encoding: str
    refetch: bool = False
    levels: str = "uniform"
    bus_width: int = USUAL_BUS_WIDTH
    scaler: str = "quantile"
    copies: int = 1
    seed: int = 0
    shuffle: bool | None = True
    solver: str = "sgd"

    def quantize(self, features: np.ndarray | RowView, scaler: Scaler, *, seed: int,
                 weights: np.ndarray | None = None,
                 progress: Callable[[int], None] | None = None) -> QuantizedRows | BitPlaneRows:
        """Rows of some features; parameters as of :func:`bitstep.quantization.quantize_rows`."""
        shared: dict[str, Any] = {"bus_width": self.bus_width, "scaler": scaler, "seed": seed,
                                  "weights": weights, "progress": progress}
        if self.encoding == BIT_PLANES:
            return quantize_bit_planes(features, **shared)
        return quantize_rows(features, bits=self.bits, encoding=self.encoding, copies=self.copies,
                             fine_rows=self.refetch, levels=self.levels, **shared)


@dataclass(frozen=True)
class Resolved:
    """A request whose options are all known, and go together.

    Attributes
    ----------
    request : Request
    rows : RowChoice
    """

    request: Request
    rows: RowChoice

    @property
    def kind(self) -> Model:
        """Task, loss and defaults of the model."""
        return MODELS[self.request["model"]]

    @property
    def solver(self) -> str:
        """``sgd`` or ``bit-centred``."""
        return self.rows.solver

    def epochs(self, n_rows: int, model_values: int = 1) -> int:
        """Epochs over so many rows, or outer steps at most, of models of so many weights in all."""
        return self.request["epochs"] or automatic_epochs(n_rows, model_values)

    def batch(self, n_rows: int) -> int:
        """Rows of a mini-batch, of so many rows: at most all. Where none is asked for: 1 for
        bit-centred training, refetching, chunks of ``partial_fit``, codes that long steps make
        diverge, steps that a user chose, which were tuned with it, and boards whose pipelines for
        such rows have no other; else that of
        :func:`bitstep.training.schedules.automatic_batch`.
        """
        request = self.request
        if request["batch"] is not None:
            return min(request["batch"], n_rows)
        built, schedule = _built_for(request), request["schedule"]
        alone = (self.exact or self.rows.refetch
                 or request.facts.get("partial_fit")
                 or self.step_asked
                 or not _is_named(schedule)
                 or (built is not None and not any(one.minibatch for one in built)))
        return 1 if alone else automatic_batch(n_rows)

    @property
    def step_asked(self) -> bool:
        """True if a step was asked for."""
        return self.request["step"] not in (None, AUTO)

    @property
    def tol(self) -> float:
        """``tol`` of the solver."""
        return self.request["tol"] or 0.0

    @property
    def solver_reason(self) -> str | None:
        """Why solver ``auto`` became what it is; None where one was asked for."""
        return self.request.facts.get("solver_reason")

    def objective(self, rows_meant: int) -> Objective:
        """What is minimised on rows that stand for so many
        (:class:`bitstep.training.copies.Pass`).
        """
        solver, l2 = solver_of(self.solver), self.request["l2"]
        return Objective(loss=self.kind.loss, standardized=solver.exact,
                         l2=solver.l2(rows_meant) if l2 is None else l2,
                         l1=self.request["l1"] or 0.0, box=self.request["box"],
                         refetch=self.rows.refetch, epsilon=self.request["epsilon"] or EPSILON,
                         multinomial=self.joint)

    @property
    def exact(self) -> bool:
        """True if the solver ends at the optimum."""
        return solver_of(self.solver).exact

    @property
    def several(self) -> bool:
        """True if several classes would be trained together on a device that can."""
        return self.exact and self.kind.loss == Loss.LOGISTIC

    @property
    def joint(self) -> bool:
        """True if several classes are trained together."""
        return bool(self.request["joint_classes"])

    def of_outputs(self, count: int, device: Any) -> "Resolved":
        """The request on data with so many outputs, on a device or of a class of devices: several
        classes are trained together if the device can, else one-vs-rest.
        """
        joint = self.several and count > 1 and device.joint_classes
        return replace(self, request=self.request.knowing(joint_classes=joint))

    @property
    def held_fraction(self) -> float | None:
        """Share of the rows to train on that are held out; None if none are."""
        return self.request["validation_fraction"] if self.request["early_stopping"] else None

    def stopping(self, held: ScoredRows | None,
                 make_rows: Callable[[int], ScoredRows]) -> Stopping | None:
        """The rule by which solver ``sgd`` stops; None for all epochs.

        Parameters
        ----------
        held : ScoredRows or None
            Rows that are held out.
        make_rows : callable
            Makes at most so many of the rows to train on.
        """
        tol = 0.0 if self.exact else self.tol
        if held is None and not tol:
            return None
        return Stopping(make_rows(SCORED_ROWS) if held is None else held, held is not None, tol,
                        self.request["n_iter_no_change"])

    def training(self, rows: QuantizedRows | BitPlaneRows, objective: Objective, *,
                 epochs: int | None = None, **others: Any) -> Training:
        """How it is minimised on rows.

        Parameters
        ----------
        rows : QuantizedRows or BitPlaneRows
        objective : Objective
        epochs : int or None
            None: those of the options.
        others
            Parameters of :func:`resolve_training` that stand in place of options: ``schedule``,
            ``step``, ``batch``, ``stopping`` and ``certified``.
        """
        request = self.request
        options = {"step": "auto" if request["step"] is None else request["step"],
                   "schedule": request["schedule"], "batch": self.batch(rows.n_rows), **others}
        return resolve_training(
            rows, objective, solver=self.solver,
            epochs=epochs or self.epochs(rows.n_rows, rows.n_features),
            fit_intercept=request["intercept"], model_range=request["model_range"],
            planes=request["planes"], model_bits=request["model_bits"] or 0,
            update_bits=request["update_bits"] or 0,
            tol=self.tol if self.exact else 0.0, **options)


def check_options(request: Request) -> Request:
    """The request with the defaults that do not depend on the data, if its options go together.

    Raises
    ------
    ValueError
        If an option is out of range.
    RuleError
        If options do not go together.
    """
    schedule = request["schedule"]
    if not (schedule is None or _is_named(schedule)):       # a file may change
        return _checked(request)
    return kept_if_alike(_checked, request)


def check_candidates(requests: Sequence[Request]) -> list[Request]:
    """:func:`check_options` of each of several candidates, which share their rows.

    Raises
    ------
    ValueError, RuleError
        See :func:`check_options`; also if rows or solvers of two would differ.
    """
    checked, say = [check_options(request) for request in requests], requests[0].words.say
    first = checked[0]
    if any(one["solver"] != first["solver"] for one in checked):
        raise RuleError("solver of candidates", (
            f"Candidates must have one solver, but {say('solver', AUTO)} is sgd for some and "
            f"bit-centred for others; choose {say('solver', 'sgd')} or "
            f"{say('solver', 'bit-centred')}"))
    if any(one["refetch"] != first["refetch"] for one in checked):
        raise RuleError("rows of candidates", (
            "Candidates with all bits of model and updates would fetch rows of the hinge loss "
            f"again, and those with few bits cannot; choose {say('refetch', False)}"))
    return checked


def _checked(request: Request) -> Request:
    for name, value in request.asked.items():
        if value is not None:
            also = ", or auto" * (OPTIONS[name].auto and request.words is PYTHON)
            OPTIONS[name].kind.check(request.words.say(name, None), value, also)
    request = _with_defaults(_with_solver(request))
    request.check()
    schedule, planes = request["schedule"], request["planes"]
    if not (schedule is None or _is_named(schedule)):
        asked = request.asked.get("epochs")
        steps = listed_steps(schedule, asked or 1)
        request = request.filled(epochs=asked or len(steps))
    resolve_planes(planes, 1, "auto")
    return request


def _with_solver(request: Request) -> Request:
    """The request with a solver in place of ``auto``, as far as it can be known yet."""
    if request["solver"] != AUTO:
        return request
    why = why_not_centred(_with_defaults(request.asking(solver="bit-centred")))
    solver = "sgd" if why else "bit-centred"
    return request.asking(solver=None).filled(solver=solver).knowing(
        solver_reason=why or "nothing asks for sgd")


def resolve(request: Request) -> Resolved:
    """Fill in what is left open, and check that all goes together.

    Parameters
    ----------
    request : Request
        With a model, asked for or by default.

    Raises
    ------
    ValueError, RuleError
        See :func:`check_options`.
    """
    request = check_options(request)
    return Resolved(request, row_choice(request))


def row_choice(request: Request) -> RowChoice:
    """The rows of a request whose defaults are filled in."""
    return RowChoice(**{name: request[name] for name in RowChoice.__dataclass_fields__})


def _with_defaults(request: Request) -> Request:
    """The request with its defaults, as far as they are known."""
    solver, facts = request["solver"] or "sgd", request.facts
    fills: dict[str, Any] = {"solver": solver, "copies": 1, "levels": "uniform",
                             "seed": 0, "intercept": OPTIONS["intercept"].default}
    if "stored" not in facts:
        fills |= {"scaler": resolve_scaler(None, solver, request["intercept"] is not False),
                  "shuffle": True}
    fills |= solver_of(solver).defaults(request)
    if request["planes"] is not None or request["bit_planes"] or "planes" in fills:
        fills |= {"bits": BIT_PLANE_BITS, "encoding": BIT_PLANES, "refetch": False}
    elif request["model"] is not None and ("stored" not in facts or "stored_encoding" in facts):
        kind = MODELS[request["model"]]     # else the rows are in a file that was not read yet
        fills["bits"] = FLOAT_BITS if request["encoding"] == "float" else kind.bits
        bits = request["bits"] or fills["bits"]
        fills["encoding"] = "float" if bits == FLOAT_BITS else kind.encoding
        encoding = ENCODINGS[request["encoding"] or fills["encoding"]]
        fills["refetch"] = bool(
            LOSSES[kind.loss].one_sided and encoding.cell and request["levels"] != "optimal"
            and not request["model_bits"] and not request["update_bits"]
            and "no_fine_rows" not in facts)
        # Codes of so few bits have directions of negative curvature, along collinear columns: steps
        # that stay long follow them, ever farther.
        if encoding.indefinite and bits < LEAST_BITS_OF_MANY_EPOCHS:
            fills |= {"schedule": "inverse", "epochs": DEFAULT_EPOCHS, "batch": 1}
    request = request.filled(**{**fills, **request.defaults})
    request = request.filled(**{**usual_bus_width(request), **request.defaults})
    bits, features, bus = request["bits"], request["n_features"], request["bus_width"]
    if (features or 0) > MAX_BIT_PLANE_FEATURES:
        request = request.knowing(wide_rows=features)
    if bits and features and bits * features > bus:
        wider = " or ".join(str(width) for width in BUS_WIDTHS if width >= bits * features)
        request = request.knowing(row_bits=f"rows of {features} features of {bits} bits, which are "
                                  f"{bits * features} bits, on a bus of {bus}"
                                  + (f" ({wider} are enough)" if wider else ""))
    return request


def usual_bus_width(request: Request) -> dict[str, int]:
    """Default of ``bus_width``: of a board whose pipelines are built, the widest of those for such
    rows; nothing while it is not known which they are.
    """
    built = _built_for(request)
    if built is None:
        return {"bus_width": USUAL_BUS_WIDTH}
    if request["encoding"] is None or _loss_family(request) is None:
        return {}
    return {"bus_width": max((one.bus_width for one in built), default=USUAL_BUS_WIDTH)}


def _built_for(request: Request) -> list[PipelineConfig] | None:
    """Pipelines for such rows among those that are built; None for a device that makes any, and
    none of them while it is not known which rows they are.
    """
    built, encoding = request.facts.get("built"), request["encoding"]
    if built is None or encoding is None:
        return None if built is None else []
    wanted = {"bits": request["bits"], "row_format": encoding_of(encoding).row_format,
              "packed": bool(request["packed"]), "loss_family": _loss_family(request)}
    parts = {"codebooks": request["levels"] == "optimal", "model_bits": request["model_bits"] or 0,
             "proximal": request["l1"] or request["box"], "refetch": request["refetch"],
             "rounded_updates": request["update_bits"]}
    alike = [one for one in built if one.has(wanted)]
    return [one for one in alike if one.has(parts)
            and one.rows.capacity >= (request["n_features"] or 0)] \
        or alike                        # opening it says the rest


def _loss_family(request: Request) -> str | None:
    """Family of the losses of a request's model; None while that is not known."""
    family, model = request.facts.get("loss_family"), request["model"]
    return LOSSES[MODELS[model].loss].loss_family if family is None and model is not None \
        else family


def resolve_scaler(scaler: str | None, solver: str = "sgd", fit_intercept: bool = True) -> str:
    """How columns are scaled; None: as suits the solver, and ``maxabs`` without an intercept.

    Columns that are clipped have another optimum, and solver ``bit-centred`` promises the one of
    the rows. All but ``maxabs`` shift columns, which an intercept makes up for.
    """
    if scaler is not None:
        return scaler
    return solver_of(solver).scaler if fit_intercept else "maxabs"


def _is_named(schedule: Any) -> bool:
    """True for the name of a schedule."""
    return isinstance(schedule, str) and schedule in SCHEDULES


def one_vs_rest(resolved: Resolved, count: int, device: Any, name: str) -> str | None:
    """A sentence if classes would be trained together on other devices; None for others.

    Parameters
    ----------
    resolved : Resolved
    count : int
        Outputs.
    device : Device or class of devices
    name : str
        Its name.
    """
    if not resolved.several or count < 2 or device.joint_classes:
        return None
    return (f"Device {name!r} has no pass of all classes, so the {count} classes are trained "
            "one-vs-rest; devices 'cpu' and 'golden' train a multinomial model, the softmax of all "
            "classes")


def other_optimum(solver: str, clip: np.ndarray | None, features: Any,
                  weights: str | None) -> str | None:
    """A sentence if solver ``bit-centred`` goes to another optimum than that of the rows that a
    user has; None for others.

    Parameters
    ----------
    solver : str
    clip : ndarray of float64, shape (2, n_features), or None
        Of the scaler.
    features : ndarray of float or RowView, shape (n_rows, n_features), or None
        Rows as they were before they were clipped; None if only codes are there.
    weights : str or None
        :attr:`bitstep.training.copies.Pass.other_weights`.
    """
    if not solver_of(solver).exact or (clip is None and not weights):
        return None
    parts = []
    if clip is not None:
        count = int(np.isfinite(clip).any(axis=0).sum())
        share = "" if features is None else \
            f" ({100 * clipped_share(features, clip):.2g} % of all values)"
        parts.append(f"scaler 'quantile' clips {count} of {clip.shape[1]} columns{share}, 'minmax' "
                     "none")
    if weights:
        parts.append(weights)
    return f"Solver 'bit-centred' ends at the optimum of other rows: {', and '.join(parts)}"


def resolve_training(rows: QuantizedRows | BitPlaneRows, objective: Objective, *, epochs: int,
                     step: float | str | None = "auto",
                     schedule: str | os.PathLike | Sequence[float] | None = None, batch: int = 1,
                     fit_intercept: bool = True, planes: Any = None, solver: str = "sgd",
                     **options: Any) -> Training:
    """Steps for rows and an objective.

    Parameters
    ----------
    epochs, schedule
        See :func:`bitstep.training.schedules.schedule_steps`; None: ``inverse``, and one step for
        all outer steps.
    step : float, "auto" or None
        First step of a named schedule; ``"auto"``:
        :func:`bitstep.training.schedules.automatic_step`. A list of steps has none.
    planes : int, sequence of int, "auto" or None
        See :func:`bitstep.training.planes.resolve_planes`; None for rows of fixed bits.
    solver : {"sgd", "bit-centred"}
    batch, fit_intercept, options
        See :class:`bitstep.training.objective.Training`.

    Raises
    ------
    ValueError
        If a parameter is out of range.
    """
    # Who asks for planes or a step asks for the inner passes that have them.
    chosen = solver_of(solver)
    curvature = chosen.exact and isinstance(planes, str) and step == "auto"
    if chosen.exact:
        Request(PYTHON, {
            "solver": solver, "model": model_of(objective.loss), "l1": objective.l1,
            "box": objective.box, "batch": batch, "schedule": schedule,
            "model_range": options.get("model_range")}, facts={
                "stored_encoding": rows.encoding}).check()
        assert isinstance(rows, BitPlaneRows)
        schedule = "constant"
        if step == "auto":
            step = centred_step(rows, objective.rule,
                                float(objective.penalties(rows, fit_intercept).max()))
    schedule = "inverse" if schedule is None else schedule
    if isinstance(step, str):
        if step != "auto":
            raise ValueError(f"step must be 'auto' or a positive number, not {step!r}")
        step = automatic_step(rows, batch, fit_intercept, objective.loss, str(schedule),
                              objective.l2) if _is_named(schedule) else None
    steps: np.ndarray = schedule_steps(schedule, step=step, epochs=epochs)
    return Training(steps=steps, batch=batch, fit_intercept=fit_intercept,
                    planes=resolve_planes(planes, len(steps), chosen.automatic_planes(len(steps))),
                    solver=solver,
                    curvature=curvature, **options)
