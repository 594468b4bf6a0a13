"""A device whose registers a test changes."""

from collections.abc import Callable

from bitstep.devices.register_device import ForwardingDevice, RegisterDevice
from bitstep.pipeline.registers import OFFSETS, Control

NAMES = {offset: name for name, offset in OFFSETS.items()}


class ChangedDevice(ForwardingDevice):
    """A device with other values in its registers than its driver writes.

    Parameters
    ----------
    device : RegisterDevice
    registers : dict of str to int
        Values that replace what the driver writes to these registers.
    on_start : callable, optional
        Called with the dictionary of all registers when a run is about to start.
    """

    def __init__(self, device: RegisterDevice, *, registers: dict[str, int] | None = None,
                 on_start: Callable[[dict[str, int]], None] | None = None):
        super().__init__(device)
        self.registers, self.on_start = registers or {}, on_start
        self.written: dict[str, int] = {}

    def write(self, offset: int, value: int) -> None:
        """Write a register, changed if the test wants that."""
        name = NAMES[offset]
        value = self.registers.get(name, value)
        self.written[name] = value
        if name == "CONTROL" and value == Control.START and self.on_start is not None:
            self.on_start(self.written)
        self.device.write(offset, value)
