# amaranth: UnusedElaboratable=no

from dataclasses import replace

import pytest
from support import put, put_all_of, ticks

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import Error, LabelFormat, Loss, Overflow
from bitstep_hw.shell.run_control import RunControl
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate

CONFIG = PipelineConfig(bits=8, max_features=800, lookahead=4)      # 8 lanes, 100 beats
SIMPLE = PipelineConfig(bits=8, max_features=800, minibatch=False, corrections=False)
FULL = PipelineConfig(bits=8, max_features=800, lookahead=4, proximal=True, refetch=True)
LOGISTIC = PipelineConfig(bits=8, max_features=800, loss_family="logistic", update_interval=6)
FLOAT = PipelineConfig(bits=32, row_format="float32", max_features=800)
BIT_PLANES = PipelineConfig(bits=16, row_format="bit_planes", max_features=800, lookahead=4)
GOOD = {
    "rows": 10, "beats_per_row": 3, "last_lanes": 8, "epochs": 2, "batch": 1, "label_format": 1,
    "label_shift": 40, "intercept_level": 127, "lookahead": 1, "correction_period": 0,
    "warm_start": 0, "copies": 1, "rows_address": 0x1000, "copy_stride": 240,
    "labels_address": 0x2008, "epoch_table_address": 0x3000, "model_in_address": 0x4000,
    "coefficients_address": 0x5000, "model_out_address": 0x6000, "model_out_stride": 104,
    "loss": Loss.LEAST_SQUARES, "proximal_period": 0, "box_limit": 0, "cell_half_levels": 0,
    "lookahead_margin": 0, "fine_address": 0x7000,
}
# A run that writes derivatives of rows of 800 features.
FULL_PASS = {"beats_per_row": 50, "last_lanes": 16, "intercept_level": 1 << 16, "epochs": 1,
             "batch": 10, "label_format": 0, "loss": Loss.SQUARED_HINGE, "gradient": 1,
             "derivatives": 1}
SIGNS = {"label_format": LabelFormat.SIGN}
HINGE = {**SIGNS, "loss": Loss.HINGE}
THRESHOLD = (1 << 31) - 3
KEY = 0x9ABC_DEF1
# The two words of a table entry; bits that mean nothing are 1.
ENTRY = (5 | 2 << 18 | 0x7FF << 21 | 7 << 32 | 3 << 50 | 0x7FF << 53,
         THRESHOLD | 1 << 31 | KEY << 32)
LABEL_BEATS = 3
STROBES = ("begin", "clear", "load", "load_coefficients", "unload", "epoch_start")


class Surroundings:
    """What a run control meets: every command is done 3 cycles later, inputs are always there.

    ``events`` are the strobes, table entries, labels, blocks for models and ends of ``stop``.
    """

    def __init__(self, ctx, dut):
        self.ctx, self.dut, self.events, self.cycle = ctx, dut, [], 0
        self.due = {}
        put_all_of(ctx, dut, {"buses_idle": 1, "write_idle": 1, "label_beats": LABEL_BEATS})
        put(ctx, dut.i.payload, ENTRY[0])
        for stream in (dut.job, dut.o_labels, dut.o_model):
            put(ctx, stream.ready, 1)
        put(ctx, dut.i.valid, 1)

    async def tick(self):
        """One cycle."""
        ctx, dut = self.ctx, self.dut
        put_all_of(ctx, dut, {"port_done": self.due.get("port") == self.cycle,
                              "epoch_done": self.due.get("epoch") == self.cycle})
        seen = [name for name in STROBES if ctx.get(getattr(dut, name))]
        if {"clear", "load", "load_coefficients", "unload"} & set(seen):
            self.due["port"] = self.cycle + 3
        if "epoch_start" in seen:
            self.due["epoch"] = self.cycle + 10
        labels, model = ctx.get(dut.o_labels.valid), ctx.get(dut.o_model.valid)
        if labels:
            seen.append("label")
        if model:
            seen.append("model")
        if ctx.get(dut.i.ready) and not labels and not model:
            seen.append("entry")
        next_word = ENTRY[seen[-1:] == ["entry"] and self.events[-1:] != ["entry"]]
        if ctx.get(dut.job.valid):
            block = ctx.get(dut.job.payload)
            seen.append(("write", block.address, block.beats))
        self.events += seen
        self.cycle += 1
        await ctx.tick()
        put(ctx, dut.i.payload, next_word & (1 << 64) - 1)

    async def start(self, registers):
        """Set the registers and start."""
        put(self.ctx, self.dut.registers, registers)
        await ticks(self.ctx, 3)
        put(self.ctx, self.dut.start, 1)
        await self.tick()
        put(self.ctx, self.dut.start, 0)
        await self.tick()
        assert self.ctx.get(self.dut.busy)
        assert not self.ctx.get(self.dut.done)

    async def finish(self, limit=1000):
        """Wait for the end; error and epochs."""
        for _ in range(limit):
            if self.ctx.get(self.dut.done):
                assert not self.ctx.get(self.dut.busy)
                return Error(self.ctx.get(self.dut.error)), self.ctx.get(self.dut.epochs_done)
            await self.tick()
        raise TimeoutError("The run does not end")


