# amaranth: UnusedElaboratable=no

"""The sequencer with rows that come again, rows that are fetched again, and proximal steps."""

import random
from dataclasses import dataclass, field

import pytest
from support import put, put_all_of

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.pipeline.rows.sequencer import Sequencer
from bitstep_sim.testing.cases import each
from bitstep_sim.testing.harness import once, simulate

WAITS = ("wait_rows", "wait_labels", "wait_lookahead", "wait_recursion", "wait_correction",
         "wait_refetch", "flushing")


@dataclass
class Epoch:
    """What is asked for, and what happened."""

    rows: int
    beats: int = 1
    batch: int = 1
    lookahead: int = 3
    period: int = 0
    proximal_period: int = 0
    replays: float = 0.0        # probability that a row is left open
    refetches: float = 0.0      # probability that a row on its own words is fetched again
    slots: list = field(default_factory=list)       # (cycle, slot, row, discarded)
    decided: list = field(default_factory=list)     # (cycle, row)
    replayed: list = field(default_factory=list)     # (cycle, row)
    steps: list = field(default_factory=list)       # (cycle, rows decided) of proximal steps
    samples: int = 0
    again: int = 0
    done: int = 0


class Surroundings:
    """Inputs that can go back, a pipeline that only decides rows, and a model of both."""

    def __init__(self, ctx, dut, epoch, rng, stall):
        self.ctx, self.dut, self.epoch, self.rng, self.stall = ctx, dut, epoch, rng, stall
        self.latency = dut.config.latency
        self.next_beat = self.next_label = self.cycle = 0
        self.on_the_way = []        # [cycle of the last slot, row, whether it counts, alone]
        self.hold_until, self.held_row = -1, None
        self.corrected_at, self.stepped_at = None, None
        self.kinds = []             # of every row that passed: None or its number

    async def run(self, limit=40_000):
        """One epoch."""
        for _ in range(limit):
            if await self.tick():
                return
        raise TimeoutError("The epoch does not end")

    async def tick(self):
        ctx, dut, epoch, rng = self.ctx, self.dut, self.epoch, self.rng
        ended = [entry for entry in self.on_the_way if entry[0] + self.latency == self.cycle]
        strobes = {"decided": 0, "replay": 0, "hold": self.cycle <= self.hold_until}
        for _, row, counts, alone in ended:
            if not counts:
                continue
            if alone and rng.random() < epoch.refetches:
                self.hold_until, self.held_row = self.cycle + rng.randint(3, 30), row
                strobes["hold"] = 1
            elif not alone and rng.random() < epoch.replays:
                strobes["replay"] = 1
                epoch.replayed.append((self.cycle, row))
            else:
                strobes["decided"] = 1
                epoch.decided.append((self.cycle, row))
        if self.held_row is not None and self.cycle == self.hold_until:
            strobes["decided"] = 1
            epoch.decided.append((self.cycle, self.held_row))
            self.held_row = None
        put_all_of(ctx, dut, strobes)
        put_all_of(ctx, dut, {"corrected": self.corrected_at == self.cycle,
                              "proximal_done": self.stepped_at == self.cycle})
        put(ctx, dut.i_rows.valid,
            self.next_beat < epoch.rows * epoch.beats and rng.random() >= self.stall)
        put(ctx, dut.i_labels.valid, self.next_label < epoch.rows and rng.random() >= self.stall)
        put(ctx, dut.i_rows.payload, self.next_beat)
        put(ctx, dut.i_labels.payload, self.next_label)

        slot = ctx.get(dut.slot)
        self.judge_slot(slot, strobes)
        # A row is judged one cycle before its c: nothing after a replay counts.
        discard, alone = ctx.get(dut.discard), ctx.get(dut.replay_alone)
        for entry in self.on_the_way:
            if entry[0] + self.latency - 1 == self.cycle:
                entry[2], entry[3] = entry[2] and not discard, alone
        if ctx.get(dut.proximal):
            epoch.steps.append((self.cycle, len(epoch.decided)))
            assert not self.moving()
            self.stepped_at = self.cycle + rng.randint(1, 20)
        self.next_beat += ctx.get(dut.i_rows.valid) and ctx.get(dut.i_rows.ready)
        self.next_label += ctx.get(dut.i_labels.valid) and ctx.get(dut.i_labels.ready)
        if ctx.get(dut.rewind):
            assert not self.moving()
            self.next_label = len(epoch.decided)
            self.next_beat = self.next_label * epoch.beats
        done = ctx.get(dut.done)
        if done or ctx.get(dut.proximal):       # the last row's update is in the words
            assert self.kinds[-1 - epoch.lookahead:] == [None] * (epoch.lookahead + 1)
        causes = sum(ctx.get(getattr(dut, name)) for name in WAITS)
        entered = slot.valid and not slot.idle_row
        # Beats that come again, and those begun before a replay, are waited for and enter.
        assert causes + entered == 1 or (entered and ctx.get(dut.wait_refetch)), self.cycle
        await ctx.tick()
        self.cycle += 1
        epoch.done = self.cycle
        return done

    def moving(self):
        """Whether a row is on its way through the pipeline."""
        return any(entry[0] + self.latency - 1 > self.cycle for entry in self.on_the_way)

    def judge_slot(self, slot, strobes):
        """Whether this slot may be issued now, and what it carries."""
        ctx, dut, epoch = self.ctx, self.dut, self.epoch
        if not slot.valid:
            return
        assert not strobes["hold"]
        assert not strobes["replay"]
        assert self.stepped_at is None or self.stepped_at < self.cycle
        data = not slot.idle_row
        row = self.next_label if data else None
        if data:
            assert ctx.get(dut.beat) == self.next_beat == row * epoch.beats + slot.index
            assert not slot.last or ctx.get(dut.label) == row
        epoch.slots.append((self.cycle, slot, row))
        if slot.first:
            self.begin_row(row)
        if slot.last:
            self.on_the_way.append([self.cycle, row, data, 0])
            if slot.sample:
                epoch.samples += 1
                self.corrected_at = self.cycle + self.latency + self.rng.randint(1, 30)

    def begin_row(self, row):
        """What must hold when a row begins."""
        epoch = self.epoch
        alone = row is not None and self.ctx.get(self.dut.replay_alone)
        if alone and epoch.lookahead:
            # It comes again: alone, and with every update before it in the words.
            epoch.again += 1
            assert row == len(epoch.decided) == epoch.replayed[-1][1]
            since = list(reversed(self.kinds)).index(row - 1) if row else len(self.kinds)
            assert not row or since >= epoch.lookahead
            assert not self.moving()
        if row is not None and epoch.period and row % epoch.period == 0 and not alone \
                and self.dut.config.refetch:
            assert row == len(epoch.decided), "a boundary before every row before is decided"
        self.kinds.append(row)


