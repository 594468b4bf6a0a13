"""Finishing lines of a race, and its results as sentences and tables."""

import math
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
    reference = next((result for result in race["results"]
                      if result.get("encoding") == FLOAT.encoding and result["status"] == "ok"),
                     None)
    race["targets"] = {"optimum": TOLERANCE * race["optimum"]}
    race["line"] = "optimum"
    if reference is not None and math.isfinite(reference["losses"][-1]):
        race["targets"]["float"] = TOLERANCE * reference["losses"][-1]
        if min(reference["losses"]) > race["targets"]["optimum"]:
            race["line"] = "float"
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
