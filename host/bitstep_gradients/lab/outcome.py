"""Figures of a race, over all seeds of a contestant."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bitstep_gradients.exchange import AllGather
from bitstep_gradients.lab.timing import Network

TRAFFIC = ("sent_a_step", "received_a_step")
PLACES = ("steps", "budget")    # where contestants are compared: equal steps, equal bytes


def workers_text(race: dict[str, Any]) -> str:
    """Number of workers of a race, and how they exchange messages."""
    setting = race["setting"]
    count = setting["n_workers"]
    own = [] if setting["transport"] == "memory" else [f"processes over {setting['transport']}"]
    own += [] if setting["exchange"] == AllGather.name else [setting["exchange"]]
    return ", ".join([f"{count} worker{'s' * (count > 1)}", *own])


def by_contestant(race: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Results of a race, those of all seeds together, by the contestant's text."""
    found: dict[str, list[dict[str, Any]]] = {}
    for result in race["results"]:
        found.setdefault(result["contestant"]["text"], []).append(result)
    return found


def place_of(result: dict[str, Any], where: str, budget: float) -> dict[str, Any] | None:
    """The point of a run at equal steps or equal bytes; None if it never got there.

    A run that has not used up the budget of bytes after ``max_steps`` counts with its last point.
    One whose first step took more than the budget does not count.
    """
    at, last = result[f"at_{where}"], result["points"][-1]
    if at is not None:
        return result["points"][at]
    is_within = where == "budget" and result["status"] == "ok" and last["bytes"] <= budget
    return last if is_within else None


def summary(race: dict[str, Any], networks: Sequence[Network]) -> list[dict[str, Any]]:
    """One row a contestant.

    Parameters
    ----------
    race : dict
        Of :func:`bitstep_gradients.lab.race.run_race`.
    networks : sequence of Network

    Returns
    -------
    rows : list of dict
        ``codec``, ``diverged`` (runs), ``bytes_a_step``, ``bits_a_value``, ``times_fewer`` (than
        float32 without headers), ``codec_s`` (a rank encodes and decodes, measured), ``network_s``
        (modelled, one a network), ``sent_a_step`` and ``received_a_step`` (the exchange's
        counters; None without one), ``error`` (mean of the probe); and at each of
        :data:`PLACES` the mean ``loss``, its standard deviation ``loss_spread``, ``accuracy``,
        ``test_loss`` and the mean number of steps. None where a run diverged.
    """
    rows = []
    for text, results in by_contestant(race).items():
        sent = _mean([result["bytes_a_step"] for result in results])
        name, errors = results[0]["contestant"]["name"], race["probe"]["errors"][text]
        timed = [result for result in results if result["encode_s"] is not None]
        row: dict[str, Any] = {
            "codec": text, "runs": len(results),
            "diverged": sum(result["status"] != "ok" for result in results),
            "bytes_a_step": sent,
            "bits_a_value": None if sent is None else 8 * sent / race["n_values"],
            "times_fewer": None if sent is None else 4 * race["n_values"] / sent,
            "codec_s": _mean([result["encode_s"] + result["decode_s"] for result in timed]),
            "network_s": [None if sent is None else network.step_s(
                name, sent, race["setting"]["n_workers"], race["setting"]["exchange"])
                for network in networks],
            **{what: _mean([result[what] for result in results]) for what in TRAFFIC},
            "error": float(np.mean(errors)) if errors else None}
        for where in PLACES:
            row[where] = _at(results, where, race["setting"]["budget"])
        rows.append(row)
    return rows


def _at(results, where, budget):
    points = [place_of(result, where, budget) for result in results]
    found = {name: _mean([point and point[name] for point in points])
             for name in ("loss", "test_loss", "accuracy", "step")}
    losses = [point["loss"] for point in points if point]
    found["loss_spread"] = float(np.std(losses)) if found["loss"] is not None else None
    found["used_up"] = where == "steps" or all(
        result["at_budget"] is not None for result in results)
    return found


def _mean(values):
    """Mean; None if a value is missing, or there is none."""
    if not values or any(value is None for value in values):
        return None
    return float(np.mean(values))


def curve(results: Sequence[dict[str, Any]], what: str
          ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Mean curve of a contestant over the seeds, at the steps that all runs have.

    Parameters
    ----------
    results : sequence of dict
        Runs of one contestant.
    what : str
        A name in a point, such as ``loss``.

    Returns
    -------
    steps, n_bytes, means, spreads : ndarray of float64, shape (points,)
        Bytes of a rank so far: mean of the seeds. Spread: standard deviation.
    """
    tables = [{point["step"]: point for point in result["points"] if point[what] is not None}
              for result in results]
    steps = sorted(set.intersection(*(set(table) for table in tables)))
    values = np.array([[table[step][what] for step in steps] for table in tables], np.float64)
    sent = np.array([[table[step]["bytes"] for step in steps] for table in tables], np.float64)
    return np.array(steps, np.float64), sent.mean(axis=0), values.mean(axis=0), values.std(axis=0)


def point_rows(race: dict[str, Any], networks: Sequence[Network]) -> Iterator[dict[str, Any]]:
    """Every point of every run, with the modelled seconds so far."""
    n_workers, exchange = race["setting"]["n_workers"], race["setting"]["exchange"]
    for result in race["results"]:
        name = result["contestant"]["name"]
        for point in result["points"]:
            step = max(point["step"], 1)
            yield {"model": race["model"], "data": race["data"], "workers": n_workers,
                   "codec": result["contestant"]["text"], "seed": result["seed"], **point,
                   **{f"seconds_{network.gbits:g}_gbits":
                      point["step"] * network.step_s(name, point["bytes"] / step, n_workers,
                                                     exchange)
                      for network in networks}}
