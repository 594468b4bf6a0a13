"""``bitstep info``: versions, numbers of a configuration, the register map, headers of files."""

import argparse
import io
import json
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.cli.configuration import add_configuration_options, configuration
from bitstep.cli.options import (
    UsageError,
    add_options,
    class_text,
    is_quantized,
    label_column,
)
from bitstep.cli.report import REPORT_VERSION, print_report, versions
from bitstep.cli.times import print_times
from bitstep.data import dataset_names, load
from bitstep.data.sources import BUNDLED, REMOTE
from bitstep.options.table import OPTIONS
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.manifest import read_manifest
from bitstep.pipeline.parts.formats import BIT_PLANES, FLOAT_GUARD
from bitstep.pipeline.parts.widths import USUAL_BUS_WIDTH
from bitstep.pipeline.registers import table as register_table
from bitstep.quantization import load_quantized
from bitstep.training.files.checkpoint import is_checkpoint, load_checkpoint
from bitstep.training.files.model_file import is_model, load_model
from bitstep.writing import duration, text_table

FEATURES = (8, 16, 90, 1000, 4096)      # rows that the table of look-ahead shows


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    parser = commands.add_parser(
        "info", help="show versions, a configuration, the register map, or what a file holds",
        description="Without FILE: versions, and the derived numbers of the configuration that the "
        "options describe. With FILE: what a model, a checkpoint, a quantized data set, a report, "
        "a bitstream's manifest or a data set holds; of a data set, too, how long a training takes "
        "here, on each board (by the cycle model, with assumed clocks) and by scikit-learn.",
        epilog="Examples: bitstep info --bits 1 --bus-width 512; bitstep info breast_cancer")
    what = parser.add_mutually_exclusive_group()
    what.add_argument("file", nargs="?", metavar="FILE",
                      help="a model, a checkpoint, a quantized data set, a report or manifest "
                      "(.json), a data set or its name")
    what.add_argument("--registers", action="store_true", help="show the register map only")
    what.add_argument("--data", action="store_true", help="show the data sets that have a name")
    add_options(parser, "label_column")
    _add_pipeline(parser.add_argument_group("pipeline", "Without FILE."))
    return parser


def _add_pipeline(parser: Any) -> None:
    add_configuration_options(parser, bus_width=str(USUAL_BUS_WIDTH))
    OPTIONS["bit_planes"].declare(parser, help="show a pipeline for bit-plane rows")


def run(arguments: argparse.Namespace) -> int:
    """Show what was asked for."""
    if arguments.registers:
        print(register_table())
    elif arguments.data:
        print(text_table(["name", "task", "from"], [_data_set(name) for name in dataset_names()]))
    elif arguments.file:
        _check_no_pipeline(arguments)
        _show_file(arguments.file, arguments)
    else:
        config = configuration(arguments)       # first, so that a wrong one shows nothing else
        _show(versions())
        print()
        _show_configuration(config)
    return 0


def _check_no_pipeline(arguments: argparse.Namespace) -> None:
    """Raise UsageError for options of a pipeline, of which nothing is shown beside a file."""
    usual = argparse.ArgumentParser()
    _add_pipeline(usual)
    given = [f"--{name.replace('_', '-')}" for name, value in vars(usual.parse_args([])).items()
             if getattr(arguments, name) != value]
    if given:
        raise UsageError(f"{', '.join(given)} must not be given with FILE, which is shown without "
                         "a pipeline; leave them out, or FILE to see a pipeline")


def _data_set(name: str) -> list[str]:
    if name in BUNDLED:
        return [name, BUNDLED[name], "scikit-learn"]
    if name in REMOTE:
        return [name, REMOTE[name].task, "LIBSVM's site, or a folder (--data-home, $BITSTEP_DATA)"]
    if name == "noisy-N":
        return [name, "regression", "drawn: 10,000 rows as of synthetic-N, with noise of 0.5"]
    return [name, "regression", "drawn: 20,000 rows of N Gaussian features, as in the ZipML paper"]


