"""Updates of few bits: an integer of few bits times a power of two, rounded at random."""

from amaranth import C, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.dither import DITHER_WIDTH
from bitstep.golden.steps import STEP_FRACTION
from bitstep.pipeline.parts.widths import FEW_BITS, MAX_SHIFT, SHIFT_UNIT, UPDATE_WIDTH
from bitstep.pipeline.registers import Loss
from bitstep_hw.parts.arithmetic import delay, out_of_range

FRACTION = DITHER_WIDTH + 1         # fraction bits that decide how a number is rounded
# One bit more than an update: just below the least one, a number may be rounded up to it.
VALUE_WIDTH = UPDATE_WIDTH + 1 + FRACTION
_WHOLE = VALUE_WIDTH - FRACTION


class UpdateRounding(wiring.Component):
    """Rounding of exact updates to ``bits`` bits, sign included, times the least power of two with
    which they fit, by the dither of their rows.

    An update a cycle, :data:`bitstep.pipeline.parts.stages.ROUNDING_STAGES` + 1 cycles from
    ``value`` to ``o``: the power of two, the shift to the right, the sum with the dither, the shift
    back.
    Only the first 17 bits behind the last one that is kept matter, since a dither and a half have
    no more. Golden model: :func:`bitstep.golden.dither.round_floating`.

    Members
    -------
    bits : In(5)
        Bits of a rounded update, 2 to 16; 0: all. Constant during an epoch.
    valid, idle : In(1)
        Strobe: there is an update; it is that of a row without data, which is 0.
    value : In(signed(50))
        The exact update with 17 fraction bits, rounded down.
    beyond : In(1)
        The update does not fit ``value``.
    zero, negate : In(1)
        The update is 0 whatever ``value`` is; the rounded number's negative is the update.
    dither : In(16)
        Random bits of the row.
    o_valid : Out(1), o : Out(signed(32))
        The rounded update.
    overflowed : Out(1)
        Strobe: it does not fit.
    """

    def __init__(self):
        super().__init__({
            "bits": In(range(FEW_BITS[1] + 1)), "valid": In(1), "idle": In(1),
            "value": In(signed(VALUE_WIDTH)), "beyond": In(1), "zero": In(1), "negate": In(1),
            "dither": In(DITHER_WIDTH),
            "o_valid": Out(1), "o": Out(signed(UPDATE_WIDTH)), "overflowed": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        value, moved = (Signal(signed(VALUE_WIDTH), name=name, reset_less=True)
                        for name in ("exact", "moved"))
        rounded = Signal(signed(_WHOLE + 1), reset_less=True)
        m.d.sync += value.eq(self.value)
        drop = self._drop(m, value)
        m.d.sync += [
            moved.eq(delay(m, value, 1, name="exact") >> drop),
            rounded.eq(moved + ((delay(m, self.dither, 3, name="dither") << 1) | 1) >> FRACTION),
        ]
        # What is shifted back is about as large as it was before.
        back = (rounded << delay(m, drop, 2, name="drop"))[:_WHOLE + 2].as_signed()
        signed_back = Signal(signed(_WHOLE + 3))
        zero, negate, beyond, valid = (
            delay(m, signal, 4, name=name) for name, signal in (
                ("zero", self.zero | self.idle), ("negate", self.negate), ("beyond", self.beyond),
                ("valid", self.valid)))
        m.d.comb += signed_back.eq(Mux(negate, -back, back))
        m.d.sync += [
            self.o.eq(Mux(zero, 0, signed_back)), self.o_valid.eq(valid),
            self.overflowed.eq(valid & ~zero & (beyond | out_of_range(signed_back, UPDATE_WIDTH))),
        ]
        return m

    def _drop(self, m, value):
        """Register with the bits that an update loses, a cycle after ``value``."""
        whole = value[FRACTION:]
        size = Signal(_WHOLE - 1)       # a magnitude, but for an all-ones -1
        m.d.comb += size.eq(whole[:-1] ^ whole[-1].replicate(_WHOLE - 1))
        length = Signal(range(_WHOLE + 1))      # of the number, sign included
        m.d.comb += length.eq(1)
        for place in range(_WHOLE - 1):
            with m.If(size[place]):
                m.d.comb += length.eq(place + 2)
        excess = Signal(signed(len(length) + 1))
        m.d.comb += excess.eq(length - self.bits)
        drop = Signal(range(_WHOLE - FEW_BITS[0] + 1), reset_less=True)
        m.d.sync += drop.eq(Mux((self.bits == 0) | excess[-1], C(0), excess))
        return drop


def round_linear(m, solver, history, distance, flags, shift, row_steps):
    """Round the update of the row with one cycle left in a linear solver to few bits; no row
    waits for it. ``row_steps``: of the solver; ``flags``: those of
    :meth:`bitstep_hw.pipeline.update.linear_solver.LinearSolver._update`.
    """
    active, positive, far, below = flags
    m.submodules.rounding = rounding = UpdateRounding()
    scaled = Signal(signed(len(distance) - SHIFT_UNIT + FRACTION))
    with m.Switch(shift):
        for number in range(1, MAX_SHIFT + 1):
            with m.Case(number):
                m.d.comb += scaled.eq(distance << FRACTION >> SHIFT_UNIT * number)
    hinge, huber = (solver.loss == loss for loss in (Loss.HINGE, Loss.HUBER))
    steps, valid = hinge | (huber & far), history.stage_valid[1]
    m.d.comb += [
        rounding.bits.eq(solver.update_bits), rounding.valid.eq(valid),
        rounding.idle.eq(history.stage_idle[1]),
        rounding.value.eq(Mux(steps, row_steps.at("derivative_step", 1) << FRACTION - STEP_FRACTION,
                              scaled)),
        rounding.beyond.eq(~steps & out_of_range(scaled, VALUE_WIDTH)),
        rounding.zero.eq((hinge | (solver.loss == Loss.SQUARED_HINGE)) & ~active),
        rounding.negate.eq(Mux(hinge, positive, huber & below)),
        rounding.dither.eq(delay(m, solver.dither, history.dotted - 1, name="row_dither")),
        solver.o_valid.eq(rounding.o_valid), solver.o.eq(rounding.o),
        solver.overflowed.eq(rounding.overflowed | (
            valid & ~history.stage_idle[1] & (hinge | huber)
            & row_steps.at("step_too_large", 1))),
    ]
