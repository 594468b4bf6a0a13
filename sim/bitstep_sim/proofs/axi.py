"""Properties of the AXI masters and of what splits jobs into bursts."""

from amaranth import Cat, Mux, Signal

from bitstep_hw.axi.burst_splitter import BurstSplitter
from bitstep_hw.axi.buses import MAX_BURST
from bitstep_hw.axi.read_master import ReadMaster
from bitstep_hw.axi.write_master import WriteMaster
from bitstep_sim.proofs.fifos import fifo_inside
from bitstep_sim.proofs.formal import Property, Surrounding, implies, inside
from bitstep_sim.proofs.mutation import Mutation

_WIDTH = 64                 # bits of a beat in these proofs: what the auxiliary port has
_BEAT = _WIDTH // 8
_SPLITTER, _CHANNEL = "axi/burst_splitter.py", "axi/address_channel.py"
_READ, _WRITE = "axi/read_master.py", "axi/write_master.py"


def burst_rules(s, valid, address, length):
    """Check a burst of an address channel: aligned, at most 16 beats, within 4 KiB.

    Parameters
    ----------
    s : Surrounding
    valid, address, length : Value
        Of the channel; ``length`` is one less than the beats.
    """
    end = address[:12] + (length + 1) * _BEAT
    s.check(implies(valid, address[:_BEAT.bit_length() - 1] == 0))
    s.check(implies(valid, length < MAX_BURST))
    s.check(implies(valid, end <= 4096))


def splitter_inside(s, fragment, prefix=""):
    """Link the splitter's registers, for the induction.

    Parameters
    ----------
    s : Surrounding
    fragment : Fragment
        The component that has the splitter, as :meth:`Surrounding.add` returns it.
    prefix : str
        Names of the submodules on the way to it, with a dot behind each.

    Returns
    -------
    tuple of Signal
        Valid, first beat, beats left and 128-byte chunk of the burst at hand.
    """
    valid, first, left = (inside(fragment, prefix + name) for name in ("valid", "first", "left"))
    s.helper(implies(valid, left != 0))
    s.helper(implies(valid, inside(fragment, prefix + "final") == (left <= MAX_BURST - first)))
    few = inside(fragment, prefix + "few")
    s.helper(implies(valid, few == Cat(left[MAX_BURST.bit_length() - 1:] == k for k in range(3))))
    return valid, first, left, inside(fragment, prefix + "chunk")


def splitter(s: Surrounding):
    """Bursts cover each job exactly, in order."""
    dut = BurstSplitter(data_width=_WIDTH)
    job = dut.i.payload
    fragment = s.add(dut)
    valid, first, left, chunk = splitter_inside(s, fragment)
    # Beats of the job at hand that no burst has covered, and where the next burst must start.
    to_do = Signal(33)
    address = Signal(64)
    burst = dut.o.valid & dut.o.ready
    beats = dut.o.payload.length + 1
    m = s.m
    with m.If(burst):
        m.d.sync += [to_do.eq(to_do - beats), address.eq(address + (beats << 3))]
    with m.If(dut.i.valid & dut.i.ready):
        m.d.sync += [to_do.eq(Mux(dut.clear, 0, job.beats)), address.eq(job.address & ~7)]
    with m.Elif(dut.clear):
        m.d.sync += to_do.eq(0)
    burst_rules(s, dut.o.valid, dut.o.payload.address, dut.o.payload.length)
    s.check(implies(dut.o.valid, (dut.o.payload.address == address) & (beats <= to_do)))
    s.check(dut.busy == (to_do != 0))
    s.check(implies(dut.i.ready & ~dut.clear & valid, to_do == beats))
    s.reach(burst & (beats == MAX_BURST) & (dut.o.payload.address[:12] == 4096 - 16 * _BEAT))
    s.reach(burst & (to_do == beats) & s.past(burst & (to_do == 20)) & (beats < 16))
    s.reach(dut.clear & (to_do != 0))
    s.helper(implies(valid, to_do == left))
    s.helper(implies(valid, address == Cat(first, chunk) << 3))


