"""Options of ``bitstep train`` that end a training early, and the rows that they hold out."""

import argparse
from dataclasses import replace
from typing import Any

from bitstep.data import Dataset
from bitstep.options.table import PATIENCE, VALIDATION_FRACTION
from bitstep.training.scores.stopping import held_out


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


def hold_out(arguments: argparse.Namespace, dataset: Dataset, task: str,
             seed: int) -> tuple[Dataset, Dataset | None]:
    """Rows to train on, and those that are held out; None if none are.

    Raises
    ------
    ValueError
        If there are too few rows.
    """
    if not getattr(arguments, "early_stopping", False):    # other commands have no such option
        return dataset, None
    train, held = (
        replace(dataset, features=dataset.features[rows], labels=dataset.labels[rows])
        for rows in held_out(dataset.n_rows, arguments.validation_fraction or VALIDATION_FRACTION,
                             seed, dataset.labels if task == "classification" else None))
    return train, held
