"""Options of ``bitstep train`` that end a training early, and the rows that they hold out."""

import argparse
from dataclasses import replace
from typing import Any

from bitstep.cli.options import UsageError, integer, number
from bitstep.data import Dataset
from bitstep.training.scores.stopping import PATIENCE, VALIDATION_FRACTION, held_out


def add_stopping_options(group: Any) -> None:
    """Declare the options.

    Parameters
    ----------
    group : argument group
    """
    group.add_argument("--tol", type=number(0, above=False), metavar="T", help="stop once the "
                       "loss falls by no more than this share of the loss of the best constant "
                       "(default: 0 with --early-stopping, else never); bit-centred: once the "
                       "gradient's largest component is at most T times that of the first model "
                       "(default: 0)")
    group.add_argument("--early-stopping", action="store_true", help="hold rows out of those to "
                       "train on, stop by the loss on them, and keep the model of the epoch where "
                       "it was least")
    group.add_argument("--validation-fraction", type=_fraction, metavar="F", help="share of the "
                       f"rows that --early-stopping holds out (default: {VALIDATION_FRACTION})")
    group.add_argument("--n-iter-no-change", type=integer(1), metavar="N", help="epochs in a row "
                       f"that must gain no more than --tol to stop (default: {PATIENCE})")


def _fraction(text: str) -> float:
    value = number(0)(text)
    if value >= 1:
        raise argparse.ArgumentTypeError(f"must be between 0 and 1, not {text!r}")
    return value


def check_stopping_options(arguments: argparse.Namespace) -> None:
    """Raise UsageError if options of :func:`add_stopping_options` do not go together, or with
    others.
    """
    centred = arguments.solver == "bit-centred"
    if arguments.validation_fraction is not None and not arguments.early_stopping:
        raise UsageError("--validation-fraction needs --early-stopping, which holds rows out")
    if arguments.n_iter_no_change is not None and not stops(arguments):
        raise UsageError("--n-iter-no-change needs --early-stopping, or --tol of --solver sgd")
    if arguments.early_stopping and centred:
        raise UsageError("--early-stopping does not go together with --solver bit-centred, which "
                         "goes to the optimum of the rows and stops by --tol; a larger --l2 makes "
                         "the model smaller")
    if arguments.sweep and stops(arguments):
        raise UsageError("--sweep does not go together with --early-stopping and --tol: candidates "
                         "share the epochs; sweep first, then train with the best values")


def stops(arguments: argparse.Namespace) -> bool:
    """True if a training of solver ``sgd`` may stop early."""
    return arguments.early_stopping or bool(arguments.tol and arguments.solver == "sgd")


def stopping_settings(arguments: argparse.Namespace) -> dict[str, Any]:
    """The options with their defaults filled in; None for those without effect."""
    asked, early = stops(arguments), arguments.early_stopping
    return {"tol": (arguments.tol or 0.0) if asked else arguments.tol or None,
            "early-stopping": True if early else None,
            "validation-fraction":
            (arguments.validation_fraction or VALIDATION_FRACTION) if early else None,
            "n-iter-no-change": (arguments.n_iter_no_change or PATIENCE) if asked else None}


def _asked(arguments: argparse.Namespace) -> bool:
    return getattr(arguments, "early_stopping", False)      # other commands have no such option


def check_features(arguments: argparse.Namespace) -> None:
    """Raise UsageError if rows are to be held out of a quantized file."""
    if _asked(arguments):
        raise UsageError(f"--early-stopping holds rows out, so it needs features, but "
                         f"{arguments.data} holds codes: train on the data that it was made of, or "
                         "stop by the loss of the rows to train on, with --tol alone")


def hold_out(arguments: argparse.Namespace, dataset: Dataset, task: str,
             seed: int) -> tuple[Dataset, Dataset | None]:
    """Rows to train on, and those that are held out; None if none are.

    Raises
    ------
    ValueError
        If there are too few rows.
    """
    if not _asked(arguments):
        return dataset, None
    train, held = (
        replace(dataset, features=dataset.features[rows], labels=dataset.labels[rows])
        for rows in held_out(dataset.n_rows, arguments.validation_fraction or VALIDATION_FRACTION,
                             seed, dataset.labels if task == "classification" else None))
    return train, held
