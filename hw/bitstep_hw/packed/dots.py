"""Distances of a beat's rows to their labels."""

from amaranth import Module, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import LABEL_WIDTH, MAX_LABEL_SHIFT, MODEL_WIDTH
from bitstep_hw.parts.arithmetic import adder_tree, delay, scale


class RowDistances(wiring.Component):
    """Sums z - y of all rows of a beat: products of levels and weights, that of the intercept,
    less the label.

    A slot a cycle; the sums come ``dot.tree + 1`` cycles later and are exact.

    Parameters
    ----------
    config : PipelineConfig
        Gives widths, ``lanes``, ``rows_per_beat`` and ``dot.tree``.

    Members
    -------
    valid : In(1)
        There is a slot.
    levels : In(signed(level_width)).array(rows_per_beat, lanes)
        Dot levels of the rows.
    words : In(signed(32)).array(lanes), intercept : In(signed(32))
        Weights of the model.
    intercept_level : In(8)
        Level of the intercept's constant 1; constant during an epoch.
    labels : In(signed(32)).array(rows_per_beat), label_shift : In
        Labels of the rows, and their scale.
    o : Out(signed(dot_width + 1)).array(rows_per_beat)
        The sums.
    """

    def __init__(self, *, config):
        self.config = config
        rows = config.rows.rows_per_beat
        super().__init__({
            "valid": In(1),
            "levels": In(signed(config.rows.level_width)).array(rows, config.rows.lanes),
            "words": In(signed(MODEL_WIDTH)).array(config.rows.lanes),
            "intercept": In(signed(MODEL_WIDTH)),
            "intercept_level": In(config.rows.intercept_width),
            "labels": In(signed(LABEL_WIDTH)).array(rows),
            "label_shift": In(range(MAX_LABEL_SHIFT + 1)),
            "o": Out(signed(config.rows.dot_width + 1)).array(rows),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        multiplied = delay(m, self.valid, 1, name="multiplied")
        constant = Signal(signed(MODEL_WIDTH + config.rows.intercept_width), reset_less=True)
        with m.If(self.valid):
            m.d.sync += constant.eq(self.intercept * self.intercept_level)
        for row in range(config.rows.rows_per_beat):
            # Labels fit the sum: the job is checked for that.
            target = Signal(signed(config.rows.dot_width + 1), name=f"target_{row}",
                            reset_less=True)
            products = []
            for lane, word in enumerate(self.words):
                product = scale(self.levels[row][lane], word)
                products.append(Signal(product.shape(), name=f"product_{row}_{lane}",
                                       reset_less=True))
                with m.If(self.valid):
                    m.d.sync += products[-1].eq(product)
            with m.If(self.valid):
                m.d.sync += target.eq(-(self.labels[row] << self.label_shift))
            total = adder_tree(m, [*products, constant, target], stages=config.stages.dot.tree,
                               valid=multiplied, name=f"tree_{row}")
            m.d.comb += self.o[row].eq(total)
        return m
