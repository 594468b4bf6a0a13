"""Bit-plane rows on the simulated board: models, counters, endings."""

import json
import re

import numpy as np
import pytest
from bit_plane_runs import FAST, FEATURES, LINEAR, LOGISTIC, MEMORIES, WIDE, run
from drawn_jobs import PROFILE, fresh_seed
from hypothesis import given, settings
from hypothesis import strategies as st
from simulated import TestedDevice, compare, open_board

from bitstep.cli import main
from bitstep.cycles import count_epochs
from bitstep.golden.sgd import train
from bitstep.pipeline.bit_planes import PLANES, BitPlaneLayout
from bitstep.pipeline.registers import Control, LabelFormat, Loss
from bitstep.pipeline.results import RunError
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job


@st.composite
def jobs(draw, config):
    """A job, and a look-ahead for it."""
    n_features = draw(st.sampled_from([n for n in FEATURES if n <= config.max_features]))
    losses = [Loss.LOGISTIC] if config.loss_family == "logistic" else \
        [Loss.LEAST_SQUARES, Loss.LEAST_SQUARES, Loss.HINGE, Loss.SQUARED_HINGE]
    batch = draw(st.sampled_from([1, 1, 3, 64, 256]))
    options = {"loss": draw(st.sampled_from(losses)), "batch": batch}
    if config.corrections and draw(st.booleans()):
        options["correction_period"] = batch * draw(st.sampled_from([1, 2, 5, 33]))
    if config.proximal and draw(st.booleans()):
        options["proximal_period"] = batch * draw(st.sampled_from([1, 20]))
    if draw(st.booleans()):
        options |= {"model": np.zeros(n_features, np.int32), "intercept": 0}
    if draw(st.booleans()):
        options |= {"intercept_level": 0, "intercept": 0}
    if options["loss"] == Loss.LEAST_SQUARES:
        options["label_format"] = draw(st.sampled_from(LabelFormat))
    job = random_bit_plane_job(
        config, n_features=n_features, n_rows=draw(st.sampled_from([1, 2, 7, 64, 129, 300])),
        planes=tuple(draw(st.lists(st.integers(1, 16), min_size=1, max_size=4))),
        seed=draw(st.integers(0, 1 << 30)), copies=draw(st.sampled_from([1, 1, 2])),
        speed=draw(st.sampled_from([0.3, 0.3, 0.3, 100.0])), **options)
    return job, draw(st.integers(0, config.ahead.of_rows(job.beats)))


@pytest.mark.parametrize("config, examples", [
    (LINEAR, 24), (FAST, 16), *(pytest.param(config, 80, marks=pytest.mark.slow)
                                for config in (LINEAR, FAST, LOGISTIC, WIDE))],
    ids=lambda value: getattr(value, "name", ""))
def test_any_job(config, examples):
    @fresh_seed(f"bit_planes {config.name}")
    @settings(max_examples=examples, **PROFILE)
    @given(jobs(config), MEMORIES)
    def check(job_and_lookahead, memory):
        run(config, *job_and_lookahead, **memory)

    check()


def test_every_number_of_planes():
    """One copy, an epoch at each precision, up and down."""
    planes = (*range(1, 17), 1, 16, 2, 9)
    run(LINEAR, random_bit_plane_job(LINEAR, n_features=65, n_rows=150, planes=planes))


@pytest.mark.parametrize("n_features, n_rows, batch", [
    (4096, 9, 1), (4095, 5, 3), (1001, 20, 1), (256, 520, 256), (256, 300, 64)])
def test_wide_rows_and_batches(n_features, n_rows, batch):
    run(LINEAR, random_bit_plane_job(LINEAR, n_features=n_features, n_rows=n_rows, batch=batch,
                                 planes=(4, 16), correction_period=2 * batch))


