"""The order of slots: which row is applied to which words, and that its update is there by then."""

import functools

from amaranth import Cat, Mux, Signal

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.pipeline.rows.phases import Phase
from bitstep_hw.pipeline.rows.sequencer import Sequencer
from bitstep_sim.proofs.formal import Property, Surrounding, implies, inside
from bitstep_sim.proofs.mutation import Mutation


def ones(bits):
    """Number of bits that are 1."""
    total = 0
    for bit in bits:
        total = total + bit
    return total


def _sequencer(s, update_interval, batch_lookahead=0):
    # Rows look ahead from a batch to the next if they can be longer.
    config = PipelineConfig(bits=8, max_features=72 if batch_lookahead else 24, lookahead=2,
                            proximal=True, update_interval=update_interval,
                            batch_lookahead=batch_lookahead)
    dut = Sequencer(config=config)
    between = ("idle_rows", "ahead") if batch_lookahead else ()
    given = {name: s.constant(len(getattr(dut, name)), name=f"given_{name}")
             for name in ("rows", "beats", "batch", "lookahead", "period", "proximal_period",
                          *between)}
    fragment = s.add(dut, **given, stop=0, decided=0, replay=0, hold=0)
    s.assume((given["beats"] != 0) & (given["beats"] <= config.rows.max_beats))
    s.assume((given["rows"] != 0) & (given["batch"] != 0))
    s.assume(given["lookahead"] <= config.lookahead)
    if batch_lookahead:
        s.assume(given["lookahead"] == given["idle_rows"] + given["ahead"])
        s.assume(given["ahead"] <= config.batch_lookahead)
    s.seek((given["rows"] <= 4) & (given["batch"] <= 1 + batch_lookahead) & (given["period"] == 0)
           & (given["proximal_period"] <= 1))
    phase = inside(fragment, "phases.phase")
    # The registers have stood for a cycle before the strobe.
    s.assume(implies(dut.start, (phase == Phase.IDLE) & s.started))
    # Whatever is waited for is there, and epochs begin as soon as they may.
    s.seek(dut.i_rows.valid & dut.i_labels.valid & dut.corrected & dut.proximal_done)
    s.seek(dut.start == ((phase == Phase.IDLE) & s.started))
    s.helper(inside(fragment, "phases.carrying")
             == ((phase == Phase.FLUSH) | (phase == Phase.BOUNDARY)))
    s.helper(inside(fragment, "phases.entering")
             == ((phase == Phase.ROWS) | (phase == Phase.REPLAY)))
    index, beats = inside(fragment, "index"), given["beats"]
    s.helper(implies(phase != Phase.IDLE, (dut.slot.first == (index == 0))
                     & (dut.slot.last == (index == beats - 1)) & s.started))
    return dut, fragment, config, given


def _on_their_way(s, dut, fragment, config, lookahead):
    """Rows whose last slot was at most so many cycles ago that they may have no update yet; those
    of the row that ended k cycles ago is place k.
    """
    places, register = [], dut.slot.valid & dut.slot.last
    for age in range(1, config.latency):
        register = s.past(register)
        places.append(register)
        if s.helpers:       # a fault may leave out registers
            s.helper(register == inside(fragment, f"gate.finished_{age}"))
    outstanding = inside(fragment, "gate.outstanding")
    index = inside(fragment, "index")
    s.helper(outstanding == ones(places))
    s.helper(inside(fragment, "gate.full") == (outstanding > lookahead))
    s.helper(outstanding <= lookahead + 1)
    s.helper(implies(index != 0, outstanding <= lookahead))
    s.helper(index < dut.beats)
    return places


