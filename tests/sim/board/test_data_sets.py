"""Real data: the simulated board and the golden model give the same models, in integers."""

import dataclasses
import os
from pathlib import Path

import numpy as np
import pytest
from drawn_jobs import CONFIGS, FLOAT, LOGISTIC, REFETCH, tonight
from simulated import open_board

from bitstep.data import load
from bitstep.devices.golden import GoldenDevice
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import Loss
from bitstep.quantization import ENCODINGS, quantize
from bitstep.training.objective import Objective, Training
from bitstep.training.planning import plan
from bitstep.training.schedules import automatic_step, schedule_steps

DATA_SETS = {"cadata": "cadata.svm", "cpusmall": "cpusmall.svm", "breast_cancer": None}
EPOCHS = 3
PIPELINES = [(bits, row_format) for bits in range(1, 9)
             for row_format in ("one_level", "two_levels")
             if bits > 1 or row_format == "one_level"]


def find(name):
    """A data set; the test is skipped where its file is missing."""
    file = DATA_SETS[name]
    if file is None:
        pytest.importorskip("sklearn")
        return load(name)
    default = Path(__file__).resolve().parents[3].parent / "shared" / "data"
    path = Path(os.environ.get("BITSTEP_DATA") or default) / file
    if not path.is_file():
        pytest.skip(f"there is no {path}; set BITSTEP_DATA to a folder with {file}")
    return load(path)


def encodings(bits, row_format):
    """Encodings of a row format that exist at this width."""
    return [name for name, kind in ENCODINGS.items()
            if kind.row_format == row_format and (bits > 1 or not name.startswith("double"))]


def check(config, dataset, encoding, *, loss=Loss.LEAST_SQUARES, **options):
    """All rows, several epochs with different steps: every model of both devices is the same.
    Returns the result.
    """
    data = quantize(dataset.features, dataset.labels, bits=config.bits, encoding=encoding,
                    task=dataset.task, seed=config.bits, fine_rows=options.get("refetch", False))
    steps = schedule_steps("inverse", step=automatic_step(data.rows, loss=loss), epochs=EPOCHS)
    training = Training(steps=steps, batch=options.pop("batch", 1))
    job = plan(data, config, Objective(loss=loss, **options), training).job
    expected = GoldenDevice(config).train(job)
    with open_board(config) as board:
        found = board.train(job)
        assert board.board.stray_accesses == 0
    assert expected.epochs_done == found.epochs_done == EPOCHS
    assert np.ptp(expected.models, axis=0).any(), "every epoch gave the same model"
    np.testing.assert_array_equal(found.models, expected.models)
    np.testing.assert_array_equal(found.intercepts, expected.intercepts)
    for name, value in expected.counters.items():
        assert value is None or found.counters[name] == value, name
    return found


@pytest.mark.by_day(3)
@pytest.mark.parametrize("name", DATA_SETS)
@pytest.mark.parametrize("config, encoding", [(CONFIGS[5], "compensated"), (CONFIGS[4], "double")],
                         ids=lambda value: getattr(value, "name", value))
@pytest.mark.parametrize("rows", [4000, pytest.param(None, marks=pytest.mark.slow)])
def test_sim_is_golden(config, encoding, name, rows):
    """By day the first rows, at night all."""
    dataset = find(name)
    check(config, dataclasses.replace(dataset, features=dataset.features[:rows],
                                      labels=dataset.labels[:rows]), encoding)


CLASSIFIERS = [
    (REFETCH, "nearest", {"loss": Loss.HINGE, "refetch": True}),
    (REFETCH, "stochastic", {"loss": Loss.HINGE, "refetch": True, "l2": 0.01}),
    (REFETCH, "nearest", {"loss": Loss.HINGE, "refetch": True, "l1": 0.001, "box": 2.0}),
    (REFETCH, "nearest", {"loss": Loss.HINGE, "batch": 4}),
    (REFETCH, "stochastic", {"loss": Loss.SQUARED_HINGE, "l1": 0.01}),
    (LOGISTIC, "nearest", {"loss": Loss.LOGISTIC}),
    (LOGISTIC, "stochastic", {"loss": Loss.LOGISTIC, "batch": 5, "l2": 0.01}),
]


@pytest.mark.parametrize("config, encoding, options", CLASSIFIERS,
                         ids=lambda value: getattr(value, "name", str(value)))
def test_classifiers(config, encoding, options):
    result = check(config, find("breast_cancer"), encoding, **options)
    assert bool(result.counters["refetched_rows"]) == options.get("refetch", False)


@pytest.mark.parametrize("name, options", [
    ("cadata", {}), ("cadata", {"batch": 8, "l1": 0.01, "l2": 0.001}),
    ("breast_cancer", {"loss": Loss.HINGE}), ("breast_cancer", {"loss": Loss.SQUARED_HINGE})])
def test_floating_point_rows(name, options):
    """As many features as a small pipeline takes, and rows of a tenth of a second."""
    dataset = find(name)
    dataset = dataclasses.replace(dataset, features=dataset.features[:1200, :FLOAT.max_features],
                                  labels=dataset.labels[:1200], feature_names=None)
    check(FLOAT, dataset, "float", **options)


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA_SETS)
@pytest.mark.parametrize("update_interval", [2, 4])
def test_floating_point_rows_of_every_length(name, update_interval):
    check(PipelineConfig(bits=32, row_format="float32", update_interval=update_interval,
                         max_features=64).with_lookahead(), find(name), "float")


@pytest.mark.slow
@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("encoding", ["nearest", "stochastic"])
def test_refetching_at_every_width(bits, encoding):
    config = PipelineConfig(bits=bits, max_features=64, refetch=True).with_lookahead()
    check(config, find("breast_cancer"), encoding, loss=Loss.HINGE, refetch=True)


@pytest.mark.slow
@pytest.mark.parametrize("bits, encoding", [*((bits, "stochastic") for bits in range(1, 9)),
                                            (4, "double"), (32, "float")])
def test_logistic_at_every_width(bits, encoding):
    config = PipelineConfig(bits=bits, row_format=ENCODINGS[encoding].row_format, max_features=64,
                            loss_family="logistic", update_interval=6).with_lookahead()
    check(config, find("breast_cancer"), encoding, loss=Loss.LOGISTIC)


@pytest.mark.slow
@pytest.mark.parametrize("name", DATA_SETS)
@pytest.mark.parametrize("bits, row_format", tonight(PIPELINES, 5))
def test_sim_is_golden_at_every_width_in_every_encoding(bits, row_format, name):
    dataset = find(name)
    config = PipelineConfig(bits=bits, row_format=row_format).with_lookahead()
    for encoding in encodings(bits, row_format):
        check(config, dataset, encoding)
    check(config, dataset, encodings(bits, row_format)[-1], batch=5, l2=0.01)
