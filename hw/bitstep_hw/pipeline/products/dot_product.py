"""Dot product of a row with the model."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.config import FLOAT_GUARD, MODEL_WIDTH
from bitstep_hw.parts.arithmetic import adder_tree, delay, delay_enable, enable_of, multiply
from bitstep_hw.parts.lane_product import integer_product


class DotProduct(wiring.Component):
    """Sum over a row of level times model word, with the intercept's product.

    A slot a cycle; the sum of a row leaves ``tree_stages + product_stages + 1`` cycles after its
    last slot entered. The sum is exact, as wide as the largest row needs; so are its products, but
    for floating-point values, where each is rounded to 22 fraction bits.

    Parameters
    ----------
    config : PipelineConfig
        Gives widths, lanes and stages.

    Members
    -------
    valid : In(1)
        There is a slot.
    first, last : In(1)
        It is the first of its row; it is the last.
    levels : In(signed(level_width)).array(lanes)
        Dot levels of the beat.
    words : In(signed(33)).array(lanes)
        Model words of the beat.
    intercept_level : In(23)
        Level of the intercept's constant 1; constant during an epoch.
    intercept : In(signed(32))
        Model word of the intercept, read at a row's first slot.
    o_valid : Out(1)
        Strobe: ``o`` is the dot product of a row.
    o : Out(signed(dot_width))
        The dot product.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "valid": In(1),
            "first": In(1),
            "last": In(1),
            "levels": In(signed(config.level_width)).array(config.lanes),
            "words": In(signed(MODEL_WIDTH + 1)).array(config.lanes),
            "intercept_level": In(FLOAT_GUARD + 1),
            "intercept": In(signed(MODEL_WIDTH)),
            "o_valid": Out(1),
            "o": Out(signed(config.dot_width)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        stages = config.tree_stages + config.product_stages
        enable = enable_of(config, self.valid)
        products = [integer_product(m, config, level, word, fraction=FLOAT_GUARD, valid=enable,
                                    name=f"product_{lane}")
                    for lane, (level, word) in enumerate(zip(self.levels, self.words, strict=True))]
        # Terms of the same weight side by side.
        terms = [term for group in zip(*products, strict=True) for term in group]
        total = adder_tree(m, terms, stages=stages - config.term_stages, name="tree",
                           valid=delay_enable(m, enable, config.term_stages, name="multiplied"))

        constant = multiply(m, self.intercept, self.intercept_level, stages=config.product_stages,
                            valid=None, name="constant", width=MODEL_WIDTH + FLOAT_GUARD + 1)
        constant = delay(m, constant, stages - config.product_stages, name="constant")
        valid, first, last = (
            delay(m, value, stages, name=name) for name, value in
            (("valid", self.valid), ("first", self.first), ("last", self.last)))
        row = Signal(signed(config.dot_width), reset_less=True)
        with m.If(valid):
            m.d.sync += row.eq(Mux(first, constant, row) + total)
        m.d.sync += self.o_valid.eq(valid & last)
        m.d.comb += self.o.eq(row)
        return m
