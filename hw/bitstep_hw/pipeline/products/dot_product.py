"""Dot product of a row with the model."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.formats import FLOAT_GUARD
from bitstep.pipeline.parts.widths import MODEL_WIDTH
from bitstep_hw.parts.arithmetic import (
    add_signed,
    adder_tree,
    delay,
    delay_enable,
    delay_ports,
    enable_of,
    multiply,
)
from bitstep_hw.parts.lane_product import integer_product, register


class DotProduct(wiring.Component):
    """Sum over a row of level times model word, with the intercept's product.

    A slot a cycle; the sum of a row leaves ``dot.tree + dot.product + 1`` cycles after its
    last slot entered; with ``model_bits`` ``dot.scale`` later, since the sum is scaled in the
    end, and then gets the intercept's product. The sum is exact, as wide as the largest row needs;
    so are its products, but for floating-point values, where each is rounded to 22 fraction bits.

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
    words : In(signed(seen_width)).array(lanes)
        Weights of the beat.
    exponent : In(5)
        With ``model_bits``: the power of two that they count; constant while a row is here.
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
            "levels": In(signed(config.rows.level_width)).array(config.rows.lanes),
            "words": In(signed(config.stages.dot.word_width)).array(config.rows.lanes),
            "exponent": In(range(MODEL_WIDTH)),
            "intercept_level": In(FLOAT_GUARD + 1),
            "intercept": In(signed(MODEL_WIDTH)),
            "o_valid": Out(1),
            "o": Out(signed(config.rows.dot_width)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        stages = config.stages.dot.tree + config.stages.dot.product
        total, negative = self._total(m, enable_of(config, self.valid), stages)
        # The run's register is far away.
        level = delay(m, self.intercept_level, 1, name="level")
        constant = multiply(m, self.intercept, level,
                            stages=config.stages.dot.product,
                            valid=None, name="constant", width=MODEL_WIDTH + FLOAT_GUARD + 1)
        constant = delay(m, constant, stages - config.stages.dot.product, name="constant")
        valid, first, last = delay_ports(m, self, stages, "valid", "first", "last")
        if config.model_bits:
            self._scale(m, total, negative, constant, valid, first, last)
            return m
        row = Signal(signed(config.rows.dot_width), reset_less=True)
        with m.If(valid):
            m.d.sync += row.eq(add_signed(Mux(first, constant, row), total, negative))
        m.d.sync += self.o_valid.eq(valid & last)
        m.d.comb += self.o.eq(row)
        return m

    def _total(self, m, enable, stages):
        """The sum of a beat's products, and a bit that says if it is the sum's negative, or
        None if it never is.
        """
        config, lanes = self.config, list(zip(self.levels, self.words, strict=True))
        stages -= config.stages.dot.term
        signs = negative = None
        if config.rows.ternary_levels:
            # A level of 0 resets a register, which costs nothing.
            terms = [register(m, Mux(level[0], word, 0), enable, f"word_{lane}")
                     for lane, (level, word) in enumerate(lanes)]
            signs = [level[1] for level in self.levels]
            negative = delay(m, signs[0], stages + 1, name="negative")
        else:
            products = [integer_product(m, config, level, word, fraction=FLOAT_GUARD, valid=enable,
                                        name=f"product_{lane}")
                        for lane, (level, word) in enumerate(lanes)]
            # Terms of the same weight side by side.
            terms = [term for group in zip(*products, strict=True) for term in group]
        valid = delay_enable(m, enable, config.stages.dot.term, name="multiplied")
        # Multiplier blocks stand in a few columns, so their products come from far.
        return adder_tree(m, terms, stages=stages, valid=valid, signs=signs, name="tree",
                          far=config.clock.every_cycle), negative

    def _scale(self, m, total, negative, constant, valid, first, last):
        """Sum up a row of few bits, scale the sum and add the intercept's product."""
        config = self.config
        largest = config.rows.level_limit * config.rows.capacity << config.model_bits - 1
        row = Signal(signed(largest.bit_length() + 1), reset_less=True)
        kept = Signal.like(constant, name="kept")
        with m.If(valid):
            m.d.sync += row.eq(add_signed(Mux(first, 0, row), total, negative))
            with m.If(first):
                m.d.sync += kept.eq(constant)
        scaled = Signal(signed(config.rows.dot_width))
        m.d.comb += scaled.eq(row << self.exponent)
        wait = config.stages.dot.scale - 1
        m.d.sync += self.o.eq(delay(m, scaled, wait, name="scaled")
                              + delay(m, kept, wait, name="kept"))
        m.d.comb += self.o_valid.eq(delay(m, valid & last, wait + 2, name="summed"))
