"""Faults in a copy of the RTL generators, one changed line each."""

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Mutation:
    """A fault in the RTL, by which a property must break: ``old`` becomes ``new`` once in a file of
    ``bitstep_hw``.
    """

    file: str
    old: str
    new: str

    def __str__(self) -> str:
        return f"{self.file}: {self.old!r} -> {self.new!r}"

    def apply(self, folder: Path) -> None:
        """Change the copy of ``bitstep_hw`` in ``folder``.

        Raises
        ------
        ValueError
            If ``old`` is not in the file exactly once.
        """
        path = folder / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{self.old!r} must be in {self.file} once, not "
                             f"{text.count(self.old)} times: the mutation must follow the source")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@contextlib.contextmanager
def mutated(mutation: Mutation) -> Iterator[Path]:
    """Folder with a copy of ``bitstep_hw`` with a fault, to be put first on the path."""
    import bitstep_hw
    source = Path(bitstep_hw.__file__).parent
    with tempfile.TemporaryDirectory(prefix="bitstep-mutation-") as name:
        target = Path(name) / "bitstep_hw"
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__"))
        mutation.apply(target)
        yield Path(name)
