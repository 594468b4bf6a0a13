"""The findings of an examination, as text that an owner can send."""

import enum
import textwrap
from collections.abc import Callable
from dataclasses import dataclass

WIDTH = 100                 # columns of the text


class Verdict(enum.Enum):
    """Ending of a check."""

    OK = "ok"
    WARNING = "warning"     # models are right, but something is worse than it could be
    FAILED = "FAILED"
    SKIPPED = "skipped"     # does not apply, or could not be done


@dataclass(frozen=True)
class Finding:
    """The result of one check.

    Attributes
    ----------
    section : str
        The group of checks that it belongs to.
    title : str
        What was checked.
    verdict : Verdict
    found : str
        What was found; of a check that was skipped, why.
    expected, remedy : str
        What should have been found, and what to do; empty if all is well.
    """

    section: str
    title: str
    verdict: Verdict
    found: str
    expected: str = ""
    remedy: str = ""

    @property
    def text(self) -> str:
        """The lines of the report."""
        head = f"  {self.verdict.value:8} "
        if self.verdict in (Verdict.OK, Verdict.SKIPPED):
            return _wrapped(head, f"{self.title}: {self.found}" if self.found else self.title)
        parts = [("expected", self.expected), ("found", self.found), ("do", self.remedy)]
        return "\n".join([_wrapped(head, self.title), *(
            _wrapped(f"{'':11}{name:9}", said) for name, said in parts if said)])


def _wrapped(head, text):
    return textwrap.fill(text, WIDTH, initial_indent=head, subsequent_indent=" " * len(head),
                         break_long_words=False, break_on_hyphens=False)


class Report:
    """Facts and findings, told as they come: a board that hangs leaves what was found before.

    Parameters
    ----------
    tell : callable, optional
        Called with each part of the text.

    Attributes
    ----------
    facts : dict of str to str
    findings : list of Finding
    """

    def __init__(self, tell: Callable[[str], None] | None = None):
        self.facts: dict[str, str] = {}
        self.findings: list[Finding] = []
        self._tell = tell or (lambda text: None)
        self._parts: list[str] = []
        self._section = ""

    def say(self, text: str) -> None:
        """Add text as it is."""
        self._parts.append(text)
        self._tell(text)

    def section(self, name: str) -> None:
        """Begin a group of checks."""
        self._section = name
        self.say(f"\n{name}")

    def fact(self, name: str, value: str) -> None:
        """Note something that is neither right nor wrong."""
        self.facts[name] = value
        self.say(_wrapped(f"  {name:24} ", value))

    def _add(self, title, verdict, found, expected="", remedy=""):
        finding = Finding(self._section, title, verdict, found, expected, remedy)
        self.findings.append(finding)
        self.say(finding.text)

    def ok(self, title: str, found: str = "") -> None:
        """Note a check that found what it should."""
        self._add(title, Verdict.OK, found)

    def fail(self, title: str, *, expected: str, found: str, remedy: str) -> None:
        """Note a check that found something wrong.

        Parameters
        ----------
        title : str
            Name of the check.
        expected, found : str
            The right state, and the state of the device.
        remedy : str
            Advice to the reader.
        """
        self._add(title, Verdict.FAILED, found, expected, remedy)

    def warn(self, title: str, *, expected: str, found: str, remedy: str) -> None:
        """Note something that does no harm to the models, but should be otherwise; parameters as
        of :meth:`fail`.
        """
        self._add(title, Verdict.WARNING, found, expected, remedy)

    def check(self, title: str, right: bool, said: str = "", *, wrong: str | None = None,
              expected: str, remedy: str) -> bool:
        """Note a check by its outcome, and return that; parameters as of :meth:`fail`.

        Parameters
        ----------
        said : str
            What was found.
        wrong : str, optional
            What was found instead, if something is wrong.
        """
        if right:
            self.ok(title, said)
        else:
            self.fail(title, expected=expected, found=said if wrong is None else wrong,
                      remedy=remedy)
        return right

    def skip(self, title: str, reason: str) -> None:
        """Note a check that was not done."""
        self._add(title, Verdict.SKIPPED, reason)

    def count(self, verdict: Verdict) -> int:
        """Count the findings of a kind."""
        return sum(finding.verdict == verdict for finding in self.findings)

    @property
    def failed(self) -> bool:
        """True if any check failed."""
        return self.count(Verdict.FAILED) > 0

    def finish(self) -> None:
        """Add the result."""
        counts = (f"{self.count(Verdict.OK)} checks passed, {self.count(Verdict.FAILED)} failed, "
                  f"{self.count(Verdict.WARNING)} with a warning, {self.count(Verdict.SKIPPED)} "
                  "skipped")
        said = "FAILED" if self.failed else \
            "works, but see the warnings" if self.count(Verdict.WARNING) else "all is well"
        self.section(f"RESULT: {said} ({counts})")
        for finding in self.findings:
            if finding.verdict in (Verdict.FAILED, Verdict.WARNING):
                self.say(_wrapped(f"  {finding.verdict.value:8} ",
                                  f"{finding.section}: {finding.title}"))
        if self.failed:
            self.say(_wrapped("  ", "What to do stands with each of them above, after `do`. Begin "
                              "with the first: others may follow from it."))

    @property
    def text(self) -> str:
        """The whole report."""
        return "\n".join(self._parts) + "\n"
