"""The rules of streams: what is offered stays until it is taken, and does not wait for that."""

from amaranth import Signal
from amaranth.hdl import Value

from bitstep.pipeline.config import PipelineConfig
from bitstep_hw.axi.burst_splitter import BurstSplitter
from bitstep_hw.axi.read_master import ReadMaster
from bitstep_hw.axi.split_reader import SplitReader
from bitstep_hw.axi.write_master import WriteMaster
from bitstep_hw.parts.stream_register import StreamRegister
from bitstep_hw.pipeline.model.port import ModelPort
from bitstep_hw.pipeline.model.refetcher import Refetcher
from bitstep_hw.pipeline.rows.replay import Replay
from bitstep_hw.shell.job_feeders import AuxFeeder, RowFeeder
from bitstep_hw.shell.label_unpacker import LabelUnpacker
from bitstep_hw.shell.register_bank import RegisterBank
from bitstep_hw.shell.run_control import RunControl
from bitstep_sim.proofs.formal import Property, Surrounding, implies, inside
from bitstep_sim.proofs.mutation import Mutation

CONFIG = PipelineConfig(bits=8, max_features=16, lookahead=2)
REFETCHING = PipelineConfig(bits=8, max_features=16, lookahead=0, refetch=True)


def constants(s, component, names):
    """Inputs that do not change, as :meth:`Surrounding.add` takes them.

    Parameters
    ----------
    s : Surrounding
    component : wiring.Component
    names : iterable of str
        Names of the inputs.
    """
    return {name: s.constant(len(Value.cast(getattr(component, name))), name=f"given_{name}")
            for name in names}


def held(s, stream, cut=0):
    """Check the rule of streams for one output.

    Parameters
    ----------
    s : Surrounding
    stream : stream.Interface
    cut : Value
        See :meth:`Surrounding.held`.
    """
    s.held(stream.valid, stream.ready, stream.payload, cut=cut)


def splitter(s: Surrounding):
    dut = BurstSplitter(data_width=64)
    s.add(dut)
    held(s, dut.o, dut.clear)


def read_master(s: Surrounding):
    dut = ReadMaster(data_width=64, fifo_depth=32)
    s.add(dut)
    held(s, dut.o, dut.stop)


def split_reader(s: Surrounding):
    dut = SplitReader(data_width=64, ports=2, fifo_depth=32, max_outstanding=8)
    s.add(dut)
    held(s, dut.o, dut.stop)


def label_unpacker(s: Surrounding):
    dut = LabelUnpacker()
    s.add(dut, **constants(s, dut, ["label_format"]))
    held(s, dut.o, dut.restart)


def model_port(s: Surrounding):
    dut = ModelPort(config=CONFIG)
    s.add(dut)
    held(s, dut.o, dut.stop)


def row_feeder(s: Surrounding):
    dut = RowFeeder()
    fragment = s.add(dut, **constants(s, dut, ["epochs", "copies", "address", "stride", "beats"]))
    s.helper(~(inside(fragment, "offered") & inside(fragment, "step")))
    s.assume(implies(dut.start, ~dut.o.valid))      # a run does not begin within another
    held(s, dut.o, dut.stop)


def aux_feeder(s: Surrounding):
    dut = AuxFeeder()
    s.add(dut, **constants(s, dut, [
        "epochs", "rows", "label_format", "load_model", "load_coefficients", "model_beats",
        "model_address", "coefficients_address", "table_address", "labels_address"]))
    # The length of the labels follows the registers one cycle later.
    s.assume(s.started | ~dut.start)
    held(s, dut.o, dut.stop)


def run_control(s: Surrounding):
    dut = RunControl(config=CONFIG)
    fragment = s.add(dut, **constants(s, dut, ["registers"]))
    failing = inside(fragment, "failure")
    # Its input keeps the rule; nothing ends while something is still offered.
    s.held(dut.i.valid, dut.i.ready, dut.i.payload, assumed=True)
    for stream, end in ((dut.o_labels, dut.epoch_done), (dut.o_model, dut.port_done),
                        (dut.job, dut.port_done)):
        s.assume(implies(end, ~stream.valid | stream.ready))
        held(s, stream, s.past(failing) | dut.stop)