def _read_master(s, *, fifo_depth=32):
    dut = ReadMaster(data_width=_WIDTH, fifo_depth=fifo_depth, max_outstanding=3)
    fragment = s.add(dut)
    return dut, fragment


def _memory(s, dut, *, most):
    """A memory that answers only what was asked for: beats and bursts that it still owes."""
    bus, m = dut.bus, s.m
    beats = Signal(range(64))
    bursts = Signal(range(most + 2))
    accepted, ended = bus.arvalid & bus.arready, bus.rvalid & bus.rlast
    m.d.sync += [beats.eq(beats + Mux(accepted, bus.arlen + 1, 0) - bus.rvalid),
                 bursts.eq(bursts + accepted - ended)]
    s.assume(implies(bus.rvalid, beats != 0))
    s.assume(implies(bus.rvalid & (beats == 1), bus.rlast))
    # Every burst that is owed has at least one beat that is owed.
    s.assume(implies(ended, (bursts != 0) & (beats >= bursts)))
    s.assume(implies(bus.rvalid & ~bus.rlast, beats > bursts))
    s.assume(implies(ended & (bursts == 1), beats == 1))
    s.assume(implies(ended, beats - 1 <= MAX_BURST * (bursts - 1)))
    s.helper((bursts == 0) == (beats == 0))
    s.helper((beats >= bursts) & (beats <= MAX_BURST * bursts))
    s.helper(bursts + bus.arvalid <= most)
    return beats, bursts


def read_bus(s: Surrounding):
    """Addresses of bursts, handshakes, and how many bursts are under way."""
    # So much room that the number of bursts is what limits them.
    dut, fragment = _read_master(s, fifo_depth=64)
    bus = dut.bus
    splitter_inside(s, fragment, "channel.splitter.")
    burst_rules(s, bus.arvalid, bus.araddr, bus.arlen)
    s.held(bus.arvalid, bus.arready, bus.araddr, bus.arlen, bus.arsize, bus.arburst, bus.arid,
           bus.arlock, bus.arcache, bus.arprot, bus.arqos)
    s.check((bus.arsize == 3) & (bus.arburst == 1) & bus.rready)
    _, bursts = _memory(s, dut, most=3)
    outstanding = inside(fragment, "channel.outstanding")
    s.helper(outstanding == bursts + bus.arvalid)
    s.check(bursts + bus.arvalid <= 3)
    # No burst begins while the run is being stopped.
    s.check(implies(s.past(dut.stop) & bus.arvalid, s.past(bus.arvalid & ~bus.arready)))
    s.reach(bursts + bus.arvalid == 3)
    s.reach(s.past(dut.stop) & bus.arvalid)


def _read_rooms(s):
    """A reader with what it knows of its room; also the bursts that it is owed."""
    dut, fragment = _read_master(s)
    bus = dut.bus
    splitter_inside(s, fragment, "channel.splitter.")
    burst_rules(s, bus.arvalid, bus.araddr, bus.arlen)
    beats, bursts = _memory(s, dut, most=3)
    level, room = inside(fragment, "store.level"), inside(fragment, "room")
    asked = Mux(bus.arvalid, bus.arlen + 1, 0)
    # A burst takes its room a cycle after it was issued.
    issued = inside(fragment, "issued")
    pending = Mux(issued, bus.arlen + 1, 0)
    s.helper(room + asked + beats + level == 32 + pending)
    s.helper(room >= pending)
    s.helper(implies(issued, bus.arvalid))
    s.helper(inside(fragment, "channel.outstanding") == bursts + bus.arvalid)
    fifo_inside(s, fragment, "store.", 32)
    return dut, fragment, bursts


def read_room(s: Surrounding):
    """Every beat that was asked for finds room; none is lost."""
    _, fragment, _ = _read_rooms(s)
    s.check(implies(inside(fragment, "store.w_en"), inside(fragment, "store.w_rdy")))
    s.reach(inside(fragment, "room") == 0)


