"""Start of a training: its files, and zeros, a model file or a checkpoint to begin with."""

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import eq
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.cli.class_labels import ClassLabels
from bitstep.cli.options import UsageError, class_text
from bitstep.cli.paths import check_plot, check_readable, check_writable
from bitstep.cli.problem import Request
from bitstep.options.rules import Request as RuleRequest
from bitstep.options.table import SCHEDULES
from bitstep.pipeline.manifest import read_manifest
from bitstep.training.files.checkpoint import (
    Checkpoint,
    CheckpointError,
    describe_data,
    digest_of,
    load_checkpoint,
)
from bitstep.training.files.checkpoint_writer import CheckpointWriter
from bitstep.training.files.model_file import LinearModel, ModelFileError, load_model
from bitstep.training.loop.precision import FIRST_PLANES
from bitstep.training.planning import integers_of, plan
from bitstep.writing import first_of

# Settings that older checkpoints do not hold.
LATER = ("levels",)
# Those that leave other rows to train on.
HOLDING = ("early-stopping", "validation-fraction")


@dataclass(frozen=True)
class Start:
    """Start of a training.

    Attributes
    ----------
    model : LinearModel or None
        Model of ``--init``.
    checkpoint : Checkpoint or None
        State of ``--resume``.
    path : str or None
        File that the training's checkpoints go to.
    """

    model: LinearModel | None
    checkpoint: Checkpoint | None
    path: str | None


def checkpoint_path(arguments: argparse.Namespace) -> str | None:
    """File that the checkpoints go to."""
    return arguments.resume if arguments.checkpoint is None else arguments.checkpoint


def check_paths(arguments: argparse.Namespace, files: Sequence[str] = ()) -> None:
    """Check every file that a training reads or writes, before any long work.

    Parameters
    ----------
    files : sequence of str
        Files that DATA stand for, if they are several.

    Raises
    ------
    UsageError
        If one cannot be read or written.
    DeviceError
        If the manifest is none.
    RuntimeError
        If matplotlib, which a drawing needs, is not installed.
    """
    beside = [] if not arguments.bitfile else [
        Path(arguments.bitfile).with_suffix(suffix) for suffix in (".bit", ".hwh", ".json")]
    check_readable(init=[arguments.init], resume=[arguments.resume],
                   manifest=[arguments.manifest], bitfile=beside)
    kept = checkpoint_path(arguments)
    sources = [arguments.data, *files, arguments.schedule, arguments.init, arguments.manifest,
               *beside]
    if arguments.resume is not None and kept != arguments.resume:
        sources.append(arguments.resume)
    check_writable(arguments.out, arguments.report, arguments.plot, arguments.wave, kept,
                   sources=[source for source in sources if source is not None])
    if arguments.manifest:
        read_manifest(arguments.manifest, "a bitstream")
    if arguments.plot:
        check_plot(arguments.plot)


def read_start(arguments: argparse.Namespace) -> Start:
    """Read the files that a training starts from.

    Raises
    ------
    UsageError
        If ``--checkpoint`` would replace another file than a checkpoint, or one from which a
        training can go on.
    ModelFileError, CheckpointError
        If a file cannot be used.
    """
    model = load_model(arguments.init) if arguments.init is not None else None
    resumed = load_checkpoint(arguments.resume) if arguments.resume is not None else None
    path = checkpoint_path(arguments)
    goes_on = path and resumed and Path(path).resolve() == Path(str(arguments.resume)).resolve()
    if path and not goes_on and Path(path).exists():
        try:
            found = load_checkpoint(path)
        except CheckpointError as error:
            raise UsageError(f"--checkpoint {path} would replace a file that is no checkpoint "
                             "which this version reads; choose another name, or remove it"
                             ) from error
        if found.epochs_done and not found.finished:
            raise UsageError(
                f"{path} is the checkpoint of a training that is not finished ({found.position()})"
                f": go on with --resume {path} in place of --checkpoint, choose another name, or "
                "remove it")
    return Start(model, resumed, path)


