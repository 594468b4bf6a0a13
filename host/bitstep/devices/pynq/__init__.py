"""The device ``pynq``: a Zynq board with PYNQ on its SD card."""

from bitstep.devices.pynq.bitstream import (
    DEFAULT_FOLDER,
    Bitstream,
    find_bitstream,
    read_bitstream,
)
from bitstep.devices.pynq.device import PynqDevice
from bitstep.devices.pynq.left import prepare_for_new_files
from bitstep.devices.pynq.memory import PynqBuffer

__all__ = ["DEFAULT_FOLDER", "Bitstream", "PynqBuffer", "PynqDevice", "find_bitstream",
           "prepare_for_new_files", "read_bitstream"]