def run_epochs(config, *epochs: Epoch, stall=0.0, seed=0) -> list[Epoch]:
    """Epochs, one after the other."""
    dut, rng = once(Sequencer, config=config), random.Random(seed)

    async def testbench(ctx):
        for epoch in epochs:
            put_all_of(ctx, dut, {name: getattr(epoch, name) for name in (
                "rows", "beats", "batch", "lookahead", "period", "proximal_period")})
            await ctx.tick()
            put(ctx, dut.start, 1)
            await ctx.tick()
            put(ctx, dut.start, 0)
            await Surroundings(ctx, dut, epoch, rng, stall).run()
            await ctx.tick()

    simulate(dut, testbench, limit=100_000)
    return list(epochs)


def check(epoch, *, refetch):
    """Every row is decided once, in order; steps and corrections are where they should be."""
    if refetch:
        assert [row for _, row in epoch.decided] == list(range(epoch.rows))
        assert epoch.again == len(epoch.replayed)
    period, steps = epoch.proximal_period, []
    if period:
        steps = [row for row in range(1, epoch.rows + 1) if row % period == 0 or row == epoch.rows]
    data = [row for _, slot, row in epoch.slots if slot.last and not slot.idle_row]
    assert data[-1] == epoch.rows - 1
    if not epoch.replayed:
        assert data == list(range(epoch.rows))
    assert [count for _, count in epoch.steps] == steps if refetch else \
        len(epoch.steps) == len(steps)
    corrections = (epoch.rows - 1) // epoch.period if epoch.period else 0
    assert epoch.samples == corrections
    commits = sum(slot.commit and slot.last for _, slot, _ in epoch.slots)
    assert commits == corrections
    check_corrections(epoch)


def check_corrections(epoch):
    """A correction counts from its boundary to the row D after, which writes it."""
    rows = [(slot, row) for _, slot, row in epoch.slots if slot.last]
    counted, seen = set(), set()
    for place, (slot, row) in enumerate(rows):
        first = row is not None and row not in seen
        seen.add(row)
        if epoch.period and first and row and row % epoch.period == 0:
            counted |= set(range(place, place + epoch.lookahead + 1))
            assert rows[place + epoch.lookahead][0].commit
        assert slot.correct == (place in counted), place


EPOCHS = [
    {"rows": 1}, {"rows": 14}, {"rows": 14, "lookahead": 0}, {"rows": 24, "lookahead": 8},
    {"rows": 12, "beats": 3, "lookahead": 2}, {"rows": 14, "period": 1},
    {"rows": 20, "period": 4}, {"rows": 24, "period": 10}, {"rows": 13, "period": 5, "beats": 3},
    {"rows": 14, "period": 14}, {"rows": 15, "period": 7}, {"rows": 10, "proximal_period": 1},
    {"rows": 16, "proximal_period": 7}, {"rows": 14, "proximal_period": 100},
    {"rows": 1, "proximal_period": 1}, {"rows": 10, "proximal_period": 5, "beats": 3},
    {"rows": 20, "period": 10, "proximal_period": 4},
    {"rows": 16, "period": 5, "proximal_period": 5},
    {"rows": 10, "period": 1, "proximal_period": 1, "beats": 2},
]


