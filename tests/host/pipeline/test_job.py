"""Random jobs are what their users think they are: mixed, calm and consistent."""

from dataclasses import replace

import numpy as np
import pytest

from bitstep.golden import float32, integer, sgd
from bitstep.golden import steps as updates
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.levels import decode, unpack_codes
from bitstep.pipeline.memory import pack_labels
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep.pipeline.results import DeviceError, check_job
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job
from bitstep_sim.testing.random_jobs import random_job

LINEAR_LOSSES = [Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE]
CONFIGS = [PipelineConfig(bits=1), PipelineConfig(bits=4), PipelineConfig(bits=8),
           PipelineConfig(bits=5, row_format="two_levels"),
           PipelineConfig(bits=32, row_format="float32")]


def run(job, monkeypatch):
    """Of every row its update, and (undecided, active by its codes); and every epoch's model."""
    changes, decisions = [], []
    undecided = integer.IntegerEpoch.undecided

    def recording_rules(job, steps):
        rule = updates.update_rule(job, steps)

        def recorded(dot, target, dither):
            changes.append(rule(dot, target, dither))
            return changes[-1]
        return lambda row: recorded

    def recording_undecided(self, levels, dot, target):
        decisions.append((undecided(self, levels, dot, target),
                          dot < target if target > 0 else dot > target))
        return decisions[-1][0]

    for module in (integer, float32):
        monkeypatch.setattr(module, "update_rules", recording_rules)
    monkeypatch.setattr(integer.IntegerEpoch, "undecided", recording_undecided)
    epochs = list(sgd.train(job))
    assert len(epochs) == len(job.epochs)
    assert not any(epoch.overflow for epoch in epochs)
    assert len(changes) == len(epochs) * job.n_rows
    return np.array(changes), np.array(decisions), epochs


@pytest.mark.parametrize("config", CONFIGS, ids=lambda config: config.name)
@pytest.mark.parametrize("loss", LINEAR_LOSSES)
@pytest.mark.parametrize("n_features", [3, 40])
def test_updates_are_mixed(monkeypatch, config, loss, n_features):
    changes, _, _ = run(random_job(config, n_features=n_features, n_rows=300, loss=loss),
                        monkeypatch)
    active = np.mean(changes != 0)
    assert active > 0.95 if loss == Loss.LEAST_SQUARES else 0.2 < active < 0.99
    assert (changes > 0).sum() > 20
    assert (changes < 0).sum() > 20
    assert np.median(np.abs(changes[changes != 0])) > 50


@pytest.mark.parametrize("bits, row_format", [(1, "one_level"), (8, "one_level"), (32, "float32")])
def test_logistic_updates_are_mixed(monkeypatch, bits, row_format):
    config = PipelineConfig(bits=bits, row_format=row_format, loss_family="logistic",
                            update_interval=6)
    job = random_job(config, n_features=12, n_rows=300, loss=Loss.LOGISTIC)
    changes, _, _ = run(job, monkeypatch)
    units = np.repeat([updates.derivative_step(job, steps) for steps in job.epochs], 300)
    values = np.abs(changes) / units * 2 ** updates.STEP_FRACTION
    assert values.min() < 0.2
    assert values.max() > 0.6
    assert len(set(changes.tolist())) > 60


@pytest.mark.parametrize("bits, cell_half_levels", [(2, 1), (3, 1), (3, 2), (4, 2), (6, 4)])
def test_decisions_are_mixed(monkeypatch, bits, cell_half_levels):
    config = PipelineConfig(bits=bits, refetch=True, lookahead=0)
    _, decisions, epochs = run(
        random_job(config, n_features=12, n_rows=300, loss=Loss.HINGE,
                   cell_half_levels=cell_half_levels),
        monkeypatch)
    undecided, active = decisions.T
    assert sum(epoch.refetched_rows for epoch in epochs) == undecided.sum()
    for some in (undecided, ~undecided & active, ~undecided & ~active):
        assert np.mean(some) > 0.03


