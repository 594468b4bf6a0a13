"""``bitstep predict``: a model file on a data set."""

import argparse
from pathlib import Path
from typing import Any

import numpy as np

from bitstep.cli.options import check_writable, is_quantized
from bitstep.data import load
from bitstep.data.tables.files import is_libsvm
from bitstep.quantization import load_quantized
from bitstep.training.model_file import LinearModel, ModelFileError, load_model
from bitstep.writing import write_text


def add_parser(commands: Any) -> argparse.ArgumentParser:
    """Declare the options."""
    parser = commands.add_parser(
        "predict", help="apply a model file to a data set",
        description="Predict the labels of DATA with a model of `bitstep train --out`, and measure "
        "how well they fit.",
        epilog="Example: bitstep predict model.npz cadata --out predictions.txt")
    parser.add_argument("model", metavar="MODEL.npz", help="model of `bitstep train --out`")
    parser.add_argument("data", metavar="DATA", help="a file or a name, as for `bitstep train`, or "
                        "a file of `bitstep quantize` with the model's bits and encoding")
    parser.add_argument("--data-home", metavar="DIR", help="folder of named data sets")
    parser.add_argument("--out", metavar="FILE", help="write the predictions, one a line")
    return parser


def run(arguments: argparse.Namespace) -> int:
    """Predict, print the measure, write the predictions."""
    check_writable(arguments.out, sources=[arguments.model, arguments.data])
    model = load_model(arguments.model)
    if is_quantized(arguments.data):
        features, labels = _from_codes(arguments, model)
    else:
        dataset = load(arguments.data, data_home=arguments.data_home, progress=True)
        features, labels = dataset.features, dataset.labels
        missing = model.n_features - dataset.n_features
        if missing > 0 and is_libsvm(Path(arguments.data)):
            # Columns beyond the last one that is not zero in any row of this file.
            features = np.pad(features, ((0, 0), (0, missing)))
    predictions = model.predict(features)
    if len(model.classes):
        unknown = np.setdiff1d(labels, model.classes)
        if len(unknown) == len(np.unique(labels)):
            raise ModelFileError(
                f"The model tells classes {_list(model.classes)} apart, the labels of "
                f"{arguments.data} are {_list(unknown)}: use the data set it was trained for")
        right = int((predictions == labels).sum())
        print(f"accuracy {100 * right / len(labels):.2f} % on {len(labels)} rows ({right} of them "
              "right)")
    else:
        loss = float(np.mean((predictions - labels) ** 2)) / 2
        variance = float(np.var(labels))
        explained = f", R2 {1 - 2 * loss / variance:.4f}" if variance else ""
        print(f"loss {loss:.6g} (1/(2K) sum of squared residuals){explained} on {len(labels)} rows")
    if arguments.out:
        write_text(arguments.out, "".join(f"{value!r}\n" for value in predictions.tolist()))
        print(f"wrote {arguments.out}")
    return 0


def _from_codes(arguments: argparse.Namespace, model: LinearModel) -> tuple[np.ndarray, np.ndarray]:
    """Features that rows stand for, as exactly as the file has them, and labels."""
    data = load_quantized(arguments.data)
    expected = [model.config.get(name) for name in ("bits", "encoding")]
    if expected != [data.bits, data.encoding]:
        raise ModelFileError(
            f"The model was trained with {expected[0]} bits {expected[1]}, {arguments.data} holds "
            f"{data.bits} bits {data.encoding}: quantize it like the model's data")
    scaled, _ = data.rows.values(slice(None))
    return scaled * data.scaler.scale + data.scaler.centre, data.label_values()


def _list(values):
    return ", ".join(f"{value:g}" for value in values[:5]) + (", ..." if len(values) > 5 else "")
