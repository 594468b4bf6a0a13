"""Sizes of bit-plane rows that follow from a row's length."""

from amaranth import Module, Mux, Signal
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.bit_planes import ALIGNMENT, GROUP, MIN_PLANE_BYTES
from bitstep.pipeline.parts.widths import MAX_FEATURES

GROUPS_WIDTH = 15           # bits of the groups of a row, of at most 2^16 features
UNIT_GROUPS = 8 * ALIGNMENT // GROUP        # groups in a unit of 64 bytes
_LEAST_UNITS = MIN_PLANE_BYTES // ALIGNMENT


class BitPlaneSizes(wiring.Component):
    """Sizes of bit-plane rows, 3 cycles after the row's length.

    A plane of a block is the least common multiple of a row and a unit of 64 bytes, so often that
    there are at least 512 bytes. Golden model: :class:`bitstep.pipeline.bit_planes.BitPlaneLayout`.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``lanes``.

    Members
    -------
    beats, last_lanes : In
        As the registers BEATS_PER_ROW and LAST_LANES; constant during a run.
    last_groups : Out
        Groups of 4 values in a row's last slot.
    groups : Out(15)
        Groups of 4 values in a row.
    plane_units : Out(15)
        Units of 64 bytes in a plane of a block.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "beats": In(range(MAX_FEATURES + 1)), "last_lanes": In(10),
            "last_groups": Out(range(config.rows.lanes // GROUP + 1)),
            "groups": Out(GROUPS_WIDTH), "plane_units": Out(GROUPS_WIDTH),
        })

    def elaborate(self, platform):
        m = Module()
        per_slot = self.config.rows.lanes // GROUP
        odd = Signal(GROUPS_WIDTH)      # without the factors 2 that a unit has, too
        m.d.sync += [
            self.last_groups.eq((self.last_lanes + GROUP - 1) // GROUP),
            self.groups.eq((self.beats - 1) * per_slot + self.last_groups),
            self.plane_units.eq(odd),
        ]
        factors = UNIT_GROUPS.bit_length() - 1
        shifted = self.groups >> factors
        for zeros in reversed(range(factors)):
            shifted = Mux(self.groups[zeros], self.groups >> zeros, shifted)
        m.d.comb += odd.eq(shifted)
        with m.Switch(odd):
            for units in range(1, _LEAST_UNITS):
                with m.Case(units):
                    m.d.sync += self.plane_units.eq(-(-_LEAST_UNITS // units) * units)
        return m