def _show(values: dict[str, Any]) -> None:
    width = max(map(len, values))
    for name, value in values.items():
        text = {None: "not installed", True: "yes", False: "no"}.get(value, value) \
            if value is None or isinstance(value, bool) else value
        print(f"{name:{width}}  {text:.4g}" if isinstance(text, float) else
              f"{name:{width}}  {text}")


def _show_configuration(config: PipelineConfig) -> None:
    if config.packed:
        _show_packed(config)
        return
    level = {"largest level": config.rows.level_limit} if not config.rows.floating else \
        {"fraction of sums": f"{FLOAT_GUARD} bits"}
    _show({"pipeline": config.name, "lanes": config.rows.lanes, **level,
           "capacity": f"{config.rows.capacity} features, {config.rows.max_beats} beats",
           "dot product": f"{config.rows.dot_width} bits", "latency": f"{config.latency} cycles",
           "update": f"{config.update_interval} cycle" + "s" * (config.update_interval > 1),
           "look-ahead": f"{config.lookahead} rows",
           **({"look-ahead between batches": f"{config.batch_lookahead} rows"}
              if config.carries_on else {})})
    print()
    heads = ["features", "beats", "look-ahead needed", "used", "cycles per row",
             "rows between batches"]
    rows = []
    for features in FEATURES:
        if features <= config.rows.capacity:
            beats = config.rows.beats(features)
            used = config.ahead.of_rows(beats)
            rows.append([features, beats, config.stages.required_lookahead(beats), used,
                         _pitch(config, beats), config.ahead.idle_rows(used, beats)])
    columns = len(heads) if config.carries_on else len(heads) - 1
    print(text_table(heads[:columns], [row[:columns] for row in rows]))
    # A slot takes a value a lane; a beat of the bus has a bit plane of bus_width values.
    more = "; a row that is read again takes more" if config.refetch else \
        f"; k bit planes take at least k / {config.bus_width // config.rows.lanes} cycles a beat" \
        if config.row_format == BIT_PLANES else \
        "; the rows without data between two batches take as many" if config.carries_on else ""
    print(f"\nCycles per row: with memory that is always ready{more}.")


def _show_packed(config):
    """A pipeline for packed rows, and how long beats take in it."""
    per_beat = config.rows.rows_per_beat
    _show({"pipeline": config.name, "rows in a beat": per_beat,
           "bits used of a beat": f"{config.rows.used_share:.1%}",
           "features of a row": config.max_features, "largest level": config.rows.level_limit,
           "dot product": f"{config.rows.dot_width} bits", "latency": f"{config.latency} cycles"})
    print()
    counts = [count for count in (1, 2, 4, 8, 12, 16) if count <= config.models]
    turns = [max(count, config.latency) / count for count in counts]
    print(text_table(
        ["models", "cycles per row, batch of 1", f"batch of {per_beat}", "large batches"],
        [[count, f"{turn:.3g}", f"{turn / per_beat:.3g}", f"{1 / per_beat:.3g}"]
         for count, turn in zip(counts, turns, strict=True)]))
    print("\nCycles per row and model: with memory, and labels, that are always ready.")


def _pitch(config, beats):
    """Mean cycles from a row to the next: that of its beats, that of the recursion, or, with less
    look-ahead than needed, that of waiting for updates.
    """
    span = (config.latency + beats - 1) / (config.ahead.of_rows(beats) + 1)
    return max(beats, config.update_interval, span)


def _show_file(path: str, arguments: argparse.Namespace) -> None:
    if is_quantized(path):
        _show_quantized(path)
    elif Path(path).suffix == ".json" and Path(path).is_file():
        _show_json(path)
    elif is_model(path):
        _show_model(path)
    elif is_checkpoint(path):
        _show_checkpoint(path)
    else:
        _show_data(load(path, label_column=label_column(arguments)))


