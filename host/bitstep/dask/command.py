"""``bitstep train`` on the workers of a Dask cluster: files as parts."""

import argparse
import glob
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from dask.delayed import delayed
from distributed import Client
from distributed.comm.addressing import get_address_host

from bitstep.cli.checkpoints import Start, check_paths, read_start, started
from bitstep.cli.class_weights import asked_weight, label_of
from bitstep.cli.columns import warn_of_many_classes
from bitstep.cli.device import named_options
from bitstep.cli.options import UsageError, label_column
from bitstep.cli.outputs import output_sizes, reserve_outputs
from bitstep.cli.problem import Problem, Request
from bitstep.cli.progress import Bar, shown
from bitstep.cli.report import print_report
from bitstep.cli.request import check_early, request_of
from bitstep.cli.signals import stop_signals
from bitstep.cli.train import ended, write_outputs
from bitstep.dask.devices import DeviceChoice
from bitstep.dask.engine import LATE, Engine, on_worker
from bitstep.dask.local import start_cluster
from bitstep.dask.training import Collected, collected, on_devices
from bitstep.data import load
from bitstep.data.dataset import DataError, NoRowsError
from bitstep.data.tables.files import (
    COMPRESSED_SUFFIXES,
    TEXT_SUFFIXES,
    has_known_suffix,
    open_file,
)
from bitstep.data.tables.texts import LibsvmTable
from bitstep.devices import default_device
from bitstep.options.models import MODELS
from bitstep.pipeline.losses import MULTINOMIAL
from bitstep.training.choices import resolve
from bitstep.training.shards.parts import Part
from bitstep.training.shards.passes import shard_losses, train_shards
from bitstep.training.trained import TrainedModel

CONNECT_S = 30.0            # at most, to reach a scheduler
# Options that need all rows in one place, with the reason.
APART = {
    "sweep": "candidates share passes over the rows of one machine",
    "train_rows": "rows to test with would have to leave their shards; keep files back instead",
    "early_stopping": "rows to hold out would have to leave their shards",
    "wave": "a worker writes no waveform", "data_home": "DATA are files"}


@dataclass(frozen=True)
class ShardedProblem(Problem):
    """A training set in shards; its losses are sums of theirs.

    Attributes
    ----------
    scores : (ndarray of float64, ndarray of float64 or None) or None
        Loss and accuracy after each epoch; None before the training.
    """

    scores: tuple[np.ndarray, np.ndarray | None] | None = None

    def of_codes(self, model: TrainedModel) -> tuple[list[Any], list[Any]]:
        """See :meth:`bitstep.cli.problem.Problem.of_codes`."""
        assert self.scores is not None
        losses, shares = self.scores
        return losses.tolist(), [None] * len(losses) if shares is None else shares.tolist()


@dataclass(frozen=True)
class FileFacts:
    """What is known of a file before it becomes a part; of one without rows nothing.

    Attributes
    ----------
    labels : tuple of float
        The least ones, three at most: more than two values are a regression's.
    names : bool
        True if labels are names of classes.
    width : int
        Columns.
    base : int or None
        Index of the first column of LIBSVM text.
    """

    labels: tuple[float, ...] = ()
    names: bool = False
    width: int = 0
    base: int | None = None


def file_part(where: str, label: str | int, width: int | None, before: int, classes: bool) -> Part:
    """A part of a file.

    Parameters
    ----------
    where : str
        The file.
    label : str or int
        Column of the label.
    width : int or None
        Columns of LIBSVM text, whose last ones may be 0 in every row of a file.
    before : int
        Of these, columns before the first one of the file, which are 0 in every row of it.
    classes : bool
        True of a classification.

    Returns
    -------
    Part
        Without rows or columns of a file that has no rows.

    Raises
    ------
    DataError
        If the file cannot be read, or has names where a regression needs numbers.
    """
    try:
        data = load(where, label_column=label,
                    n_features=None if width is None else width - before,
                    task="classification" if classes else None)
    except NoRowsError:
        return Part(where, np.empty((0, 0)), np.empty(0))
    features, labels = data.features, data.labels
    if before:
        features = np.pad(features, ((0, 0), (before, 0)))
    if data.class_names is not None:
        if not classes:
            raise DataError(f"{where}: the labels are names ({', '.join(data.class_names[:10])}), "
                            "and a regression needs numbers; choose a --model of classes, or name "
                            "the column of numbers (--label-column)")
        labels = np.array(data.class_names)[labels.astype(np.int64)]
    return Part(where, features, labels, data.feature_names)


def file_facts(where: str, label: str | int) -> FileFacts:
    """What is known of a file."""
    def read() -> FileFacts:
        try:
            data = load(where, label_column=label)
        except NoRowsError:
            return FileFacts()
        base = None
        if _is_libsvm(where):
            table = open_file(Path(where))
            assert isinstance(table, LibsvmTable)
            table.fix_columns(data.n_features)
            base = table.base
        return FileFacts(tuple(np.unique(data.labels)[:3].tolist()),
                         data.class_names is not None, data.n_features, base)
    return on_worker(read)