def read_idle(s: Surrounding):
    """A reader that is idle is owed nothing and has nothing."""
    dut, fragment, bursts = _read_rooms(s)
    s.check(implies(dut.idle, (inside(fragment, "store.level") == 0) & (bursts == 0)
                    & ~dut.bus.arvalid))
    came = Signal()
    with s.m.If(dut.bus.rvalid & ~dut.stop):
        s.m.d.sync += came.eq(1)
    s.reach(dut.idle & came)


def _write_master(s, **options):
    dut = WriteMaster(data_width=_WIDTH, **options)
    return dut, s.add(dut)


def _responses(s, dut, fragment, most):
    """A memory that answers a burst after its address and its last beat; what it still owes an
    answer counts. Returns the number of bursts that wait in the queue of lengths.
    """
    bus, m = dut.bus, s.m
    addressed = Signal(range(most + 2))
    written = Signal(range(most + 2))
    last = bus.wvalid & bus.wready & bus.wlast
    m.d.sync += [addressed.eq(addressed + (bus.awvalid & bus.awready) - bus.bvalid),
                 written.eq(written + last - bus.bvalid)]
    s.assume(implies(bus.bvalid, (addressed != 0) & (written != 0)))
    lengths = inside(fragment, "lengths.level")
    outstanding = inside(fragment, "channel.outstanding")
    s.helper(addressed + bus.awvalid == outstanding)
    s.helper(written + (bus.wvalid & bus.wlast) + lengths == outstanding)
    s.helper(outstanding <= most)
    # A burst whose data has begun stays in the queue until its last beat.
    s.helper(implies(bus.wvalid & ~bus.wlast, lengths != 0))
    return outstanding


def write_bus(s: Surrounding):
    """Addresses of bursts, handshakes, and that every burst's response is awaited."""
    most = 3
    dut, fragment = _write_master(s, max_outstanding=most)
    bus, m = dut.bus, s.m
    splitter_inside(s, fragment, "channel.splitter.")
    burst_rules(s, bus.awvalid, bus.awaddr, bus.awlen)
    s.held(bus.awvalid, bus.awready, bus.awaddr, bus.awlen, bus.awsize, bus.awburst, bus.awid,
           bus.awlock, bus.awcache, bus.awprot, bus.awqos)
    s.held(bus.wvalid, bus.wready, bus.wdata, bus.wstrb, bus.wlast)
    s.check((bus.awsize == 3) & (bus.awburst == 1) & bus.bready)
    _responses(s, dut, fragment, most)
    # Bursts that were begun and that no response has ended.
    begun = Signal(range(most + 2))
    m.d.sync += begun.eq(begun + inside(fragment, "channel.issue") - bus.bvalid)
    s.helper(begun == inside(fragment, "channel.outstanding"))
    s.check(begun <= most)
    s.check(implies(dut.idle, (begun == 0) & ~bus.wvalid & ~bus.awvalid))
    s.check(implies(s.past(dut.stop) & bus.awvalid, s.past(bus.awvalid & ~bus.awready)))
    # What is written while the run is being stopped changes no byte.
    s.check(implies(s.past(dut.stop) & bus.wvalid & ~s.past(bus.wvalid & ~bus.wready),
                    bus.wstrb == 0))
    answered = Signal()
    with m.If(bus.bvalid):
        m.d.sync += answered.eq(1)
    s.reach(begun == most)
    s.reach(dut.idle & answered)
    s.reach(s.past(dut.stop) & bus.wvalid & ~s.past(bus.wvalid & ~bus.wready))


def write_lengths(s: Surrounding):
    """The length of a burst always finds room in the queue of lengths."""
    most = 4
    dut, fragment = _write_master(s, max_outstanding=most)
    _responses(s, dut, fragment, most)
    s.check(implies(inside(fragment, "lengths.w_en"), inside(fragment, "lengths.w_rdy")))
    s.reach(inside(fragment, "lengths.level") == most)
    fifo_inside(s, fragment, "lengths.", most + 1)


