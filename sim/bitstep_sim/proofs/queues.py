"""Queues: nothing overflows, nothing is lost, nothing changes places."""

import functools

from amaranth import Mux, Signal

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import LabelFormat
from bitstep_hw.axi.read_master import ReadMaster
from bitstep_hw.axi.split_reader import SplitReader
from bitstep_hw.parts.stream_register import StreamRegister
from bitstep_hw.pipeline.model.port import ModelPort
from bitstep_hw.pipeline.rows.delay_lines import DelayLines
from bitstep_hw.pipeline.rows.replay import Replay
from bitstep_hw.shell.label_unpacker import LabelUnpacker
from bitstep_sim.proofs.fifos import fifo_inside
from bitstep_sim.proofs.formal import Property, Surrounding, implies, inside
from bitstep_sim.proofs.mutation import Mutation


def labels(s: Surrounding):
    """Labels are the word's fields in order, as many as the format says, then the next word's."""
    dut = LabelUnpacker()
    label_format = s.constant(2, name="format")
    s.assume(label_format != 3)
    fragment = s.add(dut, label_format=label_format)
    m = s.m
    word = Signal(64)
    place = Signal(7)
    full = Signal()
    number = Signal(7)
    field = Signal(32)
    log = Signal(3)
    is_sign = label_format == LabelFormat.SIGN.value
    is_short = label_format == LabelFormat.INT16.value
    m.d.comb += [number.eq(Mux(is_sign, 64, Mux(is_short, 4, 2))),
                 log.eq(Mux(is_sign, 0, Mux(is_short, 4, 5)))]
    rest = word >> (place << log)[:6]
    m.d.comb += field.eq(Mux(is_sign, Mux(rest[0], 1, -1),
                             Mux(is_short, rest[:16].as_signed(), rest[:32].as_signed())))
    with m.If(dut.o.valid & dut.o.ready):
        m.d.sync += [place.eq(place + 1), full.eq(place + 1 != number)]
    with m.If(dut.i.valid & dut.i.ready):
        m.d.sync += [word.eq(dut.i.payload), place.eq(0), full.eq(1)]
    with m.If(dut.restart):
        m.d.sync += full.eq(0)
    s.check(dut.o.valid == (full & ~dut.restart))
    s.check(implies(dut.o.valid, dut.o.payload == field.as_signed()))
    # A word is taken only if every label of the one before has been.
    s.check(implies(dut.i.ready & full, (place + 1 == number) & dut.o.ready))
    for kind, last in ((LabelFormat.SIGN, 9), (LabelFormat.INT16, 3), (LabelFormat.INT32, 1)):
        s.reach(dut.o.valid & dut.o.ready & (label_format == kind.value) & (place == last))
    s.reach(s.past(dut.i.ready & full & ~dut.restart) & full)
    left = inside(fragment, "left")
    s.helper((inside(fragment, "some") == full) & implies(full, left == number - place))
    s.helper(inside(fragment, "one") == (full & (left == 1)))
    s.helper(implies(full, (place < number) & (inside(fragment, "word") == rest)))


def replay(s: Surrounding):
    """The items come in order; after ``rewind`` again from the oldest that was not released. An
    item whose number is chosen at will is followed.
    """
    dut = Replay(shape=8, depth=4)
    s.add(dut, clear=0)
    m = s.m
    chosen = s.constant(4, name="chosen")
    came = Signal(4)
    taken = Signal(4)
    released = Signal(4)
    item = Signal(8)
    take = dut.o.valid & dut.o.ready
    # Only what was taken is released; the reader needs at most three items at a time.
    s.assume(implies(dut.release, (dut.amount <= taken - released) & ~dut.rewind))
    s.assume(implies(take, taken - released < 3))
    s.assume(came < 15)
    with m.If(dut.i.valid & dut.i.ready):
        m.d.sync += came.eq(came + 1)
        with m.If(came == chosen):
            m.d.sync += item.eq(dut.i.payload)
    m.d.sync += [released.eq(released + Mux(dut.release, dut.amount, 0)),
                 taken.eq(Mux(dut.rewind, released, taken + take))]
    s.check(implies(dut.o.valid, taken < came))
    s.check(implies(dut.o.valid & (taken == chosen), dut.o.payload == item))
    s.check(came - released <= 4)
    s.reach(taken == 11)
    s.reach((came - released == 4) & dut.i.valid & ~dut.i.ready)
    s.reach(s.past(dut.rewind & (taken - released == 3)) & (came - released == 4))


