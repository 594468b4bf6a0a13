# amaranth: UnusedElaboratable=no

import random
from dataclasses import dataclass, field

import pytest
from support import put, put_all_of, ticks

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.widths import MAX_LOOKAHEAD
from bitstep_hw.pipeline.rows.sequencer import Sequencer
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate

WAITS = ("wait_rows", "wait_labels", "wait_lookahead", "wait_recursion", "wait_correction",
         "flushing")
FLAGS = ("idle_row", "apply", "skip", "frozen", "freeze", "correct", "commit", "sample")


@dataclass
class Epoch:
    """An epoch: what is asked for, and what is recorded."""

    rows: int
    beats: int = 1
    batch: int = 1
    lookahead: int = 2
    period: int = 0
    slots: list = field(default_factory=list)       # (cycle, fields of the slot, beat, label)
    waits: list = field(default_factory=list)       # in each cycle, the waits that are 1
    corrected: list = field(default_factory=list)   # cycles of the strobe
    misaligned: int = 0
    done: int = 0

    @property
    def grouped(self):
        """The slots of each row."""
        return [self.slots[at:at + self.beats] for at in range(0, len(self.slots), self.beats)]


def expected_rows(epoch):
    """Flags of each row in order, those without data too (docs/pipeline.md)."""
    d, rows = epoch.lookahead, []

    def add(idle, row, boundary_age, first_period, samples):
        position = row % epoch.batch
        correcting = not first_period and boundary_age <= d
        rows.append({
            "idle_row": int(idle), "apply": int(len(rows) > d),
            "skip": min(position, MAX_LOOKAHEAD), "frozen": int(position > d),
            "freeze": int(position == d and not idle),
            "correct": int(correcting), "commit": int(correcting and boundary_age == d),
            "sample": int(samples and boundary_age == d),
            "boundary": boundary_age == 0 and not first_period})

    age, first_period, samples = 0, True, False
    for row in range(epoch.rows):
        if epoch.period and row % epoch.period == 0:
            if row:
                while age <= d:
                    add(True, row, age, first_period, samples)
                    age += 1
            age, first_period, samples = 0, row == 0, row + epoch.period < epoch.rows
        add(False, row, age, first_period, samples)
        age += 1
    for _ in range(d + 1):
        add(True, epoch.rows, age, first_period, samples)
        age += 1
    return rows


def simulate_epochs(config, *epochs, stall=0.0, correction_cycles=0, seed=0):
    """Run epochs one after the other, with numbered beats and labels."""
    dut = once(Sequencer, config=config)
    rng = random.Random(seed)

    async def testbench(ctx):
        for epoch in epochs:
            put_all_of(ctx, dut, {name: getattr(epoch, name) for name in
                                  ("rows", "beats", "batch", "lookahead", "period")})
            await ctx.tick()
            put(ctx, dut.start, 1)
            await ctx.tick()
            put(ctx, dut.start, 0)
            await follow(ctx, epoch)
            await ctx.tick()

    async def follow(ctx, epoch):
        beat, label, due = 0, 0, None
        for cycle in range(20_000):
            put(ctx, dut.i_rows.valid, beat < epoch.rows * epoch.beats and rng.random() >= stall)
            put(ctx, dut.i_labels.valid, label < epoch.rows and rng.random() >= stall)
            put(ctx, dut.i_rows.payload, beat)
            put(ctx, dut.i_labels.payload, label)
            put(ctx, dut.corrected, due == cycle)
            if due == cycle:
                epoch.corrected.append(cycle)
            slot = ctx.get(dut.slot)
            if slot.valid:
                epoch.slots.append((cycle, {name: slot[name] for name in (
                    *FLAGS, "first", "last", "index")}, ctx.get(dut.beat), ctx.get(dut.label)))
                if slot.sample and slot.last:
                    due = cycle + 2 + rng.randint(0, correction_cycles)
            epoch.waits.append([name for name in WAITS if ctx.get(getattr(dut, name))])
            epoch.misaligned += ctx.get(dut.misaligned)
            beat += ctx.get(dut.i_rows.ready) and ctx.get(dut.i_rows.valid)
            label += ctx.get(dut.i_labels.ready) and ctx.get(dut.i_labels.valid)
            done = ctx.get(dut.done)
            await ctx.tick()
            if done:
                epoch.done = cycle
                assert (beat, label) == (epoch.rows * epoch.beats, epoch.rows)
                return
        raise TimeoutError("The epoch does not end")

    simulate(dut, testbench, limit=50_000)
    return epochs