def run(changes, config=CONFIG, during=None, twice=True):
    """Run with changed registers; error, epochs and events. A good run must follow well."""
    dut, result = once(RunControl, config=config), []

    async def testbench(ctx):
        around = Surroundings(ctx, dut)
        await around.start({**GOOD, **changes})
        if during is not None:
            await during(ctx, dut, around)
        error, epochs = await around.finish()
        result.extend([error, epochs, list(around.events), ctx.get(dut.overflow)])
        if twice:
            around.events.clear()
            await around.start(GOOD)
            assert await around.finish() == (Error.NONE, 2)
            assert ctx.get(dut.overflow) == 0
            assert around.events == good_events()

    simulate(dut, testbench, limit=5000)
    return result


def good_events(*, model=("clear",), coefficients=(), epochs=2):
    """Events of a run in order."""
    events = ["begin", *model, *coefficients]
    for epoch in range(epochs):
        events += ["entry", "entry", "epoch_start", *["label"] * LABEL_BEATS, "unload",
                   ("write", 0x6000 + 104 * epoch, 13)]
    return events


@each("changes, expected", [
    ({}, good_events()),
    ({"epochs": 5}, good_events(epochs=5)),
    ({"warm_start": 1}, good_events(model=["load", *["model"] * 3])),
    ({"correction_period": 4},
     good_events(coefficients=["load_coefficients", *["model"] * 3])),
])
def test_order_of_a_run(changes, expected):
    error, epochs, events, overflow = run(changes)
    assert (error, epochs, overflow) == (Error.NONE, changes.get("epochs", 2), 0)
    # The port takes its words in the cycle after its command too: here as many as it waits.
    assert events == expected


def test_table_entry_and_sizes():
    async def during(ctx, dut, around):
        while "epoch_start" not in around.events:
            await around.tick()
        names = ("mantissa", "shift", "correction_mantissa", "correction_shift", "threshold", "key")
        assert [ctx.get(getattr(dut.steps, name)) for name in names] \
            == [5, 2, 7, 3, THRESHOLD, KEY]
        assert (ctx.get(dut.row_beats), ctx.get(dut.model_beats)) == (3 * 10, 3 * 4 + 1)

    run({}, during=during)


BAD = [
    {"rows": 0}, {"beats_per_row": 0}, {"beats_per_row": 101}, {"last_lanes": 0},
    {"last_lanes": 9}, {"epochs": 0}, {"batch": 0}, {"copies": 0}, {"label_format": 3},
    {"label_shift": 41}, {"intercept_level": 128}, {"lookahead": 5},
    {"lookahead": 4, "beats_per_row": 100},                 # more than the delay lines hold
    {"rows_address": 0x1004}, {"copy_stride": 4}, {"labels_address": 0x2004},
    {"epoch_table_address": 1}, {"model_in_address": 2}, {"coefficients_address": 4},
    {"model_out_address": 0x6004}, {"model_out_stride": 4}, {"fine_address": 0x7004},
    {"rows": (1 << 32) - 1, "beats_per_row": 2},            # more beats than a block can have
]


