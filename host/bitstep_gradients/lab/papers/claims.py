"""Claims of papers, and their table."""

from collections.abc import Sequence
from dataclasses import dataclass

from bitstep_lab.markdown import markdown_table


@dataclass(frozen=True)
class Claim:
    """Figure or statement of a paper, and what came out here.

    Parameters
    ----------
    claim : str
    printed : str
        What the paper prints.
    found : str
        What came out.
    agrees : str
        ``yes``, ``nearly`` or ``no``, and why.
    """

    claim: str
    printed: str
    found: str
    agrees: str


@dataclass(frozen=True)
class Run:
    """Claim that needs a training.

    Parameters
    ----------
    claim : str
    counterpart : str
        Command or section of its counterpart at this scale, or why there is none.
    """

    claim: str
    counterpart: str


def number(claim: str, printed: str, found: float, *, unit: str = "", note: str = "") -> Claim:
    """Claim of a number.

    It agrees within half a unit of the last digit that is printed, as by rounding, and nearly
    within one unit.

    Parameters
    ----------
    claim : str
    printed : str
        Digits as the paper has them, with commas at thousands or none.
    found : float
    unit : str
        Stands after both numbers.
    note : str
        Stands after yes or no.
    """
    digits = printed.replace(",", "")
    places = len(digits.partition(".")[2])
    off = abs(found - float(digits)) * 10**places
    agrees = "yes" if off <= 0.5 + 1e-6 else "nearly" if off <= 1 + 1e-6 else "no"
    return Claim(claim, f"{printed}{unit}", f"{found:,.{places + 1}f}{unit}",
                 f"{agrees}: {note}" if note else agrees)


def bound(claim: str, printed: str, found: float, limit: float, *, at_least: bool = False,
          places: int = 2, unit: str = "") -> Claim:
    """Claim that something is at most, or at least, a limit."""
    holds = found >= limit if at_least else found <= limit
    return Claim(claim, printed, f"{found:,.{places}f}{unit}", "yes" if holds else "no")


def table(claims: Sequence[Claim]) -> str:
    """Table of claims in Markdown."""
    return markdown_table(["claim", "the paper prints", "came out", "agrees"],
                          [[one.claim, one.printed, one.found, one.agrees] for one in claims])


def runs_table(runs: Sequence[Run]) -> str:
    """Table of claims that need a training, in Markdown."""
    return markdown_table(["claim", "counterpart"], [[one.claim, one.counterpart] for one in runs])