@pytest.mark.parametrize("bits", range(1, 9))
@pytest.mark.parametrize("cell_half_levels", [1, 2, 4])
def test_fine_rows_are_in_their_cells(bits, cell_half_levels):
    config = PipelineConfig(bits=bits, refetch=True, lookahead=0)
    job = random_job(config, n_features=30, n_rows=20, loss=Loss.HINGE,
                     cell_half_levels=cell_half_levels, copies=2)
    fine_level = 1 << config.rows.fine_fraction
    assert job.fine_rows is not None
    values = job.fine_rows.astype(int)
    copies = [decode(unpack_codes(copy, config.rows, 30), bits=bits, row_format="one_level")[0]
              for copy in job.rows]
    for levels in copies:
        assert np.abs(2 * values - 2 * fine_level * levels).max() <= cell_half_levels * fine_level
    if bits > 1 or cell_half_levels > 1:
        assert (copies[0] != copies[1]).any()
    assert np.abs(values).max() <= config.rows.level_limit * fine_level


@pytest.mark.parametrize("config", [PipelineConfig(bits=4, proximal=True),
                                    PipelineConfig(bits=32, row_format="float32", proximal=True)],
                         ids=lambda config: config.name)
@pytest.mark.parametrize("period", [1, 10])
def test_both_limits_of_a_proximal_step_bite(monkeypatch, config, period):
    steps = []

    def recording_step(model, threshold, limit):
        after = updates.proximal_step(model, threshold, limit)
        steps.append((model, after.copy()))     # the golden model goes on in place
        return after

    for module in (integer, float32):
        monkeypatch.setattr(module, "proximal_step", recording_step)
    job = random_job(config, n_features=30, n_rows=200, proximal_period=period)
    run(job, monkeypatch)
    assert len(steps) == 2 * 200 // period
    before, after = np.array(steps).transpose(1, 0, 2)
    assert np.mean((before != 0) & (after == 0)) > 0.01
    assert np.mean(np.abs(after) == job.box_limit) > 0.01
    assert np.mean((after != 0) & (np.abs(after) < job.box_limit)) > 0.3


def test_float_rows_have_every_corner():
    config = PipelineConfig(bits=32, row_format="float32", max_features=30)
    job = random_job(config, n_features=29, n_rows=60)
    words = job.rows[0].view("<u4")
    assert words.shape == (60, 30)
    assert not words[:, 29].any()
    values = words[:, :29].copy().view(np.float32)
    assert np.abs(values).max() == 1
    exponents = words[:, :29] >> 23 & 0xFF
    assert {0x8000_0000, 0x3F7F_FFFF, 0x0080_0000} <= set(words.ravel().tolist())
    assert ((exponents == 0) & (words[:, :29] << 9 != 0)).any()     # subnormal


