from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from bitstep.pipeline.config import PipelineConfig

C = PipelineConfig


@pytest.mark.parametrize("beats, lookahead", [(1, 6), (2, 6), (3, 4), (4, 3), (5, 3), (6, 2),
                                              (12, 1), (13, 1), (100, 1)])
def test_required_lookahead(beats, lookahead):
    """The first beat of row i comes at least ``latency`` after the last of row i - D - 1."""
    config = C(bits=4)                          # latency 13
    assert config.stages.required_lookahead(beats) == lookahead
    pitch = max(beats, 2)

    def distance(d):
        return (d + 1) * pitch - (beats - 1)

    assert distance(lookahead) >= 13 > distance(lookahead - 1)
    assert config.effective_lookahead(beats) == min(8, lookahead)
    assert replace(config, lookahead=2).effective_lookahead(beats) == min(2, lookahead)


@pytest.mark.parametrize("config", [C(bits=4, max_features=640, lookahead=8),
                                    C(bits=1, max_features=6400, lookahead=3, update_interval=4),
                                    C(bits=8, max_features=80, lookahead=0)])
def test_lines_hold_every_row_that_uses_them(config):
    for beats in range(1, config.rows.max_beats + 1):
        for line in range(1, config.effective_lookahead(beats) + 2):
            assert config.line_depth(line) >= beats
    assert config.line_depth(1) == config.rows.max_beats
    far = [config.line_depth(line) for line in range(3, config.lookahead + 2)]
    assert all(depth <= config.latency + config.update_interval for depth in far)


@pytest.mark.parametrize("n_features, lookahead", [(16, 6), (17, 6), (33, 4), (4096, 1)])
def test_with_lookahead(n_features, lookahead):
    assert C(bits=4).with_lookahead(n_features) == C(bits=4, lookahead=lookahead)


@pytest.mark.parametrize("beats, batch, lookahead", [
    (1, 1, 0), (1, 2, 15), (1, 64, 15), (2, 64, 8), (6, 2, 3), (15, 2, 1), (40, 4, 1),
    # Rows of 100 beats: a batch of 6 waits 6 x 15 cycles, one of 7 puts in a row of 100.
    (100, 6, 0), (100, 7, 1)])
def test_lookahead_of_batches_without_waiting(beats, batch, lookahead):
    """That of rows which never wait, or none where each row had better wait for the one before."""
    config = C(bits=4, update_interval=1, lookahead=0).with_lookahead()       # latency 16
    assert config.latency == 16
    assert config.run_lookahead(beats, batch) == lookahead
    assert C(bits=4, rounded_updates=True).run_lookahead(beats, batch) \
        == min(batch - 1, C(bits=4, rounded_updates=True).effective_lookahead(beats))


@pytest.mark.parametrize("beats, lookahead, idle_rows", [
    (1, 15, 8), (1, 12, 8), (1, 8, 8), (1, 5, 5), (2, 8, 4), (4, 4, 2), (5, 3, 1), (8, 2, 1),
    (9, 2, 0), (256, 1, 0)])
def test_rows_between_batches(beats, lookahead, idle_rows):
    """An update is there 9 cycles after its row; D rows without look-ahead between batches."""
    drained = C(bits=4, update_interval=1, lookahead=15)
    config = drained.with_batch_lookahead()
    assert config == C(bits=4, update_interval=1, lookahead=15, batch_lookahead=7)
    assert config.idle_rows(lookahead, beats) == idle_rows
    assert drained.idle_rows(lookahead, beats) == lookahead
    two = C(bits=4, update_interval=1, lookahead=15, batch_lookahead=2)
    assert two.idle_rows(lookahead, beats) == max(idle_rows, lookahead - 2)


def test_as_much_look_ahead_between_batches_as_saves_cycles():
    config = C(bits=4, update_interval=1, lookahead=0)
    assert config.with_batch_lookahead() == config
    assert config.with_lookahead().with_batch_lookahead(90).batch_lookahead == 2     # 6 beats
    assert C(bits=4, update_interval=1, lookahead=8, max_features=16).with_batch_lookahead() \
        .batch_lookahead == 0
    logistic = C(bits=4, update_interval=1, loss_family="logistic", lookahead=0).with_lookahead()
    assert (logistic.lookahead, logistic.with_batch_lookahead().batch_lookahead) == (19, 7)
    # Rows of a look-ahead of their own.
    ahead = config.with_lookahead().with_batch_lookahead()
    assert ahead.with_lookahead(4096) == C(bits=4, update_interval=1, lookahead=1,
                                           batch_lookahead=1)
    assert ahead.with_lookahead() == ahead
    assert ahead.run_lookahead(1, 1) == 15      # a batch of one row takes 9 cycles, not 16
    assert ahead.runs(config)
    assert config.runs(ahead)


def test_where_the_pipeline_carries_on():
    assert C(update_interval=1).carries_on
    assert C(update_interval=1, rounded_updates=True).carries_on
    assert not C(update_interval=1, model_bits=4).carries_on    # each batch rounds the model
    assert C(update_interval=1, model_bits=4).drains
    assert not C(rounded_updates=True).carries_on


def test_lookahead_that_is_part_of_a_result():
    """Of floating-point rows alone; 0 where every update reaches the words before a batch."""
    drained, waits, ahead = (C(bits=32, row_format="float32", update_interval=cycles, lookahead=d)
                             for cycles, d in ((1, 12), (4, 0), (4, 3)))
    assert [one.result_lookahead(1) for one in (drained, waits, ahead)] == [0, 0, 3]
    assert drained.keeps_lookahead(waits, 1)
    assert waits.keeps_lookahead(drained, 1)
    assert ahead.keeps_lookahead(drained, 1)    # a run may ask for less
    assert not drained.keeps_lookahead(ahead, 1)
    assert C(update_interval=1).keeps_lookahead(C(), 1)