def check_meaning(epoch):
    """Every row has the flags that it should, its beats in order, and its label last."""
    rows = expected_rows(epoch)
    assert len(epoch.slots) == len(rows) * epoch.beats
    data = 0
    for number, (flags, slots) in enumerate(zip(rows, epoch.grouped, strict=True)):
        for index, (_, fields, beat, label) in enumerate(slots):
            assert {name: fields[name] for name in FLAGS} \
                == {name: flags[name] for name in FLAGS}, number
            assert (fields["first"], fields["last"], fields["index"]) \
                == (index == 0, index == epoch.beats - 1, index)
            if not flags["idle_row"]:
                assert beat == data * epoch.beats + index
                assert not fields["last"] or label == data
        data += not flags["idle_row"]


def earliest(epoch, config):
    """Cycles at which slots may be issued at the earliest, without stalls."""
    times, lasts, now = [], [], 0
    corrected = iter(epoch.corrected)
    for number, flags in enumerate(expected_rows(epoch)):
        if number > epoch.lookahead:
            now = max(now, lasts[number - epoch.lookahead - 1] + config.latency)
        if flags["boundary"]:
            now = max(now, next(corrected) + 1)
        for beat in range(epoch.beats):
            if config.clock.fast and number:
                now = max(now, times[-epoch.beats] + 4)       # the same words
            if beat == epoch.beats - 1 and lasts:
                now = max(now, lasts[-1] + config.update_interval)
            times.append(now)
            now += 1
        lasts.append(times[-1])
    return times


EPOCHS = [
    Epoch(1, lookahead=0), Epoch(2, lookahead=5), Epoch(20, lookahead=0), Epoch(20, lookahead=2),
    Epoch(30, lookahead=8), Epoch(12, beats=4, lookahead=1), Epoch(6, beats=5, lookahead=0),
    Epoch(6, beats=5, lookahead=4), Epoch(20, batch=4, lookahead=2),
    Epoch(20, batch=3, lookahead=3), Epoch(9, batch=50, lookahead=1),
    Epoch(20, batch=2, lookahead=0), Epoch(60, batch=45, lookahead=8),
    Epoch(12, beats=2, lookahead=2), Epoch(12, beats=3, lookahead=2),
]
CORRECTED = [
    Epoch(20, period=1, lookahead=0), Epoch(12, period=1, lookahead=3),
    Epoch(30, period=4, lookahead=3), Epoch(30, period=5, lookahead=3),
    Epoch(31, period=10, lookahead=2), Epoch(30, period=30), Epoch(10, period=40),
    Epoch(24, period=6, batch=3, lookahead=4), Epoch(12, beats=3, period=4),
    Epoch(24, period=8, batch=8, lookahead=2), Epoch(25, period=12, batch=4, lookahead=8),
]


@pytest.mark.by_day(14)
@pytest.mark.covering(2)
@pytest.mark.parametrize("update_interval", [2, 4])
@pytest.mark.parametrize("stall", [0.0, 0.5])
@pytest.mark.parametrize("number", range(len(EPOCHS) + len(CORRECTED)))
def test_epoch(update_interval, stall, number):
    check_twice([*EPOCHS, *CORRECTED][number], update_interval, stall, number)


@pytest.mark.parametrize("rows, batch, update_interval, stall", [
    (261, 259, 2, 0.0), pytest.param(300, 270, 4, 0.5, marks=pytest.mark.slow)])
def test_a_batch_of_more_rows_than_are_counted(rows, batch, update_interval, stall):
    """Rows of a batch are counted up to ``MAX_LOOKAHEAD``."""
    assert batch > MAX_LOOKAHEAD + 2
    check_twice(Epoch(rows, batch=batch, lookahead=2), update_interval, stall, 15)


