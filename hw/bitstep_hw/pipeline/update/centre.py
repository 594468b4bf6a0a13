"""Derivatives at a centre, which labels of bit-plane rows may hold, on their way into an update."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.losses import DERIVATIVE_FRACTION
from bitstep.pipeline.parts.widths import (
    LABEL_WIDTH,
    MANTISSA_WIDTH,
    MAX_LABEL_SHIFT,
    MAX_SHIFT,
    SHIFT_UNIT,
    UPDATE_WIDTH,
)
from bitstep_hw.parts.arithmetic import enable_of, multiply, out_of_range, same
from bitstep_hw.pipeline.update.row_decision import scaled_width
from bitstep_hw.pipeline.update.step_shift import shifted_by


class Centre(wiring.Component):
    """What a label means for :class:`bitstep_hw.pipeline.update.linear_solver.LinearSolver`: a
    target, or the sign y and the derivative d of the squared hinge at a centre
    (:func:`bitstep.golden.steps.update_rule`).

    With d a row's update is that of z - y - d, or of -d beyond the hinge. So d counts as a part of
    the target, and times the mantissa where sides are compared. A row a cycle; times are relative
    to ``valid``.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``clock.fast``, ``update_interval`` and ``dot_width``.

    Members
    -------
    valid : In(1), label : In(signed(32))
        A row enters; its label.
    derivatives : In(1), label_shift, mantissa, shift : In
        As those of the solver; constant during an epoch.
    addend : In
        That of the row's exact product, 1 cycle after its dot product.
    target : Out(signed(34)), target_shift : Out
        The target without its left shift, in the same cycle; that shift.
    positive : Out(1)
        y is positive, in the same cycle.
    scaled : Out
        The mantissa times d, beside ``addend``.
    rest : Out(signed(32)), beyond : Out(1)
        The update of a row beyond the hinge, 3 cycles after its dot product; it does not fit.
        0 without derivatives.
    """

    def __init__(self, *, config):
        self.config = config
        self.stages = 3 if config.clock.fast else 1     # those of the product end with the dot's
        assert self.stages == config.stages.solver.lead
        super().__init__({
            "valid": In(1), "label": In(signed(LABEL_WIDTH)), "derivatives": In(1),
            "label_shift": In(range(MAX_LABEL_SHIFT + 1)), "mantissa": In(MANTISSA_WIDTH),
            "shift": In(range(MAX_SHIFT + 1)), "addend": In(MAX_SHIFT * SHIFT_UNIT),
            "target": Out(signed(LABEL_WIDTH + 2)),
            "target_shift": Out(range(MAX_LABEL_SHIFT + 1)), "positive": Out(1),
            "scaled": Out(signed(scaled_width(config))),
            "rest": Out(signed(UPDATE_WIDTH)), "beyond": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        sign = Mux(self.label[0], 1 << DERIVATIVE_FRACTION, -(1 << DERIVATIVE_FRACTION))
        derivative = Signal(signed(LABEL_WIDTH - 1))
        distance = Signal(range(MAX_LABEL_SHIFT - DERIVATIVE_FRACTION + 1))
        with m.If(self.derivatives):
            m.d.comb += derivative.eq(self.label[1:].as_signed())
        m.d.comb += [
            distance.eq(self.label_shift - DERIVATIVE_FRACTION),
            self.target.eq(Mux(self.derivatives, derivative + sign, self.label)),
            self.positive.eq(Mux(self.derivatives, self.label[0], ~self.label[-1])),
        ]
        m.d.sync += self.target_shift.eq(Mux(self.derivatives, distance, self.label_shift))
        product = multiply(m, derivative, self.mantissa, stages=self.stages, name="product",
                           valid=enable_of(self.config, self.valid),
                           width=LABEL_WIDTH + MANTISSA_WIDTH)
        rest = Signal.like(self.scaled)
        m.d.sync += [self.scaled.eq(product << distance), rest.eq(self.addend - self.scaled)]
        shifted = shifted_by(m, rest, self.shift)
        m.d.sync += [self.rest.eq(shifted), self.beyond.eq(out_of_range(shifted, UPDATE_WIDTH))]
        return m


def place_centre(m, solver, mantissa, shift, addend):
    """Make a :class:`Centre` a part of a solver; None where labels are never derivatives."""
    if not solver.config.rows.centred:
        return None
    m.submodules.centre = centre = Centre(config=solver.config)
    m.d.comb += [centre.mantissa.eq(mantissa), centre.shift.eq(shift), centre.addend.eq(addend)]
    m.d.comb += same(centre, solver, "valid", "label", "derivatives", "label_shift")
    return centre
