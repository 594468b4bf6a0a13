"""AXI buses as signatures, and the flat port names that tools expect of them.

Inside, a bus is one interface (``master.bus.arvalid``). On a top, Vivado and cocotbext-axi find a
bus by the prefix of its ports (``m_axi_rows_arvalid``); :func:`flat_members` declares these ports
and :func:`connect_flat` wires them to the interface.
"""

from amaranth.lib import data
from amaranth.lib.wiring import In, Member, Out, Signature

MAX_BURST = 16              # beats; AXI3, which Zynq's memory ports speak, knows no longer ones
BURST_INCR = 0b01
CACHE_BUFFERABLE = 0b0011   # normal, not cached: what Xilinx's memory ports are tuned for
RESP_OKAY = 0b00

JOB_LAYOUT = data.StructLayout({"address": 64, "beats": 32})


class AxiLite(Signature):
    """AXI4-Lite, seen from its master.

    Parameters
    ----------
    address_width : int
        Bits of a byte address.
    data_width : {32, 64}
        Bits of a word.
    """

    def __init__(self, *, address_width, data_width=32):
        super().__init__({
            "awaddr": Out(address_width), "awprot": Out(3), "awvalid": Out(1), "awready": In(1),
            "wdata": Out(data_width), "wstrb": Out(data_width // 8),
            "wvalid": Out(1), "wready": In(1),
            "bresp": In(2), "bvalid": In(1), "bready": Out(1),
            "araddr": Out(address_width), "arprot": Out(3), "arvalid": Out(1), "arready": In(1),
            "rdata": In(data_width), "rresp": In(2), "rvalid": In(1), "rready": Out(1),
        })


class AxiRead(Signature):
    """The two read channels of AXI4, seen from their master.

    Parameters
    ----------
    data_width : int
        Bits of a beat; a power of two from 32 to 1024.
    """

    def __init__(self, *, data_width):
        self.data_width = data_width
        super().__init__({
            **_address_channel("ar"),
            "rid": In(1), "rdata": In(data_width), "rresp": In(2), "rlast": In(1),
            "rvalid": In(1), "rready": Out(1),
        })


class AxiWrite(Signature):
    """The three write channels of AXI4, seen from their master.

    Parameters
    ----------
    data_width : int
        Bits of a beat; a power of two from 32 to 1024.
    """

    def __init__(self, *, data_width):
        self.data_width = data_width
        super().__init__({
            **_address_channel("aw"),
            "wdata": Out(data_width), "wstrb": Out(data_width // 8), "wlast": Out(1),
            "wvalid": Out(1), "wready": In(1),
            "bid": In(1), "bresp": In(2), "bvalid": In(1), "bready": Out(1),
        })


def _address_channel(prefix):
    widths = {"id": 1, "addr": 64, "len": 8, "size": 3, "burst": 2, "lock": 1, "cache": 4,
              "prot": 3, "qos": 4, "valid": 1}
    return {**{f"{prefix}{name}": Out(width) for name, width in widths.items()},
            f"{prefix}ready": In(1)}


def check_data_width(data_width):
    """Raise ValueError unless a master can have beats of ``data_width`` bits."""
    if data_width not in (32, 64, 128, 256, 512, 1024):
        raise ValueError(f"Data width must be a power of two from 32 to 1024, not {data_width}")


def flat_members(prefix, member):
    """Return the members of a top for one bus: ``{prefix}_{signal}`` for each of its signals.

    Parameters
    ----------
    prefix : str
        Name of the bus, such as ``m_axi_aux``. A read and a write bus may share it.
    member : Member
        ``Out(signature)`` for a master, ``In(signature)`` for a slave.

    Examples
    --------
    >>> members = flat_members("s_axi", In(AxiLite(address_width=10)))
    >>> members["s_axi_awvalid"], members["s_axi_awready"]
    (In(1), Out(1))
    """
    # The signature of an In member is flipped already.
    return {f"{prefix}_{name}": Member(signal.flow, signal.shape)
            for name, signal in member.signature.members.items()}


def connect_flat(top, prefix, bus, *, held=None):
    """Return the statements that connect the ports ``{prefix}_*`` of ``top`` with ``bus``, an
    interface of one of its parts (``m.d.comb += connect_flat(self, "s_axi", bank.bus)``).

    While ``held`` is 1, if it is given, nothing is offered, and no address or data to write taken:
    each VALID of the part is masked, and each READY but those for data to read and for responses.
    """
    statements = []
    for name, member in bus.signature.members.items():
        port, inner = getattr(top, f"{prefix}_{name}"), getattr(bus, name)
        masked = name.endswith("valid") or name in ("awready", "wready", "arready")
        if member.flow == In:
            statements.append(inner.eq(port))
        elif masked and held is not None:
            statements.append(port.eq(inner & ~held))
        else:
            statements.append(port.eq(inner))
    return statements
