"""Unpacker of labels: the dense stream of words as a stream of labels."""

from amaranth import C, Cat, Module, Mux, Signal, Value
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.golden.steps import WEIGHT_TURN
from bitstep.pipeline.parts.widths import AUX_WIDTH
from bitstep.pipeline.registers import LabelFormat
from bitstep.pipeline.shapes import LABEL_BITS, WEIGHT_BITS, row_label_bits
from bitstep_hw.parts.run import label_shape, weighted_shape


class LabelUnpacker(wiring.Component):
    """Splitter of 64-bit words into labels, lowest bits first.

    One row's labels a cycle, if they are at most a word; a word is accepted as soon as the one
    before is used up. Labels of several models, or of several rows together, that take more words
    are gathered, a word a cycle. Stores one word, or the labels that are given together.
    Golden model: :func:`bitstep.pipeline.levels.unpack_labels`.

    Parameters
    ----------
    models : int
        Labels that are given for each row.
    streams : int
        Labels of a row in memory, at least ``models``: a power of two.
    rows : int
        Rows whose labels are given together, a power of two.
    weights : bool
        True if rows can have weights.
    rows_per_beat : int
        Rows among those that are given together; the places behind them belong to no row.

    Members
    -------
    i : In(stream.Signature(64))
        Stored labels.
    o : Out(stream.Signature(label_shape(rows * models)))
        Labels, those of a row side by side; with ``weights`` a structure of these, the weights and
        the place of the first row's dither (:func:`bitstep_hw.parts.run.weighted_shape`).
    label_format : In(2)
        A :class:`bitstep.pipeline.registers.LabelFormat`; constant during a run.
    shared : In(1)
        With more than one model: a row has one label in memory, which is that of all models;
        constant during a run.
    weighted : In(1)
        With ``weights``: a row has a weight behind its labels; constant during a run.
    restart : In(1)
        Drops what is left of a word: the next label is the first of a new stream.
    """

    def __init__(self, *, models=1, streams=1, rows=1, weights=False, rows_per_beat=1):
        self.models, self.streams, self.rows, self.weights = models, streams, rows, weights
        self._turn = rows_per_beat * WEIGHT_TURN    # from a place that is given to the next
        super().__init__({
            "i": In(stream.Signature(AUX_WIDTH)),
            "o": Out(stream.Signature(weighted_shape(models, rows) if weights
                                      else label_shape(rows * models))),
            "label_format": In(2), "weighted": In(1), "shared": In(1), "restart": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        labels = self.streams * self.rows
        self._words = max(1, labels if self.weights else labels // 2)     # given together, at most
        word = Signal(self._words * AUX_WIDTH)
        left = Signal(range(AUX_WIDTH + 1))
        per_word = Signal.like(left)
        shifted = Signal.like(word)
        last = Signal(range(self._words + (labels > 1)))    # number of the last one gathered
        with m.Switch(self.label_format):
            for label_format in LabelFormat:
                width = LABEL_BITS[label_format]
                row = width * labels            # bits that are given together
                one_model = width * self.rows   # likewise, if all models share them
                with (m.Default() if label_format == LabelFormat.INT32
                      else m.Case(label_format.value)):
                    self._take(m, word, label_format)
                    self._split(m, word, row, (per_word, shifted, last))
                    if self.models > 1:
                        with m.If(self.shared):
                            self._split(m, word, one_model, (per_word, shifted, last))
                    if self.weights:
                        with m.If(self.weighted):
                            self._split_weighted(m, word, label_format, (per_word, shifted, last))

        # Registers, because so much hangs on them.
        some = Signal()     # ``left`` is not 0
        one = Signal()      # it is 1
        room = ~some | (one & self.o.ready)
        whole, gathered = self._gather(m, last)
        m.d.comb += [
            self.o.valid.eq(some & ~self.restart),
            self.i.ready.eq((room | ~whole) & ~self.restart),
        ]
        # What is in ``word`` at a restart is forgotten anyway.
        with m.If(some & self.o.ready):
            m.d.sync += [word.eq(shifted), left.eq(left - 1), some.eq(~one), one.eq(left == 2)]
        with m.If(self.i.valid & room & whole):
            m.d.sync += [word.eq(gathered), left.eq(per_word), some.eq(1),
                         one.eq((per_word == 1) if labels > 1 or self.weights else 0)]
        with m.If(self.restart):
            m.d.sync += [some.eq(0), one.eq(0)]
        if self.weights:
            self._count(m)
        return m

    def _split(self, m, word, width, numbers):
        """Rows that take so many bits, together or each."""
        per_word, shifted, last = numbers
        if self.weights and self.rows > 1:
            word = word[:AUX_WIDTH]     # what takes more is used up as soon as it is given
        m.d.comb += [per_word.eq(max(AUX_WIDTH // width, 1)), shifted.eq(word >> width),
                     last.eq(max(width // AUX_WIDTH, 1) - 1)]

    def _split_weighted(self, m, word, label_format, numbers):
        """Rows with weights, which stand in the highest bits of each."""
        widths = self._weighted_widths(label_format)
        for width, takes in [*zip(widths, (1, self.shared), strict=True)][:self.models]:
            with m.If(takes):
                self._split(m, word, self.rows * width, numbers)
                m.d.comb += Value.cast(self.o.payload.weight).eq(Cat(
                    word.word_select(row, width)[-WEIGHT_BITS:] for row in range(self.rows)))

    def _weighted_widths(self, label_format):
        """Bits of a row with a weight: with labels of all models, and with one that they share."""
        return [row_label_bits(label_format, streams, True) for streams in (self.streams, 1)]

    def _count(self, m):
        """Places of the dithers of rows, of which those in ``rows`` follow from the first."""
        place = Signal(WEIGHT_BITS)
        m.d.comb += self.o.payload.place.eq(place)
        with m.If(self.o.valid & self.o.ready):
            m.d.sync += place.eq(place + self._turn)
        with m.If(self.restart):
            m.d.sync += place.eq(0)

    def _take(self, m, word, label_format):
        """Labels out of the lowest bits."""
        width = LABEL_BITS[label_format]
        labels = self.o.payload.labels if self.weights else self.o.payload
        outputs = [labels] if self.models * self.rows == 1 else list(labels)
        for number, output in enumerate(outputs):
            row, model = divmod(number, self.models)
            stored = word.word_select(row * self.streams + model, width)
            stored = self._of_model(word.word_select(row, width), stored)
            if self.weights and row:        # behind other rows' weights
                first, alone = (word.word_select(row, each)
                                for each in self._weighted_widths(label_format))
                own = self._of_model(alone[:width], first.word_select(model, width))
                stored = Mux(self.weighted, own, stored)
            m.d.comb += output.eq(Mux(stored[0], 1, -1) if label_format == LabelFormat.SIGN
                                  else stored.as_signed())

    def _of_model(self, shared, own):
        """The label of a model: that of all models where they share one, else its own."""
        return Mux(self.shared, shared, own) if self.models > 1 else own

    def _gather(self, m, last):
        """Words of a row that takes more than one; returns whether the word that comes is its last,
        and all of them together.
        """
        if self._words == 1:
            return C(1), self.i.payload
        number = Signal.like(last)
        whole = Signal()
        before = [Signal(AUX_WIDTH, name=f"before_{place}", reset_less=True)
                  for place in range(self._words - 1)]
        m.d.comb += whole.eq(number == last)
        with m.If(self.i.valid & self.i.ready):
            m.d.sync += number.eq(Mux(whole, 0, number + 1))
            for place, word in enumerate(before):
                with m.If(number == place):
                    m.d.sync += word.eq(self.i.payload)
        with m.If(self.restart):
            m.d.sync += number.eq(0)
        words = [Mux(last == place, self.i.payload, word) for place, word in enumerate(before)]
        return whole, Cat(*words, self.i.payload)
