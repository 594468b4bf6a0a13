"""Races to the optimum: pages of ``bitstep curves``."""

import csv
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bitstep.writing import write_json
from bitstep_lab.exactness.problems import problem
from bitstep_lab.exactness.race_page import drawings, section
from bitstep_lab.exactness.times import GOALS, Timed, times
from bitstep_lab.races.board_profiles import profile
from bitstep_lab.races.race import Track
from bitstep_lab.races.run_store import code_version, digest, machine

BOARDS = ("paper", "pynq-z1")
COLUMNS: tuple[str, ...] = ("experiment", "data", "contestant", "profile", "excess", "seconds",
                            "device_s")


@dataclass(frozen=True, kw_only=True)
class ExactRace:
    """A race to the optimum of least squares.

    Attributes
    ----------
    key : str
        Name of its files.
    title, text : str
        Heading, and what it shows.
    data : str
        See :func:`bitstep_lab.exactness.problems.problem`.
    """

    key: str
    title: str
    text: str
    data: str

    def run(self, out: Path, data_home: str | None, track: Track) -> str:
        """Run what was not run yet; write ``races/KEY.json``, ``exact-KEY.csv`` and drawings.

        Returns
        -------
        str
            The part of the page, HTML.
        """
        found = problem(self.data, data_home)
        rows, features = found.features.shape
        key = digest(["exact", self.data, *BOARDS, machine(), code_version(
            ("bitstep", "bitstep_lab.exactness", "bitstep_lab.baselines"),
            races=("board_profiles.py",))], found.features, found.targets)
        race = track.remembered(key, f"{self.data}: all contestants to the optimum", lambda: {
            "rows": rows, "features": features, "source": found.source, "goals": list(GOALS),
            "profiles": [asdict(profile(name)) for name in BOARDS],
            "results": [_result(one) for one in times(found, [profile(one) for one in BOARDS])]})
        race = {"experiment": self.key, "title": self.title, "data": self.data, **race}
        write_json(str(out / "races" / f"{self.key}.json"), race)
        _write_csv(out / f"{self.key}.csv", race)
        return section(self.text, race, drawings(race, out / "plots"))


EXACT_RACES = (
    ExactRace(key="exact-synthetic-100", title="Time to the optimum, labels almost without noise",
              text="Regression with noise of 1 % of the labels' deviation, on which fixed few bits "
              "end far above the optimum and bit-centred training reaches it.",
              data="synthetic-100"),
    ExactRace(key="exact-noisy-100", title="Time to the optimum, noisy labels",
              text="Regression whose labels have noise of half their deviation, which suits SGD "
              "and SVRG.", data="noisy-100"),
    ExactRace(key="exact-cadata", title="Time to the optimum, cadata",
              text="Eight correlated features and many rows: an epoch is short, and what comes "
              "between the passes counts.", data="cadata"))


def _result(one: Timed) -> dict[str, Any]:
    """A contestant as JSON holds it."""
    return {"name": one.name, "label": one.label, "profile": one.profile, "choice": one.choice,
            "seconds": one.epochs.tolist(), "excess": [_finite(value) for value in one.excess],
            "device_s": None if one.device is None else one.device.tolist(),
            "to_goals": [_finite(one.goal(goal)) for goal in GOALS],
            "device_to_goals": [_finite(one.alone(goal)) for goal in GOALS]}


def _finite(value: float) -> float | None:
    return float(value) if math.isfinite(value) else None


def _write_csv(path: Path, race: dict[str, Any]) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        for result in race["results"]:
            devices: Sequence[Any] = result["device_s"] or [""] * len(result["seconds"])
            writer.writerows({
                "experiment": race["experiment"], "data": race["data"],
                "contestant": result["name"], "profile": result["profile"], "excess": excess,
                "seconds": seconds, "device_s": device} for excess, seconds, device in zip(
                    result["excess"], result["seconds"], devices, strict=True))
