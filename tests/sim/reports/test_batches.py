"""The table of batches without waiting."""

import pytest

from bitstep.pipeline.config import PipelineConfig
from bitstep_sim.reports.batches import BATCHES, cycles_a_row, line, ratio, table


def test_a_line_by_hand():
    """16 lanes: a latency of 12, and 11 cycles from a batch's last row to the next."""
    config = PipelineConfig(update_interval=1, lookahead=0).with_lookahead()
    assert [cycles_a_row(config, 4, batch) for batch in BATCHES] == [
        12, 15 / 4, 27 / 16, 75 / 64, 267 / 256]
    assert ratio(config, 4, 16) == pytest.approx(27 / 36)
    assert line("linear", 64, 4, 4) == [
        "linear", "64", "4", "4", "1", "12", "12.00", "3.75", "1.69", "1.17", "1.04", "0.97",
        "2.00; 4.00"]


def test_each_length_of_rows_stands_once():
    lines = table(["logistic"], [512], [8], [4, 30, 90])
    assert [(one[3], one[4], one[-1]) for one in lines] == [("4", "1", "6.00"), ("90", "2", "6.00")]
