"""Streams of a run on bit-plane rows."""

from bitstep.cycles.shape import Shape
from bitstep.cycles.streams.memory import Memory
from bitstep.cycles.streams.simulated import SimulatedStreams
from bitstep.cycles.streams.transposing import PlaneBlocks, Transposing
from bitstep.pipeline.bit_planes import BitPlaneLayout


class BitPlaneStreams(SimulatedStreams):
    """Streams of a run on bit-plane rows, simulated cycle by cycle.

    Parameters
    ----------
    shape : Shape
    memory : Memory
    """

    def __init__(self, shape: Shape, memory: Memory):
        super().__init__(shape, memory)
        assert isinstance(shape.bit_planes, BitPlaneLayout)
        self.table_stage = self.transposing = Transposing(shape)
        self.blocks = PlaneBlocks(shape, 0)
        self.anchor = self.block_rows = shape.bit_planes.block_rows

    def row_blocks(self):
        """None: they come with each epoch."""
        return iter(())

    def start_epoch(self, time):
        """Let labels and rows pass; ``time`` is the cycle of the strobe in the control of the run.
        """
        super().start_epoch(time)
        epoch = self.models
        self.transposing.start(self.shape.planes[epoch])
        self.rows.address.jobs = self.blocks = PlaneBlocks(self.shape, epoch)
        self.rows.address.begin(time + self.late)

    @property
    def asked(self):
        """Blocks of labels that were asked for; those of rows come and go."""
        return self.aux.address.number

    def steady_rows(self, time):
        """Rows that may be skipped if a state was there before: whole blocks, none of which has
        been asked for.
        """
        self.advance(time)
        words = min(self.aux.spare, self.words_left - 2) * self.shape.labels_per_word
        rows = (self.blocks.whole - 1 - self.blocks.block) * self.block_rows
        return max(min(rows, words), 0)

    def label_rows(self, time):
        """None: rows are skipped with their labels."""
        return 0

    def rows_state(self, time):
        """State of the streams of rows and labels, but for the block."""
        words_left, *state = super().rows_state(time)
        if self.derivatives is not None:
            state.append(self.derivatives.state(time))
        return (words_left, self.blocks.number, self.blocks.plane, self.rows.address.left, *state)

    def skip(self, rows, *, labels=False):
        """Skip rows that are as those before, in whole blocks."""
        blocks = rows // self.block_rows
        self.blocks.block += blocks
        self.transposing.chunks.block += blocks
        self.transposing.rows_left -= rows
        beats = blocks * self.blocks.planes * sum(self.blocks.of_block)
        self.rows.accepted += beats
        self.beats_entered += beats
        words = rows // self.shape.labels_per_word
        self.aux.skip(words)
        self.words_left -= words
        if self.derivatives is not None:
            self.derivatives.skip(rows)

    def epoch_state(self, time):
        """State in cycle ``time``, before an epoch's entry of the table is taken, that decides
        about the epochs that follow, as long as they have the same planes.
        """
        return self._same_planes(), super().epoch_state(time)[:2], self.aux.address.left, \
            self.aux.address.number - 2 * self.models

    def _same_planes(self):
        """End of the epochs from the next one on with its planes."""
        planes, end = self.shape.planes, self.models
        while end < self.shape.epochs and planes[end] == planes[self.models]:
            end += 1
        return end

    @property
    def epochs_left(self):
        """Epochs that may be skipped."""
        most = self.shape.epochs - 2 - self.aux.address.number // 2
        return min(most, self._same_planes() - self.models)

    def skip_row_blocks(self, epochs):
        """None: blocks of rows come with each epoch."""
