"""Problems of two classes, for the report on refetching."""

from dataclasses import replace

import numpy as np

from bitstep.data import Dataset, load, split

PROBLEMS = ("separable", "noisy", "breast_cancer")
TEST_ROWS, FEATURES = 10_000, 8
CANCER_ROWS = 400           # of breast_cancer that train; the other 169 test


def two_classes(*, n_rows: int, noise: float, gap: float, seed: int,
                n_features: int = FEATURES) -> Dataset:
    """Draw two classes on either side of a plane.

    Rows are independent and standard normal, then columns are scaled by exp of a normal number,
    so that their ranges differ as they do in real tables (scaling takes that out again). With m
    a row's distance from a random plane through the origin, the label is the sign of m plus
    normal noise.

    Parameters
    ----------
    n_rows, n_features : int
    noise : float
        Standard deviation of the noise; 0 makes the classes separable.
    gap : float
        Distance by which every row is moved away from the plane.
    seed : int
        Of ``Generator(PCG64(seed))``.

    Returns
    -------
    Dataset
        Labels are 1 and -1.
    """
    rng = np.random.Generator(np.random.PCG64(seed))
    features = rng.standard_normal((n_rows, n_features))
    normal = rng.standard_normal(n_features)
    normal /= np.linalg.norm(normal)
    side = np.sign(features @ normal)
    features += gap * side[:, None] * normal
    labels = np.where(features @ normal + noise * rng.standard_normal(n_rows) > 0, 1.0, -1.0)
    return Dataset("two classes", features * np.exp(rng.standard_normal(n_features)), labels,
                   "classification")


def problem(name: str, n_rows: int, n_features: int) -> tuple[Dataset, Dataset]:
    """Rows to train on and to test with; labels are 1 and -1.

    Parameters
    ----------
    name : str
        One of :data:`PROBLEMS`.
    n_rows, n_features : int
        Rows to train on and columns, of the two synthetic problems.
    """
    if name == "breast_cancer":
        whole = load(name)
        whole = replace(whole, labels=np.where(whole.labels > 0, 1.0, -1.0))
        return split(whole, CANCER_ROWS)
    noise, gap = {"separable": (0.0, 0.1), "noisy": (0.5, 0.0)}[name]
    made = two_classes(n_rows=n_rows + TEST_ROWS, noise=noise, gap=gap, seed=1,
                       n_features=n_features)
    return split(replace(made, name=name), n_rows, shuffle=False)
