"""Sums of the changes that a beat's rows make to each model word."""

from amaranth import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import UPDATE_WIDTH
from bitstep_hw.parts.arithmetic import delay, each, scale


def change_width(config):
    """Return the bits of a sum of changes, signed."""
    level = max(config.rows.level_width, config.rows.intercept_width + 1)
    return UPDATE_WIDTH + level + (config.rows.rows_per_beat - 1).bit_length()


class RowSums(wiring.Component):
    """Products of updates and levels, summed over the rows of a beat: over the first, the first
    two, and so on to all of them, since a word may leave its range at any row.

    A slot a cycle; the sums come ``store.sum + 1`` cycles later, the last level of the sum
    without a register.

    Parameters
    ----------
    config : PipelineConfig
        Gives widths, ``lanes``, ``rows_per_beat`` and ``store.sum``.

    Members
    -------
    valid : In(1)
        There is a slot.
    updates : In(signed(32)).array(rows_per_beat)
        Updates of the rows, 0 of those that take no part.
    levels : In(signed(level_width)).array(rows_per_beat, lanes), intercept_level : In
        Gradient levels of the rows, and that of the intercept.
    o : Out(signed(change_width)).array(lanes + 1, rows_per_beat)
        For each word, that of the intercept last, the sum over the rows up to each.
    """

    def __init__(self, *, config):
        self.config = config
        rows = config.rows.rows_per_beat
        super().__init__({
            "valid": In(1), "updates": In(signed(UPDATE_WIDTH)).array(rows),
            "levels": In(signed(config.rows.level_width)).array(rows, config.rows.lanes),
            "intercept_level": In(config.rows.intercept_width),
            "o": Out(signed(change_width(config))).array(config.rows.lanes + 1, rows),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        valids = [delay(m, self.valid, stage, name=f"valid_{stage}")
                  for stage in range(config.stages.store.sum + 1)]
        for lane in range(config.rows.lanes + 1):
            sums = []
            for row, update in enumerate(self.updates):
                product = update * self.intercept_level if lane == config.rows.lanes \
                    else scale(self.levels[row][lane], update)
                sums.append(product)
            sums = self._registers(m, sums, valids[0], f"product_{lane}")
            distance = 1
            for stage in range(config.stages.store.sum):
                for _level in range(2):
                    sums, distance = self._summed(sums, distance), 2 * distance
                sums = self._registers(m, sums, valids[stage + 1], f"sum_{stage}_{lane}")
            if distance < config.rows.rows_per_beat:
                sums, distance = self._summed(sums, distance), 2 * distance
            assert distance >= config.rows.rows_per_beat
            m.d.comb += each(self.o[lane], sums)
        return m

    def _summed(self, sums, distance):
        """Sums over twice as many neighbours (Sklansky, IRE Transactions on Electronic Computers
        EC-9, 1960): what ends a group of ``distance`` is added to all of the next.
        """
        return [value + sums[row // distance * distance - 1] if row // distance % 2 else value
                for row, value in enumerate(sums)]

    def _registers(self, m, values, valid, name):
        """Registers that move with ``valid``."""
        kept = [Signal(value.shape(), name=f"{name}_{row}", reset_less=True)
                for row, value in enumerate(values)]
        with m.If(valid):
            m.d.sync += each(kept, values)
        return kept
