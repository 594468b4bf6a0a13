"""Stages between a queue and what takes from it, cycle by cycle."""


class Direct:
    """No stage: what is offered is taken at once or stays where it is."""

    def offers(self, there):
        """Return whether an item is offered behind the stage; ``there``: in front of it."""
        return there

    def takes(self, there, wanted):
        """Return whether the stage takes the item in front of it; ``wanted``: the one that it
        offers is taken.
        """
        return there and wanted

    def step(self, put, taken, released):
        """Pass a cycle in which an item is put in, one is taken, and some are released."""

    def clear(self):
        """Forget everything."""

    def open(self):
        """Only :class:`Held` is closed at first."""
        raise AssertionError("this stage is never closed")

    def rewind(self):
        """Only a :class:`Queue` returns to its oldest item."""
        raise AssertionError("items do not come again out of this stage")

    def state(self) -> tuple:
        """State that decides about the next cycles."""
        return ()


class Register(Direct):
    """Register of two items, a cycle long (:class:`bitstep_hw.parts.stream_register`)."""

    def __init__(self):
        self.items = 0

    def offers(self, there):
        """Return whether an item is stored."""
        return self.items > 0

    def takes(self, there, wanted):
        """Return whether there is an item in front, and room."""
        return there and self.items < 2

    def step(self, put, taken, released):
        """Count."""
        self.items += put - taken

    def clear(self):
        """Forget everything."""
        self.items = 0

    def state(self):
        """Items."""
        return (self.items,)


class Held(Register):
    """Register of one item, a cycle long, behind tables (:class:`bitstep_hw.shell.codebooks`).
    """

    def __init__(self):
        super().__init__()
        self.closed = 1 << 60       # cycles in which nothing is taken yet

    def open(self):
        """Take items from the next cycle but one on."""
        self.closed = 1

    def takes(self, there, wanted):
        """Return whether there is an item in front, and room now or from this cycle on."""
        return there and not self.closed and (self.items == 0 or wanted)

    def step(self, put, taken, released):
        """Count."""
        super().step(put, taken, released)
        self.closed -= self.closed > 0


class Queue(Direct):
    """Queue out of which items can come again (:class:`bitstep_hw.pipeline.rows.replay`).

    Parameters
    ----------
    depth : int
        Items that are kept.
    """

    def __init__(self, depth):
        self.depth = depth
        self.clear()

    def offers(self, there):
        """Return whether the next item is offered."""
        return self.offered

    def takes(self, there, wanted):
        """Return whether there is an item in front, and room."""
        return there and self.kept != self.depth

    def step(self, put, taken, released):
        """Count."""
        ahead = self.ahead - taken
        self.offered = ahead > 0
        self.ahead = ahead + put
        self.kept += put - released

    def rewind(self):
        """Return to the oldest item, in place of the last step."""
        self.ahead, self.offered = self.kept, False

    def clear(self):
        """Forget everything."""
        self.kept = self.ahead = 0
        self.offered = False

    def state(self):
        """Items, and the offer."""
        return self.kept, self.ahead, self.offered