def _settings(start: Start, arguments: argparse.Namespace, request: Request) -> dict[str, Any]:
    """Options that the bits of a training depend on, by name, as JSON holds them."""
    problem, objective, training = request.problem, request.objective, request.training
    rows, config, model = problem.request, request.config, start.model
    by_name = request.schedule in SCHEDULES
    floats = problem.outputs[0].row_format == "float32"
    beats = config.rows.beats(problem.outputs[0].n_features)
    return {
        "model": problem.model, "bits": rows.bits, "encoding": rows.encoding, "levels": rows.levels,
        "scaler": rows.scaler, "copies": rows.copies,
        "seed": rows.seed, "shuffle": rows.shuffle, "epochs": len(training.steps),
        "schedule": request.schedule if by_name else np.asarray(training.steps).tolist(),
        "step": (arguments.step or "auto") if by_name else None,
        "batch": training.batch, **objective.options(), "intercept": training.fit_intercept,
        "model-range": training.model_range, "class-weight": arguments.class_weight,
        "init": None if model is None else
        f"model {digest_of(model.coef, model.intercept, model.classes)[:16]}",
        # Older checkpoints have no such entries.
        "model-bits": training.model_bits or None, "update-bits": training.update_bits or None,
        "planes": training.asked_planes,
        "solver": None if training.solver == "sgd" else training.solver,
        "multinomial": objective.multinomial or None,
        # Only floating-point rows are rounded by these two.
        "lookahead": config.ahead.of_result(beats) if floats else None,
        **({"bus-width": rows.bus_width} if floats else {}),
        **_stopping_settings(request.resolved.request)}


def _stopping_settings(request: RuleRequest) -> dict[str, Any]:
    """Options that end a training early; None for those without effect."""
    early = request["early_stopping"]
    stops = bool(early or (request["tol"] and request["solver"] == "sgd"))
    return {"tol": (request["tol"] or 0.0) if stops else request["tol"] or None,
            "early-stopping": True if early else None,
            "validation-fraction": request["validation_fraction"] if early else None,
            "n-iter-no-change": request["n_iter_no_change"] if stops else None}


def started(start: Start, arguments: argparse.Namespace, request: Request,
            data: dict[str, Any] | None = None) -> tuple[Request, CheckpointWriter | None]:
    """Request and checkpoint of a training that may have been begun earlier.

    Parameters
    ----------
    data
        See :func:`make_writer`.

    Raises
    ------
    UsageError, ModelFileError
        If checkpoint or model do not fit data and options.
    """
    writer = make_writer(start, arguments, request, data)
    if writer is not None:
        # An automatic step could differ in its last digit on another machine.
        steps = np.array(writer.checkpoint.steps)
        request = replace(request, training=replace(request.training, steps=steps),
                          resumed=writer.checkpoint.epochs_done)
    if start.model is not None:
        request = replace(request, initial=initial_model(start.model, request))
    return request, writer


def make_writer(start: Start, arguments: argparse.Namespace, request: Request,
                data: dict[str, Any] | None) -> CheckpointWriter | None:
    """Checkpoint of a training; None without one.

    Parameters
    ----------
    data : dict of str to Any or None
        Description of rows that are elsewhere; None: that of the problem.

    Raises
    ------
    UsageError
        If data or options are not those of the checkpoint to resume; it names which.
    """
    if start.path is None:
        return None
    outputs, state = request.problem.outputs, start.checkpoint
    settings = _settings(start, arguments, request)
    data = describe_data(outputs) if data is None else data
    if state is None:
        state = Checkpoint(settings, data, np.asarray(request.training.steps).tolist(),
                           1 if request.objective.multinomial else len(outputs))
    else:
        _check_same(arguments.resume, state, settings, data)
    writer = CheckpointWriter(start.path, state, lambda text: print(
        f"bitstep train: warning: {text}", file=sys.stderr))
    writer.complete = start.checkpoint is not None and start.path == arguments.resume
    return writer


def _check_same(path: str, state: Checkpoint, settings: dict[str, Any],
                data: dict[str, Any]) -> None:
    joint = "multinomial"
    if state.settings.get(joint) != settings[joint]:
        found, wanted = (f"{joint} model" if one else "one-vs-rest model"
                         for one in (state.settings.get(joint), settings[joint]))
        raise UsageError(f"{path} is the checkpoint of a {found}, and this device or solver trains "
                         f"a {wanted}: go on with the options and on a device as it was begun")
    kept = {name: settings[name] for name in LATER} | state.settings
    held = any(kept.get(name) != settings[name] for name in HOLDING)
    for name, text in (("rows", "rows to train on"), ("features", "features"),
                       ("classes", "outputs")):
        if data[name] != state.data.get(name) and not (held and name == "rows"):
            raise UsageError(f"{path} is the checkpoint of a training on other data, with "
                             f"{state.data.get(name)} {text}, not {data[name]}: check DATA and "
                             "--train-rows")
    wrong = [f"--{name} is {_text(value, name)}, the checkpoint's {_text(kept.get(name), name)}"
             for name, value in settings.items()
             if kept.get(name) != value and not _is_same_but_longer(value, kept.get(name))]
    if wrong:
        raise UsageError(f"{path} is the checkpoint of a training with other options: "
                         f"{'; '.join(wrong)}. Give its options, or begin a new training with "
                         "--checkpoint")
    differing = [name for name in data if data[name] != state.data.get(name)]
    if differing:
        raise UsageError(f"{path} is the checkpoint of a training on other data: "
                         f"{', '.join(differing)} differ; check that DATA is the same file, and "
                         "--label-column")


