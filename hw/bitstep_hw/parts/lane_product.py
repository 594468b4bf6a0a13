"""Products of a lane: of a level or a floating-point value with an integer, or of two of them."""

from functools import reduce
from operator import add

from amaranth import Cat, Mux, Signal

from bitstep.pipeline.parts.formats import FLOAT_GUARD
from bitstep_hw.parts.arithmetic import add_signed, delay_enable, partial_products, when

_PIECE = 4          # bits of a factor that lookup tables multiply in one cycle of a fast clock
_BIAS = 150         # exponent field of m 2^0, with m's 23 fraction bits counted in
_FAR = 63           # a shift beyond every product's width: what is left rounds to 0


def integer_product(m, config, level, value, *, fraction, valid, name):
    """Return registers whose sum is ``level * value``, ``config.stages.dot.term`` clock edges
    later; several for the parts of a wide product with a fast clock, else one.

    Of a floating-point value the product is rounded once to ``fraction`` fraction bits, to
    nearest, ties towards plus infinity (:func:`bitstep.golden.float32.align`).
    """
    return _products(config).with_integer(m, level, value, fraction, valid, name)


def minus_product(m, config, a, level, value, *, valid, name):
    """``a - level * value`` of integers. ``level`` comes ``config.stages.dot.term`` clock edges
    before ``a``, ``value`` :func:`value_stages` after ``level``.
    """
    if not config.rows.ternary_levels:
        return a - reduce(add, integer_product(m, config, level, value, fraction=0, valid=valid,
                                               name=name))
    # Gates before the carry chain of the difference, rather than a register of the product.
    level = register(m, level, valid, f"{name}_level")
    return add_signed(a, Mux(level[0], value, 0), level[0] & ~level[1])


def value_stages(config):
    """Return the number of clock edges from the level of :func:`minus_product` to its value. Where
    they are not 0, lanes that multiply the same value share its registers.
    """
    return config.stages.dot.term if config.rows.ternary_levels else 0


def level_product(m, config, a, b, *, valid, name):
    """Return a register with the product of two levels, :func:`level_product_stages` clock edges
    later; of floating-point values rounded to
    :data:`bitstep.pipeline.parts.formats.FLOAT_GUARD` fraction bits.
    """
    return _products(config).of_levels(m, a, b, valid, name)


def level_product_stages(config):
    """Return the number of clock edges that :func:`level_product` takes."""
    return _products(config).level_stages


class _Products:
    """Products of levels: one register each."""

    level_stages = 1

    @staticmethod
    def with_integer(m, level, value, fraction, valid, name):
        del fraction
        return [register(m, level * value, valid, name)]

    @staticmethod
    def of_levels(m, a, b, valid, name):
        return register(m, a * b, valid, name)


class _FastProducts(_Products):
    """Products of narrow levels for a fast clock: with integers in parts."""

    @staticmethod
    def with_integer(m, level, value, fraction, valid, name):
        del fraction, valid
        return partial_products(m, level, value, name=name)


class _FastWideProducts(_FastProducts):
    """Likewise of levels too wide for lookup tables in a cycle: two narrow products of lookup
    tables, since multiplier blocks are few, and far away.
    """

    level_stages = 2

    @staticmethod
    def of_levels(m, a, b, valid, name):
        low = register(m, a * b[:_PIECE], valid, f"{name}_low")
        high = register(m, a * b[_PIECE:].as_signed(), valid, f"{name}_high")
        return register(m, (low + (high << _PIECE))[:len(a) + len(b)].as_signed(),
                         delay_enable(m, valid, 1, name=f"{name}_valid"), name)


class _FastBlockProducts(_FastWideProducts):
    """Likewise of levels as wide as a multiplier block, which has both registers of its own."""

    @staticmethod
    def of_levels(m, a, b, valid, name):
        product = register(m, a * b, valid, f"{name}_exact")
        return register(m, product, delay_enable(m, valid, 1, name=f"{name}_valid"), name)


class _FloatProducts(_Products):
    """Products of floating-point values, aligned in the second register."""

    level_stages = 2

    @staticmethod
    def with_integer(m, level, value, fraction, valid, name):
        mantissa, exponent = _parts(level)
        product = register(m, mantissa * value, valid, f"{name}_exact")
        # |level| is at most 1, so its exponent field is at most 127 and the shift at least 1.
        less = register(m, (_BIAS - fraction - 1 - exponent)[:8], valid, f"{name}_shift")
        return [_align(m, product, less, len(value) + fraction + 1, valid, name)]

    @staticmethod
    def of_levels(m, a, b, valid, name):
        (a_mantissa, a_exponent), (b_mantissa, b_exponent) = _parts(a), _parts(b)
        product = register(m, a_mantissa * b_mantissa, valid, f"{name}_exact")
        less = register(m, (2 * _BIAS - FLOAT_GUARD - 1 - a_exponent - b_exponent)[:9], valid,
                         f"{name}_shift")
        return _align(m, product, less, FLOAT_GUARD + 2, valid, name)


def _products(config):
    """The kind of products that levels and clock ask for."""
    if config.rows.floating:
        return _FloatProducts
    if not config.clock.fast:
        return _Products
    width = config.rows.level_width
    if width > 2 * _PIECE + 1:
        return _FastBlockProducts
    return _FastWideProducts if width > _PIECE + 1 else _FastProducts


def _parts(bits):
    """Signed mantissa and exponent field of an IEEE 754 single-precision number; subnormal
    numbers count as 0.
    """
    exponent = bits[23:31].as_unsigned()
    mantissa = Mux(exponent.any(), Cat(bits[:23], 1), 0)
    return Mux(bits[31], -mantissa, mantissa), exponent


def _align(m, product, less, width, valid, name):
    """Register with ``product`` shifted right by ``less + 1``, rounded."""
    distance = Mux(less > _FAR, _FAR, less)[:6]
    rounded = ((product >> distance) + 1) >> 1
    return register(m, rounded[:width].as_signed(),
                     delay_enable(m, valid, 1, name=f"{name}_valid"), name)


def register(m, value, valid, name):
    """Register with ``value``, which moves with ``valid``; in every cycle for None."""
    held = Signal(value.shape(), name=name, reset_less=True)
    with when(m, valid):
        m.d.sync += held.eq(value)
    return held
