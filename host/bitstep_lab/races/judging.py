"""Finishing lines of a race, and its results as sentences and tables."""

import math
from collections.abc import Sequence
from typing import Any

from bitstep.writing import duration
from bitstep_lab.races.contestants import FLOAT

TOLERANCE = 1.01        # of the optimum: the finishing line


def judge(race: dict[str, Any]) -> None:
    """Add finishing lines, finishes and speedups to the results of a race, in place.

    The first line is 1.01 x the optimum. Where the float pipeline does not reach it within the
    epochs, the second line decides: 1.01 x the loss that the float pipeline ends with. (Not its
    least: losses of a hinge go up and down, and one lucky epoch is no line for others.)
    """
    reference = _reference(race["results"])
    race["targets"], race["line"] = _lines(reference, race["optimum"])
    for result in race["results"]:
        result["finish"] = {line: finish(result, target)
                            for line, target in race["targets"].items()}
    line = race["line"]
    cpus = [result["finish"][line]["seconds"] for result in race["results"]
            if result["kind"] != "pipeline" and result["finish"][line]]
    for result in race["results"]:
        mine, base = result["finish"][line], reference and reference["finish"][line]
        mine = mine and mine["seconds"] and mine        # without a time there is no speedup
        result["speedup"] = {
            "float": base["seconds"] / mine["seconds"] if mine and base else None,
            "cpu": min(cpus) / mine["seconds"] if mine and cpus else None,
            "cpu_end_to_end": min(cpus) / mine["end_to_end"] if mine and cpus else None}


def best_runs(runs: Sequence[Sequence[dict[str, Any]]], optimum: float) -> list[dict[str, Any]]:
    """Of the runs of each contestant, with a batch each, the one that is first at the finishing
    line, or, where none gets there, ends with the least loss. The line is that of the float
    pipeline's best run.

    Parameters
    ----------
    runs : sequence of sequence of dict
        Results of each contestant.
    optimum : float
        Least loss of a model.
    """
    def best(results, target):
        def order(result):
            found = finish(result, target)
            last = result["losses"][-1] if result["status"] == "ok" else None
            return (found is None, (found["seconds"] or found["epochs"]) if found else 0.0,
                    math.inf if last is None or not math.isfinite(last) else last)
        return min(results, key=order)

    first = [best(results, TOLERANCE * optimum) for results in runs]
    targets, line = _lines(_reference(first), optimum)
    return first if line == "optimum" else [best(results, targets[line]) for results in runs]


def _reference(results):
    """The float pipeline's result; None where it has none."""
    return next((result for result in results
                 if result.get("encoding") == FLOAT.encoding and result["status"] == "ok"), None)


def _lines(reference, optimum):
    """Losses of the finishing lines, and the name of the one that decides."""
    targets = {"optimum": TOLERANCE * optimum}
    if reference is None or not math.isfinite(reference["losses"][-1]):
        return targets, "optimum"
    targets["float"] = TOLERANCE * reference["losses"][-1]
    return targets, "float" if min(reference["losses"]) > targets["optimum"] else "optimum"


def finish(result: dict[str, Any], target: float) -> dict[str, Any] | None:
    """When a contestant first has a loss of at most ``target``; None if it never has.

    Returns
    -------
    dict or None
        ``epochs``, ``seconds``, and ``end_to_end``: with the host's quantizing (of a CPU run:
        scaling) and the transfer. The last two are None of a pipeline whose time is not known.
    """
    if result["status"] != "ok":
        return None
    reached = [number for number, loss in enumerate(result["losses"])
               if loss is not None and loss <= target]
    if not reached:
        return None
    if result["seconds"] is None:
        return {"epochs": reached[0] + 1, "seconds": None, "end_to_end": None}
    seconds = result["seconds"][reached[0]]
    host = result["host"]
    return {"epochs": reached[0] + 1, "seconds": seconds,
            "end_to_end": seconds + host["quantize_s"] + host["transfer_s"]}


def seconds_an_epoch(race: dict[str, Any], result: dict[str, Any]) -> float | None:
    """Mean time of an epoch; None without a result, or of a pipeline whose time is not known."""
    if result["status"] != "ok" or result["seconds"] is None:
        return None
    return result["seconds"][-1] / race["epochs"]


def rtl_sentence(rtl: dict[str, Any]) -> str:
    """A sentence on where the cycles of a race are from.

    Parameters
    ----------
    rtl : dict
        Entry ``rtl`` of a race.
    """
    if rtl["all"]:
        return "Cycles are those of the RTL, simulated."
    check = rtl["check"]
    if check is None:
        return "Cycles are those of the cycle model; no pipeline took part."
    if check["status"] != "ok":
        return f"Cycles are those of the cycle model; {check['name']}: {check['status']}"
    return (f"Cycles are those of the cycle model. {check['name']}, first epoch, on the RTL: the "
            f"same model, {check['cycles']:,} cycles (cycle model: {check['model_cycles']:,}).")


def result_table(race: dict[str, Any]) -> tuple[list[str], list[list[Any]]]:
    """Header and rows of the results as text; of classes with the last accuracy."""
    head = ["contestant", "least loss", "epochs", "to line", "an epoch", "x float", "x CPU",
            "end to end"]
    classes = any("accuracy" in result for result in race["results"])
    rows = [_result_row(race, result, classes) for result in race["results"]]
    return [*head[:2], *["accuracy"] * classes, *head[2:]], rows


def _result_row(race: dict[str, Any], result: dict[str, Any], classes: bool) -> list[Any]:
    mine = result["finish"][race["line"]] or dict.fromkeys(("epochs", "seconds", "end_to_end"))
    done = result["status"] == "ok"
    accuracy = f"{100 * result['accuracy'][-1]:.2f}%" if done and "accuracy" in result else None
    ratios = [result["speedup"][name] for name in ("float", "cpu")]
    return [
        result["name"], f"{min(result['losses']):.4g}" if done else None, *[accuracy] * classes,
        mine["epochs"], _time(mine["seconds"]), _time(seconds_an_epoch(race, result)),
        *[None if ratio is None else f"{ratio:.3g}" for ratio in ratios],
        _time(mine["end_to_end"])]


def _time(seconds: float | None) -> str | None:
    return None if seconds is None else duration(seconds)