def files_of(pattern: str) -> list[str]:
    """Files of a pattern or a folder, by absolute name, in the order of their names; of a folder
    without those that Spark and Dask write beside the data, such as ``_SUCCESS``.

    Raises
    ------
    UsageError
        If there is none, or one is of a kind that cannot be read.
    """
    folder = Path(pattern)
    found = sorted((str(one) for one in folder.iterdir() if one.name[0] not in "._")
                   if folder.is_dir() else glob.glob(pattern))
    files = [str(Path(one).resolve()) for one in found if Path(one).is_file()]
    if not files:
        raise UsageError(f"DATA must be a file, a folder or a pattern of files, such as "
                         f"'data/part-*.parquet', that this machine and all workers can read; "
                         f"found no file {pattern}")
    for one in files:
        if not has_known_suffix(Path(one)):
            raise UsageError(f"{one} must be a file that `bitstep train` reads (.svm, .csv, .tsv, "
                             ".npy, .npz, .parquet, .arrow)")
    return files


def _is_libsvm(path: str) -> bool:
    suffixes = [one for one in Path(path).suffixes if one.lower() not in COMPRESSED_SUFFIXES]
    return bool(suffixes) and suffixes[-1].lower() in TEXT_SUFFIXES


def way_of(arguments: argparse.Namespace) -> str:
    """The option that asks for many machines."""
    return "--scheduler" if arguments.scheduler is not None else "--workers"


def check_apart(arguments: argparse.Namespace) -> None:
    """Raise UsageError for options that need all rows in one place."""
    way = way_of(arguments)
    for name, reason in APART.items():
        if getattr(arguments, name, None) not in (None, False, []):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} does not go with {way}: {reason}; leave one of the two out")
    if arguments.solver == "sgd":
        raise UsageError(f"--solver sgd does not go with {way}: its rows must be read in one order "
                         "by one model; leave one of the two out")
    if arguments.scheduler is not None and arguments.workers is not None:
        raise UsageError("--workers starts a cluster on this machine, and --scheduler connects to "
                         "one: leave one of the two out")


def check_scheduler(address: str | None) -> None:
    """Raise UsageError unless a client could connect to an address, if there is one: a client that
    could not would close itself, in vain, for minutes.
    """
    try:
        if address is not None:
            get_address_host(address)
    except (ValueError, FutureWarning) as error:    # a warning, of transports that were removed
        raise UsageError("--scheduler must be an address such as tcp://host:8786, not "
                         f"{address!r} ({error})") from error


@contextmanager
def _client(arguments: argparse.Namespace) -> Iterator[Client]:
    """A client of the scheduler that the options name, or of a cluster on this machine."""
    if arguments.scheduler is None:
        with start_cluster(arguments.workers) as cluster, \
                Client(cluster, set_as_default=False) as client:
            if not shown.quiet:
                print(f"bitstep train: {arguments.workers} workers on this machine, dashboard "
                      f"{client.dashboard_link}", file=sys.stderr)
            yield client
        return
    try:
        client = Client(arguments.scheduler, set_as_default=False,
                        timeout=min(CONNECT_S, arguments.timeout))
    except (OSError, *LATE, ImportError, ValueError) as error:
        raise RuntimeError(f"No scheduler answers at {arguments.scheduler} ({error}): start one "
                           "with `dask scheduler`, and give the address that it prints") from error
    with client:
        yield client


def run(arguments: argparse.Namespace) -> int:
    """Train, then write and print what was asked for."""
    check_apart(arguments)
    check_scheduler(arguments.scheduler)
    files = files_of(arguments.data)
    check_paths(arguments, files)
    start = read_start(arguments)
    request = request_of(arguments, many_machines=way_of(arguments)).asking(solver="bit-centred")
    check_early([request])      # before anything is done with the data
    asked = arguments.device if arguments.device != default_device() else None
    device = DeviceChoice(asked, tuple(sorted(named_options(arguments).items())))
    label = label_column(arguments)
    with _client(arguments) as client:
        engine = Engine(client, {arguments.resource: 1} if arguments.resource else None,
                        arguments.timeout)
        found = _look(engine, files, label, request["model"] is None)
        if request["model"] is None:
            task = _task_of(found)
            request = request.filled(model="linreg" if task == "regression" else "logistic")
        resolved, weight = resolve(request), asked_weight(request)
        classes = MODELS[request["model"]].task == "classification"
        sources = [(one, label, *place, classes)
                   for one, place in zip(files, _places(files, found), strict=True)]
        with collected(engine, file_part, sources, resolved, device, seed=resolved.rows.seed,
                       shuffle=bool(resolved.rows.shuffle), shard_rows=arguments.shard_rows,
                       fit_intercept=request["intercept"], class_weight=weight,
                       class_labels=_by_label) as data:
            return _train(arguments, start, data, resolved, len(files))


