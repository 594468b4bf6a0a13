from dataclasses import replace

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
    assert config.ahead.of_rows(beats) == min(8, lookahead)
    assert replace(config, lookahead=2).ahead.of_rows(beats) == min(2, lookahead)


@pytest.mark.parametrize("config", [C(bits=4, max_features=640, lookahead=8),
                                    C(bits=1, max_features=6400, lookahead=3, update_interval=4),
                                    C(bits=8, max_features=80, lookahead=0)])
def test_lines_hold_every_row_that_uses_them(config):
    for beats in range(1, config.rows.max_beats + 1):
        for line in range(1, config.ahead.of_rows(beats) + 2):
            assert config.ahead.line_depth(line) >= beats
    assert config.ahead.line_depth(1) == config.rows.max_beats
    far = [config.ahead.line_depth(line) for line in range(3, config.lookahead + 2)]
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
    assert config.ahead.of_run(beats, batch) == lookahead
    assert C(bits=4, rounded_updates=True).ahead.of_run(beats, batch) \
        == min(batch - 1, C(bits=4, rounded_updates=True).ahead.of_rows(beats))


@pytest.mark.parametrize("beats, lookahead, idle_rows", [
    (1, 15, 8), (1, 12, 8), (1, 8, 8), (1, 5, 5), (2, 8, 4), (4, 4, 2), (5, 3, 1), (8, 2, 1),
    (9, 2, 0), (256, 1, 0)])
def test_rows_between_batches(beats, lookahead, idle_rows):
    """An update is there 9 cycles after its row; D rows without look-ahead between batches."""
    drained = C(bits=4, update_interval=1, lookahead=15)
    config = drained.with_batch_lookahead()
    assert config == C(bits=4, update_interval=1, lookahead=15, batch_lookahead=7)
    assert config.ahead.idle_rows(lookahead, beats) == idle_rows
    assert drained.ahead.idle_rows(lookahead, beats) == lookahead
    two = C(bits=4, update_interval=1, lookahead=15, batch_lookahead=2)
    assert two.ahead.idle_rows(lookahead, beats) == max(idle_rows, lookahead - 2)


def test_as_much_look_ahead_between_batches_as_saves_cycles():
    config = C(bits=4, update_interval=1, lookahead=0)
    assert config.with_batch_lookahead() == config
    assert config.with_lookahead().with_batch_lookahead(90).batch_lookahead == 2     # 6 beats
    assert C(bits=4, update_interval=1, lookahead=8, max_features=16).with_batch_lookahead() \
        .batch_lookahead == 0
    logistic = C(bits=4, update_interval=1, loss_family="logistic", lookahead=0).with_lookahead()
    assert (logistic.lookahead, logistic.with_batch_lookahead().batch_lookahead) == (19, 7)
    # Rows of a look-ahead of their own.
    most = config.with_lookahead().with_batch_lookahead()
    assert most.with_lookahead(4096) == C(bits=4, update_interval=1, lookahead=1,
                                          batch_lookahead=1)
    assert most.with_lookahead() == most
    assert most.ahead.of_run(1, 1) == 15      # a batch of one row takes 9 cycles, not 16
    assert most.runs(config)
    assert config.runs(most)


def test_lookahead_that_is_part_of_a_result():
    """Of floating-point rows alone; 0 where every update reaches the words before a batch."""
    drained, waits, looks = (C(bits=32, row_format="float32", update_interval=cycles, lookahead=d)
                             for cycles, d in ((1, 12), (4, 0), (4, 3)))
    assert [one.ahead.of_result(1) for one in (drained, waits, looks)] == [0, 0, 3]
    assert drained.ahead.keeps(waits.ahead, 1)
    assert waits.ahead.keeps(drained.ahead, 1)
    assert looks.ahead.keeps(drained.ahead, 1)    # a run may ask for less
    assert not drained.ahead.keeps(looks.ahead, 1)
    assert C(update_interval=1).ahead.keeps(C().ahead, 1)
