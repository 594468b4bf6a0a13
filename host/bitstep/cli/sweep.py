"""Sweeps of ``bitstep train``: candidates on the same rows, trained side by side, and the best."""

import argparse
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from bitstep.cli.options import UsageError
from bitstep.cli.problem import Request
from bitstep.cli.request import request_of
from bitstep.options.rules import Request as RuleRequest
from bitstep.options.table import OPTIONS
from bitstep.pipeline.results import RangeOverflowError
from bitstep.training.trained import TrainedModel
from bitstep.writing import numbers, text_table

PARAMETERS = {name.replace("_", "-"): option.kind for name, option in OPTIONS.items()
              if option.sweep}


def add_sweep_option(group: Any) -> None:
    """Declare ``--sweep``."""
    option = OPTIONS["sweep"]
    group.add_argument(option.flag, action="append", type=_parameter, metavar=option.metavar,
                       help=f"{option.help}. Options: {', '.join(PARAMETERS)}")


def _parameter(text: str) -> tuple[str, list[Any]]:
    name, _, values = text.partition("=")
    if name not in PARAMETERS:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(PARAMETERS)}, then = and "
                                         f"values with commas between them, not {text!r}")
    found = [PARAMETERS[name](value) for value in values.split(",")]
    if len(set(found)) < len(found):
        raise argparse.ArgumentTypeError(f"must have each value once, not {text!r}")
    return name, found


def candidates(request: RuleRequest) -> list[RuleRequest]:
    """The request of every candidate; without ``--sweep`` the request itself.

    Raises
    ------
    UsageError
        If a parameter is swept twice, or given besides.
    """
    if not request["sweep"]:
        return [request]
    names = [name for name, _ in request["sweep"]]
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"--sweep {name} was given twice: give all values at once")
        if request[_option(name)]:
            raise UsageError(f"--{name} does not go together with --sweep {name}, which has its "
                             "values; leave one of the two out")
    return [request.asking(**dict(zip(map(_option, names), values, strict=True)))
            for values in itertools.product(*(values for _, values in request["sweep"]))]


def _option(name: str) -> str:
    """Key of an option that is swept."""
    return name.replace("-", "_")


@dataclass(frozen=True)
class Sweep:
    """Candidates after their training.

    Attributes
    ----------
    entries : list of dict
        The report's ``sweep`` (docs/report.md).
    best : int
        Number of the best candidate.
    by : str
        Measure that decided, a key of the entries.
    metric : str
        ``loss`` or ``accuracy``.
    """

    entries: list[dict[str, Any]]
    best: int
    by: str
    metric: str

    def print(self) -> None:
        """Print a row for each candidate."""
        swept = list(self.entries[0]["parameters"])
        columns = {name: [_shown(entry["parameters"][name]) for entry in self.entries]
                   for name in swept}
        columns["train loss"] = _column([entry["train_loss"] for entry in self.entries])
        tests = [entry["test_metric"] for entry in self.entries]
        if self.by == "test_metric":
            columns[f"test {self.metric}"] = _column(tests) if self.metric == "loss" \
                else _shares(tests)
        if self.metric == "accuracy":
            columns["train accuracy"] = _shares([one["train_accuracy"] for one in self.entries])
        columns[""] = [self._note(place) for place in range(len(self.entries))]
        print(text_table(list(columns), list(zip(*columns.values(), strict=True))))
        on = f"{self.metric} on the test rows" if self.by == "test_metric" else "training loss"
        text = f"Best of {len(self.entries)} candidates by the {on}"
        if self.by == "train_loss" and set(swept) != {"step"}:
            text += ", which no penalty can lower (--train-rows keeps rows to test on)"
        chosen = self.entries[self.best]["parameters"]
        print(f"{text}: " + " ".join(f"--{name} {_shown(chosen[name])}" for name in swept) + "\n")

    def _note(self, place):
        if place == self.best:
            return "best"
        ended = self.entries[place]["left_range_in_epoch"]
        return "" if ended is None else f"left the range in epoch {ended}"


def compare(arguments: argparse.Namespace, requests: Sequence[Request],
            found: Sequence[TrainedModel | RangeOverflowError]) -> Sweep | None:
    """Compare candidates by the models of their last epochs; None if all left their range.

    Parameters
    ----------
    arguments : Namespace
        Options of the command.
    requests : sequence of Request
    found : sequence of TrainedModel or RangeOverflowError
        Of each request.
    """
    problem = requests[0].problem
    tested = problem.test_set is not None and problem.test_set.n_rows > 0
    by, accuracy = ("test_metric" if tested else "train_loss"), problem.task == "classification"
    entries, scores = [], []
    for one, options in zip(found, candidates(request_of(arguments)), strict=True):
        entry: dict[str, Any] = {
            "parameters": {name: options[_option(name)]
                           for name, _ in arguments.sweep},
            "train_loss": None, "train_accuracy": None, "test_metric": None,
            "left_range_in_epoch": None, "model_range": None}
        if isinstance(one, RangeOverflowError):
            entry["left_range_in_epoch"] = one.epoch
        else:
            last = problem.history(_last_epoch(one))[0]
            entry |= {name: last[name] for name in ("train_loss", "train_accuracy", "test_metric")}
            entry["model_range"] = one.model_range
        score = entry[by]
        if score is None or not np.isfinite(score):
            score = np.inf
        scores.append(-score if tested and accuracy and np.isfinite(score) else score)
        entries.append(entry)
    if all(isinstance(one, RangeOverflowError) for one in found):
        return None
    return Sweep(entries, int(np.argmin(scores)), by, "accuracy" if accuracy else "loss")


def _last_epoch(model: TrainedModel) -> TrainedModel:
    """The model of the last epoch alone."""
    names = ["coefs", "intercepts", "weights", "scaled_intercepts", "steps"]
    names += [name for name in ("planes", "bytes_read", "gradients", "gaps")
              if getattr(model, name) is not None]
    return replace(model, **{name: getattr(model, name)[-1:] for name in names})


def _column(values: Sequence[float | None]) -> list[str]:
    """Numbers with as many decimals each; nothing for None."""
    texts = iter(numbers([value for value in values if value is not None]))
    return ["" if value is None else next(texts) for value in values]


def _shares(values: Sequence[float | None]) -> list[str]:
    """Shares in per cent; nothing for None."""
    return ["" if share is None else f"{100 * share:.2f} %" for share in values]


def _shown(value: Any) -> str:
    return value if isinstance(value, str) else f"{value:g}"