def _by_label(weight: Any, classes: np.ndarray) -> Any:
    """Weights by class that options name in text, by labels."""
    return {label_of(name, classes): value for name, value in weight.items()} \
        if isinstance(weight, dict) else weight


def _look(engine: Engine, files: list[str], label: str | int,
          labels: bool) -> dict[str, FileFacts]:
    """What is known of files of LIBSVM text, whose columns only all of them tell, and with
    ``labels`` of as many others as tell the task: all, unless the first one has three values.
    """
    found: dict[str, FileFacts] = {}

    def ask(chosen: list[str]) -> None:
        chosen = [one for one in chosen if one not in found]
        found.update(zip(chosen, engine.gather(engine.compute([
            delayed(file_facts, pure=False)(one, label) for one in chosen])), strict=True))

    ask([one for one in files if _is_libsvm(one)] + files[:labels])
    if labels and len(found[files[0]].labels) <= 2:
        ask(files)
    return found


def _task_of(found: dict[str, FileFacts]) -> str:
    """The task of all files together, as of one file with their rows."""
    values = {value for one in found.values() for value in one.labels}
    if not values:
        raise DataError(f"DATA must have at least one row, but of {len(found)} files none has one")
    names = any(one.names for one in found.values())
    return "classification" if names or len(values) == 2 else "regression"


def _places(files: list[str], found: dict[str, FileFacts]) -> list[tuple[int | None, int]]:
    """Width of each file, if it is LIBSVM text, and columns before its first one. Such files count
    from 0 if an index 0 occurs in one of them, as one file with their rows would.
    """
    base = min((one.base for one in found.values() if one.base is not None), default=0)
    before = {one: facts.base - base for one, facts in found.items() if facts.base is not None}
    width = max((facts.width + before.get(one, 0) for one, facts in found.items()), default=0)
    return [(width, before.get(one, 0)) if _is_libsvm(one) else (None, 0) for one in files]


def _train(arguments: argparse.Namespace, start: Start, data: Collected, resolved: Any,
           parts: int) -> int:
    """Train on shards, and write what was asked for."""
    resolved, note = on_devices(resolved, data)
    if note:
        print(f"bitstep train: note: {note}", file=sys.stderr)
    if data.note:
        print(f"bitstep: warning: {data.note}", file=sys.stderr)
    objective = resolved.objective(data.rows_meant)
    outputs: list[Any] = list(data.outputs)
    classes = data.plan.classes
    if classes.dtype.kind == "U":
        warn_of_many_classes(classes.tolist(), data.rows.n_rows)
    problem = ShardedProblem(
        Path(arguments.data).name, resolved.request["model"], resolved.rows, outputs,
        classes.astype(np.float64) if classes.dtype.kind in "iub" else classes, None, None,
        asked_weight(resolved.request), rule=MULTINOMIAL if objective.multinomial else None)
    request = Request(
        source=arguments.data, problem=problem, objective=objective,
        training=resolved.training(data.rows, objective, certified=not data.note),
        config=data.config, device=arguments.device, resolved=resolved)
    request, writer = started(start, arguments, request,
                              _description(data) if start.path is not None else None)
    epochs = len(request.training.steps)
    several = len(outputs)
    with reserve_outputs(output_sizes(arguments, problem, epochs), writer) as space:
        started_s = time.perf_counter()
        earlier_s = writer.checkpoint.seconds if writer else 0.0
        with Bar(epochs, "training", " outer steps") as bar:
            model = train_shards(
                data.shards, data.outputs, data.config, objective, request.training,
                step_asked=resolved.step_asked, initial=request.initial,
                timeout_s=arguments.timeout, on_epoch=lambda done: bar.to(-(-done // several)),
                checkpoint=writer)
        stop_signals.deferred = True        # what is left is short, and keeps the model
        scores = shard_losses(data.shards, objective, data.config, model,
                              classes=problem.task == "classification")
        wall_s = earlier_s + time.perf_counter() - started_s
        request = replace(request, problem=replace(problem, scores=scores))
        written, report = write_outputs(
            space, arguments, request, model, writer, clock_hz=None, wall_seconds=wall_s,
            shards={"parts": parts, "shards": len(data.shards.facts)})
    try:
        print_report(report)
        print(f"Shards: {len(data.shards.facts)}, of {parts} files.")
        for path in written.written:
            print(f"wrote {path}")
    finally:
        written.check()
    if short := model.short_of(request.training.tol, epochs, request.objective):
        print(f"bitstep train: warning: {short}", file=sys.stderr)
    return ended(request, model, writer)


def _description(data: Collected) -> dict[str, Any]:
    """Rows as a checkpoint describes them; the shards' digests stand for them."""
    return {"rows": data.rows.n_rows, "features": data.rows.n_features,
            "classes": len(data.outputs), "shards": data.shards.each("digests", "digest")}
