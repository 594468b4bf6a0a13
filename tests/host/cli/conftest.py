"""Files that the command line reads in tests."""

import numpy as np
import pytest


@pytest.fixture(autouse=True)
def _short_measurements(monkeypatch):
    """`bitstep info` of a data set measures trainings: once is enough where no time is compared."""
    monkeypatch.setattr("bitstep.cli.times.REPEATS", 1)
    monkeypatch.setattr("bitstep.cli.times.IDLE_S", 0)


@pytest.fixture
def numbers(tmp_path):
    """Files of 60 rows and 3 columns: a regression, two classes, three classes."""
    rng = np.random.default_rng(0)
    features = rng.uniform(0, 10, (60, 3))
    labels = features @ [1.0, -2.0, 0.5] + 3
    paths = [tmp_path / f"{name}.csv" for name in ("numbers", "classes", "three")]
    for path, last in zip(paths, (labels, np.where(labels > 0, 5, 2),
                                  np.digitize(labels, [-4, 3])), strict=True):
        np.savetxt(path, np.column_stack([features, last]), delimiter=",", fmt="%.17g")
    return tuple(map(str, paths))