def test_a_job_again():
    """As one that is made anew, and checked as far as it is another."""
    job = random_job(PipelineConfig(bits=4), n_rows=20, n_features=5)
    epochs = tuple(replace(one, mantissa=one.mantissa // 2) for one in job.epochs)
    again = job.again(job.model + 1, 7, epochs)
    anew = replace(job, model=job.model + 1, intercept=7, epochs=epochs)
    for name, value in vars(anew).items():
        np.testing.assert_array_equal(getattr(again, name), value)
    assert job.intercept != 7
    with pytest.raises(ValueError, match="model must"):
        job.again(job.model[:-1], 7, epochs)
    with pytest.raises(ValueError, match="intercept must fit 32 bits"):
        job.again(job.model, 1 << 31, epochs)
    with pytest.raises(ValueError, match="epochs of the same planes"):
        job.again(job.model, 7, tuple(replace(one, planes=3) for one in epochs))


def test_job_of_another_solver():
    logistic = PipelineConfig(loss_family="logistic", update_interval=6, max_features=8)
    job = random_job(logistic, n_features=8, n_rows=8, loss=Loss.LOGISTIC)
    with pytest.raises(DeviceError,
                       match=r"for loss family 'logistic', the device .* loss family 'linear', "
                                          r"which trains the losses squared_error, squared_hinge, "
                                          r"hinge, huber; choose one of these \(`--model ls-svm`"):
        check_job(job, PipelineConfig(max_features=8))


PLAIN = PipelineConfig(proximal=True)
REFETCH = PipelineConfig(refetch=True)
FLOATS = PipelineConfig(bits=32, row_format="float32", lookahead=3)


@pytest.mark.parametrize("config, options, changes, message", [
    (PLAIN, {}, {"epochs": ()}, "needs at least one epoch"),
    (PLAIN, {}, {"batch": 0}, r"batch must be from 1 to 2\*\*32 - 1, not 0"),
    (PLAIN, {}, {"batch": 1 << 32}, "batch must be from 1 to .*, not 4294967296"),
    (PLAIN, {}, {"batch": 2, "correction_period": 3}, r"multiple of the batch \(2\) below .*not 3"),
    (PLAIN, {}, {"correction_period": 1 << 32}, r"below 2\*\*32, not 4294967296"),
    (PLAIN, {}, {"correction_period": -1}, r"correction_period must be .*, not -1"),
    (PLAIN, {}, {"batch": 2, "proximal_period": 5}, r"multiple of the batch \(2\) below .*not 5"),
    (PLAIN, {}, {"intercept": 1 << 31}, "intercept must fit 32 bits, not 2147483648"),
    (PLAIN, {}, {"intercept": (-1 << 31) - 1}, "intercept must fit 32 bits"),
    (PLAIN, {}, {"model": np.full(5, -(1 << 31) - 1)}, "model must fit 32 bits, signed"),
    (PLAIN, {}, {"coefficients": np.full(5, 1 << 17)}, "coefficients must fit 18 bits"),
    (PLAIN, {}, {"coefficients": np.full(5, -(1 << 17) - 1)}, "coefficients must fit 18 bits"),
    (PLAIN, {}, {"loss": "hinge"}, "loss must be a member of Loss, not 'hinge'"),
    (PLAIN, {}, {"loss": 1}, "A loss SQUARED_HINGE needs labels of format SIGN, not INT16"),
    (PLAIN, {}, {"label_format": 3}, "label_format must be a member of LabelFormat, not 3"),
    (PLAIN, {}, {"label_shift": 41}, "label_shift must be from 0 to 40, not 41"),
    (PLAIN, {}, {"derivative_bound": 1}, "derivative_bound must be from 0 to 0 .*LEAST_SQUARES"),
    (PLAIN, {"loss": Loss.HUBER}, {"derivative_bound": 0}, "must be from 1 to .*HUBER, not 0"),
    (PLAIN, {"loss": Loss.HUBER}, {"derivative_bound": 1 << 26}, "from 1 to 67108863"),
    (REFETCH, {"loss": Loss.HINGE, "cell_half_levels": 2}, {"batch": 2},
     "for the hinge loss and a batch of 1, not for HINGE and 2"),
    (REFETCH, {"loss": Loss.HINGE, "cell_half_levels": 2}, {"loss": Loss.SQUARED_HINGE},
     "not for SQUARED_HINGE and 1"),
    (REFETCH, {"loss": Loss.HINGE, "cell_half_levels": 2}, {"fine_rows": None}, "not nothing"),
    (REFETCH, {"loss": Loss.HINGE, "cell_half_levels": 2}, {"cell_half_levels": 5}, "0 to 4"),
    (REFETCH, {"loss": Loss.HINGE, "cell_half_levels": 2}, {"update_bits": 4}, "cell_half_levels"),
    (FLOATS, {}, {"correction_period": 3}, r"more than the look-ahead \(3\) .*, not 3"),
], ids=str)
def test_parts_that_do_not_fit(config, options, changes, message):
    job = random_job(config, n_features=5, n_rows=20, **options)
    with pytest.raises(ValueError, match=message):
        replace(job, **changes)


def test_parts_that_just_fit():
    job = random_job(PLAIN, n_features=5, n_rows=20)
    replace(job, intercept=(1 << 31) - 1, model=np.full(5, -1 << 31), batch=2, correction_period=4,
            proximal_period=6, coefficients=np.array([(1 << 17) - 1, -1 << 17, 0, 0, 0]))
    replace(random_job(PLAIN, n_features=5, n_rows=20, loss=Loss.HUBER), derivative_bound=1)
    replace(random_job(FLOATS, n_features=5, n_rows=20), correction_period=4)


def test_labels_within_a_dot_product():
    """One bit stays for the sign of a difference."""
    config = PipelineConfig(bits=1)
    job = random_job(config, n_features=5, n_rows=20)
    assert job.label_format == LabelFormat.INT16
    most = config.rows.dot_width - 16 - 1
    assert most < config.rows.max_label_shift
    replace(job, label_shift=most)
    with pytest.raises(ValueError, match=rf"within {config.rows.dot_width} bits, not {most + 1}"):
        replace(job, label_shift=most + 1)


def test_rows_that_no_counter_of_beats_holds():
    """A row of 17 features of 4 bits has two beats."""
    job = random_job(PLAIN, n_features=17, n_rows=8)
    for n_rows, fits in (((1 << 31) - 64, True), (1 << 31, False)):
        changes = {"rows": (np.broadcast_to(np.uint8(0), (n_rows, 16)),),
                   "labels": np.broadcast_to(np.uint8(0), (n_rows // 8,)),
                   "label_format": LabelFormat.SIGN}
        if fits:
            assert replace(job, **changes).n_rows == n_rows
        else:
            with pytest.raises(ValueError, match=r"beats of a row \(2\) must be below 2\*\*32"):
                replace(job, **changes)


@pytest.mark.parametrize("label_format, labels", [
    (LabelFormat.SIGN, [1, -1, -1] * 9), (LabelFormat.INT16, [*range(-13, 14)]),
    (LabelFormat.INT32, [70_000 * one for one in range(-13, 14)])])
def test_labels_of_some_rows(label_format, labels):
    job = random_job(PLAIN, n_features=5, n_rows=27)
    job = replace(job, labels=pack_labels(np.array(labels), label_format),
                  label_format=label_format, label_shift=2)
    assert job.stored_labels(0, 27).tolist() == labels
    assert job.stored_labels(16, 5).tolist() == labels[16:21]
    assert job.targets(8, 3).tolist() == [4 * one for one in labels[8:11]]


@pytest.mark.parametrize("changes, message", [
    ({"intercept_level": 1 << 11}, "intercept_level a multiple of 4096, for the least planes"),
    ({"label_shift": 11}, "label_shift must be at least 12"),
    ({"constants": np.ones(5, np.int32)}, "constants need a correction_period"),
    ({"constant_intercept": 1}, "constants need a correction_period"),
    ({"constant_intercept": 1 << 31, "correction_period": 2}, "constant_intercept must fit 32"),
    ({"bit_plane_rows": 0}, "bit_plane_rows must be from 1 to"),
])
def test_parts_of_bit_plane_rows_that_do_not_fit(changes, message):
    """Of 4 planes at the least, 12 are left out of every level."""
    config = PipelineConfig(bits=16, row_format="bit_planes", max_features=8)
    job = random_bit_plane_job(config, n_features=5, n_rows=20, planes=(16, 4))
    with pytest.raises(ValueError, match=message):
        replace(job, **changes)


def test_levels_that_a_codebook_cannot_have():
    """-128 has no opposite in 8 bits."""
    job = random_job(PipelineConfig(codebooks=True), n_features=5, n_rows=20)
    assert job.codebooks is not None
    tables = job.codebooks.copy()
    tables[2, 3] = -127
    replace(job, codebooks=tables)
    tables[2, 3] = -128
    with pytest.raises(ValueError, match="codebooks must be from -127 to 127, not -128"):
        replace(job, codebooks=tables)
