"""``bitstep train``: from a data set to a model, on any device."""

import argparse
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from bitstep.cli.advice import clipping_of, noise_of, remedy, warning_of
from bitstep.cli.checkpoints import check_paths, read_start, started
from bitstep.cli.device import add_device_options, device_options
from bitstep.cli.options import (
    UsageError,
    add_data_options,
    add_options,
    add_pipeline_options,
    integer,
    is_quantized,
    number,
)
from bitstep.cli.outputs import Outputs, output_sizes, reserve_outputs
from bitstep.cli.problem import Problem, Request, prepare
from bitstep.cli.progress import Bar, CommandWatch, add_quiet_option
from bitstep.cli.report import final, make_report, plot, print_report
from bitstep.cli.request import check_early, request_of
from bitstep.cli.scoring import scored_rows, stopping_of
from bitstep.cli.signals import stop_signals
from bitstep.cli.sweep import Sweep, add_sweep_option, candidates, compare
from bitstep.devices import device_class, open_device
from bitstep.devices.golden import GoldenDevice
from bitstep.options.table import AUTO, OPTIONS
from bitstep.pipeline.device import Device
from bitstep.pipeline.losses import MULTINOMIAL
from bitstep.pipeline.results import RangeOverflowError, RunError, sum_counters
from bitstep.plugins import entry_points
from bitstep.training.choices import Resolved, one_vs_rest
from bitstep.training.files.checkpoint_writer import CheckpointWriter
from bitstep.training.pipelines import pipeline_of_all
from bitstep.training.scores.watch import rows_to_look_at
from bitstep.training.train import train_candidates, train_model
from bitstep.training.trained import TrainedModel
from bitstep.writing import ReservedSpace, write_json