def order(update_interval):
    """The flags of slots, and how close to each other they are."""
    def build(s: Surrounding):
        dut, fragment, _, given = _sequencer(s, update_interval)
        lookahead, beats = given["lookahead"], given["beats"]
        slot, m = dut.slot, s.m
        index = Signal.like(slot.index)
        rows = Signal(3)
        ended = slot.valid & slot.last
        with m.If(slot.valid):
            m.d.sync += index.eq(Mux(slot.last, 0, index + 1))
        with m.If(dut.start):
            m.d.sync += [rows.eq(0), index.eq(0)]
        with m.Elif(ended):
            m.d.sync += rows.eq(Mux(rows == 4, 4, rows + 1))
        # Beats of a row in order.
        s.check(implies(slot.valid, (slot.index == index) & (slot.first == (index == 0))
                        & (slot.last == (index == beats - 1))))
        # Row i takes the update of row i - D - 1, from the first row on that has one.
        s.check(implies(slot.valid, slot.apply == (rows > lookahead)))
        # Same words not in two slots that follow each other; rows `update_interval` apart.
        if update_interval > 1:
            s.check(~(slot.valid & s.past(slot.valid)) | (slot.index != s.past(slot.index)))
        for age in (2, 3) if update_interval == 4 else ():
            s.check(~(slot.valid & s.past(slot.valid, age))
                    | (slot.index != s.past(slot.index, age)))
        for age in range(1, update_interval):
            s.check(~(ended & s.past(ended, age)))
        # Every slot of a row with data takes a beat, its last one the label.
        s.check(dut.i_rows.ready == (slot.valid & ~slot.idle_row))
        s.check(implies(dut.i_rows.ready, dut.i_rows.valid))
        s.check(dut.i_labels.ready == (ended & ~slot.idle_row))
        s.check(implies(dut.i_labels.ready, dut.i_labels.valid))
        age = inside(fragment, "flags.age")
        s.reach(slot.valid & slot.apply & (lookahead == 2) & (slot.index == 2))
        s.reach(slot.valid & slot.apply & (lookahead == 0) & slot.first & slot.last)
        s.reach(slot.valid & slot.idle_row)
        s.helper(rows <= 4)
        s.helper(implies(rows <= lookahead, age == rows) & (age <= lookahead + 1))
        s.helper(implies(rows > lookahead, age == lookahead + 1))
        s.helper((inside(fragment, "index") == index) & (index < beats))
    return build


def update(update_interval):
    """A row chosen at will: its update is there when the row D + 1 later begins."""
    def build(s: Surrounding):
        dut, fragment, config, given = _sequencer(s, update_interval)
        lookahead = given["lookahead"]
        places = _on_their_way(s, dut, fragment, config, lookahead)
        slot, m = dut.slot, s.m
        s.check(ones(places) <= lookahead + 1)
        chosen = s.free(1, name="chosen")
        following = Signal()
        after = Signal(3)
        since = Signal(range(config.latency + 1))
        ended = slot.valid & slot.last
        with m.If(following):
            m.d.sync += [since.eq(Mux(since == config.latency, since, since + 1)),
                         after.eq(Mux(ended & (after != 7), after + 1, after))]
        with m.Elif(ended & chosen):
            m.d.sync += [following.eq(1), since.eq(1), after.eq(0)]
        s.check(implies(following & slot.valid & (after == lookahead), since >= config.latency))
        for number in range(config.lookahead + 1):
            s.reach(following & slot.valid & (after == number) & (lookahead == number))
        s.reach(ones(places) == config.lookahead + 1)
        for age in range(1, config.latency):
            s.helper(implies(following & (since == age),
                             places[age - 1] & (ones(places[:age - 1]) == after)))
        s.helper(implies(following, since != 0) & (since <= config.latency))
        # A row that has begun found room for itself.
        s.helper(implies(following & (inside(fragment, "index") != 0) & (after >= lookahead),
                         since >= config.latency))
    return build


