"""Sums never leave the width that the configuration gives them."""

import functools

from amaranth import Mux, Signal

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.widths import MODEL_WIDTH
from bitstep_hw.pipeline.products.cell_bounds import CellBounds
from bitstep_hw.pipeline.products.correlator import Correlator
from bitstep_hw.pipeline.products.dot_product import DotProduct
from bitstep_sim.proofs.formal import Property, Surrounding, implies, inside
from bitstep_sim.proofs.mutation import Mutation


class NarrowConfig(PipelineConfig):
    """A configuration with a bus so narrow that few lanes are left; its numbers have the formulas
    and the widths of every other.
    """

    def __post_init__(self):
        pass


CONFIGS = [NarrowConfig(bus_width=2 * bits, bits=bits, max_features=features, lookahead=1,
                        update_interval=2) for bits, features in ((4, 6), (2, 8))]


def _between(value, limit):
    return (value >= -limit) & (value <= limit)


def _rows(s, config, fragment, stages):
    """Rows have at most ``max_beats`` beats. Counts those of a row that are summed up, by the
    flags that arrive at the sum, which are the inputs' some cycles later.
    """
    valid, first = (inside(fragment, f"{name}_{stages}") for name in ("valid", "first"))
    beats = Signal(range(config.rows.max_beats + 2))
    with s.m.If(valid):
        s.m.d.sync += beats.eq(Mux(first, 1, beats + 1))
    s.assume(implies(valid, first | ((beats != 0) & (beats < config.rows.max_beats))))
    s.helper(beats <= config.rows.max_beats)
    s.reach(beats == config.rows.max_beats)
    return valid, first, beats


def _levels(s, config, dut, *names):
    limit = config.rows.level_limit
    for name in names:
        for level in getattr(dut, name):
            for one in level if isinstance(level, list) else [level]:
                s.assume(_between(one, limit))


def _tree(s, fragment, name, limit, lanes):
    """Bounds of the registers of an adder tree."""
    total = inside(fragment, f"{name}_0_0")
    s.helper(_between(total, limit * lanes))
    return total


def _sum_fits(s, row, exact, valid):
    """The inputs of a sum are whole: no high bits are lost. Some sum has use for its width."""
    s.check(implies(valid, exact == exact[:len(row)].as_signed()))
    s.reach(~_between(exact, 1 << len(row) - 3))


def dot_product(s: Surrounding, *, config):
    dut = DotProduct(config=config)
    fragment = s.add(dut)
    _levels(s, config, dut, "levels")
    s.assume(dut.intercept_level <= config.rows.intercept_limit)
    stages = config.stages.dot.tree + config.stages.dot.product
    valid, first, beats = _rows(s, config, fragment, stages)
    product = config.rows.level_limit << MODEL_WIDTH         # a word has 33 bits
    term = "word" if config.rows.ternary_levels else "product"
    for lane in range(config.rows.lanes):
        s.helper(_between(inside(fragment, f"{term}_{lane}"), product))
    total = _tree(s, fragment, "tree", product, config.rows.lanes)
    if config.rows.ternary_levels:
        total = Mux(inside(fragment, f"negative_{stages}"), -total, total)
    constant = [inside(fragment, name) for name in
                ("constant", *(f"constant_{age}" for age in range(1, stages)))]
    for register in constant:
        s.helper(_between(register, config.rows.level_limit << MODEL_WIDTH - 1))
    row = inside(fragment, "row")
    s.helper(_between(row, product * config.rows.lanes * beats + (product >> 1)) | (beats == 0))
    s.helper((beats != 0) | (row == 0))
    _sum_fits(s, row, Mux(first, constant[-1], row) + total, valid)


def correlator(s: Surrounding, *, config):
    dut = Correlator(config=config)
    fragment = s.add(dut)
    _levels(s, config, dut, "dot", "previous_levels")
    square = config.rows.level_limit ** 2
    s.assume(dut.intercept_square <= square)
    valid, first, beats = _rows(s, config, fragment, config.stages.dot.tree + 1)
    for lane in range(config.rows.lanes):
        product = inside(fragment, f"product_1_{lane}", width=2 * config.rows.level_width)
        s.helper(_between(product, square))
    total = _tree(s, fragment, "tree_1", square, config.rows.lanes)
    row = inside(fragment, "row_1")
    s.helper(_between(row, square * config.rows.lanes * beats) | (beats == 0))
    s.helper((beats != 0) | (row == 0))
    _sum_fits(s, row, Mux(first, 0, row) + total, valid)
    counted = row + dut.intercept_square
    s.check(counted == counted[:len(inside(fragment, "counted_1"))].as_signed())


def cell_bounds(s: Surrounding, *, config):
    dut = CellBounds(config=config)
    cell = s.constant(3, name="given_cell")
    s.assume(cell <= 4)
    fragment = s.add(dut, cell=cell)
    valid, first, beats = _rows(
        s, config, fragment, config.stages.dot.tree + config.stages.dot.product)
    size = 1 << MODEL_WIDTH
    for name, lane_name in (("above", "up"), ("below", "down")):
        for lane in range(config.rows.lanes):
            register = inside(fragment, f"{lane_name}_{lane}")
            s.helper((register >= 0) & (register <= size))
        total = _tree(s, fragment, name, size, config.rows.lanes)
        s.helper(total >= 0)
        row = inside(fragment, name)
        s.helper((row >= 0) & ((row <= 4 * size * config.rows.lanes * beats) | (beats == 0)))
        s.helper((beats != 0) | (row == 0))
        scaled = Mux(cell[2], total << 2, Mux(cell[1], total << 1, 0)) + Mux(cell[0], total, 0)
        _sum_fits(s, row, Mux(first, 0, row) + scaled, valid)
        if name == "above":
            s.check(row == dut.dot_margin)


_PROPERTIES = [
    ("range-dot", "DotProduct", "a row's sum fits dot_width", dot_product,
     Mutation("pipeline/products/dot_product.py", "row = Signal(signed(config.rows.dot_width)",
              "row = Signal(signed(config.rows.dot_width - 2)")),
    ("range-products", "Correlator",
     "a row's sum, the intercept's square with it, fits gram_width", correlator,
     Mutation("pipeline/products/correlator.py", 'row = Signal(signed(config.rows.gram_width)',
              'row = Signal(signed(config.rows.gram_width - 2)')),
    ("range-bounds", "CellBounds", "both sums fit dot_margin_width", cell_bounds,
     Mutation("pipeline/products/cell_bounds.py",
              "row = Signal(signed(config.rows.dot_margin_width)",
              "row = Signal(signed(config.rows.dot_margin_width - 2)")),
]
PROPERTIES = [
    Property(f"{name}-{config.bits}", component,
             f"{claim} ({config.rows.lanes} lanes of {config.bits} bits, rows of up to "
             f"{config.rows.max_beats} beats)",
             functools.partial(build, config=config), mutation, depth=2)
    for config in CONFIGS for name, component, claim, build, mutation in _PROPERTIES
]