# What is minimised, and by which steps.
TRAINING = ("epochs", "step", "schedule", "batch", "l2", "l1", "box", "epsilon", "refetch",
            "class_weight", "intercept", "model_range")


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    parser = commands.add_parser(
        "train", help="train a model on a data set",
        description="Train a linear model on DATA, which is quantized to B bits a value and "
        "streamed through the pipeline of a device.",
        epilog="Examples: bitstep train cadata --bits 4 --epochs 20 --out model.npz --report "
        "run.json; bitstep train cod-rna --model svm. Options that go together: docs/options.md. "
        "The report is described in docs/report.md.")
    add_data_options(parser)
    add_pipeline_options(parser)
    training = parser.add_argument_group("training")
    add_options(training, *TRAINING, "model_bits", "update_bits")
    OPTIONS["solver"].declare(training, default=AUTO)
    add_options(training, "planes", "tol", "early_stopping", "validation_fraction",
                "n_iter_no_change")
    add_sweep_option(training)
    add_options(parser.add_argument_group("start, and long runs (docs/runs.md)"),
                "init", "checkpoint", "resume")
    cluster = parser.add_argument_group("many machines (docs/dask.md)")
    cluster.add_argument("--scheduler", metavar="ADDRESS", help="train on the workers of a Dask "
                         "scheduler, such as tcp://host:8786; DATA is then a file, a folder or a "
                         "pattern of files in quotes, each a part of the rows, which all workers "
                         "can read")
    cluster.add_argument("--workers", type=integer(1), metavar="N", help="the same with N worker "
                         "processes on this machine")
    cluster.add_argument("--shard-rows", type=integer(1), metavar="R", help="most rows of a shard: "
                         "longer files become several (default: a file is one); the model depends "
                         "on the shards, not on the workers")
    cluster.add_argument("--resource", metavar="NAME", help="use only workers that offer this Dask "
                         "resource, and one of it for each task: those with `dask worker "
                         "--resources \"NAME=1\"`")
    device = parser.add_argument_group("device")
    add_device_options(device)
    add_options(device, "device_models", "lookahead", "packed")
    device.add_argument("--timeout", type=number(0), default=600.0, metavar="S", help="longest "
                        "time without progress of the device in seconds (default: 600)")
    output = parser.add_argument_group("output")
    output.add_argument("--out", metavar="FILE.npz", help="write the model")
    output.add_argument("--report", metavar="FILE.json", help="write the report")
    output.add_argument("--plot", metavar="FILE.png", help="draw the loss of every epoch")
    add_quiet_option(output)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Train, then write and print what was asked for."""
    if arguments.scheduler is not None or arguments.workers is not None:
        return _cluster().run(arguments)
    if lone := next((name for name in ("shard_rows", "resource")
                     if getattr(arguments, name) is not None), None):
        raise UsageError(f"--{lone.replace('_', '-')} is for --scheduler or --workers: give one of "
                         "them, too")
    _check_one_file(arguments.data)
    options = device_options(arguments)
    check_paths(arguments)
    start = read_start(arguments)
    requests = make_requests(arguments)
    request, writer = started(start, arguments, requests[0])
    sizes = output_sizes(arguments, request.problem, len(request.training.steps) + len(requests))
    sweep: Sweep | None = None
    with reserve_outputs(sizes, writer) as space, \
            _opened(request, options, writer, any(
                one.training.few_bits for one in requests)) as device:
        earlier_s = writer.checkpoint.seconds if writer else 0.0
        started_s = time.perf_counter()
        if arguments.sweep:
            request, model, sweep = _train_sweep(requests, device, arguments)
        else:
            model = _train(request, device, arguments.timeout, writer)
        stop_signals.deferred = True        # what is left is short, and keeps the model
        outputs, report = write_outputs(
            space, arguments, request, model, writer, clock_hz=device.clock_hz,
            wall_seconds=earlier_s + time.perf_counter() - started_s,
            **({"sweep": sweep.entries} if sweep else {}))
        try:                # before the device closes, which a full disk under --wave may prevent
            if sweep:
                sweep.print()
            print_report(report)
            if noise := noise_of(request, model, report["history"][model.kept]["train_loss"]):
                print(f"Noise: {noise}.")
            for path in outputs.written:
                print(f"wrote {path}")
            sys.stdout.flush()
        finally:
            outputs.check()
    if arguments.wave and not isinstance(device, GoldenDevice):
        print(f"wrote {arguments.wave}")
    warning = warning_of(request, model, [entry["train_loss"] for entry in report["history"]])
    if warning:
        print(f"bitstep train: warning: {warning}", file=sys.stderr)
    elif cost := clipping_of(request, model, report["history"][model.kept]["train_loss"]):
        print(f"bitstep train: note: {cost}", file=sys.stderr)
    return ended(request, model, writer,
                 of=" of every class" if len(request.problem.outputs) > 1 else "")


def write_outputs(space: ReservedSpace, arguments: argparse.Namespace, request: Request,
                  model: TrainedModel, writer: CheckpointWriter | None, *, clock_hz: float | None,
                  wall_seconds: float, **more: Any) -> tuple[Outputs, dict[str, Any]]:
    """Write the files that a training was asked for, the model first; return them and the report.

    Parameters
    ----------
    space, writer
        See :class:`Outputs` and :meth:`Outputs.write_model`.
    clock_hz, wall_seconds
        See :func:`bitstep.cli.report.make_report`.
    more
        Entries of the report that other trainings do not have.
    """
    outputs = Outputs(space)
    outputs.write_model(arguments.out, final(request, model), writer)
    report = make_report(request, model, clock_hz=clock_hz, wall_seconds=wall_seconds) | more
    outputs.write(arguments.report, lambda path: write_json(path, report))
    outputs.write(arguments.plot, lambda path: plot(report, path))
    return outputs, report


def ended(request: Request, model: TrainedModel, writer: CheckpointWriter | None,
          of: str = "") -> int:
    """Say if a training was interrupted, ``of`` what it has the epochs; the exit code."""
    if model.interrupted:
        resume = f"; the same command goes on with --resume {writer.path}" if writer else ""
        print(f"bitstep train: interrupted; the model is that of epoch {model.epochs_done} of "
              f"{len(request.training.steps)}{of}{resume}", file=sys.stderr)
    return stop_signals.code if model.interrupted or stop_signals.received else 0


def _check_one_file(source: str) -> None:
    """Raise UsageError for several files, which many machines train on."""
    path = Path(source)
    several = "a folder" if source and path.is_dir() else \
        "a pattern of files" if set(source) & set("*?[") and not path.exists() else None
    if several:
        raise UsageError(f"DATA must be one file or a data set's name, not {several}, {source}: "
                         "give --workers N or --scheduler ADDRESS, too, which take every file as a "
                         "part of the rows (docs/dask.md)")


def _cluster() -> Any:
    """The module that trains on a cluster."""
    points = entry_points("bitstep.clusters")
    try:
        return points["dask"].load()
    except (ImportError, KeyError) as error:
        raise RuntimeError(f"--scheduler and --workers need Dask ({error}): pip install "
                           "\"bitstep[dask]\"") from error


def _opened(request: Request, options: dict[str, Any], writer: CheckpointWriter | None,
            few_bits: bool) -> Device:
    """The device; of a training that has no epoch left, one that needs no board."""
    try:
        if writer is not None and writer.checkpoint.finished:
            print(f"bitstep train: note: {writer.path} is finished, so nothing is trained",
                  file=sys.stderr)
            return GoldenDevice(request.config)
        return open_device(request.device, request.config, few_bits=few_bits, **options)
    finally:
        if "progress" in options:
            options["progress"].clear()


def make_request(arguments: argparse.Namespace, **changes: Any) -> Request:
    """The request of a training without a sweep; see :func:`make_requests`."""
    return make_requests(arguments, **changes)[0]


def make_requests(arguments: argparse.Namespace, **changes: Any) -> list[Request]:
    """Read and quantize the data, and resolve the options; of a sweep, those of every candidate.

    Parameters
    ----------
    arguments : Namespace
        Of this command, or of another one that trains on data.
    changes
        Options in place of those of the arguments.

    Raises
    ------
    UsageError, RuleError
        If options do not go together.
    """
    stored = {"stored": arguments.data} if is_quantized(arguments.data) else {}
    request = request_of(arguments, **stored).asking(**changes)
    asked = candidates(request)
    check_early(asked)
    problem, resolved = _on_device(*prepare(arguments, asked), getattr(arguments, "device", "cpu"))
    rows, stopping = problem.outputs[0].rows, stopping_of(resolved[0], problem)
    objectives = [one.objective(problem.rows_meant) for one in resolved]
    epochs = min(one.epochs(rows.n_rows, rows.n_features * len(problem.outputs))
                 for one in resolved)
    wishes = [(objective, one.training(rows, objective, epochs=epochs, stopping=stopping,
                                       certified=not problem.other_weights))
              for one, objective in zip(resolved, objectives, strict=True)]
    try:
        config = pipeline_of_all(rows, wishes, request["lookahead"], request["packed"])
    except ValueError as error:
        raise UsageError(str(error)) from error
    return [Request(source=arguments.data, problem=problem, objective=objective, training=training,
                    config=config, device=getattr(arguments, "device", "cpu"), resolved=one)
            for one, (objective, training) in zip(resolved, wishes, strict=True)]


def _on_device(problem: Problem, resolved: list[Resolved],
               name: str) -> tuple[Problem, list[Resolved]]:
    """What is minimised on a device, which several classes depend on."""
    count = len(problem.outputs)
    if count < 2 or not resolved[0].several:
        return problem, resolved
    device = device_class(name)     # only now: that of device cpu takes 60 MB
    if note := one_vs_rest(resolved[0], count, device, name):
        print(f"bitstep train: note: {note}", file=sys.stderr)
    resolved = [one.of_outputs(count, device) for one in resolved]
    if resolved[0].joint:
        problem = replace(problem, rule=MULTINOMIAL)
    return problem, resolved


def _watch(request: Request, device: Device, n_models: int) -> CommandWatch:
    """Progress of a training of so many models; without losses of candidates."""
    epochs, problem = len(request.training.steps), request.problem
    n_rows = problem.outputs[0].n_rows
    scored = scored_rows(problem, rows_to_look_at(problem.outputs[0].n_features)) \
        if n_models == len(problem.outputs) else None
    return CommandWatch(Bar(epochs * n_rows, "training", " rows"), epochs, n_models, n_rows,
                        device=device.name, scored=scored)


def _train_sweep(requests: list[Request], device: Device,
                 arguments: argparse.Namespace) -> tuple[Request, TrainedModel, Sweep]:
    """Train all candidates with a progress bar; the best one and the comparison."""
    first = requests[0]
    with _watch(first, device, len(requests) * len(first.problem.outputs)) as on_epoch:
        found = train_candidates(
            first.problem.outputs, device, first.config,
            [(one.objective, one.training) for one in requests], timeout_s=arguments.timeout,
            on_epoch=on_epoch)
    sweep = compare(arguments, requests, found)
    best = found[sweep.best if sweep else 0]
    if sweep is None or isinstance(best, RangeOverflowError):
        assert isinstance(best, RangeOverflowError)
        text = f"All {len(found)} candidates left the range of a number. The first one: {best}"
        swept = "step" in [name for name, _ in arguments.sweep]
        best.args = (f"{text} ({remedy(first, swept=swept)})",)
        raise best
    # Candidates share passes, so what these cost is known of all together alone.
    counters = sum_counters([one.result.counters if isinstance(one, RangeOverflowError)
                             else one.counters for one in found])
    return requests[sweep.best], replace(best, counters=counters), sweep


def _train(request: Request, device: Device, timeout_s: float,
           writer: CheckpointWriter | None) -> TrainedModel:
    """Train with a progress bar; an overflow says what to try."""
    outputs, training = request.problem.outputs, request.training
    try:
        with _watch(request, device, len(outputs)) as on_epoch:
            return train_model(outputs, device, request.config, request.objective, training,
                               initial=request.initial, timeout_s=timeout_s, on_epoch=on_epoch,
                               checkpoint=writer)
    except RangeOverflowError as error:
        error.args = (f"{error} ({remedy(request)})",)
        raise
    except RunError as error:
        if writer is not None:
            error.args = (f"{error}; {writer.kept()}",)
        raise
    except KeyboardInterrupt as error:
        if writer is not None:
            error.args = (f"interrupted; {writer.kept()}",)
        raise
