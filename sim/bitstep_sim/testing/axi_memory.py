"""An AXI memory for the Amaranth simulator, which checks its master."""

# Numbers of the AXI standard, not those of the masters that are checked.
OKAY, SLVERR, DECERR = 0b00, 0b10, 0b11
_INCR = 0b01
_LONGEST = 16               # beats of a burst of AXI3
_BUFFERABLE = 0b0011        # normal memory, not cached


def _address(bus, prefix):
    """Signals of an address channel but its handshake."""
    return [getattr(bus, prefix + name) for name in (
        "addr", "len", "size", "burst", "id", "lock", "cache", "prot", "qos")]


class AxiMemory:
    """Memory of beats behind an ``AxiRead`` or an ``AxiWrite`` bus; bursts are served in order.

    Parameters
    ----------
    data_width : int
        Bits of a beat.
    rng : random.Random
        Source of stalls.
    stall : float
        Probability, per cycle and channel, of doing nothing.
    latency : int
        Cycles from an address to the first data, or from the last data to the response.
    bad : dict of int to int
        Responses to byte addresses of beats (reads) or bursts (writes), ``SLVERR`` or ``DECERR``;
        all others are answered with OKAY.

    Attributes
    ----------
    words : dict of int to int
        Written beats by byte address.
    bursts : list of (int, int)
        Byte address and beats of each burst.
    """

    def __init__(self, *, data_width, rng, stall=0.0, latency=1, bad=None):
        self.beat_bytes = data_width // 8
        self.rng, self.stall, self.latency, self.bad = rng, stall, latency, bad or {}
        self.words, self.bursts = {}, []
        self.cycle = 0

    def word(self, address):
        """The beat that a read gives: as written, else a pattern that is different everywhere."""
        return self.words.get(address, address * 0x9E3779B97F4A7C15 % (1 << 8 * self.beat_bytes))

    def _ready(self):
        return self.rng.random() >= self.stall

    def _check(self, address, length, size, burst, *others):
        n_bytes = (length + 1) * self.beat_bytes
        assert length < _LONGEST, f"burst of {length + 1} beats"
        assert (1 << size, burst) == (self.beat_bytes, _INCR)
        assert others == (0, 0, _BUFFERABLE, 0, 0)      # ID, LOCK, CACHE, PROT, QOS
        assert address % self.beat_bytes == 0, f"unaligned burst at {address:#x}"
        assert address // 4096 == (address + n_bytes - 1) // 4096, \
            f"burst of {n_bytes} bytes at {address:#x} crosses 4 KiB"
        self.bursts.append((address, length + 1))
        return [address + self.beat_bytes * i for i in range(length + 1)]

    async def read(self, ctx, bus):
        """Process that serves the read channels."""
        waiting = []                # (due cycle, address, is last)
        arready = valid = False
        while True:
            _, _, arvalid, rready, *request = await ctx.tick().sample(
                bus.arvalid, bus.rready, *_address(bus, "ar"))
            self.cycle += 1
            if arvalid and arready:
                beats = self._check(*request)
                waiting += [(self.cycle + self.latency, at, at == beats[-1]) for at in beats]
            if valid and rready:
                waiting.pop(0)
                valid = False
            valid = valid or bool(waiting and waiting[0][0] <= self.cycle + 1 and self._ready())
            if valid:
                _, address, last = waiting[0]
                ctx.set(bus.rdata, self.word(address))
                ctx.set(bus.rresp, self.bad.get(address, OKAY))
                ctx.set(bus.rlast, last)
            ctx.set(bus.rvalid, valid)
            arready = self._ready()
            ctx.set(bus.arready, arready)

    async def write(self, ctx, bus):
        """Process that serves the write channels."""
        addresses, beats, responses = [], [], []
        awready = wready = bvalid = False
        while True:
            _, _, awvalid, wvalid, bready, data, strobe, last, *request = await ctx.tick().sample(
                bus.awvalid, bus.wvalid, bus.bready, bus.wdata, bus.wstrb, bus.wlast,
                *_address(bus, "aw"))
            self.cycle += 1
            if awvalid and awready:
                addresses.append(self._check(*request))
            if wvalid and wready:
                beats.append((data, strobe, last))
            if bvalid and bready:
                responses.pop(0)
                bvalid = False
            while addresses and len(beats) >= len(addresses[0]):
                burst = addresses.pop(0)
                self._store(burst, beats[:len(burst)])
                del beats[:len(burst)]
                responses.append((self.cycle + self.latency,
                                  self.bad.get(burst[0], OKAY)))
            bvalid = bvalid or bool(responses and responses[0][0] <= self.cycle + 1
                                    and self._ready())
            if bvalid:
                ctx.set(bus.bresp, responses[0][1])
            ctx.set(bus.bvalid, bvalid)
            awready, wready = self._ready(), self._ready()
            ctx.set(bus.awready, awready)
            ctx.set(bus.wready, wready)

    def _store(self, burst, beats):
        assert [last for *_, last in beats] == [0] * (len(burst) - 1) + [1], "WLAST misplaced"
        for address, (data, strobe, _) in zip(burst, beats, strict=True):
            mask = sum(0xFF << 8 * i for i in range(self.beat_bytes) if strobe >> i & 1)
            if mask:
                self.words[address] = self.word(address) & ~mask | data & mask
