"""Jobs that share a run: which may, and what memory holds of them."""

from dataclasses import replace

import numpy as np
import pytest

from bitstep.devices.joint_runs import runs_of, same_run, stored_labels_of, table_of
from bitstep.pipeline.bit_planes import BitPlaneLayout
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.results import DeviceError

CONFIG = PipelineConfig(bits=8, max_features=8, models=4, proximal=True)
ROWS = (np.zeros((3, 8), np.uint8),)


def job_of(labels=(1, 1, -1), label_format=LabelFormat.SIGN, key=7, mantissa=1, **changes):
    return TrainingJob(**{**{
        "config": CONFIG, "n_features": 3, "rows": ROWS,
        "labels": pack_labels(np.array(labels), label_format), "label_format": label_format,
        "label_shift": 5, "intercept_level": 127, "batch": 1, "correction_period": 0,
        "coefficients": np.zeros(3, np.int32), "epochs": (EpochSteps(mantissa, 2, key=key),) * 2,
        "model": np.zeros(3, np.int32), "intercept": 0, "loss": Loss.LEAST_SQUARES}, **changes})


@pytest.mark.parametrize("changes, shared", [
    ({"labels": (-1, 1, 1)}, True), ({"mantissa": 9}, True), ({"label_shift": 3}, True),
    ({"coefficients": np.ones(3, np.int32)}, True), ({"intercept": 4}, True),
    ({"batch": 2}, False), ({"loss": Loss.HINGE}, False), ({"key": 8}, False),
    ({"labels": (1, 2, 3), "label_format": LabelFormat.INT16}, False),
    ({"intercept_level": 0}, False), ({"correction_period": 2}, False),
    ({"proximal_period": 1}, False),
    ({"rows": (ROWS[0].copy(),)}, False)])
def test_jobs_that_share_a_run(changes, shared):
    assert same_run(job_of(), job_of(**changes)) == shared


def test_runs_keep_the_order_of_jobs():
    jobs = [job_of(), job_of(), job_of(batch=2), job_of(), *[job_of()] * 4]
    assert [len(run) for run in runs_of(jobs, 4)] == [2, 1, 4, 1]
    assert [job for run in runs_of(jobs, 4) for job in run] == jobs


def test_labels_of_a_row_stand_side_by_side():
    """Three models have four places; the fourth counts for nothing."""
    jobs = [job_of((10, 20, 30), LabelFormat.INT16), job_of((11, 21, 31), LabelFormat.INT16),
            job_of((-12, -22, -32), LabelFormat.INT16)]
    stored, shared = stored_labels_of(jobs, replace(CONFIG, models=3))
    assert not shared
    assert stored.view("<i2").tolist() == [10, 11, -12, 0, 20, 21, -22, 0, 30, 31, -32, 0]


def test_signs_of_a_row_stand_side_by_side():
    jobs = [job_of((1, -1, -1)), job_of((-1, -1, 1))]
    stored, shared = stored_labels_of(jobs, replace(CONFIG, models=2))
    assert not shared
    assert stored.tolist() == [0b100001, *[0] * 7]


def test_equal_labels_are_stored_once():
    jobs = [job_of(), job_of()]
    stored, shared = stored_labels_of(jobs, CONFIG)
    assert shared
    assert stored is jobs[0].labels


def test_weights_of_packed_rows_stand_beside_their_labels():
    """Three rows of 21 bits fill a beat, whose fourth place belongs to no row; so do two places of
    the second beat. A row has two labels of 16 bits, 16 bits of 0, and its weight.
    """
    config = PipelineConfig(bits=3, max_features=7, lookahead=0, models=2, packed=True,
                            row_weights=True)
    weights, labels = np.array([1, 2, 65535, 4], np.uint16), (10, 20, -30, 40)
    rows = (np.zeros((4, 8), np.uint8),)
    jobs = [job_of(some, LabelFormat.INT16, config=config, weights=weights, rows=rows,
                   intercept_level=3) for some in (labels, labels[::-1])]
    stored, shared = stored_labels_of(jobs, config)
    assert not shared
    assert stored.view("<u2").reshape(-1, 4).astype("<i4").tolist() == [
        [10, 40, 0, 1], [20, (1 << 16) - 30, 0, 2], [(1 << 16) - 30, 20, 0, 65535], [0] * 4,
        [40, 10, 0, 4], *[[0] * 4] * 3]
    stored, shared = stored_labels_of(jobs[:1], config)     # of two, which share it
    assert shared
    assert stored.view("<u2").tolist() == [10, 1, 20, 2, (1 << 16) - 30, 65535, 0, 0,
                                           40, 4, 0, 0, 0, 0, 0, 0]


def test_signs_cannot_be_absent():
    """Memory has no 0 of format SIGN, which all labels of such a job count as."""
    config = PipelineConfig(bits=16, max_features=8, row_format=BIT_PLANES)
    layout = BitPlaneLayout(3)
    rows = np.zeros((layout.blocks(3), layout.block_bytes), np.uint8)
    none = job_of(config=config, rows=(rows,), bit_plane_rows=3, label_shift=16, intercept_level=0,
                  label_format=LabelFormat.INT16, labels=(),
                  epochs=(EpochSteps(1, 2, planes=4),))
    assert not stored_labels_of([none], config)[0].any()
    with pytest.raises(DeviceError, match="must be INT16 or INT32, not SIGN"):
        stored_labels_of([replace(none, label_format=LabelFormat.SIGN)], config)


def test_table_has_an_entry_for_each_model_of_an_epoch():
    jobs = [job_of(mantissa=3), job_of(mantissa=4, label_shift=6)]
    table = table_of(jobs, CONFIG).reshape(2, 2, 2)
    assert (table[0] == table[1]).all()
    assert [int(word) for word in table[0, :, 0]] == [3 | 2 << 18 | 1 << 50 | 5 << 53,
                                                     4 | 2 << 18 | 1 << 50 | 6 << 53]
    assert table[0, :, 1].tolist() == [7 << 32] * 2
    single = table_of(jobs[:1], replace(CONFIG, models=1))
    assert int(single[0]) == 3 | 2 << 18 | 1 << 50
