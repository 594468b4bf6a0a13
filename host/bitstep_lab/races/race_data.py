"""Data of races: the user's files where they are, else generators of the same shape.

The generators imitate what matters for a race: rows, features, classes, how a column's values
spread within its range, correlation between columns, and how much of the labels a linear model
explains. They are no substitute for the data: every name says "synthetic, shaped like".
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from bitstep.data import Dataset, load, split
from bitstep.data.columns.labels import LAST
from bitstep.data.dataset import DataError, noisy
from bitstep.data.sources import BUNDLED, REMOTE, SYNTHETIC, _home, is_named
from bitstep.data.tables.files import COMPRESSED_SUFFIXES, TEXT_SUFFIXES

SHAPED = "synthetic, shaped like "


@dataclass(frozen=True, eq=False)
class RaceData:
    """Rows of a race.

    Attributes
    ----------
    key : str
        Short name, for files.
    dataset : Dataset
        The rows to train on, in the order in which they are visited.
    source : str
        Where they are from: a file's name, or "synthetic, shaped like ...".
    all_rows : int
        Rows that there are; more than the data set's if some were left out.
    """

    key: str
    dataset: Dataset
    source: str
    all_rows: int

    @property
    def title(self) -> str:
        """Name, size and origin, for headings."""
        rows = f"{self.dataset.n_rows:,}"
        if self.dataset.n_rows < self.all_rows:
            rows += f" of {self.all_rows:,}"
        return f"{self.key} ({rows} x {self.dataset.n_features:,}; {self.source})"


def race_data(key: str, *, rows: int | None = None, data_home: str | Path | None = None,
              seed: int = 0, label_column: str | int = LAST) -> RaceData:
    """Rows of a data set that a race knows, or of a file.

    Parameters
    ----------
    key : str
        A key of :data:`GENERATORS`, ``synthetic-N``, ``noisy-N``, the name of a data set that
        scikit-learn bundles, or a file.
    rows : int, optional
        Rows to draw; default: all, or as many as there are.
    data_home : path, optional
        Folder in which files of named data sets are looked for, by default that of
        :func:`bitstep.data.load`; nothing is downloaded.
    seed : int
        Of the order of rows, and of the generator.
    label_column : str or int
        See :func:`bitstep.data.load`.

    Raises
    ------
    DataError
        If the data are neither there nor generated; nothing is downloaded.
    """
    if label_column != LAST and is_named(key):
        load(key, label_column=label_column)        # which says why this cannot be
    if not is_at_hand(key, data_home):
        raise DataError(f"{key}: there is no file of it in {_home(data_home)}, and races download "
                        f"nothing; `bitstep train {key}` does")
    found = _local(key, data_home)
    if found is not None:
        dataset, source = load(key, data_home=data_home), found.name
    elif key in GENERATORS:
        dataset, source = GENERATORS[key](seed), SHAPED + key.partition(":")[0]
    elif (match := SYNTHETIC.fullmatch(key)) and match[1] == "noisy":
        dataset, source = noisy(int(match[2]), seed), "synthetic, noise 0.5"
    else:
        dataset = load(key, data_home=data_home, label_column=label_column)
        source = "synthetic, noise 0.01" if key.startswith("synthetic-") else \
            "bundled with scikit-learn" if key in BUNDLED else Path(key).name
        if key.startswith("synthetic-"):    # the paper trains on half of it
            dataset = split(dataset, dataset.n_rows // 2, shuffle=False)[0]
    all_rows = dataset.n_rows
    dataset = split(dataset, min(rows or all_rows, all_rows), seed=seed)[0]
    return RaceData(Path(key).stem if source == Path(key).name else key, dataset, source, all_rows)


def is_at_hand(key: str, data_home: str | Path | None = None) -> bool:
    """Tell if :func:`race_data` has a data set without a download."""
    return key not in REMOTE or key in GENERATORS or _local(key, data_home) is not None


def _local(key, home):
    """File of a named data set in a folder, as ``load`` finds it."""
    if key not in REMOTE:
        return None
    folder = _home(home)
    remote = Path(REMOTE[key].file).name
    for stem in (remote, key, remote.removesuffix(".bz2")):
        for suffix in ("", *TEXT_SUFFIXES):
            for compressed in ("", *COMPRESSED_SUFFIXES):
                path = folder / (stem + suffix + compressed)
                if path.is_file():
                    return path
    return None


def year(seed: int = 0) -> Dataset:
    """463,715 x 90 like YearPredictionMSD: correlated columns with heavy tails, labels from 1922 to
    2011 of which a linear model explains about a quarter.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    rows, columns = 463_715, 90
    # Timbre has some strong common factors; tails as of a t distribution with 5 degrees.
    mixing = rng.standard_normal((columns, columns)) * 0.8 ** np.arange(columns)[:, None]
    mixing += 0.6 * np.eye(columns)
    factors = rng.standard_normal((rows, columns), np.float32)
    factors /= np.sqrt(rng.chisquare(5, (rows, 1)) / 5).astype(np.float32)
    features = factors @ mixing.astype(np.float32)
    features *= rng.lognormal(4, 1.5, columns).astype(np.float32)
    signal = factors @ rng.standard_normal(columns).astype(np.float32)
    signal /= signal.std()
    labels = 1998 + 10.9 * (0.49 * signal + 0.87 * rng.standard_normal(rows))
    return Dataset("YearPredictionMSD", features, np.clip(np.rint(labels), 1922, 2011),
                   "regression")