def _show_quantized(path):
    data = load_quantized(path)
    _show({"file": f"quantized data set, {Path(path).stat().st_size:,} bytes",
           "rows": data.n_rows, "features": data.n_features, "bits": data.bits,
           "encoding": data.encoding, "bus width": data.bus_width, "copies": data.rows.copies,
           "bytes per epoch": f"{data.rows.stored[0].nbytes:,}",
           "fine rows": "a copy with 16 bits a value" if data.fine_rows is not None else
           "all rows are exact" if data.row_format == "float32" else "no",
           "task": data.task, "labels": data.label_format.name.lower() if data.classes is not None
           else f"{data.label_format.name.lower()}, {data.label_offset:g} + "
           f"{data.label_scale:g} L",
           "classes": _classes([] if data.classes is None else data.classes),
           "scaler": data.scaler.kind, "seed": data.rows.seed,
           "noise of codes": f"{np.mean(data.variance):.4g} (mean variance of a scaled feature)"})


def _show_model(path):
    model = load_model(path)
    hidden = ("pipeline", "model", "estimator")
    _show({"file": f"model, {Path(path).stat().st_size:,} bytes",
           "model": model.config.get("model"), "features": model.n_features,
           "outputs": len(model.coef), "classes": _classes(model.classes),
           **{name.replace("_", " "): value for name, value in model.config.items()
              if name not in hidden and value is not None}})


def _show_checkpoint(path):
    state = load_checkpoint(path)
    _show({"file": f"checkpoint, {Path(path).stat().st_size:,} bytes",
           "of": ("finished, " if state.finished else "") + state.position(),
           "time so far": duration(state.seconds),
           "rows": state.data["rows"], "features": state.data["features"],
           **{name.replace("_", " "): value for name, value in state.settings.items()
              if value is not None}})


def _show_manifest(path):
    manifest = read_manifest(path, "a bitstream")
    _show({"file": f"manifest of a bitstream, {Path(path).stat().st_size:,} bytes",
           "board": manifest.board, "pipeline": manifest.config.name,
           "identity": f"{manifest.identity:032x}",
           **{f"clock, {name}": f"{value} MHz" for name, value in manifest.clock_mhz.items()},
           **{f"slack of {name}": f"{ns} ns" for name, ns in (manifest.slack_ns or {}).items()},
           **{name: f"{one['used']:,} of {one['available']:,}"
              for name, one in manifest.resources.items()},
           **{name.replace("_", " "): value for name, value in manifest.system.items()},
           **manifest.tools})


def _show_data(dataset):
    labels = dataset.labels
    classes = np.unique(labels)
    low, high = dataset.features.min(axis=0), dataset.features.max(axis=0)
    _show({"file": "data set", "name": dataset.name, "rows": dataset.n_rows,
           "features": dataset.n_features, "task": dataset.task,
           "labels": f"{labels.min():g} to {labels.max():g}, {len(classes)} different"
           if dataset.class_names is None else ", ".join(dataset.class_names),
           "values": f"{low.min():g} to {high.max():g}",
           "constant columns": int((low == high).sum())})
    print()
    print_times(dataset)


def _show_json(path):
    """Show a report or a manifest; of one that is damaged no line."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        content = None
    if isinstance(content, dict) and {"board", "identity"} <= content.keys():
        _show_manifest(path)
    elif isinstance(content, dict) and content.get("report_version") == REPORT_VERSION:
        print(_text_of_report(path, content), end="")
    else:
        raise ValueError(f"{path}: this is not a report of `bitstep train --report` that this "
                         "version reads, and no manifest of a bitstream")


def _text_of_report(path, report):
    try:
        with redirect_stdout(io.StringIO()) as text:
            print_report(report)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{path}: the report is damaged, or another program changed it "
                         f"({type(error).__name__}: {error}); `bitstep train --report` writes one"
                         ) from error
    return text.getvalue()


def _classes(values):
    return ", ".join(map(class_text, values)) or "none (regression)"