def replay(s: Surrounding):
    dut = Replay(shape=8, depth=4)
    fragment = s.add(dut)
    oldest, wanted, newest = (inside(fragment, name) for name in ("oldest", "wanted", "newest"))
    offered = inside(fragment, "offered")
    read, kept = (wanted - oldest)[:3], (newest - oldest)[:3]
    s.assume(implies(dut.release, (dut.amount <= read) & ~dut.rewind))
    s.helper((read <= kept) & (kept <= 4) & implies(offered, read < kept))
    held(s, dut.o, s.past(dut.rewind | dut.clear))


def refetcher(s: Surrounding):
    dut = Refetcher(config=REFETCHING)
    s.add(dut, **constants(s, dut, ["address", "beats", "last_lanes"]))
    s.assume(implies(dut.start, ~dut.job.valid))    # one row at a time
    s.assume(s.past(s.started) | ~dut.start)
    held(s, dut.job, dut.stop)


def stream_register(s: Surrounding):
    dut = StreamRegister(shape=8)
    fragment = s.add(dut)
    newest, oldest = inside(fragment, "newest"), inside(fragment, "oldest")
    # One item: the next goes to the other place. None or two: to where the oldest is or was.
    s.helper((newest != oldest) == (dut.o.valid & dut.i.ready))
    s.helper(dut.o.valid | dut.i.ready)
    held(s, dut.o, s.past(dut.clear))


def registers(s: Surrounding):
    dut = RegisterBank()
    fragment = s.add(dut)
    # One read at a time, under way or answered.
    s.helper(implies(dut.bus.rvalid, ~inside(fragment, "selected")))
    s.held(dut.bus.bvalid, dut.bus.bready, dut.bus.bresp)
    s.held(dut.bus.rvalid, dut.bus.rready, dut.bus.rdata, dut.bus.rresp)


# Component, its name here, and pairs of a ready and what must not wait for it: a valid, or, where
# paths are cut, the ready of the other side.
_STRUCTURE = [
    (lambda: BurstSplitter(data_width=64), "splitter", [("o.ready", "o.valid")]),
    (lambda: ReadMaster(data_width=64), "reader",
     [("o.ready", "o.valid"), ("bus.arready", "bus.arvalid")]),
    (lambda: SplitReader(data_width=64, ports=2, fifo_depth=32, max_outstanding=8), "split",
     [("o.ready", "o.valid"), ("bus_0.arready", "bus_0.arvalid"),
      ("bus_1.arready", "bus_1.arvalid")]),
    (lambda: WriteMaster(data_width=64), "writer",
     [("bus.awready", "bus.awvalid"), ("bus.wready", "bus.wvalid")]),
    (LabelUnpacker, "labels", [("o.ready", "o.valid")]),
    (lambda: ModelPort(config=CONFIG), "port", [("o.ready", "o.valid")]),
    (RowFeeder, "rows", [("o.ready", "o.valid")]),
    (AuxFeeder, "aux", [("o.ready", "o.valid")]),
    (lambda: RunControl(config=CONFIG), "control",
     [("o_labels.ready", "o_labels.valid"), ("o_model.ready", "o_model.valid"),
      ("job.ready", "job.valid")]),
    (lambda: Replay(shape=8, depth=4), "replay", [("o.ready", "o.valid")]),
    (lambda: Refetcher(config=REFETCHING), "refetcher", [("job.ready", "job.valid")]),
    (lambda: StreamRegister(shape=8), "stage", [("o.ready", "o.valid"), ("o.ready", "i.ready")]),
    (RegisterBank, "bank", [("bus.bready", "bus.bvalid"), ("bus.rready", "bus.rvalid")]),
]


def _port(name, path):
    return f"{name}_{path.replace('.', '_')}"


