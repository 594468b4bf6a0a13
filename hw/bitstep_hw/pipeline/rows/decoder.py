"""Decoder of codes: their levels."""

from amaranth import Cat, Const, Module, Mux, signed
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.formats import BIT_PLANES


def _one_level(code, bits, sample):
    """A signed level; of one bit -1 or 1."""
    del sample
    return Mux(code, Const(1, signed(2)), Const(-1, signed(2))) if bits == 1 else code.as_signed()


def _two_levels(code, bits, sample):
    """The lower end of an interval, and a bit that says whether the sample is its upper end."""
    if bits == 2:
        return Mux(code[sample], Const(1, signed(2)), Const(-1, signed(2)))
    return code[2:].as_signed() + code[sample]


def _number(code, bits, sample):
    """The number's bits; products take them apart."""
    del bits, sample
    return code.as_signed()


def _middle(code, bits, sample):
    """The middle of a cell: all levels are odd."""
    del bits, sample
    return Cat(Const(1, 1), code).as_signed()


DECODINGS = {"one_level": _one_level, "two_levels": _two_levels, "float32": _number,
             BIT_PLANES: _middle}


def decode(code, *, bits, row_format, sample):
    """Return the level of one code, as a value: ``sample`` 0 for the dot product, 1 for the
    gradient.

    Golden model: :func:`bitstep.pipeline.levels.decode`.
    """
    return DECODINGS[row_format](code, bits, sample)


class Decoder(wiring.Component):
    """Levels of one beat, combinationally.

    A codebooks per feature (variance-optimal levels) would take the place of this component; it
    would need the beat's index as a further input.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``row_format`` and its bits and lanes.
    sample : int
        Which sample of row format ``two_levels``: 0 for the dot product, 1 for the gradient.

    Members
    -------
    beat : In(beat_width)
        Stored codes.
    used : In(lanes)
        Lanes that hold a feature; the others give level 0.
    levels : Out(signed(level_width)).array(lanes)
        Levels, one a lane.
    """

    def __init__(self, *, config, sample):
        self.config, self.sample = config, sample
        super().__init__({
            "beat": In(config.rows.beat_width),
            "used": In(config.rows.lanes),
            "levels": Out(signed(config.rows.level_width)).array(config.rows.lanes),
        })

    def elaborate(self, platform):
        m = Module()
        config, bits = self.config, self.config.rows.code_bits
        for lane in range(config.rows.lanes):
            code = self.beat[lane * bits:(lane + 1) * bits]
            level = decode(code, bits=bits, row_format=config.row_format, sample=self.sample)
            if not config.rows.has_zero_code:
                level = Mux(self.used[lane], level, 0)
            m.d.comb += self.levels[lane].eq(level)
        return m
