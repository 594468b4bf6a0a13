"""Numbers of a run that depend on the planes of the epoch."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.sigmoid import FINE_ARGUMENT
from bitstep.pipeline.bit_planes import PLANES
from bitstep.pipeline.losses import DERIVATIVE_FRACTION, solver_shift
from bitstep.pipeline.parts.widths import MAX_LABEL_SHIFT


class EpochScale(wiring.Component):
    """Label shift and level of the intercept in units of an epoch's levels; the registers have
    them in those of 16 planes.

    A cycle long. Golden model: :meth:`bitstep.pipeline.job.TrainingJob.at`.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``solver`` and ``intercept_width``.

    Members
    -------
    planes : In(5)
        Planes of the epoch.
    label_shift, intercept_level : In
        As the registers of these names.
    o_label_shift, o_intercept_level : Out
        The same in units of the epoch's levels.
    derivatives : In(1)
        The run reads or writes derivatives as labels, whose fraction bits ask for a larger label
        shift.
    bad : Out(1)
        There is no such number of planes, or it is too small for the registers.
    fine : In(1)
        With ``solver.fine``: the run has the finer sigmoid, which asks for a still larger one.
    """

    def __init__(self, *, config):
        self.config = config
        shift, level = range(MAX_LABEL_SHIFT + 1), config.rows.intercept_width
        super().__init__({
            "planes": In(5), "label_shift": In(shift), "intercept_level": In(level),
            "derivatives": In(1),
            "o_label_shift": Out(shift), "o_intercept_level": Out(level), "bad": Out(1),
            "fine": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        left = Signal(range(PLANES + 1))        # planes that are not read
        least = Mux(self.derivatives, DERIVATIVE_FRACTION, solver_shift(self.config.loss_family))
        if self.config.stages.solver.fine:
            least = Mux(self.fine, FINE_ARGUMENT + 1, least)
        lost = self.intercept_level & ((1 << left) - 1)[:len(self.intercept_level)]
        m.d.comb += left.eq(PLANES - self.planes)
        m.d.sync += [
            self.o_label_shift.eq(self.label_shift - left),
            self.o_intercept_level.eq(self.intercept_level >> left),
            self.bad.eq((self.planes == 0) | (self.planes > PLANES)
                        | (self.label_shift < left + least) | lost.any()),
        ]
        return m
