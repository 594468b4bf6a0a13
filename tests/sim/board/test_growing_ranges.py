"""Ranges of weights that grow on the simulated board, as on the golden model."""

import numpy as np
import pytest

from bitstep.devices import open_device
from bitstep.pipeline.registers import Loss
from bitstep.quantization import quantize_rows
from bitstep.training.objective import Objective, Training
from bitstep.training.pipelines import pipeline_of
from bitstep.training.train import target_outputs, train_model


@pytest.mark.slow
@pytest.mark.parametrize("loss, bits, refetch", [
    (Loss.LOGISTIC, 8, False), (Loss.HINGE, 3, True)])
def test_one_of_two_classes_grows(loss, bits, refetch):
    features = np.random.default_rng(3).normal(size=(60, 3))
    side = np.where(features[:, 0] > 0, 1.0, -1.0)
    rows = quantize_rows(features, bits=bits, encoding="nearest", fine_rows=refetch, seed=1)
    outputs, objective = target_outputs(rows, np.column_stack([side, np.ones(60)])), Objective(
        loss=loss, refetch=refetch)
    config = pipeline_of(rows, objective)
    models = []
    for name in ("golden", "sim"):
        with open_device(name, config) as device:
            models.append(train_model(outputs, device, config, objective,
                                      Training(steps=[2.0, 2.0, 100.0, 100.0, 100.0])))
    golden, board = models
    np.testing.assert_array_equal(board.coefs, golden.coefs)
    np.testing.assert_array_equal(board.intercepts, golden.intercepts)
    assert [one.entry() for one in board.restarts] == [one.entry() for one in golden.restarts]
    assert {one.output for one in board.restarts} == {0}
    assert board.counters["overflows"]
