"""Products of a row with the rows before it."""

from amaranth import Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import MAX_LOOKAHEAD
from bitstep_hw.parts.arithmetic import (
    adder_tree,
    delay,
    delay_enable,
    delay_ports,
    enable_of,
)
from bitstep_hw.parts.lane_product import level_product, level_product_stages


class Correlator(wiring.Component):
    """Sums over a row of q_i (row i) times g_(i-d), one for each d from 1 to ``correlated_rows``,
    or, with ``batch_lookahead``, for the distances d beyond the rows without data between batches.

    They are the part of look-ahead that does not depend on the model: the dot product of row i with
    the current model is the one with an older model minus c_(i-d) times these sums. A slot a
    cycle; ``o_valid`` comes ``solver.lead`` cycles before a row's dot product, which does so
    ``dot.tree + 2 * dot.product + dot.scale + 3`` cycles after the row's last slot
    entered here, and the sums ``solver.products`` cycles after it.
    Golden model: none of its own, it is an identity of :func:`bitstep.golden.sgd.train`.

    Parameters
    ----------
    config : PipelineConfig
        Gives widths, lanes, ``correlated_rows`` and stages.

    Members
    -------
    valid : In(1)
        There is a slot.
    first, last : In(1)
        It is the first of its row; it is the last.
    dot : In(signed(level_width)).array(lanes)
        Dot levels of the row's beat.
    previous_levels : In(signed(level_width)).array(correlated_rows, lanes)
        Gradient levels of the rows before, nearest first, at the same place in the row.
    skip : In
        Nearest of these whose updates the row does not see: those of its own batch.
    lookahead : In
        Rows before that a row of this run looks ahead of; sums beyond are 0.
    intercept_square : In
        The intercept's contribution to every product.
    o_valid : Out(1)
        Strobe: ``products`` are those of a row, or will be ``solver.products`` later.
    products : Out(signed(gram_width)).array(correlated_rows)
        Sums of the row.
    """

    def __init__(self, *, config):
        self.config = config
        level = In(signed(config.rows.level_width))
        super().__init__({
            "valid": In(1),
            "first": In(1),
            "last": In(1),
            "dot": level.array(config.rows.lanes),
            "previous_levels": level.array(config.stages.solver.correlated_rows, config.rows.lanes),
            "skip": In(range(MAX_LOOKAHEAD + 1)),
            "lookahead": In(range(MAX_LOOKAHEAD + 1)),
            "intercept_square": In(config.rows.square_width),
            "o_valid": Out(1),
            "products": Out(signed(config.rows.gram_width)).array(
                config.stages.solver.correlated_rows),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        product = level_product_stages(config)
        stages = config.stages.dot.tree + product
        valid, first, last, skip = delay_ports(m, self, stages, "valid", "first", "last", "skip")
        done = Signal()
        m.d.sync += done.eq(valid & last)
        dot = config.stages.dot
        wait = 1 + 2 * dot.product + dot.scale - product - config.stages.solver.lead
        m.d.comb += self.o_valid.eq(delay(m, done, 1 + wait, name="done"))
        skipped = delay(m, skip, 1, name="skipped")
        enable = enable_of(config, self.valid)
        multiplied = delay_enable(m, enable, product, name="multiplied")
        for d in range(1, config.stages.solver.correlated_rows + 1):
            terms = [level_product(m, config, a, b, valid=enable, name=f"product_{d}_{lane}")
                     for lane, (a, b) in
                     enumerate(zip(self.dot, self.previous_levels[d - 1], strict=True))]
            total = adder_tree(m, terms, stages=config.stages.dot.tree, valid=multiplied,
                               name=f"tree_{d}")
            row = Signal(signed(config.rows.gram_width), name=f"row_{d}", reset_less=True)
            with m.If(valid):
                m.d.sync += row.eq(Mux(first, 0, row) + total)
            counted = Signal(signed(config.rows.gram_width), name=f"counted_{d}", reset_less=True)
            m.d.sync += counted.eq(
                Mux((d > skipped) & (d <= self.lookahead), row + self.intercept_square, 0))
            m.d.comb += self.products[d - 1].eq(
                delay(m, counted, wait + config.stages.solver.products, name=f"product_{d}"))
        return m
