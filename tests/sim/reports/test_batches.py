"""The table of batches without waiting."""

import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep_sim.reports.batches import BATCHES, cycles_a_row, line, ratio, table


def test_a_line_by_hand():
    """16 lanes: a latency of 16, and 15 cycles from a batch's last row to the next."""
    config = PipelineConfig(update_interval=1, lookahead=0).with_lookahead()
    assert [cycles_a_row(config, 4, batch) for batch in BATCHES] == [
        16, 19 / 4, 31 / 16, 79 / 64, 271 / 256]
    assert ratio(config, 4, 16) == pytest.approx(31 / 36)
    ahead = config.with_batch_lookahead()
    assert [cycles_a_row(ahead, 4, batch) for batch in BATCHES] == [
        9, 12 / 4, 24 / 16, 72 / 64, 264 / 256]
    assert ratio(ahead, 4, 16) == pytest.approx(24 / 20)
    assert line("linear", 64, 4, 4) == [
        "linear", "64", "4", "4", "1", "16.00", "4.75", "1.94", "1.23", "1.06", "0.98",
        "9.00", "3.00", "1.50", "1.12", "1.50", "2.00; 4.00"]


def test_each_length_of_rows_stands_once():
    lines = table(["logistic"], [512], [8], [4, 30, 90])
    assert [(one[3], one[4], one[-1]) for one in lines] == [("4", "1", "6.00"), ("90", "2", "6.00")]
