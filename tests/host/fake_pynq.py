"""A stand-in for the pynq library: an overlay, buffers, and the pipeline of :mod:`fakes`."""

import hashlib
import json
import types
from typing import Any

import numpy as np
from fakes import IDENTITY, FakeDevice

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.registers import OFFSETS

ADDRESS = 0x43C0_0000
TYPE = "bitstep:user:bitstep_ip:1.0"


class FakePynqBuffer(np.ndarray):
    """Bytes with an address, which the pipeline sees after a flush alone."""

    owner: Any
    device_address: int

    def flush(self):
        self.owner.to_device()

    def invalidate(self):
        self.owner.from_device()

    def freebuffer(self):
        self.owner.free()


class FakeClocks:
    """The class ``pynq.Clocks``: one PLL, divided by a whole number.

    Parameters
    ----------
    pll_mhz : float
        Of the board.
    divider : int
        The one that loading a bitstream leaves.
    stuck : bool
        A fault: a new divider has no effect.
    """

    def __init__(self, pll_mhz=1000.0, divider=10, stuck=False):
        self.pll_mhz, self.divider, self.stuck = pll_mhz, divider, stuck

    @property
    def fclk0_mhz(self):
        return self.pll_mhz / self.divider

    @fclk0_mhz.setter
    def fclk0_mhz(self, mhz):
        if not self.stuck:
            self.divider = round(self.pll_mhz / mhz)


class FakePynq(types.ModuleType):
    """The module ``pynq``.

    Parameters
    ----------
    config : PipelineConfig
        Of the pipeline that every bitstream loads.
    kinds : sequence of str
        Types of the IP in the overlay.
    interrupt : object or None
        What the IP has as its attribute ``interrupt``.
    broken : Exception or None
        What loading ends with.
    limit : int
        Largest buffer in bytes.
    clocks : object
        The class ``Clocks``.
    options
        For :class:`fakes.FakeDevice`.
    """

    def __init__(self, config=None, *, kinds=(TYPE,), interrupt=None, broken=None,
                 limit=1 << 20, clocks=None, **options):
        super().__init__("pynq")
        self.__version__, self.loaded, self.looked = "0.0", [], False
        self.pipeline = FakeDevice(config or PipelineConfig(), **options)
        self.Clocks = clocks or FakeClocks()
        self.PL = types.SimpleNamespace(bitfile_name=None)
        self.kinds, self.interrupt, self.broken, self.limit = kinds, interrupt, broken, limit

    def Overlay(self, path):
        self.loaded.append(path)
        if self.broken:
            raise self.broken
        ip = types.SimpleNamespace(read=self._read, write=self._write,
                                   interrupt=self.interrupt)
        self.PL.bitfile_name = path
        names = {f"bitstep_{number}": {"type": kind, "phys_addr": ADDRESS}
                 for number, kind in enumerate(self.kinds)}
        return types.SimpleNamespace(ip_dict={"axi_intc_0": {"type": "xilinx.com:ip:axi_intc:4.1"},
                                              **names}, **dict.fromkeys(names, ip))

    def MMIO(self, address, length):
        assert address == ADDRESS       # nothing answers elsewhere
        self.looked = True
        return types.SimpleNamespace(read=self._read, write=self._write)

    def _read(self, offset):
        if offset == OFFSETS["STATUS"]:
            self.pipeline.step()            # time passes on the board
        return self.pipeline.read(offset)

    def _write(self, offset, value):
        assert type(value) is int       # as pynq
        self.pipeline.write(offset, value)

    def allocate(self, shape, dtype):
        if shape[0] > self.limit:
            raise RuntimeError("BO allocation failed: -12")
        held = self.pipeline.allocate(shape[0])
        buffer = held.array.view(FakePynqBuffer)
        buffer.owner, buffer.device_address = held, held.address
        return buffer


def write_bitstream(folder, config=None, *, name="pynq-z2-test", board="pynq-z2",
                    identity=IDENTITY):
    """Files as a bitstream for PYNQ has them; returns the path of the .bit."""
    path = folder / f"{name}.bit"
    path.write_bytes(b"bits of " + name.encode())
    path.with_suffix(".hwh").write_text(f"<{name}/>")
    path.with_suffix(".json").write_text(json.dumps({
        "board": board, "config": (config or PipelineConfig()).to_dict(),
        "identity": f"{identity:032x}", "clock_mhz": {"constraint": 100},
        **{key: {"sha256": hashlib.sha256(path.with_suffix(suffix).read_bytes()).hexdigest()}
           for key, suffix in (("bitstream", ".bit"), ("handoff", ".hwh"))}}))
    return path