@pytest.mark.by_day(5)
@pytest.mark.covering(1)
@pytest.mark.parametrize("replays, refetches", [(0.2, 0.5), (0.8, 0.1)])
@pytest.mark.parametrize("number", range(len(EPOCHS)))
def test_every_row_is_decided_once(number, replays, refetches):
    update_interval, stall = ((2, 0.0), (4, 0.3))[(number + (replays > 0.5)) % 2]
    config = PipelineConfig(bits=8, max_features=40, lookahead=8,
                            update_interval=update_interval, proximal=True, refetch=True)
    epochs = run_epochs(config, *(
        Epoch(**EPOCHS[number], replays=replays, refetches=refetches) for _ in range(2)),
        stall=stall, seed=number)
    for epoch in epochs:
        check(epoch, refetch=True)


@each("replays, refetches", [(0.0, 0.3), (1.0, 0.0), (1.0, 1.0)])
def test_no_row_and_every_row_comes_again(replays, refetches):
    config = PipelineConfig(bits=8, max_features=40, lookahead=8, proximal=True, refetch=True)
    epochs = run_epochs(config, *(Epoch(20, replays=replays, refetches=refetches, **options)
                                  for options in ({}, {"period": 6, "proximal_period": 8})))
    for epoch in epochs:
        check(epoch, refetch=True)
        assert [row for _, row in epoch.replayed] == list(range(20 if replays else 0))


@pytest.mark.by_day(5)
@each("batch", [1, 3])
@pytest.mark.parametrize("number", [
    number if "proximal_period" in epoch else pytest.param(number, marks=pytest.mark.slow)
    for number, epoch in enumerate(EPOCHS)])
def test_proximal_steps_without_refetching(number, batch):
    config = PipelineConfig(bits=8, max_features=40, lookahead=8, proximal=True)
    options = dict(EPOCHS[number], batch=batch)
    for name in ("period", "proximal_period"):
        options[name] = options.get(name, 0) * batch
    epochs = run_epochs(config, Epoch(**options), Epoch(**options), seed=number)
    for epoch in epochs:
        check(epoch, refetch=False)
        # The rows before a step, those without data behind them, and nothing of the next rows.
        before = [sum(at < step for at, slot, _ in epoch.slots if slot.last and not slot.idle_row)
                  for step, _ in epoch.steps]
        period = epoch.proximal_period
        assert before == [min(at, epoch.rows) for at in range(period, epoch.rows + period, period)
                          ] if period else not before


def test_proximal_period_that_splits_a_batch():
    config = PipelineConfig(bits=8, max_features=40, lookahead=2, proximal=True)
    dut, seen = once(Sequencer, config=config), []

    async def testbench(ctx):
        put_all_of(ctx, dut, {"rows": 12, "beats": 1, "batch": 4, "lookahead": 2,
                              "proximal_period": 6, "proximal_done": 1})
        await ctx.tick()
        put(ctx, dut.start, 1)
        put(ctx, dut.i_rows.valid, 1)
        put(ctx, dut.i_labels.valid, 1)
        await ctx.tick()
        put(ctx, dut.start, 0)
        for _ in range(100):
            seen.append(ctx.get(dut.misaligned))
            await ctx.tick()

    simulate(dut, testbench)
    assert any(seen)


@each("after", [0, 3, 12, 14, 15, 16, 20, 30, 36])
def test_stop_while_rows_come_again(after):
    """A replay, then a stop at any time: the next epoch starts from nothing."""
    config = PipelineConfig(bits=8, max_features=40, lookahead=3, refetch=True, proximal=True)
    dut = once(Sequencer, config=config)

    async def testbench(ctx):
        put_all_of(ctx, dut, {"rows": 9, "beats": 1, "batch": 1, "lookahead": 3})
        put(ctx, dut.i_rows.valid, 1)
        put(ctx, dut.i_labels.valid, 1)
        await ctx.tick()
        put(ctx, dut.start, 1)
        await ctx.tick()
        put(ctx, dut.start, 0)
        for cycle in range(after + 1):
            put(ctx, dut.replay, cycle == 12)
            await ctx.tick()
        put_all_of(ctx, dut, {"stop": 1, "replay": 0})
        for _ in range(config.latency + 1):
            await ctx.tick()
            assert not ctx.get(dut.slot.valid)
            assert not ctx.get(dut.discard)
            assert not ctx.get(dut.replay_alone)
        put_all_of(ctx, dut, {"stop": 0, "start": 1})
        await ctx.tick()
        put(ctx, dut.start, 0)
        epoch = Epoch(rows=9, replays=0.3)
        await Surroundings(ctx, dut, epoch, random.Random(after), 0.0).run()
        check(epoch, refetch=True)

    simulate(dut, testbench, limit=5000)