def check_twice(wanted, update_interval, stall, number):
    """Two epochs of this kind, one after the other."""
    config = PipelineConfig(bits=8, max_features=40, lookahead=8,
                            update_interval=update_interval)
    parameters = {name: getattr(wanted, name) for name in
                  ("rows", "beats", "batch", "lookahead", "period")}
    first, second = Epoch(**parameters), Epoch(**parameters)
    simulate_epochs(config, first, second, stall=stall, correction_cycles=20 * (number % 3),
                    seed=number)
    for epoch in (first, second):
        check_meaning(epoch)
        assert epoch.misaligned == 0
        cycles = [cycle for cycle, *_ in epoch.slots]
        if stall == 0.0:
            assert cycles == earliest(epoch, config)
        before = []         # the last cycle of each row
        for row, slots in enumerate(epoch.grouped):
            first_cycle, last_cycle = slots[0][0], slots[-1][0]
            assert row <= epoch.lookahead \
                or first_cycle >= before[row - epoch.lookahead - 1] + config.latency
            assert not before or last_cycle >= before[-1] + update_interval
            before.append(last_cycle)
        assert epoch.done >= cycles[-1] + config.latency - 1
        assert epoch.done <= cycles[-1] + config.latency + 1
        entered = {cycle for cycle, fields, *_ in epoch.slots if not fields["idle_row"]}
        for cycle, waits in enumerate(epoch.waits[:epoch.done + 1]):
            assert len(waits) + (cycle in entered) == 1, (cycle, waits)


def test_an_epoch_without_corrections_after_one_with():
    epochs = Epoch(12, period=5), Epoch(12), Epoch(12, period=5)
    simulate_epochs(PipelineConfig(bits=8, max_features=40, lookahead=8), *epochs)
    for epoch in epochs:
        check_meaning(epoch)


@each("name, epoch", [
    ("wait_lookahead", Epoch(10, lookahead=0)), ("wait_recursion", Epoch(10, lookahead=8)),
    ("wait_correction", Epoch(30, period=10, lookahead=2)), ("flushing", Epoch(1))])
def test_causes(name, epoch):
    config = PipelineConfig(bits=8, max_features=40, lookahead=8)
    simulate_epochs(config, epoch, correction_cycles=200, seed=3)
    causes = {wait for waits in epoch.waits for wait in waits}
    assert name in causes
    assert not causes & {"wait_rows", "wait_labels"}


@each("name", ["rows", "labels"])
def test_waits_for_inputs(name):
    config = PipelineConfig(bits=8, max_features=40, lookahead=8)
    dut = once(Sequencer, config=config)

    async def testbench(ctx):
        put_all_of(ctx, dut, {"rows": 3, "beats": 2, "batch": 1, "start": 1})
        put(ctx, dut.i_rows.valid, name != "rows")
        put(ctx, dut.i_labels.valid, name != "labels")
        await ctx.tick()
        put(ctx, dut.start, 0)
        await ticks(ctx, 3)
        for _ in range(5):
            assert ctx.get(getattr(dut, f"wait_{name}"))
            assert not ctx.get(dut.slot.valid)
            await ctx.tick()

    simulate(dut, testbench)


def test_period_that_splits_a_batch():
    epoch = Epoch(20, batch=4, period=6)
    simulate_epochs(PipelineConfig(bits=8, max_features=40, lookahead=8), epoch)
    assert epoch.misaligned > 0


@each("after", [0, 1, 5, 14])
def test_stop(after):
    """No slot while stopped, and nothing is left for the next epoch."""
    config = PipelineConfig(bits=8, max_features=40, lookahead=2)
    dut = once(Sequencer, config=config)

    async def testbench(ctx):
        put_all_of(ctx, dut, {"rows": 9, "beats": 3, "batch": 3, "lookahead": 2})
        await ctx.tick()
        put(ctx, dut.i_rows.valid, 1)
        put(ctx, dut.i_labels.valid, 1)
        seen = []
        for _ in range(2):
            put(ctx, dut.start, 1)
            await ctx.tick()
            put(ctx, dut.start, 0)
            fields = []
            for _ in range(after + 1):
                slot = ctx.get(dut.slot)
                fields.append([slot[name] for name in ("valid", "index", *FLAGS)])
                await ctx.tick()
            seen.append(fields)
            put(ctx, dut.stop, 1)
            await ctx.tick()
            for _ in range(config.latency):
                assert not ctx.get(dut.slot.valid)
                assert not ctx.get(dut.done)
                await ctx.tick()
            put(ctx, dut.stop, 0)
        assert seen[0] == seen[1]

    simulate(dut, testbench)