def write_last(s: Surrounding):
    """WLAST ends each burst after as many beats as its address announced. A burst whose number is
    chosen at will is followed.
    """
    dut, fragment = _write_master(s, max_outstanding=2)
    _responses(s, dut, fragment, 2)
    bus, m = dut.bus, s.m
    s.assume(dut.i_job.payload.beats <= 4)
    # Two jobs of few beats at any place, so that bursts of every length are short.
    chosen = s.constant(2, name="chosen")
    addresses = Signal(4)
    bursts = Signal(4)
    beats = Signal(5)
    length = Signal(8)
    known = Signal()
    with m.If(bus.awvalid & bus.awready):
        m.d.sync += addresses.eq(addresses + 1)
        with m.If(addresses == chosen):
            m.d.sync += [length.eq(bus.awlen), known.eq(1)]
    with m.If(bus.wvalid & bus.wready):
        m.d.sync += beats.eq(beats + 1)
        with m.If(bus.wlast):
            m.d.sync += [beats.eq(0), bursts.eq(bursts + 1)]
    now = (bursts == chosen) & bus.wvalid
    s.check(implies(now & known, bus.wlast == (beats == length)))
    for burst in range(4):
        s.reach(now & known & bus.wlast & (chosen == burst))
    s.reach(now & known & bus.wlast & (length == 3))


PROPERTIES = [
    Property("splitter-bursts", "BurstSplitter",
             "bursts aligned, at most 16 beats, within 4 KiB, and together exactly the job",
             splitter, Mutation(_SPLITTER, "[:index_bits], ~first)",
                                "[:index_bits], MAX_BURST - 1)"),
             others=(Mutation(_SPLITTER, "left = Signal(32)", "left = Signal(24)"),)),
    Property("read-bus", "ReadMaster",
             "ARADDR, ARLEN and handshakes keep the rules; no more bursts than allowed; none begun "
             "while stopped",
             read_bus, Mutation(_CHANNEL, "with m.Elif(self.o.ready):", "with m.Else():"), depth=2,
             others=(Mutation(_CHANNEL, "self.outstanding < self.max_outstanding - 1",
                              "self.outstanding < self.max_outstanding"),)),
    Property("read-room", "ReadMaster", "the FIFO has room for every beat that was asked for",
             read_room, Mutation(_READ, "depth=self.fifo_depth)", "depth=self.fifo_depth - 16)"),
             depth=2, breaks_at=30),
    Property("read-idle", "ReadMaster", "idle means that nothing is owed or left",
             read_idle, Mutation(_READ, "~channel.busy & ~issued & (", "~channel.busy & ("),
             depth=2, breaks_at=8),
    Property("write-bus", "WriteMaster",
             "AWADDR, AWLEN, AW and W keep the rules; every burst's response is awaited; nothing "
             "is written while stopped",
             write_bus, Mutation(_WRITE, "bus.wstrb.eq((~self.stop)", "bus.wstrb.eq((~self.error)"),
             depth=2,
             others=(Mutation(_CHANNEL, "self.outstanding < self.max_outstanding - 1",
                              "self.outstanding < self.max_outstanding"),)),
    Property("write-lengths", "WriteMaster", "the queue of lengths never overflows",
             write_lengths, Mutation(_WRITE, "depth=self.max_outstanding + 1)",
                                     "depth=self.max_outstanding - 1)"), depth=2),
    Property("write-last", "WriteMaster",
             "WLAST after as many beats as the burst's address said (jobs of at most 4 beats, the "
             "first 4 bursts)",
             write_last, Mutation(_WRITE, "lengths.w_data.eq(channel.issue_length)",
                                  "lengths.w_data.eq(channel.issue_length[:1])"),
             depth=14, bounded=True, slow=True),
]
