"""Streams of rows and labels in front of the sequencer."""

from amaranth import Module
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import MAX_FEATURES
from bitstep_hw.parts.run import row_shape
from bitstep_hw.parts.stream_register import connect_registered
from bitstep_hw.pipeline.rows.replay import Replay

_LABELS_KEPT = 64       # more than rows in flight


class RowInputs(wiring.Component):
    """Stage that hands rows and labels on: with ``refetch`` from queues out of which they can come
    again, else at once or, for a fast clock, a cycle later.

    One beat and one label a cycle. Storage: with ``refetch`` the rows that can be in flight.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``beat_width``, ``max_beats``, ``refetch`` and ``clock.registered_streams``.

    Members
    -------
    i_rows, o_rows : In, Out(stream.Signature(beat_width))
    i_labels, o_labels : In, Out(stream.Signature(row_shape(config)))
        Beats of rows, and labels.
    start, stop : In(1)
        Strobe around an epoch, which forgets labels; ``stop`` forgets rows and labels.
    beats : In
        Beats of a row; constant during an epoch.
    release, rewind : In(1)
        With ``refetch``, strobes: the oldest row is not needed again; go back to it.
    """

    def __init__(self, *, config):
        self.config = config
        rows = stream.Signature(config.rows.beat_width)
        labels = stream.Signature(row_shape(config))
        super().__init__({
            "i_rows": In(rows), "o_rows": Out(rows),
            "i_labels": In(labels), "o_labels": Out(labels),
            "start": In(1), "stop": In(1), "beats": In(range(MAX_FEATURES + 1)),
            "release": In(1), "rewind": In(1),
        })

    def elaborate(self, platform):
        m = Module()
        # Rows in flight, and the one that is being read.
        rows_kept = 1 << (2 * self.config.rows.max_beats + 63).bit_length()
        # The label reader may run past the epoch's end; the row reader never does.
        for name, source, target, depth, amount, clear in (
                ("rows", self.i_rows, self.o_rows, rows_kept, self.beats, self.stop),
                ("labels", self.i_labels, self.o_labels, _LABELS_KEPT, 1, self.stop | self.start)):
            i, o = wiring.flipped(source), wiring.flipped(target)
            if not self.config.refetch:
                connect_registered(m, name, i, o, clear=clear,
                                   registered=self.config.clock.registered_streams)
                continue
            m.submodules[name] = replay = Replay(shape=source.payload.shape(), depth=depth)
            wiring.connect(m, i, replay.i)
            wiring.connect(m, replay.o, o)
            m.d.comb += [
                replay.release.eq(self.release), replay.amount.eq(amount),
                replay.rewind.eq(self.rewind), replay.clear.eq(clear),
            ]
        return m