@pytest.mark.parametrize("changes", BAD, ids=str)
def test_bad_configuration(changes):
    error, epochs, events, _ = run(changes)
    assert (error, epochs, events) == (Error.BAD_CONFIGURATION, 0, [])


@pytest.mark.parametrize("changes", [
    {"batch": 2}, {"correction_period": 8}, {"proximal_period": 1},
    {**HINGE, "cell_half_levels": 1}], ids=str)
def test_what_a_simple_pipeline_cannot_do(changes):
    assert run(changes, config=SIMPLE)[0] == Error.BAD_CONFIGURATION
    assert run(changes, config=FULL, twice=False)[0] == Error.NONE


@pytest.mark.parametrize("config, losses", [
    (CONFIG, {Loss.LEAST_SQUARES, Loss.SQUARED_HINGE, Loss.HINGE, Loss.HUBER}),
    (LOGISTIC, {Loss.LOGISTIC})])
@each("loss", range(8))
def test_losses_of_a_solver(config, losses, loss):
    error = run({**SIGNS, "loss": loss, "derivative_bound": int(loss == Loss.HUBER)},
                config=config, twice=False)[0]
    assert error == (Error.NONE if loss in losses else Error.BAD_CONFIGURATION)


@pytest.mark.parametrize("changes, expected", [
    ({"loss": Loss.HUBER, "derivative_bound": 1}, Error.NONE),
    ({"loss": Loss.HUBER, "derivative_bound": (1 << 26) - 1, "label_format": LabelFormat.INT32},
     Error.NONE),
    ({"loss": Loss.HUBER}, Error.BAD_CONFIGURATION),
    ({"derivative_bound": 1}, Error.BAD_CONFIGURATION),
    ({**HINGE, "derivative_bound": 1}, Error.BAD_CONFIGURATION)], ids=str)
def test_bound_of_a_derivative(changes, expected):
    assert run(changes, twice=False)[0] == expected


@each("loss", [Loss.SQUARED_HINGE, Loss.HINGE, Loss.LOGISTIC])
@each("label_format", [LabelFormat.INT16, LabelFormat.INT32])
def test_losses_that_need_signs(loss, label_format):
    config = LOGISTIC if loss == Loss.LOGISTIC else CONFIG
    assert run({"loss": loss, "label_format": label_format}, config=config, twice=False)[0] \
        == Error.BAD_CONFIGURATION


@pytest.mark.parametrize("changes, expected", [
    ({**HINGE, "cell_half_levels": 4}, Error.NONE),
    *[(changes, Error.BAD_CONFIGURATION) for changes in (
        {**HINGE, "cell_half_levels": 5}, {**HINGE, "cell_half_levels": 7},
        {**HINGE, "cell_half_levels": 1, "batch": 2},
        {**SIGNS, "cell_half_levels": 1, "loss": Loss.LEAST_SQUARES},
        {**SIGNS, "cell_half_levels": 1, "loss": Loss.SQUARED_HINGE})]], ids=str)
def test_what_refetching_needs(changes, expected):
    assert run(changes, config=FULL, twice=False)[0] == expected


@pytest.mark.parametrize("changes, expected", [
    ({"label_shift": 62}, Error.NONE), ({"label_shift": 63}, Error.BAD_CONFIGURATION),
    ({"intercept_level": 2}, Error.BAD_CONFIGURATION)], ids=str)
def test_limits_of_floating_point_rows(changes, expected):
    changes = {"intercept_level": 1, "last_lanes": 2, **changes}
    assert run(changes, config=FLOAT, twice=False)[0] == expected


