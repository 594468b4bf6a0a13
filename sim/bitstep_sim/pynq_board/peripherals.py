"""Peripherals of a pipeline on a board: interrupt controller, Linux's interrupt file, clocks."""

import functools
import os
import threading
import time
import tty
from typing import Any

CYCLES_A_WAIT = 20_000      # that the clock runs while Linux looks elsewhere
# Registers of Zynq-7000 and of Zynq UltraScale+ that give the FPGA its first clock.
_IO_PLL, _FPGA0 = 0xF800_0108, 0xF800_0170
_IOPLL, _PL0 = 0xFF5E_0020, 0xFF5E_00C0
_REFERENCE_MHZ = 100 / 3


class InterruptController:
    """AXI INTC with one input, sensitive to its level, as pynq programs it.

    Parameters
    ----------
    level : callable
        Tells whether the pipeline's interrupt is up.
    """

    def __init__(self, level):
        self.level = level
        self.status = self.enabled = self.master = 0

    def read(self, offset: int) -> int:
        """Read a register."""
        self.status |= int(self.level())
        return {0x00: self.status, 0x04: self.status & self.enabled, 0x08: self.enabled,
                0x1C: self.master}.get(offset, 0)

    def write(self, offset: int, value: int) -> None:
        """Write a register."""
        if offset == 0x08:
            self.enabled = value
        elif offset == 0x0C:            # acknowledges; a level that is still up is seen again
            self.status = self.status & ~value | int(self.level())
        elif offset == 0x10:
            self.enabled |= value
        elif offset == 0x14:
            self.enabled &= ~value
        elif offset == 0x1C:
            self.master = value

    @property
    def output(self) -> bool:
        """True while the processor is interrupted."""
        self.status |= int(self.level())
        return self.master == 3 and bool(self.status & self.enabled)


class InterruptFile:
    """Linux's file of an interrupt (UIO), for pynq's own ``UioController``: who writes a word to it
    enables the interrupt, and reads a word when it has come. Time passes on the board meanwhile.

    A pseudo-terminal that lives as long as the process, as does the file on a board.

    Attributes
    ----------
    path : str
        The file.
    board : SimulatedBoard or None
        The board whose interrupt it is.
    lost : bool
        A test's fault: interrupts never arrive.
    enabled, arrived : int
        How often it was enabled, and came, on boards that are switched on.
    """

    def __init__(self):
        self._end, self._file = os.openpty()
        tty.setraw(self._file)              # no byte means anything
        self.path = os.ttyname(self._file)
        self.board: Any = None
        self.lost = False
        self.enabled = self.arrived = 0
        threading.Thread(target=self._run, name="interrupt-file", daemon=True).start()

    def _run(self):
        while True:
            os.read(self._end, 4)
            self.enabled += 1
            if self._comes(self.board):
                self.arrived += 1
                os.write(self._end, bytes([0, 0, 0, 1]))
            else:
                self.enabled -= 1

    def _comes(self, board):
        """Wait for the interrupt of a board; False if that board is switched off."""
        while board is not None and self.board is board:
            if not self.lost and board.run(CYCLES_A_WAIT):
                return True
            time.sleep(0.001)
        return False


@functools.cache
def interrupt_file(number: int) -> InterruptFile:
    """The file of the interrupt that Linux gives this number."""
    return InterruptFile()


class ClockRegisters:
    """The registers of the processing system with which pynq sets clocks and widths of ports.

    Parameters
    ----------
    family : str
        Of the device.
    pll_mhz : float
        Clock of the PLL for the FPGA's clocks, as the boot loader leaves it.
    """

    # Dividers and multipliers of the other PLLs, as the boot loader leaves them.
    _ZYNQ = {0xF800_0100: 26 << 12, 0xF800_0104: 21 << 12, 0xF800_0120: 2 << 8,
             **dict.fromkeys((0xF800_0180, 0xF800_0190, 0xF800_01A0), 5 << 8 | 2 << 20)}
    _ULTRASCALE = {0xFF5E_0030: 72 << 8 | 1 << 16,
                   **dict.fromkeys((0xFF5E_00C4, 0xFF5E_00C8, 0xFF5E_00CC), 15 << 8 | 1 << 16),
                   0xFD1A_0020: 72 << 8 | 1 << 16, 0xFD1A_002C: 64 << 8 | 1 << 16,
                   0xFD1A_0038: 72 << 8 | 1 << 16, 0xFD1A_0060: 1 << 8}

    def __init__(self, family: str, pll_mhz: float):
        self._zynq = family == "zynq"
        self.values = dict(self._ZYNQ if self._zynq else self._ULTRASCALE)
        # The PLL of the pipeline's clock, and that clock: something slow.
        if self._zynq:
            self.values |= {_IO_PLL: round(pll_mhz / 50) << 12, _FPGA0: 20 << 8 | 2 << 20}
        else:
            self.values |= {_IOPLL: round(2 * pll_mhz / _REFERENCE_MHZ) << 8 | 1 << 16,
                            _PL0: 30 << 8 | 2 << 16}

    @property
    def fpga_mhz(self) -> float:
        """The clock that these values give the FPGA, in MHz, from the PLL of Ethernet and USB.

        Raises
        ------
        ValueError
            If the clock comes from another PLL.
        """
        if self._zynq:
            pll_mhz, divided = 50.0 * (self.values[_IO_PLL] >> 12 & 0x7F), self.values[_FPGA0]
            selected, second = divided >> 4 & 3, divided >> 20 & 0x3F
        else:
            control, divided = self.values[_IOPLL], self.values[_PL0]
            pll_mhz = _REFERENCE_MHZ * (control >> 8 & 0x7F) / (1 + (control >> 16 & 1))
            selected, second = divided & 7, divided >> 16 & 0x3F
        if selected:
            raise ValueError(f"The clock's source must be PLL 0, not {selected}")
        return pll_mhz / ((divided >> 8 & 0x3F) * second)

    @staticmethod
    def covers(address: int) -> bool:
        """Tell if an address is one of these registers."""
        return 0xF800_0000 <= address < 0xF800_1000 or 0xFD00_0000 <= address < 0xFFC0_0000

    def read(self, address: int) -> int:
        """Read a register."""
        return self.values.get(address, 0)

    def write(self, address: int, value: int) -> None:
        """Write a register."""
        self.values[address] = value & 0xFFFF_FFFF
