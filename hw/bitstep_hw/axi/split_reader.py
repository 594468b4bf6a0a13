"""Reader of beats whose parts come over several ports."""

from amaranth import Cat, Module, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.registers import PAGE_BYTES
from bitstep_hw.axi.buses import JOB_LAYOUT, AxiRead
from bitstep_hw.axi.read_master import ReadMaster


class SplitReader(wiring.Component):
    """Reader of blocks that memory holds in slices, one for each port.

    Slice k has the k-th part of every beat, lowest bits first. A beat leaves when all of its parts
    are there, so a port that is late or stalls holds up the others and tears nothing. Cycles as of
    one :class:`bitstep_hw.axi.read_master.ReadMaster` if all ports answer alike; storage likewise,
    in parts.

    Parameters
    ----------
    data_width : int
        Bits of a beat.
    ports : int
        Ports, a power of two of at least 2.
    fifo_depth, max_outstanding : int
        Of each port, as of a ReadMaster.

    Members
    -------
    i_job : In(stream.Signature(JOB_LAYOUT))
        Blocks: number of bytes, of all slices together, before the first beat, and number of beats.
    base : In(64)
        Byte address of slice 0, aligned to a beat; constant from two cycles before the first block
        on, as ``stride``.
    stride : In(32)
        Pages of 4,096 bytes from a slice to the next.
    o : Out(stream.Signature(data_width))
        Beats.
    bus_0, bus_1, ... : Out(AxiRead(data_width // ports))
        The memory, a port each.
    stop : In(1)
        While 1, jobs and data are discarded and no burst is begun; hold it until ``idle``.
        What is offered at ``o`` is withdrawn.
    idle : Out(1)
        No job at hand, nothing under way, nothing stored.
    error : Out(1)
        Strobe: a part came with an error response; it is delivered all the same. Not later than
        ``idle`` and before its beat can leave.
    accepted : Out(range(ports + 1))
        Parts that came over the buses, whether they are discarded or not.
    """

    def __init__(self, *, data_width, ports, fifo_depth, max_outstanding):
        if ports < 2 or ports & (ports - 1):
            raise ValueError(f"Ports must be a power of two of at least 2, not {ports}")
        self.ports = ports
        self.data_width = data_width // ports       # of what ``accepted`` counts
        self.parts = [ReadMaster(data_width=self.data_width, fifo_depth=fifo_depth,
                                 max_outstanding=max_outstanding) for _ in range(ports)]
        super().__init__({
            "i_job": In(stream.Signature(JOB_LAYOUT)), "base": In(64), "stride": In(32),
            "o": Out(stream.Signature(data_width)),
            **{f"bus_{number}": Out(AxiRead(data_width=self.data_width))
               for number in range(ports)},
            "stop": In(1), "idle": Out(1), "error": Out(1), "accepted": Out(range(ports + 1)),
        })

    @property
    def buses(self):
        """The buses, in the order of their slices."""
        return [getattr(self, f"bus_{number}") for number in range(self.ports)]

    def elaborate(self, platform):
        m = Module()
        shift = self.ports.bit_length() - 1
        job, slices = self.i_job, self._slices(m)
        every_job = Signal()            # each port takes one
        every_part = Signal()           # each port has one
        for number, (part, bus, start) in enumerate(zip(self.parts, self.buses, slices,
                                                        strict=True)):
            m.submodules[f"port_{number}"] = part
            wiring.connect(m, part.bus, wiring.flipped(bus))
            m.d.comb += [
                part.stop.eq(self.stop),
                part.i_job.valid.eq(job.valid & every_job),
                part.i_job.payload.address.eq(start + (job.payload.address >> shift)),
                part.i_job.payload.beats.eq(job.payload.beats),
                part.o.ready.eq(self.o.ready & every_part),
            ]
        m.d.comb += [
            every_job.eq(Cat(part.i_job.ready for part in self.parts).all()),
            job.ready.eq(every_job),
            every_part.eq(Cat(part.o.valid for part in self.parts).all()),
            self.o.valid.eq(every_part),
            self.o.payload.eq(Cat(part.o.payload for part in self.parts)),
            self.idle.eq(Cat(part.idle for part in self.parts).all()),
            self.error.eq(Cat(part.error for part in self.parts).any()),
            self.accepted.eq(sum(part.accepted for part in self.parts)),
        ]
        return m

    def _slices(self, m):
        """Addresses of the slices, the first without a register."""
        stride = self.stride * PAGE_BYTES
        starts = [self.base]
        for number in range(1, self.ports):
            start = Signal(64, name=f"slice_{number}")
            # A sum of two a register: slice 3 is two strides behind slice 1.
            behind = self.base if number < 3 else starts[1]
            m.d.sync += start.eq(behind + (stride << (number > 1)))
            starts.append(start)
        return starts