def _is_same_but_longer(value, other):
    """True for an entry an epoch, as of planes, where the epochs are what differs."""
    return isinstance(value, list) and isinstance(other, list) and len(value) != len(other) \
        and all(map(eq, value, other))


def _text(value, name):
    if name == "planes" and isinstance(value, list):
        last = len(value)       # the last one holds for all after it
        while last > 1 and value[last - 2] == value[-1]:
            last -= 1
        return ",".join(map(str, value[:last]))
    if isinstance(value, list):
        return f"{len(value)} steps from a file" if len(value) > 3 else ", ".join(
            f"{step:g}" for step in value)
    return {None: "not given", True: "yes", False: "no"}.get(value, value) \
        if value is None or isinstance(value, bool) else value


def initial_model(model: LinearModel, request: Request) -> tuple[np.ndarray, np.ndarray]:
    """Weights and intercepts of ``--init``, in the units of the features.

    Raises
    ------
    ModelFileError
        If the model does not fit the data or the options.
    """
    path, problem, training = request.init, request.problem, request.training
    if model.n_features != problem.outputs[0].n_features:
        raise ModelFileError(f"{path}: the model has {model.n_features} features, the data have "
                             f"{problem.outputs[0].n_features}; --init needs a model of such data")
    try:
        columns = model.columns_in(problem.feature_names)
    except ModelFileError as error:
        raise ModelFileError(f"{path}: {error}; --init needs a model of such data") from None
    coef = model.coef if columns is None else model.coef[:, np.argsort(columns)]
    if len(model.classes) != len(problem.class_labels) or not np.array_equal(
            ClassLabels(model).numbers(problem.class_labels), np.arange(len(model.classes))):
        raise ModelFileError(f"{path}: the model is that of {_classes(model.classes)}, the data "
                             f"are those of {_classes(problem.class_labels)}; --init needs a model "
                             "of such data (--model chooses between classes and a regression)")
    if len(model.coef) != len(problem.outputs):
        raise ModelFileError(f"{path}: the model has {len(model.coef)} targets, the data have "
                             f"{len(problem.outputs)}; --init needs a model of such data")
    scaler = problem.outputs[0].scaler
    with np.errstate(over="ignore", invalid="ignore"):
        weights, intercepts = scaler.scale_model(coef, model.intercept)
    if not (np.isfinite(weights).all() and np.isfinite(intercepts).all()):
        raise ModelFileError(f"{path}: the model's weights times the ranges of the columns must be "
                             "finite numbers; --init needs a model of data of this scaling")
    if not training.fit_intercept and intercepts.any():
        raise ModelFileError(f"{path}: the model has an intercept, and --no-intercept trains none; "
                             "leave --no-intercept out, or take a model without one")
    if training.planes == "auto":       # the weights' words are the same with any planes
        training = replace(training, planes=(FIRST_PLANES,) * len(training.steps))
    # Words of bit-centred training have room as it is needed; the weights must suit the labels.
    objective = replace(request.objective, standardized=False)
    try:
        for number, data in enumerate(problem.outputs):
            check = plan if data.rows.stored else integers_of       # rows of shards are elsewhere
            check(data, request.config, objective, training,
                  initial=(weights[number], float(intercepts[number])), between_epochs=True)
    except ValueError as error:
        raise ModelFileError(f"{path}: the model does not fit the scaling of these data and "
                             f"labels: {error}") from error
    return coef, model.intercept


def _classes(values: Sequence[float] | np.ndarray) -> str:
    if not len(values):
        return "a regression"
    return f"{len(values)} classes, {first_of(values, 10, class_text)}"
