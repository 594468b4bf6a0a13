"""Planes of bit-plane rows, which are read in chunks and turned into slots, cycle by cycle."""

from bitstep.cycles.shape import Shape
from bitstep.cycles.streams.stages import Direct
from bitstep.pipeline.bit_planes import ALIGNMENT, CHUNK_UNITS, GROUP, BitPlaneLayout


class Chunks:
    """Chunks of an epoch, in beats of each plane
    (:meth:`bitstep.pipeline.bit_planes.BitPlaneLayout.chunks`).

    Parameters
    ----------
    shape : Shape
    """

    def __init__(self, shape: Shape):
        assert isinstance(shape.bit_planes, BitPlaneLayout)
        self.layout = layout = shape.bit_planes
        self.beat_bytes = shape.config.rows.beat_bytes
        self.whole = shape.rows // layout.block_rows        # whole blocks
        most = CHUNK_UNITS * ALIGNMENT
        rest = layout.bytes_read(shape.rows, 1) - self.whole * layout.plane_bytes
        self.of_block, self.of_last = (
            [min(most, size - at) // self.beat_bytes for at in range(0, size, most)]
            for size in (layout.plane_bytes, rest))
        self.block = self.number = 0

    @property
    def size(self) -> int:
        """Beats of each plane in the chunk at hand, 0 after the last one."""
        sizes = self.of_block if self.block < self.whole else self.of_last
        return sizes[self.number] if self.block <= self.whole and sizes else 0

    def go_on(self):
        """Go on to the next chunk."""
        self.number += 1
        if self.number == len(self.of_block if self.block < self.whole else self.of_last):
            self.block, self.number = self.block + 1, 0


class PlaneBlocks(Chunks):
    """Blocks of memory of an epoch's planes
    (:class:`bitstep_hw.bit_planes.plane_feeder.PlaneFeeder`), for
    :class:`bitstep.cycles.streams.bus.Address`.

    Parameters
    ----------
    shape : Shape
    epoch : int
    """

    def __init__(self, shape: Shape, epoch: int):
        super().__init__(shape)
        self.planes, self.plane = shape.planes[epoch], 0
        copy_bytes = self.layout.blocks(shape.rows) * self.layout.block_bytes
        self.first = epoch % shape.copies * copy_bytes
        self.wait = 1

    def __iter__(self):
        return self

    def __next__(self) -> tuple[int, int, int]:
        size, wait, self.wait = self.size, self.wait, 2
        if not size:
            raise StopIteration
        layout = self.layout
        at = self.first + self.block * layout.block_bytes + self.plane * layout.plane_bytes \
            + self.number * CHUNK_UNITS * ALIGNMENT
        self.plane += 1
        if self.plane == self.planes:
            self.plane = 0
            self.go_on()
        return wait, at // self.beat_bytes, size


class Transposing(Direct):
    """Stage from planes to slots (:class:`bitstep_hw.bit_planes.transpose.BitPlaneTranspose`).

    Parameters
    ----------
    shape : Shape
    """

    def __init__(self, shape: Shape):
        self.shape = shape
        config = shape.config
        self.depth = 2 * CHUNK_UNITS * ALIGNMENT // config.rows.beat_bytes
        self.groups = config.bus_width // GROUP     # of a beat
        self.per_slot = config.rows.lanes // GROUP
        assert isinstance(shape.bit_planes, BitPlaneLayout)
        self.last_groups = shape.bit_planes.row_bits // GROUP - (shape.beats - 1) * self.per_slot
        self.chunks = Chunks(shape)
        self.rows_left = self.size = 0
        self.clear()

    def start(self, planes):
        """Begin an epoch."""
        self.clear()
        self.planes, self.rows_left = planes, self.shape.rows
        self.chunks = Chunks(self.shape)
        self.size = self.chunks.size

    def clear(self):
        """Forget everything."""
        self.planes = 0
        self.beat = self.plane = 0      # in the chunk
        self.complete = 0               # groups of every plane that can be read
        self.slot = 0
        self.fetched = self.valid = False

    def offers(self, there):
        """Return whether a slot is offered."""
        return self.valid

    def takes(self, there, wanted):
        """Return whether there is a beat in front, and room."""
        # Places count from the slot that is read next, which may have begun in its beat.
        behind = self.complete // self.groups + bool(self.complete % self.groups)
        return there and self.size > 0 and behind + self.beat < self.depth

    def step(self, put, taken, released):
        """Pass a cycle in which a beat is put in, and a slot is taken."""
        last = self.slot == self.shape.beats - 1
        advance = self.last_groups if last else self.per_slot
        free = not self.fetched or not self.valid or taken
        issue = free and self.rows_left > 0 and self.complete >= advance
        if not self.valid or taken:
            self.valid = self.fetched
        if free:
            self.fetched = issue
        if issue:
            self.complete -= advance
            self.slot = 0 if last else self.slot + 1
            self.rows_left -= last
        if put:
            self.beat += 1
            if self.beat == self.size:
                self.beat = 0
                self.plane += 1
                if self.plane == self.planes:
                    self.plane = 0
                    self.complete += self.size * self.groups
                    self.chunks.go_on()
                    self.size = self.chunks.size

    def state(self):
        """State that decides about the next cycles, without the block."""
        return (self.chunks.number, self.size, self.beat, self.plane, self.complete, self.slot,
                self.fetched, self.valid)
