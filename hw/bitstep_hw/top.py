"""Top for boards and for the simulated board, the only place with AXI port names; its netlist as
text, and its identity.
"""

import functools
import gc
import hashlib
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

from amaranth import Cat, Module, Signal, Value
from amaranth._toolchain.yosys import YosysError
from amaranth._unused import MustUse
from amaranth.back import rtlil, verilog
from amaranth.hdl import _ir
from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.parts.widths import AUX_WIDTH
from bitstep.pipeline.registers import ADDRESS_WIDTH, COUNTERS
from bitstep_hw import TOP
from bitstep_hw.axi.buses import AxiLite, AxiRead, AxiWrite, connect_flat, flat_members
from bitstep_hw.axi.read_master import ReadMaster
from bitstep_hw.axi.split_reader import SplitReader
from bitstep_hw.axi.write_master import WriteMaster
from bitstep_hw.packed.pipeline import PackedPipeline
from bitstep_hw.parts.arithmetic import delay
from bitstep_hw.parts.reset import in_long_reset, reset_register
from bitstep_hw.parts.stream_register import connect_registered
from bitstep_hw.pipeline.pipeline import Pipeline
from bitstep_hw.shell.derivative_writer import connect_written
from bitstep_hw.shell.front_ends import front_end_of
from bitstep_hw.shell.job_feeders import AuxFeeder
from bitstep_hw.shell.label_unpacker import LabelUnpacker
from bitstep_hw.shell.models import models_of
from bitstep_hw.shell.register_bank import RegisterBank
from bitstep_hw.shell.run_check import registers_layout
from bitstep_hw.shell.run_control import RunControl

IDENTITY_BITS = 128
_COUNTER_WIDTH = 48
PIPELINES = {False: Pipeline, True: PackedPipeline}      # by whether rows are packed


