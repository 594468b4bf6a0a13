"""``bitstep info``: versions, numbers of a configuration, the register map, headers of files."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.cli.common import is_quantized, table
from bitstep.cli.report import versions
from bitstep.cli.rtl import add_configuration_options, configuration
from bitstep.config import PipelineConfig
from bitstep.data import dataset_names
from bitstep.modelfile import load_model
from bitstep.quantization import QuantizedDataset
from bitstep.registers import table as register_table

FEATURES = (8, 16, 90, 1000, 4096)      # rows that the table of look-ahead shows


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    parser = commands.add_parser(
        "info", help="show versions, a configuration, the register map, or what a file holds",
        description="Without FILE: versions, and the derived numbers of the configuration that the "
        "options describe. With FILE: what a model or a quantized data set holds.",
        epilog="Example: bitstep info --bits 1 --bus-width 512")
    parser.add_argument("file", nargs="?", metavar="FILE",
                        help="a model or a quantized data set")
    parser.add_argument("--registers", action="store_true", help="show the register map only")
    parser.add_argument("--data", action="store_true", help="show the names of data sets only")
    add_configuration_options(parser)
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Show what was asked for."""
    if arguments.registers:
        print(register_table())
    elif arguments.data:
        print("\n".join(dataset_names()))
    elif arguments.file:
        _show_file(arguments.file)
    else:
        _show(versions())
        print()
        _show_configuration(configuration(arguments))
    return 0


def _show(values: dict[str, Any]) -> None:
    width = max(map(len, values))
    for name, value in values.items():
        print(f"{name:{width}}  {'not installed' if value is None else value}")


def _show_configuration(config: PipelineConfig) -> None:
    _show({"pipeline": config.name, "lanes": config.lanes, "largest level": config.level_limit,
           "capacity": f"{config.capacity} features, {config.max_beats} beats",
           "dot product": f"{config.dot_width} bits", "latency": f"{config.latency} cycles",
           "look-ahead": f"{config.lookahead} rows"})
    print()
    rows = []
    for features in FEATURES:
        if features <= config.capacity:
            beats = config.beats(features)
            rows.append([features, beats, config.required_lookahead(beats),
                         config.effective_lookahead(beats), max(beats, config.recursion)])
    print(table(["features", "beats", "look-ahead needed", "used", "cycles per row at best"], rows))


def _show_file(path: str) -> None:
    if is_quantized(path):
        data = QuantizedDataset.load(path)
        _show({"file": f"quantized data set, {Path(path).stat().st_size:,} bytes",
               "rows": data.n_rows, "features": data.n_features, "bits": data.bits,
               "encoding": data.encoding, "bus width": data.bus_width, "copies": data.copies,
               "task": data.task, "labels": f"{data.label_format.name.lower()}, "
               f"{data.label_offset:g} + {data.label_scale:g} L", "scaler": data.scaler.kind,
               "seed": data.seed, "mean variance": f"{np.mean(data.variance):.6g}"})
        return
    model = load_model(path)
    _show({"file": "model", "features": model.n_features, "outputs": len(model.coef),
           "classes": ", ".join(f"{value:g}" for value in model.classes) or "none (regression)",
           **{name: value for name, value in model.config.items() if name != "pipeline"}})