def cod_rna(seed: int = 0) -> Dataset:
    """59,535 x 8 like cod-rna: correlated columns, a third positive, classes that overlap."""
    rng = np.random.Generator(np.random.PCG64(seed))
    rows = 59_535
    signs = np.where(rng.random(rows) < 1 / 3, 1.0, -1.0)
    mixing = np.eye(8) + 0.35 * rng.standard_normal((8, 8))
    shift = rng.standard_normal(8)
    shift *= 1.55 / np.linalg.norm(shift)       # the best linear model is right in 94 %
    features = (rng.standard_normal((rows, 8)) + signs[:, None] * shift) @ mixing
    return Dataset("cod-rna", features * rng.lognormal(2, 1, 8), signs, "classification")


def gisette(seed: int = 0) -> Dataset:
    """6,000 x 5,000 like gisette: pixels and products of two digits, mostly zero, half of the
    columns without information, in [-1, 1].
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    rows, columns, parts = 6_000, 5_000, 40
    signs = np.where(rng.random(rows) < 0.5, 1.0, -1.0)
    strokes = rng.standard_normal((rows, parts)) + 0.45 * signs[:, None] * rng.standard_normal(
        parts)
    loads = rng.standard_normal((parts, columns)) / np.sqrt(parts)
    loads[:, columns // 2:] = 0.0           # probes
    values = strokes @ loads + 0.7 * rng.standard_normal((rows, columns))
    features = np.clip((values - 0.9) / 1.5, 0, 1).astype(np.float32) * 2 - 1
    return Dataset("gisette", features, signs, "classification")


def mnist(seed: int = 0) -> Dataset:
    """10,000 x 784 like MNIST's: images of 28 x 28 pixels from 0 to 255, dark at the border, each
    one of ten shapes in one of eight styles, shifted by up to 2 pixels and blurred by noise.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    rows, classes, styles, size = 10_000, 10, 8, 28
    # Smooth random fields, cut to strokes: common to a class, and of a style of it.
    common = _fields(rng, (classes, 1, size, size), 4)
    shapes = common + 0.7 * _fields(rng, (classes, styles, size, size), 4)
    window = np.outer(*[np.hanning(size + 2)[1:-1]] * 2)
    shapes = np.clip(1.4 * shapes * window - 0.35, 0, 1)
    labels = rng.integers(classes, size=rows)
    chosen = shapes[labels, rng.integers(styles, size=rows)]
    for axis in (1, 2):
        shifts = rng.integers(-2, 3, rows)
        for shift in range(-2, 3):
            chosen[shifts == shift] = np.roll(chosen[shifts == shift], shift, axis=axis)
    light = rng.uniform(0.7, 1.3, (rows, 1, 1))
    noise = 0.25 * _fields(rng, (rows, size, size), 2)
    images = np.clip(light * chosen + noise * (chosen > 0.05), 0, 1)
    features = np.rint(255 * images).astype(np.float32).reshape(rows, size * size)
    return Dataset("mnist", features, labels.astype(np.float64), "classification")


def _fields(rng, shape, smooth):
    """Random fields of variance 1, smooth over about ``smooth`` pixels."""
    at = np.fft.fftfreq(shape[-1])
    gain = np.exp(-2 * (np.pi * smooth / 2) ** 2 * (at[:, None] ** 2 + at ** 2))
    fields = np.fft.ifft2(np.fft.fft2(rng.standard_normal(shape)) * gain).real
    return fields / fields.std()


GENERATORS = {"YearPredictionMSD": year, "cod-rna": cod_rna, "gisette": gisette, "mnist": mnist}
COLUMNS = {"YearPredictionMSD": 90, "cod-rna": 8, "gisette": 5000, "mnist": 784}