def test_names_differ():
    configs = [C(), C(bits=3), C(bus_width=128), C(row_format="two_levels"), C(max_features=64),
               C(lookahead=2), C(update_interval=4), C(minibatch=False), C(corrections=False),
               C(bits=32, row_format="float32"), C(loss_family="logistic", update_interval=6),
               C(proximal=True), C(refetch=True, lookahead=0), C(lookahead=0)]
    assert len({config.name for config in configs}) == len(configs)
    assert all(C(**config.to_dict()) == config for config in configs)
    assert C().name == "w64-b4-one-n4096-d8-c2"


@pytest.mark.parametrize("changes, message", [
    ({"bus_width": 32}, "bus_width must be one of 64, 128, 256, 512, not 32"),
    ({"bits": 0}, "bits must be an integer from 1 to 8, not 0"),
    ({"bits": 9}, "bits must be an integer from 1 to 8, not 9"),
    ({"bits": 4.0}, r"bits must be an integer from 1 to 8, not 4\.0"),
    ({"bits": True}, "bits must be an integer from 1 to 8, not True"),
    ({"row_format": "triple"},
     "row_format must be one of one_level, two_levels, float32, bit_planes, not 'triple'"),
    ({"row_format": "float32"}, "bits of row format 'float32' must be one of 32, not 4"),
    ({"bits": 32}, "bits must be an integer from 1 to 8, not 32"),
    ({"max_features": 0}, "max_features must be an integer from 1 to 1048576, not 0"),
    ({"lookahead": -1}, "lookahead must be an integer from 0 to 32, not -1"),
    ({"lookahead": 33}, "lookahead must be an integer from 0 to 32, not 33"),
    # Of 7 rows the updates are there, at the earliest 9 cycles after their rows, of 15.
    ({"update_interval": 1, "lookahead": 15, "batch_lookahead": 8},
     "batch_lookahead of lookahead 15 must be an integer from 0 to 7, not 8"),
    ({"update_interval": 1, "lookahead": 15, "batch_lookahead": -1},
     "batch_lookahead of lookahead 15 must be an integer from 0 to 7, not -1"),
    ({"update_interval": 1, "lookahead": 15, "batch_lookahead": False},
     "batch_lookahead of lookahead 15 must be an integer from 0 to 7, not False"),
    ({"loss_family": "cubic"}, "loss_family must be one of linear, logistic, not 'cubic'"),
    ({"update_interval": 0},
     "update_interval of loss family 'linear' must be one of 1, 2, 4, not 0"),
    ({"update_interval": 3},
     "update_interval of loss family 'linear' must be one of 1, 2, 4, not 3"),
    ({"update_interval": 6},
     "update_interval of loss family 'linear' must be one of 1, 2, 4, not 6"),
    ({"loss_family": "logistic"},
     "update_interval of loss family 'logistic' must be one of 1, 6, not 2"),
    ({"minibatch": 1}, "minibatch must be True or False, not 1"),
    ({"corrections": None}, "corrections must be True or False, not None"),
    ({"proximal": 1}, "proximal must be True or False, not 1"),
    ({"models": 0}, "models must be an integer from 1 to 8, not 0"),
    ({"models": 9}, "models must be an integer from 1 to 8, not 9"),
    ({"refetch": "yes"}, "refetch must be True or False, not 'yes'"),
])
def test_errors(changes, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        C(**changes)


@pytest.mark.parametrize("present, wanted, runs", [
    ({}, {}, True), ({}, {"lookahead": 0, "update_interval": 4, "max_features": 5000}, True),
    ({}, {"bits": 3}, False), ({}, {"bus_width": 128}, False),
    ({}, {"row_format": "two_levels"}, False),
    ({"loss_family": "logistic", "update_interval": 6}, {}, False), ({"proximal": True}, {}, True),
    ({}, {"proximal": True}, False), ({}, {"refetch": True, "lookahead": 0}, False),
    ({"row_format": "float32", "bits": 32, "lookahead": 5},
     {"row_format": "float32", "bits": 32, "lookahead": 3}, True),
    ({"row_format": "float32", "bits": 32, "lookahead": 3},
     {"row_format": "float32", "bits": 32, "lookahead": 5}, False),
    ({"model_bits": 8}, {"model_bits": 4}, True), ({"model_bits": 4}, {"model_bits": 8}, False),
    ({"model_bits": 8}, {}, False), ({}, {"model_bits": 8}, False),
    ({"codebooks": True}, {}, False),
    ({"rounded_updates": True}, {}, True), ({}, {"rounded_updates": True}, False),
    ({"row_weights": True}, {}, True), ({}, {"row_weights": True}, False),
    ({"packed": True, "max_features": 3, "lookahead": 0}, {}, False)])
def test_pipelines_that_run_the_jobs_of_another(present, wanted, runs):
    assert PipelineConfig(**present).runs(PipelineConfig(**wanted)) == runs


def test_numbers_of_numpy_are_numbers():
    plain = C(bits=4, bus_width=128, max_features=90, lookahead=2, update_interval=4,
              minibatch=False)
    values: Any = {name: np.bool_(value) if isinstance(value, bool) else
                   np.int64(value) if isinstance(value, int) else value
                   for name, value in plain.to_dict().items()}
    same = C(**values)
    assert same == plain
    assert hash(same) == hash(plain)
    assert all(type(value) in (int, bool, str) for value in same.to_dict().values())