class Top(wiring.Component):
    """A pipeline behind AXI, with the registers, readers and writer that it works with.

    A reset may be of any length, at any time. The masters are quiet from its first cycle on, and
    the registers answer from the ``SETTLE``-th cycle after it on (:mod:`bitstep_hw.parts.reset`).

    Parameters
    ----------
    config : PipelineConfig
        The pipeline.
    number : int, optional
        The identity, 128 bits that the host reads (:func:`identity`).

    Members
    -------
    s_axi_* : In(AxiLite)
        The registers (docs/registers.md).
    m_axi_rows_*, m_axi_rows1_*, ... : Out(AxiRead)
        Rows, ``bus_width`` bits a beat in as many parts as there are ``row_ports``.
    m_axi_aux_* : Out(AxiRead), Out(AxiWrite)
        Labels, tables and models, 64 bits a beat.
    m_axi_fine_* : Out(AxiRead)
        With ``refetch``: fine rows, 64 bits a beat.
    interrupt : Out(1)
        A run is done, until the next one starts.
    """

    def __init__(self, config, *, number=0):
        self.config = config
        self._number = number
        self._front_end, self._models = front_end_of(config), models_of(config)
        super().__init__({
            **flat_members("s_axi", In(AxiLite(address_width=ADDRESS_WIDTH))),
            **_read_members(config.row_buses, config.port_width),
            **_read_members(["m_axi_aux"], AUX_WIDTH),
            **flat_members("m_axi_aux", Out(AxiWrite(data_width=AUX_WIDTH))),
            **_read_members(config.fine_buses, AUX_WIDTH),
            "interrupt": Out(1),
        })

    def elaborate(self, platform):
        held = reset_register()
        return in_long_reset(self._connected(held), held)

    def _connected(self, held):
        """Return the module of all parts, whose buses are quiet while ``held`` is 1."""
        m, config = Module(), self.config
        m.submodules.bank = bank = RegisterBank(choices=config.register_choices)
        m.submodules.control = control = RunControl(config=config)
        rows, first_row = self._place_row_reader(m, bank, held)
        m.submodules.aux = aux = ReadMaster(data_width=AUX_WIDTH, fifo_depth=64)
        m.submodules.models = models = WriteMaster(data_width=AUX_WIDTH)
        m.submodules.pipeline = pipeline = PIPELINES[config.rows.packed](config=config)
        m.d.comb += [
            *connect_flat(self, "s_axi", bank.bus, held=held),
            *connect_flat(self, "m_axi_aux", aux.bus, held=held),
            *connect_flat(self, "m_axi_aux", models.bus, held=held),
        ]
        readers = [rows, aux]
        for prefix in config.fine_buses:
            # A row at a time: a short queue is enough.
            m.submodules.fine = fine = ReadMaster(data_width=AUX_WIDTH, fifo_depth=64)
            readers.append(fine)
            wiring.connect(m, pipeline.fine_job, fine.i_job)
            wiring.connect(m, fine.o, pipeline.i_fine)
            m.d.comb += connect_flat(self, prefix, fine.bus, held=held)
        for name in registers_layout(config).members:
            m.d.comb += getattr(control.registers, name).eq(getattr(bank, name))
        m.d.comb += [
            bank.identity.eq(self._number),
            bank.locked.eq(control.busy),
            control.start.eq(bank.start), control.abort.eq(bank.abort),
            control.overflowed.eq(pipeline.overflowed), control.misaligned.eq(pipeline.misaligned),
            control.row_error.eq(Cat(bus.error for bus in readers if bus is not aux).any()),
            control.aux_error.eq(aux.error),
            control.write_error.eq(models.error),
            control.epoch_done.eq(self._strobe(m, pipeline.done, "epoch_done")),
            *(master.stop.eq(control.stop) for master in (*readers, models, pipeline)),
            bank.status.eq(Cat(control.busy, control.done, control.error != 0)),
            bank.error.eq(control.error), bank.epochs_done.eq(control.epochs_done),
            Cat(bank.overflow, bank.overflow_more).eq(control.overflow),
            self.interrupt.eq(control.done),
        ]
        # A cycle late: the end of a run waits until it has been so for several.
        m.d.sync += control.buses_idle.eq(Cat(bus.idle for bus in (*readers, models)).all())
        m.submodules.labels = labels = LabelUnpacker(
            models=config.models, streams=config.rows.label_streams, rows=config.rows.label_rows,
            weights=config.row_weights, rows_per_beat=config.rows.rows_per_beat)
        self._connect_pipeline(m, bank, control, pipeline, labels)
        beat_entered = self._front_end.connect_rows(m, control, rows, pipeline)
        self._models.connect(m, bank, control, pipeline, labels)
        self._connect_feeders(m, bank, control, (rows, first_row), aux, labels)
        self._connect_model(m, control, pipeline, models)
        self._count(m, bank, control, pipeline, readers, beat_entered)
        return m

    def _place_row_reader(self, m, bank, held):
        """The reader of the rows, with its buses; returns it and the address of the first row."""
        config, sizes = self.config, {"fifo_depth": 256, "max_outstanding": 15}
        if config.row_ports == 1:
            m.submodules.rows = rows = ReadMaster(data_width=config.bus_width, **sizes)
            buses, first_row = [rows.bus], bank.rows_address
        else:       # which adds the addresses of its slices
            m.submodules.rows = rows = SplitReader(data_width=config.bus_width,
                                                   ports=config.row_ports, **sizes)
            m.d.comb += [rows.base.eq(bank.rows_address), rows.stride.eq(bank.port_stride)]
            buses, first_row = rows.buses, 0
        for prefix, bus in zip(config.row_buses, buses, strict=True):
            m.d.comb += connect_flat(self, prefix, bus, held=held)
        return rows, first_row

    def _connect_pipeline(self, m, bank, control, pipeline, labels):
        """Labels and numbers into the pipeline."""
        wiring.connect(m, labels.o, pipeline.i_labels)
        wiring.connect(m, control.run, pipeline.run)
        wiring.connect(m, control.steps, pipeline.steps)
        start = self._strobe(m, control.epoch_start, "start")
        m.d.comb += [
            labels.label_format.eq(bank.label_format),
            labels.restart.eq(start | control.stop),
            pipeline.start.eq(start),
        ]
        if self.config.row_weights:
            m.d.comb += labels.weighted.eq(bank.weighted)

    def _connect_feeders(self, m, bank, control, rows_from, aux, labels):
        """Jobs of the readers, and the auxiliary stream; ``rows_from``: the reader of the rows, and
        the address that it begins at.
        """
        rows, first_row = rows_from
        row_feeder = self._front_end.place_feeder(m, bank, control, self._strobe)
        m.d.comb += [row_feeder.stop.eq(control.stop), row_feeder.copies.eq(bank.copies),
                     row_feeder.address.eq(first_row), row_feeder.stride.eq(bank.copy_stride)]
        m.submodules.aux_feeder = aux_feeder = AuxFeeder(
            codebooks=self.config.codebooks, streams=self.config.rows.label_streams,
            constants=self.config.stages.has_constants, weights=self.config.row_weights)
        if self.config.row_weights:
            m.d.comb += aux_feeder.weighted.eq(bank.weighted)
        self._models.connect_feeder(m, bank, aux_feeder)
        self._front_end.connect_aux(m, bank, control, aux_feeder)
        for name, source, target in (("row_jobs", row_feeder.o, rows.i_job),
                                     ("aux_jobs", aux_feeder.o, aux.i_job),
                                     ("aux_words", aux.o, control.i),
                                     ("label_words", control.o_labels, labels.i)):
            connect_registered(m, name, source, target, clear=control.stop,
                               registered=self.config.clock.registered_streams)
        begin = self._strobe(m, control.begin, "begin")
        m.d.comb += [
            aux_feeder.start.eq(begin), aux_feeder.stop.eq(control.stop),
            aux_feeder.epochs.eq(bank.epochs),
            aux_feeder.rows.eq(self._front_end.label_rows(bank, control)),
            aux_feeder.label_format.eq(bank.label_format),
            aux_feeder.load_model.eq(bank.warm_start),
            aux_feeder.load_coefficients.eq(control.corrects),
            aux_feeder.model_beats.eq(control.model_beats),
            aux_feeder.model_address.eq(bank.model_in_address),
            aux_feeder.coefficients_address.eq(bank.coefficients_address),
            aux_feeder.table_address.eq(bank.epoch_table_address),
            aux_feeder.labels_address.eq(bank.labels_address),
            control.label_beats.eq(aux_feeder.label_beats),
        ]

    def _connect_model(self, m, control, pipeline, models):
        """Models between memory and the pipeline."""
        wiring.connect(m, control.o_model, pipeline.i_model)
        written = connect_written(m, self.config, control, pipeline, models)
        connect_registered(m, "model_words", written, models.i, clear=control.stop,
                           registered=self.config.clock.registered_streams)
        m.d.comb += [
            pipeline.clear.eq(self._strobe(m, control.clear, "clear")),
            pipeline.load.eq(self._strobe(m, control.load, "load")),
            pipeline.load_coefficients.eq(
                self._strobe(m, control.load_coefficients, "load_coefficients")),
            pipeline.unload.eq(self._strobe(m, control.unload, "unload")),
            control.port_done.eq(self._strobe(m, pipeline.model_done, "port_done")),
        ]

    def _strobe(self, m, strobe, name):
        """``strobe`` as it arrives in another part of the hardware."""
        return delay(m, strobe, self.config.clock.strobe_delay, name=name)

    def _count(self, m, bank, control, pipeline, readers, beat_entered):
        """Counters of the register bank."""
        waits = pipeline.waits
        read = sum(reader.accepted * (reader.data_width // 8) for reader in readers)
        amounts = {
            "CYCLES": control.busy, "BEATS": beat_entered, "BYTES_READ": read,
            "STALL_ROWS": waits[0], "STALL_LABELS": waits[1], "STALL_LOOKAHEAD": waits[2],
            "STALL_RECURSION": waits[3], "STALL_CORRECTION": waits[4],
            "STALL_REFETCH": waits[5], "FLUSH": waits[6],
            "REFETCHED_ROWS": pipeline.row_refetched,
            "MODEL_IO": control.model_io, "OVERFLOWS": pipeline.overflowed.any(),
        }
        # A cycle late, as what is counted, so that neither has far to go in one.
        cleared = Signal()
        m.d.sync += cleared.eq(bank.start & ~control.busy)
        for name, _ in COUNTERS:
            counter = Signal(_COUNTER_WIDTH, name=f"count_{name.lower()}")
            m.d.comb += getattr(bank, name.lower()).eq(counter)
            if name in amounts:
                amount = Signal.like(Value.cast(amounts[name]), name=f"new_{name.lower()}")
                m.d.sync += [amount.eq(amounts[name]), counter.eq(counter + amount)]
                with m.If(cleared):
                    m.d.sync += counter.eq(0)


def _read_members(prefixes, data_width):
    """Members of buses that read."""
    return {name: member for prefix in prefixes for name, member in flat_members(
        prefix, Out(AxiRead(data_width=data_width))).items()}


@contextmanager
def without_cycle_search() -> Iterator[None]:
    """Switch Python's search for cycles of objects off.

    A wide top has millions of objects that live to the end; the search would take a good third of
    the time.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def to_rtlil(top) -> str:
    """Return the RTLIL of a top, free of paths; the same text on every machine with the same minor
    version of Python, by whose bytecode Amaranth names signals.
    """
    return _emitted(top)[0]


def cells(top) -> str:
    """Return the cells of a top's netlist as text: numbered, without names but those of its ports
    and memories. Another Python gives the same text.
    """
    return _cells(_emitted(top)[1])


# Held while _emitted changes Amaranth. A system asks for its pipeline's identity while it is
# elaborated, so the thread that holds the lock takes it again.
_emitting = threading.RLock()


@contextmanager
def _quiet_when_interrupted() -> Iterator[None]:
    """After Ctrl-C, let nothing be said of components that are left half built: Amaranth warns of
    each that was never used.
    """
    try:
        yield
    except KeyboardInterrupt:
        MustUse._MustUse__silence = True        # as after an error that nobody catches
        raise


@_quiet_when_interrupted()
def _emitted(top):
    """RTLIL of a top, and the netlist that Amaranth made it of, which takes most of the time."""
    last, thread = None, threading.get_ident()

    def build(*args, **options):
        nonlocal last
        netlist = build_netlist(*args, **options)
        if threading.get_ident() == thread:     # another may convert a design of its own
            last = netlist
        return netlist

    # Amaranth's own, so its version is exact (pyproject.toml).
    build_netlist = _ir.build_netlist
    with _emitting, without_cycle_search(), patch.object(_ir, "build_netlist", build):
        text = rtlil.convert(top, name=TOP, emit_src=False)
    return text, last       # the netlists of its parts' identities came before


def _cells(netlist) -> str:
    return "\n".join(f"{cell.module_idx} {cell!r}" for cell in netlist.cells)


# Stands in a netlist where the identity will, which is known from the netlist alone: four words
# that nothing else in it has.
_PLACE = 0x5BD1E995_C2B2AE35_9E3779B1_85EBCA77


def _words(number: int) -> list[int]:
    return [number >> 32 * word & 0xFFFFFFFF for word in range(IDENTITY_BITS // 32)]


def _put(number: int, text: str, form: str) -> str:
    for place, word in zip(_words(_PLACE), _words(number), strict=True):
        text = text.replace(format(place, form), format(word, form))
    return text


@functools.lru_cache(maxsize=1)         # who asks for the identity often asks for the netlist next
@_quiet_when_interrupted()
def _netlist_of(config: PipelineConfig) -> tuple[str, str]:
    """RTLIL and cells with a place for the identity."""
    text, netlist = _emitted(Top(config, number=_PLACE))
    return text, _cells(netlist)


@functools.cache
def identity(config: PipelineConfig) -> int:
    """Return the identity of the hardware for ``config``: 128 bits of the hash of its netlist.

    The netlist is that of :class:`Top` with the number 0 in the place of the identity; names do not
    count (:func:`cells`). So a comment, a docstring or another Python changes no identity, and a
    change of a constant, a formula or a register of the host library does if it changes the
    hardware. Takes 1 to 15 seconds;
    :func:`bitstep_sim.board.verilog.identity` keeps what it found in the user's cache folder.

    Parameters
    ----------
    config : PipelineConfig
        Configuration of the pipeline.
    """
    digest = hashlib.sha256(_put(0, _netlist_of(config)[1], "d").encode()).digest()
    return int.from_bytes(digest[:IDENTITY_BITS // 8], "little")


def rtlil_of(config: PipelineConfig) -> str:
    """Return the RTLIL of the top with its identity."""
    return _put(identity(config), _netlist_of(config)[0], "032b")


def to_verilog(text: str) -> str:
    """Return the Verilog that Yosys writes of RTLIL, with its modules; the same on every machine.

    Parameters
    ----------
    text : str
        What :func:`to_rtlil` or :func:`rtlil_of` gives.

    Raises
    ------
    RuntimeError
        See :func:`yosys_errors`.
    """
    with yosys_errors():
        return verilog._convert_rtlil_text(text, strip_internal_attrs=True)


@contextmanager
def yosys_errors() -> Iterator[None]:
    """Turn an error of Yosys into one that a user reads.

    Raises
    ------
    RuntimeError
        If Yosys fails; of a cache folder that it cannot make, the message is one line.
    """
    try:
        yield
    except YosysError as error:
        # Yosys is WebAssembly, and who runs it keeps what it is compiled to.
        if found := re.search(r"failed to create cache directory: (.*)", str(error)):
            raise RuntimeError(f"Yosys cannot keep its compiled form in {found[1]}: name another "
                               "cache folder (the environment variable XDG_CACHE_HOME)") from error
        raise RuntimeError(f"Yosys failed: {error}") from error


def verilog_of(config: PipelineConfig) -> str:
    """Return the Verilog of the top with its identity."""
    return to_verilog(rtlil_of(config))