@pytest.mark.parametrize("n_features, planes", [(256, 4), (256, 16), (64, 8), (1001, 6), (256, 2)])
def test_rows_pass_at_the_rate_of_the_bus(n_features, planes):
    """Within 2 % of the beats or the slots of a row, without the start and the end of an epoch."""
    job = random_bit_plane_job(LINEAR, n_features=n_features, n_rows=1, planes=(planes,))
    layout = BitPlaneLayout(n_features)
    cycles, ideal = [], []
    for blocks in (6, 26):
        n_rows = blocks * layout.block_rows
        more = random_bit_plane_job(LINEAR, n_features=n_features, n_rows=n_rows, planes=(planes,))
        _, ends = count_epochs(more)
        cycles.append(ends[0])
        ideal.append(max(layout.bytes_read(n_rows, planes) // 8, n_rows * max(job.beats, 2)))
    assert 1 <= (cycles[1] - cycles[0]) / (ideal[1] - ideal[0]) < 1.02


def test_board_keeps_nothing_between_runs():
    """Lengths, planes and options change; runs that are aborted or refused lie between."""
    with open_board(LINEAR) as board:
        for number, n_features in enumerate([256, 1, 65, 16, 4000, 5]):
            job = random_bit_plane_job(LINEAR, n_features=n_features,
                                       n_rows=[300, 40, 77][number % 3],
                                   planes=[(16, 2), (1,), (5, 4, 3)][number % 3], seed=number,
                                   correction_period=number % 2 * 4)
            changed = TestedDevice(
                board, during=lambda: board.write(0x20, Control.ABORT), cycles=100 + 30 * number)
            with pytest.raises(RunError, match="abort"):
                changed.train(job)
            compare(board.train(job), list(train(job)))
            with pytest.raises(RunError, match="refused its registers"):
                TestedDevice(board, registers={"INTERCEPT_LEVEL": 3}).train(job)


@pytest.mark.parametrize("planes", [0, PLANES + 1, 31])
def test_planes_that_are_none(planes):
    """The epochs before are finished; the one with such an entry is refused."""
    job = random_bit_plane_job(LINEAR, n_features=5, n_rows=30, planes=(3, 4))
    expected = list(train(job))
    with open_board(LINEAR) as board:
        device = ChangedTable(board, planes)
        with pytest.raises(RunError) as error:
            device.train(job)
        compare(error.value.result, expected[:1])
        compare(board.train(job), expected)


class ChangedTable(TestedDevice):
    """A board whose second entry of the epoch table gets other planes."""

    def __init__(self, device, planes):
        super().__init__(device)
        self.planes = planes

    def write(self, offset, value):
        """Change the table before the start."""
        if offset == 0x20 and value == Control.START:
            at = self.get("EPOCH_TABLE_ADDRESS") - 0x1000_0000 + 16
            word = self.device.board.memory[at:at + 8].view("<u8")
            word[0] = int(word[0]) & ~(31 << 21) | self.planes << 21
        super().write(offset, value)


@pytest.mark.parametrize("planes", ["2,4,8", "auto"])
def test_command_line(tmp_path, planes):
    """The simulated board trains what device cpu trains, in the cycles that it counts."""
    found = []
    for device in ("sim", "cpu"):
        path = tmp_path / f"{device}.json"
        assert main(["train", "diabetes", "--planes", planes, "--epochs", "4", "--device", device,
                     "--report", str(path)]) == 0
        found.append(json.loads(path.read_text()))
    sim, cpu = found
    assert sim["coef"] == cpu["coef"]
    assert [entry["planes"] for entry in sim["history"]] \
        == [entry["planes"] for entry in cpu["history"]]
    assert sim["counters"] == cpu["counters"]


def test_rows_without_labels():
    """They count as 0."""
    job = random_bit_plane_job(LINEAR, n_features=17, n_rows=70, planes=(2,))
    none = random_bit_plane_job(LINEAR, n_features=17, n_rows=70, planes=(2,))
    object.__setattr__(none, "labels", np.empty(0, np.uint8))
    run(LINEAR, job)
    run(LINEAR, none)


@pytest.mark.slow
def test_verilog_by_the_command_line(tmp_path, capsys):
    out = tmp_path / "top.v"
    assert main(["rtl", "--bit-planes", "--max-features", "64", "--lookahead", "1",
                 "--no-corrections",
                 "--out", str(out)]) == 0
    assert "w64-b16-planes-n64-d1-c2-nocorr, " in capsys.readouterr().out
    assert out.read_text().count("module bitstep_top") >= 1
    assert re.match(r"// bitstep \S+, pipeline w64-b16-planes-n64-d1-c2-nocorr, identity "
                    "[0-9a-f]{32}\n// SPDX-License-Identifier: Apache-2.0\n", out.read_text())
    with pytest.raises(SystemExit):
        main(["rtl", "--bit-planes", "--bits", "4", "--out", str(out)])
