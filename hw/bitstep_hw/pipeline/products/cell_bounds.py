"""Bounds that tell whether a row's codes decide its side of the hinge."""

from amaranth import C, Module, Mux, Signal, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import LABEL_WIDTH, MODEL_WIDTH
from bitstep_hw.parts.arithmetic import adder_tree, delay, delay_ports


class CellBounds(wiring.Component):
    """Bounds of the dot product of a fine row, from the row's codes, compared with
    the target (docs/number-formats.md, Refetching).

    Runs beside :class:`bitstep_hw.pipeline.products.dot_product.DotProduct`: the slots enter both
    in the same cycle, a slot a cycle, and ``undecided`` comes 1 cycle after the row's dot product,
    which is ``dot.tree + 3`` cycles after its last slot. Exact. Lanes without a feature add
    nothing, whatever their level, since their words are 0. Golden model:
    :meth:`bitstep.golden.integer.IntegerEpoch.undecided`; source: ZipML, appendix G.4 (there
    without the ends of the grid).

    Parameters
    ----------
    config : PipelineConfig
        Gives widths, lanes and stages.

    Members
    -------
    valid, first, last, levels, words : In
        Those of ``DotProduct``.
    cell : In(3)
        As the register CELL_HALF_LEVELS, 0 to 4; constant during an epoch.
    ends : In(1)
        The ends of the grid count. Without them the sums also hold for every model whose words
        differ in sign.
    dot_margin : Out
        With the dot product: ``cell`` times the sum of |X_j|; larger than the sum less the ends.
    target : In
        L << label_shift of the row, with its dot product.
    dot : In
        Dot product of the row, in the cycle in which ``DotProduct`` has its result.
    undecided : Out(1)
        Strobe: the fine row may be on either side. Never with ``cell`` 0.
    """

    def __init__(self, *, config):
        self.config = config
        super().__init__({
            "valid": In(1), "first": In(1), "last": In(1),
            "levels": In(signed(config.rows.level_width)).array(config.rows.lanes),
            "words": In(signed(MODEL_WIDTH + 1)).array(config.rows.lanes),
            "cell": In(3),
            "ends": In(1),
            "dot_margin": Out(config.rows.dot_margin_width),
            "target": In(signed(LABEL_WIDTH + config.rows.max_label_shift)),
            "dot": In(signed(config.rows.dot_width)),
            "undecided": Out(1),
        })

    def elaborate(self, platform):
        m = Module()
        config = self.config
        upwards, downwards = [], []
        for lane, (level, word) in enumerate(zip(self.levels, self.words, strict=True)):
            # Signed, so that the adders of the tree grow as they do in a dot product.
            size = Signal(signed(MODEL_WIDTH + 2), name=f"size_{lane}")
            up = Signal.like(size, name=f"up_{lane}", reset_less=True)
            down = Signal.like(size, name=f"down_{lane}", reset_less=True)
            m.d.comb += size.eq(Mux(word[-1], -word, word))
            top = self.ends & (level == config.rows.level_limit)
            bottom = self.ends & (level == -config.rows.level_limit)
            with m.If(self.valid):
                m.d.sync += [up.eq(Mux(Mux(word[-1], bottom, top), 0, size)),
                             down.eq(Mux(Mux(word[-1], top, bottom), 0, size))]
            later = config.stages.dot.product - 1       # as long as a product takes
            upwards.append(delay(m, up, later, name=f"up_{lane}"))
            downwards.append(delay(m, down, later, name=f"down_{lane}"))

        multiplied = delay(m, self.valid, config.stages.dot.product, name="multiplied")
        valid, first, last = delay_ports(
            m, self, config.stages.dot.tree + config.stages.dot.product, "valid", "first", "last")
        rows = []
        for name, terms in (("above", upwards), ("below", downwards)):
            total = adder_tree(m, terms, stages=config.stages.dot.tree, name=name, valid=multiplied)
            # The largest |X| is 2**MODEL_WIDTH, and ``cell`` is at most 4.
            row = Signal(signed(config.rows.dot_margin_width), name=name, reset_less=True)
            # From 0 to 4, so one addition multiplies.
            scaled = Mux(self.cell[2], total << 2, Mux(self.cell[1], total << 1, C(0))) \
                + Mux(self.cell[0], total, C(0))
            with m.If(valid):
                m.d.sync += row.eq(Mux(first, 0, row) + scaled)
            rows.append(row)
        above, below = rows
        m.d.comb += self.dot_margin.eq(above)

        # Doubled, since ``cell`` counts half levels. A row whose dot product is its target is
        # inactive, so the target belongs to the upper side of a +1 and to the lower side of a -1.
        negative = self.target[-1]
        gap = (self.target - self.dot) << 1
        ended = delay(m, valid & last, 1, name="ended")
        m.d.sync += self.undecided.eq(
            ended & Mux(negative, (gap >= -below) & (gap < above), (gap > -below) & (gap <= above)))
        return m