def done(s: Surrounding):
    """An epoch ends only when no row is in flight and every update met its words."""
    dut, fragment, config, given = _sequencer(s, 2)
    lookahead = given["lookahead"]
    places = _on_their_way(s, dut, fragment, config, lookahead)
    phase, flush_left = (inside(fragment, f"phases.{name}") for name in ("phase", "flush_left"))
    slot, m = dut.slot, s.m
    idle = Signal(3)            # rows without data since the last one with data
    with m.If(slot.valid & slot.last):
        m.d.sync += idle.eq(Mux(slot.idle_row, Mux(idle == 7, 7, idle + 1), 0))
    ended = phase >= Phase.SETTLE.value
    s.check(implies(dut.done, (ones(places) == 0) & (idle > lookahead) & ~slot.valid))
    s.check(implies(dut.proximal, (ones(places) == 0) & (idle > lookahead) & ~slot.valid))
    s.seek((given["rows"] <= 2) & (given["beats"] == 1) & (lookahead == config.lookahead))
    stepped = Signal()          # a proximal step was taken
    with m.If(dut.proximal):
        m.d.sync += stepped.eq(1)
    s.reach(dut.done & ~stepped)
    s.reach(dut.done & stepped)
    s.reach(stepped & slot.valid & ~slot.idle_row)
    s.helper(phase <= Phase.PROXIMAL.value)
    s.helper(implies(phase == Phase.FLUSH, (flush_left != 0) & (flush_left <= lookahead + 1)
                     & (idle + flush_left >= lookahead + 1)))
    s.helper(implies(ended, idle > lookahead))
    s.helper(implies(phase == Phase.PROXIMAL, Cat(places) == 0))
    s.helper(implies(phase == Phase.IDLE, Cat(places) == 0) | ~s.started)
    s.helper(implies((phase == Phase.IDLE) | ended, inside(fragment, "index") == 0))


def batches(s: Surrounding, *, batch_lookahead: int = 0):
    """Where rows come in every cycle, D rows without data lie between two batches at least: so the
    next one's first row carries the last update, or comes after it. Where rows look ahead they are
    as many less, and the first row after these finds every update; it stores the words.
    """
    dut, fragment, _, given = _sequencer(s, 1, batch_lookahead)
    lookahead, batch = given["lookahead"], given["batch"]
    least, ahead = (given["idle_rows"], given["ahead"]) if batch_lookahead else (lookahead, 0)
    phase, flush_left, resumes = (inside(fragment, f"phases.{name}")
                                  for name in ("phase", "flush_left", "resumes"))
    position, batch_end = (inside(fragment, f"flags.{name}") for name in ("position", "batch_end"))
    slot, m = dut.slot, s.m
    idle = Signal(3)            # rows without data since the last one with data
    begun = Signal()            # there was one
    with m.If(slot.valid & slot.last):
        m.d.sync += [idle.eq(Mux(slot.idle_row, Mux(idle == 7, 7, idle + 1), 0)),
                     begun.eq(begun | ~slot.idle_row)]
    with m.If(dut.start):
        m.d.sync += begun.eq(0)
    opens = slot.valid & ~slot.idle_row & (slot.skip == 0) & begun      # the next batch
    s.check(implies(opens, idle >= least))
    s.check(implies(slot.valid & slot.freeze, slot.skip == ahead))
    s.check(implies(slot.valid & slot.frozen, slot.skip > lookahead))
    for number in range(batch_lookahead + 1):
        s.reach(opens & (lookahead == 2) & (least == 2 - number) & (idle == least))
        s.reach(slot.valid & slot.freeze & begun & (slot.skip == number))
    s.reach(opens & (lookahead == 0))
    s.helper(implies(phase != Phase.IDLE, (batch_end == batch - 1) & (position <= batch_end)))
    s.helper(implies(phase != Phase.IDLE, inside(fragment, "flags.before_end") == (batch - 2)[:32]))
    # From the second cycle of an epoch on.
    known = (phase == Phase.ROWS) | (phase == Phase.FLUSH)
    s.helper(implies(known, inside(fragment, "flags.batch_ends") == (position == batch_end)))
    s.helper(implies((phase == Phase.ROWS) & begun & (position == 0), idle >= least))
    s.helper(implies(phase == Phase.FLUSH, (flush_left != 0) & begun
                     & (idle + flush_left >= Mux(resumes, least, lookahead + 1))))
    between = (phase >= Phase.SETTLE.value) & begun
    s.helper(implies(between, idle > lookahead))
    s.helper(~inside(fragment, "periods.fill"))
    s.helper((phase != Phase.REPLAY) & (phase != Phase.DECISION))
    s.helper(inside(fragment, "index") < given["beats"])