def structure(s: Surrounding):
    """All components side by side, each handshake of theirs as ports."""
    for make, name, pairs in _STRUCTURE:
        component, inputs = make(), {}
        for ready, valid in pairs:
            if ready.replace(".", "__") not in inputs:
                given = inputs[ready.replace(".", "__")] = Signal(name=_port(name, ready))
                s.ports.append(given)
            shown = Signal(name=_port(name, valid))
            port = component
            for part in valid.split("."):
                port = getattr(port, part)
            s.m.d.comb += shown.eq(port)
            s.ports.append(shown)
        s.add(component, name, **inputs)


_HELD = "what is offered stays, unchanged, until it is taken"
PROPERTIES = [
    Property("stream-splitter", "BurstSplitter", f"{_HELD}, but for clear", splitter,
             Mutation("axi/burst_splitter.py", "self.i.ready.eq(~valid | self.clear | (",
                      "self.i.ready.eq(~valid | self.clear | (self.i.valid & final) | (")),
    Property("stream-reader", "ReadMaster", f"{_HELD}, but for stop", read_master,
             Mutation("axi/read_master.py", "store.r_en.eq(self.o.ready | self.stop)",
                      "store.r_en.eq(self.o.ready | self.stop | bus.rlast)"), breaks_at=14),
    Property("stream-split", "SplitReader", f"{_HELD}, but for stop", split_reader,
             Mutation("axi/split_reader.py", "self.o.valid.eq(every_part)",
                      "self.o.valid.eq(self.parts[0].o.valid)")),
    Property("stream-labels", "LabelUnpacker", f"{_HELD}, but for restart", label_unpacker,
             Mutation("shell/label_unpacker.py", "room = ~some |",
                      "room = ~some | one |")),
    Property("stream-port", "ModelPort", f"{_HELD}, but for stop", model_port,
             Mutation("pipeline/model/port.py", "buffer.r_en.eq(self.o.ready | stopped)",
                      "buffer.r_en.eq(self.o.ready | stopped | self.done)")),
    Property("stream-rows", "RowFeeder", f"{_HELD}, but for stop", row_feeder,
             Mutation("shell/job_feeders.py", "with m.Elif(self.o.valid & self.o.ready):",
                      "with m.Elif(self.o.valid):")),
    Property("stream-aux", "AuxFeeder", f"{_HELD}, but for stop", aux_feeder,
             Mutation("shell/job_feeders.py", "with m.If(taken | ~self.load_coefficients):",
                      "with m.If(1):"), depth=3),
    Property("stream-control", "RunControl",
             f"{_HELD} (labels, models, jobs), but for a failure", run_control,
             Mutation("shell/run_control.py", "with m.Elif(self.job.valid & self.job.ready):",
                      "with m.Elif(self.job.valid):"), depth=2, breaks_at=30),
    Property("stream-replay", "Replay", f"{_HELD}, but for rewind and clear", replay,
             Mutation("pipeline/rows/replay.py", "following.eq(wanted + taken)",
                      "following.eq(wanted + offered)"),
             depth=2),
    Property("stream-refetcher", "Refetcher", f"{_HELD}, but for stop", refetcher,
             Mutation("pipeline/model/refetcher.py", "with m.If(self.stop | self.job.ready):",
                      "with m.If(self.stop | self.job.ready | self.row_passed):"), depth=3),
    Property("stream-stage", "StreamRegister", f"{_HELD}, but for clear", stream_register,
             Mutation("parts/stream_register.py", "taken.eq(self.o.valid & self.o.ready)",
                      "taken.eq(self.o.valid)")),
    Property("stream-registers", "RegisterBank", "BVALID and RVALID stay, and RDATA with it",
             registers, Mutation("shell/register_bank.py", "with m.Elif(bus.bready):",
                                 "with m.Else():"),
             depth=3),
    Property("stream-independent", "all of them",
             "no valid waits for its ready: no path without a register between them", structure,
             Mutation("pipeline/rows/replay.py", "self.o.valid.eq(offered)",
                      "self.o.valid.eq(offered & taken)"),
             wires=tuple((_port(name, ready), _port(name, valid))
                         for _, name, pairs in _STRUCTURE for ready, valid in pairs)),
]