def replay_waits(s: Surrounding):
    """An item that waits is offered 2 cycles after it came, or after a rewind."""
    dut = Replay(shape=8, depth=4)
    fragment = s.add(dut, clear=0)
    oldest, wanted, newest = (inside(fragment, name) for name in ("oldest", "wanted", "newest"))
    read, kept = (wanted - oldest)[:3], (newest - oldest)[:3]
    s.assume(implies(dut.release, (dut.amount <= read) & ~dut.rewind))
    s.helper((read <= kept) & (kept <= 4) & implies(inside(fragment, "offered"), read < kept))
    waiting = wanted != newest
    quiet = ~dut.rewind & ~(dut.o.valid & dut.o.ready)
    s.check(implies(s.past(waiting & quiet), dut.o.valid))
    s.check(implies(kept != 4, dut.i.ready))
    s.reach(s.past(waiting & quiet) & dut.o.ready)
    s.reach(kept == 4)


def model_port(s: Surrounding):
    """Whatever the reader does, every pair that is read finds room."""
    dut = ModelPort(config=PipelineConfig(bits=8, max_features=16, lookahead=2))
    fragment = s.add(dut)
    read = inside(fragment, "buffer.w_en")
    s.check(implies(read, inside(fragment, "buffer.w_rdy")))
    s.reach(inside(fragment, "buffer.level") + read == 7)
    s.helper(inside(fragment, "buffer.level") + read <= 7)
    fifo_inside(s, fragment, "buffer.", 8)


def stage(s: Surrounding):
    """Items leave in the order in which they come, one a cycle."""
    dut = StreamRegister(shape=8)
    s.add(dut, clear=0)
    m = s.m
    kept = Signal(2)
    first = Signal(8)           # what is in it, oldest first
    second = Signal(8)
    came, left = dut.i.valid & dut.i.ready, dut.o.valid & dut.o.ready
    with m.If(left):
        m.d.sync += first.eq(second)
    with m.If(came & ((kept - left)[:2] == 0)):
        m.d.sync += first.eq(dut.i.payload)
    with m.If(came & ((kept - left)[:2] == 1)):
        m.d.sync += second.eq(dut.i.payload)
    m.d.sync += kept.eq(kept + came - left)
    s.check((kept <= 2) & (dut.o.valid == (kept != 0)) & (dut.i.ready == (kept != 2)))
    s.check(implies(dut.o.valid, dut.o.payload == first))
    s.reach((kept == 2) & dut.i.valid)
    s.reach(s.past(came & left) & came & left)      # one a cycle


def reader(s: Surrounding):
    """Beats leave in the order in which they came, none is lost. Nothing looks at a beat's data, so
    one at any place that is marked, among others that are not, stands for all.
    """
    dut = ReadMaster(data_width=32, fifo_depth=32, max_outstanding=2)
    fragment = s.add(dut, stop=0)
    m, bus = s.m, dut.bus
    chosen = s.constant(4, name="chosen")
    owed = Signal(8)
    came = Signal(4)
    left = Signal(4)
    m.d.sync += owed.eq(owed + Mux(bus.arvalid & bus.arready, bus.arlen + 1, 0) - bus.rvalid)
    s.assume(implies(bus.rvalid, (owed != 0) & (came != 15)))
    s.assume(bus.rdata == (came == chosen))
    with m.If(bus.rvalid):
        m.d.sync += came.eq(came + 1)
    with m.If(dut.o.valid & dut.o.ready):
        m.d.sync += left.eq(left + 1)
    s.check(implies(dut.o.valid, (left < came) & (dut.o.payload == (left == chosen))))
    # None is lost: what came 3 cycles ago and was not taken is offered.
    s.check(implies(s.past(came, 2) > left, dut.o.valid))
    # Where a beat is.
    s.helper(inside(fragment, "store.produce") == came)
    s.helper(inside(fragment, "store.consume") == left + inside(fragment, "store.r_rdy"))
    s.reach((left == 15) & (chosen == 14))
    s.reach((came == 15) & (left == 0))


def parts(s: Surrounding):
    """A beat has the parts that came as its own over each port, however late one of them is. One
    at any place is marked, as by :func:`reader`.
    """
    dut = SplitReader(data_width=64, ports=2, fifo_depth=32, max_outstanding=2)
    s.add(dut, stop=0)
    m, chosen, behind = s.m, s.constant(3, name="chosen"), []
    left = Signal(3)
    with m.If(dut.o.valid & dut.o.ready):
        m.d.sync += left.eq(left + 1)
    for number, bus in enumerate(dut.buses):
        owed, came = Signal(8, name=f"owed_{number}"), Signal(3, name=f"came_{number}")
        m.d.sync += owed.eq(owed + Mux(bus.arvalid & bus.arready, bus.arlen + 1, 0) - bus.rvalid)
        s.assume(implies(bus.rvalid, (owed != 0) & (came != 7)))
        s.assume(bus.rdata == (came == chosen))
        with m.If(bus.rvalid):
            m.d.sync += came.eq(came + 1)
        s.check(implies(dut.o.valid, left < came))
        behind.append(s.past(came, 2) > left)
    s.check(implies(dut.o.valid, dut.o.payload == (left == chosen) * (1 | 1 << 32)))
    s.check(implies(behind[0] & behind[1], dut.o.valid))
    s.reach((left == 3) & (chosen == 2))