_GATE = "pipeline/rows/issue_gate.py"
PROPERTIES = [
    *(Property(f"slots-order-{update_interval}", "Sequencer",
               "beats of a row in order; applies from row D + 1 on" + (
                   f"; same words at least {4 if update_interval == 4 else 2} cycles apart; rows "
                   f"{update_interval} cycles apart" if update_interval > 1 else ""),
               order(update_interval), mutation, others=tuple(others),
               depth=update_interval + 2, reaches_at=60, reaches_from=reaches_from)
      for update_interval, reaches_from, mutation, *others in (
          (1, 23, Mutation("pipeline/rows/row_flags.py", "with m.If(self.row_ends):",
                           "with m.If(self.counted):")),
          (2, 15, Mutation("pipeline/rows/row_flags.py", "self.apply.eq(age > self.lookahead)",
                           "self.apply.eq(age >= self.lookahead)")),
          (4, 18, Mutation(_GATE, "pairs.eq(self.beats == 2)", "pairs.eq(self.beats == 3)"),
           Mutation(_GATE, "for age in range(1, self.config.update_interval - 1)",
                    "for age in range(1, self.config.update_interval - 2)")))),
    *(Property(f"slots-update-{update_interval}", "Sequencer",
               "when row i begins, row i - D - 1 ended at least `latency` cycles before; at most "
               "D + 1 rows are in flight",
               update(update_interval), mutation, depth=2, breaks_at=24, reaches_at=60,
               reaches_from=reaches_from)
      for update_interval, reaches_from, mutation in (
          (1, 19, Mutation(_GATE, "self.outstanding + 1 - finished > self.lookahead",
                           "self.outstanding - finished > self.lookahead")),
          (2, 15, Mutation(_GATE, "self.outstanding - finished > self.lookahead)",
                           "self.outstanding - finished > self.lookahead + 1)")),
          (4, 18, Mutation(_GATE, "delay(m, row_ends, self.config.latency - 1",
                           "delay(m, row_ends, self.config.latency - 2")))),
    Property("slots-batches", "Sequencer",
             "where rows come in every cycle: D rows without data or more between two batches",
             batches, Mutation("pipeline/rows/phases.py", "Mux(goes_on, between, ",
                               "Mux(goes_on, between - 1, "),
             others=(Mutation("pipeline/rows/row_flags.py", "before_end.eq(self.batch - 2)",
                              "before_end.eq(self.batch - 1)"),),
             depth=2, breaks_at=30, reaches_at=40, reaches_from=19),
    Property("slots-batches-ahead", "Sequencer",
             "the same where rows look ahead from a batch to the next: so many rows less; the "
             "first row that does not look ahead stores the batch's first model",
             functools.partial(batches, batch_lookahead=2),
             Mutation("pipeline/rows/phases.py", "Mux(goes_on, between, ",
                      "Mux(goes_on, between - 1, "),
             others=(Mutation("pipeline/rows/row_flags.py",
                              "self.ahead if self.looks_ahead else C(0)", "C(0)"),),
             depth=2, breaks_at=30, reaches_at=40, reaches_from=19),
    Property("slots-done", "Sequencer",
             "done and proximal steps: no row in flight, D + 1 rows without data after the last",
             done, Mutation("pipeline/rows/phases.py", "with m.If(flush_left == 1):",
                            "with m.If(flush_left <= 2):"),
             # Proximal steps alone, not an epoch's end.
             others=(Mutation("pipeline/rows/phases.py",
                              "m.d.comb += upcoming.eq(Phase.FLUSH)\n                m.d.sync +=",
                              "m.d.comb += upcoming.eq(Mux(last_row, Phase.FLUSH, Phase.SETTLE))"
                              "\n                m.d.sync +="),),
             depth=2, breaks_at=30, reaches_at=40, reaches_from=28),
]
