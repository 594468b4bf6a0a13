"""Flags of a row: where it is in its epoch and in its batch."""

from amaranth import C, Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import MAX_LOOKAHEAD
from bitstep_hw.parts.arithmetic import last_choice


class RowFlags(wiring.Component):
    """Flags of a row that do not concern corrections, constant from a row's first slot to its last.

    Rows with and without data count for ``apply``, rows with data alone for the batch. Flags
    change in the cycle after ``row_ends``. Stores the row's place in its batch.

    Parameters
    ----------
    every_cycle : bool
        Rows may end in every cycle; else they are at least 2 cycles apart.
    looks_ahead : bool
        With ``every_cycle``: a batch's first rows may look ahead.

    Members
    -------
    batch : In(32)
        Rows of a batch, as the register; constant.
    lookahead : In
        As the register; constant.
    start, row_ends, counted, idle_row : In(1)
        Those of :class:`bitstep_hw.pipeline.rows.correction_periods.CorrectionPeriods`.
    issue : In(1)
        Strobe: a slot enters.
    boundary : In(1)
        The row is the first of a period between corrections.
    step_due : In(1)
        The row is the last before a proximal step.
    rows_left : In(32)
        Rows with data that have not ended.
    apply : Out(1)
        The row ``lookahead + 1`` before is one of this epoch, and is to be applied.
    skip : Out
        Rows of the batch before this one, at most ``MAX_LOOKAHEAD``.
    frozen : Out(1)
        The row uses the model at the batch's start.
    freeze : Out(1)
        The row stores its words as the model at the batch's start: row D of a batch, with
        ``every_cycle`` the first that finds every update before the batch. So those words are
        stored when the first row asks for them.
    ahead : In
        With ``looks_ahead``: rows of a batch that do not find every update before it; constant.
    batch_ends : Out(1)
        Register: the next row with data is the last of its batch; right 2 cycles after ``counted``,
        with ``every_cycle`` in the next one.
    misaligned : Out(1)
        Strobe, a cycle later: a boundary or a proximal step falls into a batch.
    """

    def __init__(self, *, every_cycle=False, looks_ahead=False):
        self.every_cycle, self.looks_ahead = every_cycle, looks_ahead
        super().__init__({
            "batch": In(32), "lookahead": In(range(MAX_LOOKAHEAD + 1)),
            "start": In(1), "issue": In(1), "row_ends": In(1), "counted": In(1),
            "idle_row": In(1), "boundary": In(1), "step_due": In(1), "rows_left": In(32),
            "apply": Out(1), "skip": Out(range(MAX_LOOKAHEAD + 1)),
            "frozen": Out(1), "freeze": Out(1), "batch_ends": Out(1), "misaligned": Out(1),
            **({"ahead": In(range(MAX_LOOKAHEAD + 1))} if looks_ahead else {}),
        })

    def elaborate(self, platform):
        m = Module()
        position = Signal(32)                           # in the batch
        age = Signal(range(MAX_LOOKAHEAD + 2))          # rows before this one, if few
        batch_end = Signal(32)
        ends = position == batch_end
        if self.every_cycle:
            before_end = Signal(32)
            m.d.sync += before_end.eq(self.batch - 2)
            # A batch of one row ends with each of them.
            ends = last_choice(m, self.counted, Mux(
                ends, batch_end == 0, position == before_end), ends, name="ends")
        freezing = self.lookahead
        if self.every_cycle:
            freezing = self.ahead if self.looks_ahead else C(0)
        m.d.sync += [batch_end.eq(self.batch - 1), self.batch_ends.eq(ends)]
        m.d.comb += [
            self.apply.eq(age > self.lookahead),
            self.skip.eq(Mux(position > MAX_LOOKAHEAD, MAX_LOOKAHEAD, position)),
            self.frozen.eq(position > self.lookahead),
            self.freeze.eq((position == freezing) & ~self.idle_row),
        ]
        m.d.sync += self.misaligned.eq((self.issue & self.boundary & (position != 0)) | (
            self.counted & self.step_due & (position != batch_end) & (self.rows_left != 1)))
        with m.If(self.row_ends):
            m.d.sync += age.eq(Mux(age > self.lookahead, age, age + 1))
        with m.If(self.counted):
            m.d.sync += position.eq(Mux(position == batch_end, 0, position + 1))
        with m.If(self.start):
            m.d.sync += [position.eq(0), age.eq(0)]
        return m
