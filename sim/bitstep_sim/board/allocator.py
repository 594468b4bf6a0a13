"""First-fit allocation of the simulated board's memory."""

import bisect

ALIGNMENT = 4096


class Allocator:
    """Blocks of an address range, each aligned to 4,096 and followed by a gap of as much.

    The gap makes an access just behind a block an access outside of any.

    Parameters
    ----------
    base, size : int
        The range in bytes; ``base`` aligned to 4,096.
    """

    def __init__(self, base: int, size: int):
        self.base, self.size = base, size
        self.blocks: list[tuple[int, int]] = []         # (address, bytes), ascending

    def allocate(self, n_bytes: int) -> int:
        """Address of a new block.

        Raises
        ------
        MemoryError
            If no gap is large enough; the message gives both sizes.
        """
        end, largest = self.base, 0
        for address, size in [*self.blocks, (self.base + self.size, 0)]:
            largest = max(largest, address - end)
            if address - end >= n_bytes:
                bisect.insort(self.blocks, (end, n_bytes))
                return end
            end = _aligned(address + size) + ALIGNMENT
        raise MemoryError(f"{n_bytes:,} bytes were asked for, and the largest free block of the "
                          f"board's memory has {largest:,} (of {self.size:,} in all)")

    def free(self, address: int) -> None:
        """Give back the block at ``address``; of none, do nothing."""
        self.blocks = [block for block in self.blocks if block[0] != address]


def _aligned(address: int) -> int:
    return -(-address // ALIGNMENT) * ALIGNMENT
