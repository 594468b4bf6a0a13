"""Dot product of a row with the model."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.config import MODEL_WIDTH
from bitstep_hw.arithmetic import adder_tree, delay, scale


class DotProduct(wiring.Component):
    """Sum over a row of level times model word, and the intercept.

    A slot a cycle; the sum of a row leaves ``tree_stages + 2`` cycles after its last slot entered.
    Exact: the sum is as wide as the largest row needs.

    Members
    -------
    valid, first, last : In(1)
        A slot, and whether it is the first or last of its row.
    levels : In(signed(level_width)).array(lanes)
        Dot levels of the beat.
    words : In(signed(33)).array(lanes)
        Model words of the beat.
    intercept_level : In(8), intercept : In(signed(32))
        The intercept's level and its word, read at a row's first slot.
    o_valid : Out(1), o : Out(signed(dot_width))
        Dot product of a row.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "valid": In(1),
            "first": In(1),
            "last": In(1),
            "levels": In(signed(config.level_width)).array(config.lanes),
            "words": In(signed(MODEL_WIDTH + 1)).array(config.lanes),
            "intercept_level": In(8),
            "intercept": In(signed(MODEL_WIDTH)),
            "o_valid": Out(1),
            "o": Out(signed(config.dot_width)),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        terms = [Signal(signed(MODEL_WIDTH + config.level_width), name=f"product_{lane}",
                        reset_less=True) for lane in range(config.lanes)]
        with m.If(self.valid):
            m.d.sync += [term.eq(scale(level, word)) for term, level, word in
                         zip(terms, self.levels, self.words, strict=True)]
        total = adder_tree(m, terms, stages=config.tree_stages, name="tree",
                           valid=delay(m, self.valid, 1, name="multiplied"))

        constant = Signal(signed(MODEL_WIDTH + 8), reset_less=True)
        m.d.sync += constant.eq(self.intercept_level * self.intercept)
        constant = delay(m, constant, config.tree_stages, name="constant")
        valid, first, last = (
            delay(m, value, config.tree_stages + 1, name=name) for name, value in
            (("valid", self.valid), ("first", self.first), ("last", self.last)))
        row = Signal(signed(config.dot_width), reset_less=True)
        with m.If(valid):
            m.d.sync += row.eq(Mux(first, constant, row) + total)
        m.d.sync += self.o_valid.eq(valid & last)
        m.d.comb += self.o.eq(row)
        return m