def lines(s: Surrounding, *, update_interval=2):
    """Beside beat j of row i, line d shows beat j of row i - d. A beat chosen at will is followed
    through all lines.
    """
    config = PipelineConfig(bits=8, max_features=16, lookahead=2,
                            update_interval=update_interval)
    dut = DelayLines(config=config)
    beats, number = s.constant(2, name="beats"), s.constant(2, name="chosen")
    s.assume((beats != 0) & (beats <= 2))
    s.add(dut, index=(index := Signal(1)))
    m = s.m
    # Rows in order; the same index not in two cycles that follow each other, or three.
    for cycles in range(1, 3 if config.clock.fast else 2):
        s.assume(~(dut.valid & s.past(dut.valid, cycles)) | (index != s.past(index, cycles)))
    row = Signal(4)
    slot_row = Signal(4)
    slot_index = Signal(1)
    slot = Signal()
    m.d.sync += [slot.eq(dut.valid), slot_row.eq(row), slot_index.eq(index)]
    s.assume(row < 15)
    with m.If(dut.valid):
        m.d.sync += [index.eq(index + 1)]
        with m.If(index == beats - 1):
            m.d.sync += [index.eq(0), row.eq(row + 1)]
    place = s.constant(1, name="place")
    item = Signal(64)
    with m.If(slot & (slot_row == number) & (slot_index == place)):
        m.d.sync += item.eq(dut.beat)
    for d in range(1, config.lookahead + 2):
        # Long rows use fewer lines.
        short = beats <= config.ahead.line_depth(d)
        shown = slot & short & (slot_row == number + d) & (slot_index == place)
        s.check(implies(shown, dut.previous_beats[d - 1] == item))
        s.reach(shown & (number == 1))


PROPERTIES = [
    Property("queue-labels", "LabelUnpacker", "labels in order, none lost or made up, all formats",
             labels,
             Mutation("shell/label_unpacker.py", "left.eq(per_word), ", "left.eq(per_word - 1), "),
             depth=1, breaks_at=6, reaches_at=16),
    Property("queue-replay", "Replay",
             "items in order, again from the oldest that was not released; never more than fit "
             "(depth 4, 11 items)",
             replay, Mutation("pipeline/rows/replay.py", "wanted.eq(oldest), offered.eq(0)]",
                              "wanted.eq(oldest)]"), depth=14, bounded=True),
    Property("queue-replay-waits", "Replay",
             "what waits is offered in the next cycle; there is room until four items are kept",
             replay_waits, Mutation("pipeline/rows/replay.py", "!= self.depth)",
                                    "!= self.depth - 1)"), depth=2),
    Property("queue-model-port", "ModelPort",
             "the buffer never overflows while a model is unloaded", model_port,
             Mutation("pipeline/model/port.py", "advance.eq(buffer.level < 7 - latency)",
                      "advance.eq(1)"),
             depth=2, breaks_at=24),
    Property("queue-reader", "ReadMaster",
             "beats leave in the order in which they came, none is lost (15 beats)",
             reader, Mutation("axi/read_master.py", "store.w_en.eq(bus.rvalid & ~self.stop)",
                              "store.w_en.eq(bus.rvalid & ~(self.o.ready & self.o.valid))"),
             depth=21, bounded=True),
    Property("queue-parts", "SplitReader",
             "a beat has the parts that came as its own over each port, none is lost",
             parts, Mutation("axi/split_reader.py", "part.o.ready.eq(self.o.ready & every_part)",
                             "part.o.ready.eq(self.o.ready)"),
             depth=12, bounded=True),
    Property("queue-stage", "StreamRegister", "items in order, none lost, one a cycle", stage,
             Mutation("parts/stream_register.py", "with m.If(~full & (newest == number)):",
                      "with m.If(newest == number):"),
             depth=10, bounded=True),
    Property("queue-lines", "DelayLines", "line d shows the same beat of the row d before",
             lines, Mutation("pipeline/rows/delay_lines.py", "newer = delay(m, read.data, late",
                             "newer = delay(m, self.beat, late"),
             depth=12, bounded=True, slow=True),
    Property("queue-lines-fast", "DelayLines",
             "the same for a fast clock, with the same index every third cycle at most",
             functools.partial(lines, update_interval=4),
             Mutation("pipeline/rows/delay_lines.py", "delay(m, self.index, 1 + late",
                      "delay(m, self.index, 1"), depth=14, bounded=True),
]