@pytest.mark.parametrize("changes", [
    {"beats_per_row": 100}, {"last_lanes": 1}, {"lookahead": 4, "beats_per_row": 2},
    {"lookahead": 0, "beats_per_row": 100}, {"intercept_level": 0}, {"label_shift": 0},
    {"label_format": 2}, {"copies": 255}, {"rows": (1 << 32) - 1, "beats_per_row": 1},
], ids=str)
def test_limits_that_are_allowed(changes):
    assert run(changes, twice=False)[:2] == [Error.NONE, 2]


ENDS = [({"abort": 1}, Error.ABORTED), ({"row_error": 1}, Error.ROW_READ),
        ({"aux_error": 1}, Error.AUX_READ), ({"write_error": 1}, Error.MODEL_WRITE),
        ({"misaligned": 1}, Error.BAD_CONFIGURATION)]


@pytest.mark.parametrize("strobe, expected", ENDS, ids=str)
@each("after", [*range(0, 12), 20, 25, 30, 40])
def test_ends_at_any_time(strobe, expected, after):
    async def during(ctx, dut, around):
        for _ in range(after):
            await around.tick()
        put_all_of(ctx, dut, strobe)
        await around.tick()
        put_all_of(ctx, dut, dict.fromkeys(strobe, 0))
        around.events.clear()

    error, epochs, events, _ = run({"warm_start": 1, "correction_period": 2, "epochs": 50},
                                   during=during)
    assert error == expected
    assert epochs <= after // 10
    # What the state before the stop began may still be asked for once.
    assert not {"epoch_start", "unload", "entry"} & set(events)


def test_first_error_counts():
    async def during(ctx, dut, around):
        put(ctx, dut.aux_error, 1)
        await around.tick()
        put_all_of(ctx, dut, {"aux_error": 0, "row_error": 1, "abort": 1})
        await around.tick()
        put_all_of(ctx, dut, {"row_error": 0, "abort": 0})

    assert run({}, during=during)[0] == Error.AUX_READ


def test_of_errors_in_one_cycle_the_cause_counts():
    """An abort before errors that it may bring about, rows before the rest."""
    for strobes, expected in (({"abort": 1, "row_error": 1}, Error.ABORTED),
                              ({"row_error": 1, "write_error": 1}, Error.ROW_READ)):
        async def during(ctx, dut, around, strobes=strobes):
            put_all_of(ctx, dut, strobes)
            await around.tick()
            put_all_of(ctx, dut, dict.fromkeys(strobes, 0))

        assert run({}, during=during, twice=False)[0] == expected


@pytest.mark.parametrize("lookahead", range(5))
def test_longest_rows_of_a_look_ahead(lookahead):
    depth = CONFIG.ahead.line_depth(lookahead + 1)
    assert run({"lookahead": lookahead, "beats_per_row": depth}, twice=False)[0] == Error.NONE
    assert run({"lookahead": lookahead, "beats_per_row": depth + 1}, twice=False)[0] \
        == Error.BAD_CONFIGURATION


def test_buses_are_waited_for():
    async def during(ctx, dut, around):
        put_all_of(ctx, dut, {"abort": 1, "buses_idle": 0})
        await around.tick()
        put(ctx, dut.abort, 0)
        for _ in range(300):
            await around.tick()
            assert ctx.get(dut.stop)
            assert not ctx.get(dut.done)
        put(ctx, dut.buses_idle, 1)

    assert run({}, during=during)[0] == Error.ABORTED


def test_buses_are_idle_for_some_time_in_a_row():
    """A bus that is idle for a while only, again and again, does not end a run."""
    async def during(ctx, dut, around):
        put(ctx, dut.abort, 1)
        await around.tick()
        put(ctx, dut.abort, 0)
        for cycle in range(300):
            put(ctx, dut.buses_idle, cycle % 40 != 0)
            await around.tick()
            assert not ctx.get(dut.done)
        put(ctx, dut.buses_idle, 1)

    assert run({}, during=during)[0] == Error.ABORTED


