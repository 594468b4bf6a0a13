"""The device ``uart``: a board on a serial line."""

from bitstep.devices.uart.device import UartDevice
from bitstep.devices.uart.link import UartLink
from bitstep.devices.uart.transport import SerialTransport, Transport

__all__ = ["SerialTransport", "Transport", "UartDevice", "UartLink"]