def test_a_model_counts_when_it_is_in_memory():
    async def during(ctx, dut, around):
        put(ctx, dut.write_idle, 0)
        for _ in range(200):
            await around.tick()
        assert ctx.get(dut.epochs_done) == 0
        assert around.events.count("unload") == 1
        put(ctx, dut.write_idle, 1)

    assert run({}, during=during)[:2] == [Error.NONE, 2]


def test_a_model_does_not_count_before_the_writer_tells_of_it():
    """It may do so four cycles after the port has given the last word."""
    async def during(ctx, dut, around):
        while "unload" not in around.events:
            await around.tick()
        for _ in range(3 + 4):
            await around.tick()
        put(ctx, dut.write_idle, 0)
        for _ in range(50):
            await around.tick()
        assert ctx.get(dut.epochs_done) == 0
        put(ctx, dut.write_idle, 1)

    assert run({}, during=during)[:2] == [Error.NONE, 2]


def test_a_model_whose_last_response_is_an_error_does_not_count():
    """The writer reports an error in the very cycle in which it becomes idle."""
    async def during(ctx, dut, around):
        put(ctx, dut.write_idle, 0)
        for _ in range(100):
            await around.tick()
        put_all_of(ctx, dut, {"write_idle": 1, "write_error": 1})
        await around.tick()
        put(ctx, dut.write_error, 0)

    assert run({}, during=during)[:2] == [Error.MODEL_WRITE, 0]


@each("epoch", [1, 2])
@pytest.mark.parametrize("kind", Overflow)
def test_overflow_ends_the_run_after_its_epoch(epoch, kind):
    async def during(ctx, dut, around):
        while around.events.count("epoch_start") < epoch:
            await around.tick()
        put(ctx, dut.overflowed, kind.value)
        await around.tick()
        put(ctx, dut.overflowed, 0)

    error, epochs, events, overflow = run({"epochs": 3}, during=during)
    assert (error, epochs, overflow) == (Error.OVERFLOW, epoch - 1, kind)
    assert events.count("epoch_start") == epoch
    assert events.count("unload") == epoch - 1


@each("busy", [0, 30])
def test_derivatives_come_in_place_of_a_model(busy):
    """No model is unloaded; the epoch counts when the writer is idle."""
    dut = once(RunControl, config=BIT_PLANES)

    async def testbench(ctx):
        around = Surroundings(ctx, dut)
        await around.start({**GOOD, **FULL_PASS})
        while "epoch_start" not in around.events:
            await around.tick()
        put(ctx, dut.write_idle, not busy)
        for _ in range(20 + busy):
            await around.tick()
            assert not busy or ctx.get(dut.epochs_done) == 0
        put(ctx, dut.write_idle, 1)
        assert await around.finish() == (Error.NONE, 1)
        assert around.events == ["begin", "clear", "entry", "entry", "epoch_start",
                                 *["label"] * LABEL_BEATS]

    simulate(dut, testbench, limit=5000)


@pytest.mark.parametrize("config, changes", [
    (BIT_PLANES, {"gradient": 0}), (BIT_PLANES, {"label_format": 1, "loss": Loss.LEAST_SQUARES}),
    (BIT_PLANES, {"label_format": 2}), (BIT_PLANES, {"loss": Loss.HINGE}),
    (BIT_PLANES, {"loss": Loss.LEAST_SQUARES}), (BIT_PLANES, {"epochs": 2}),
    (BIT_PLANES, {"batch": 9}),
    (replace(BIT_PLANES, minibatch=False), {}), (replace(BIT_PLANES, corrections=False), {}),
    (CONFIG, {"beats_per_row": 3, "last_lanes": 8, "intercept_level": 127})], ids=str)
def test_derivatives_that_no_run_writes(config, changes):
    error, epochs, events, _ = run({**FULL_PASS, **changes}, config=config, twice=False)
    assert (error, epochs) == (Error.BAD_CONFIGURATION, 0)
    assert not events
