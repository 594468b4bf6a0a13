"""Stand-ins for tests: a quantized data set made in a line, and a device of the register protocol.

The device is a model of the protocol in Python: it sees nothing but register writes and a byte
memory of its own, rebuilds the job from them, and runs the golden model.
"""

import importlib
import importlib.util
import time
from dataclasses import fields, replace

import numpy as np

from bitstep.devices.golden import GoldenDevice
from bitstep.devices.register_device import RegisterDevice
from bitstep.golden.sgd import train
from bitstep.pipeline.bit_planes import BitPlaneLayout
from bitstep.pipeline.config import PipelineConfig
from bitstep.pipeline.job import EpochSteps, TrainingJob
from bitstep.pipeline.parts.formats import BIT_PLANES
from bitstep.pipeline.registers import (
    MAP_VERSION,
    REGISTERS,
    Control,
    Error,
    LabelFormat,
    Loss,
    Status,
)
from bitstep.pipeline.results import TrainingInterrupted
from bitstep.pipeline.shapes import label_bytes
from bitstep.quantization import LabelStream, QuantizedDataset, QuantizedRows, Scaler
from bitstep.training.loop.loop import TrainingLoop
from bitstep.training.loop.tracks import Track
from bitstep.training.objective import Objective, Training
from bitstep.training.planning import plan

IDENTITY = 0x0123_4567_89AB_CDEF_0011_2233_4455_6677


def pack_levels(levels, config):
    """Stored rows of integer levels, one Python integer a beat (row format one_level)."""
    rows = []
    for row in np.asarray(levels):
        codes = [(int(level) + 1) // 2 if config.bits == 1 else int(level) % (1 << config.bits)
                 for level in row]
        data = b""
        for start in range(0, len(codes), config.rows.lanes):
            beat = sum(code << config.bits * lane
                       for lane, code in enumerate(codes[start:start + config.rows.lanes]))
            data += beat.to_bytes(config.rows.beat_bytes, "little")
        rows.append(np.frombuffer(data, np.uint8))
    return np.array(rows)


def pack_labels(labels, label_format):
    """Stored labels of integers."""
    labels = np.asarray(labels)
    data = np.zeros(label_bytes(len(labels), label_format), np.uint8)
    if label_format == LabelFormat.SIGN:
        stored = np.packbits(labels > 0, bitorder="little")
    else:
        stored = labels.astype("<i2" if label_format == LabelFormat.INT16 else "<i4").view(np.uint8)
    data[:stored.size] = stored
    return data


def quantized(levels, labels, *, bits=4, encoding="nearest", variance=None,
              label_format=LabelFormat.INT16, label_scale=1.0, label_offset=0.0):
    """A quantized data set from integer levels and stored labels; features are u themselves."""
    levels = np.asarray(levels)
    n_features = levels.shape[1]
    rows = QuantizedRows(
        bits=bits, bus_width=64, encoding=encoding, n_features=n_features,
        stored=(pack_levels(levels, PipelineConfig(bits=bits)),), seed=0,
        scaler=Scaler("minmax", np.zeros(n_features), np.ones(n_features)),
        variance=np.zeros(n_features) if variance is None else np.asarray(variance, float))
    stream = LabelStream(
        pack_labels(labels, label_format), label_format, label_scale, label_offset,
        np.array([-1.0, 1.0]) if label_format == LabelFormat.SIGN else None)
    return QuantizedDataset(rows, stream)


def settings(**options):
    """Objective and training from the fields of both."""
    names = {field.name for field in fields(Objective)}
    return (Objective(**{name: value for name, value in options.items() if name in names}),
            Training(**{name: value for name, value in options.items() if name not in names}))


def planned(data, config, *, initial=None, first_epoch=0, between_epochs=False, **options):
    """A plan from the fields of objective and training."""
    return plan(data, config, *settings(**options), initial=initial, first_epoch=first_epoch,
                between_epochs=between_epochs)


def run_plan(device, made, *, earlier=None, **options):
    """Result of a planned job that goes through the loop of a training, after earlier epochs."""
    track = Track(lambda _: (made, None))
    if earlier is not None:
        track.go_on(earlier)
    loop = TrainingLoop(device, [track], **options)
    loop.run()
    if track.error:
        raise track.error
    if loop.interrupted:
        raise TrainingInterrupted([track.result])
    return track.result


def make_job(levels, labels, *, bits=4, mantissa=1, shift=1,
             epochs: int | tuple[EpochSteps, ...] = 1, **changes):
    """A small job from integer levels and labels."""
    levels = np.asarray(levels)
    config = changes.pop("config", PipelineConfig(bits=bits))
    label_format = changes.pop("label_format", LabelFormat.INT16)
    n_features = levels.shape[1]
    values = {
        "config": config, "n_features": n_features, "rows": (pack_levels(levels, config),),
        "labels": pack_labels(labels, label_format), "label_format": label_format,
        "label_shift": 0, "intercept_level": 0, "batch": 1, "correction_period": 0,
        "coefficients": np.zeros(n_features, np.int32),
        "epochs": epochs if isinstance(epochs, tuple) else (EpochSteps(mantissa, shift),) * epochs,
        "model": np.zeros(n_features, np.int32)} | changes
    return TrainingJob(**values)


def models(job):
    """Model and intercept of every epoch, none of them overflowed."""
    epochs = list(train(job))
    assert all(not epoch.overflow for epoch in epochs)
    return [(epoch.model.tolist(), epoch.intercept) for epoch in epochs]


def words(*values):
    """Weights."""
    return np.array(values, np.int32)


class FakeBuffer:
    """Host memory that the device sees only after a flush, and the other way round."""

    def __init__(self, device, address, n_bytes):
        self.device, self.address = device, address
        self.array = np.zeros(n_bytes, np.uint8)

    def to_device(self):
        self.device.memory[self.address:self.address + self.array.size] = self.array

    def from_device(self):
        self.array[:] = self.device.memory[self.address:self.address + self.array.size]

    def free(self):
        self.device.buffers.remove(self)


class FakeDevice(RegisterDevice):
    """A pipeline of ``config`` behind registers and memory.

    ``fault`` is (epoch, error): the run ends in that epoch (from 0) with that code. ``hang`` is
    the epoch from which nothing happens any more. ``interrupt`` is the epoch at which Ctrl-C comes.
    """

    name = "fake"
    clock_hz = 1e8

    def __init__(self, config, *, fault=None, hang=None, interrupt=None, deaf=False,
                 alignment=4096, version=MAP_VERSION, identity=IDENTITY, busy=False,
                 early=False, wild=False):
        self.config, self.identity = config, IDENTITY
        self.fault, self.hang, self.interrupt = fault, hang, interrupt
        self.deaf, self.alignment, self.early, self.wild = deaf, alignment, early, wild
        self.memory = np.zeros(1 << 20, np.uint8)
        self.next_address, self.buffers, self.closed = 4096 + alignment, [], False
        self.registers = {register.offset: 0 for register in REGISTERS}
        self.access = {register.offset: register for register in REGISTERS}
        self.by_name = {register.name: register.offset for register in REGISTERS}
        self.set("VERSION", version)
        for part in range(4):
            self.set(f"IDENTITY_{part}", identity >> 32 * part & 0xFFFF_FFFF)
        self.set("STATUS", Status.BUSY if busy else 0)
        self.run, self.log = None, []

    def set(self, name, value):
        self.registers[self.by_name[name]] = int(value)

    def get(self, name):
        return self.registers[self.by_name[name]]

    def pair(self, name):
        return self.get(f"{name}_LO") | self.get(f"{name}_HI") << 32

    def read(self, offset):
        assert self.access[offset].access != "wo", self.access[offset].name
        return self.registers[offset]

    def write(self, offset, value):
        register = self.access[offset]
        assert register.access != "ro", register.name
        assert 0 <= value < 1 << register.width, (register.name, value)
        self.log.append(register.name)
        if register.name != "CONTROL":
            self.registers[offset] = value
        elif value & Control.ABORT and not self.deaf:
            if self.get("STATUS") & Status.BUSY:
                self.end(Error.ABORTED)
        elif value & Control.START:
            self.set("STATUS", Status.BUSY)
            for name in ("ERROR", "EPOCHS_DONE", "OVERFLOW", "BEATS_LO", "REFETCHED_ROWS_LO"):
                self.set(name, 0)
            self.run = train(self.job())

    def end(self, error=Error.NONE):
        self.set("ERROR", error)
        self.set("STATUS", Status.DONE | (Status.FAILED if error else 0))
        self.run = None

    def allocate(self, n_bytes):
        if self.next_address + n_bytes > self.memory.size:
            raise MemoryError(f"{n_bytes} bytes are wanted, {self.memory.size} are there")
        buffer = FakeBuffer(self, self.next_address, n_bytes)
        self.next_address += -(-n_bytes // self.alignment) * self.alignment
        self.buffers.append(buffer)
        return buffer

    def take(self, address, n_bytes):
        return self.memory[address:address + n_bytes].copy()

    def model_positions(self, n_features):
        config, words = self.config, []
        for feature in range(n_features):
            beat, lane = divmod(feature, config.rows.lanes)
            words.append(beat * config.rows.model_lanes + lane)
        return words

    def job(self):
        """The job, from registers and memory alone."""
        config, beats = self.config, self.get("BEATS_PER_ROW")
        n_features = (beats - 1) * config.rows.lanes + self.get("LAST_LANES")
        n_rows, row_bytes = self.get("ROWS"), beats * config.rows.beat_bytes
        layout = BitPlaneLayout(n_features) if config.row_format == BIT_PLANES else None
        shape = (layout.blocks(n_rows), layout.block_bytes) if layout else (n_rows, row_bytes)
        model_bytes = 4 * config.rows.model_words(n_features)
        positions = self.model_positions(n_features)
        label_format = LabelFormat(self.get("LABEL_FORMAT"))
        entries = self.take(self.pair("EPOCH_TABLE_ADDRESS"), 16 * self.get("EPOCHS")).view("<u8")
        epochs = tuple(EpochSteps(word & 0x3FFFF, word >> 18 & 7, word >> 32 & 0x3FFFF,
                                  word >> 50 & 7, second & 0x7FFF_FFFF, second >> 32,
                                  word >> 21 & 31)
                       for word, second in entries.reshape(-1, 2).tolist())
        words = np.zeros(model_bytes // 4, "<i4")
        if self.get("WARM_START"):
            words = self.take(self.pair("MODEL_IN_ADDRESS"), model_bytes).view("<i4")
        coefficients = np.zeros(model_bytes // 4, "<i4")
        if self.get("CORRECTION_PERIOD"):
            coefficients = self.take(self.pair("COEFFICIENTS_ADDRESS"), model_bytes).view("<i4")
        assert config.ahead.allows(self.get("LOOKAHEAD"), beats)
        assert self.pair("MODEL_OUT_STRIDE") == model_bytes
        labels, weights = self.labels(n_rows, label_format)
        return TrainingJob(
            # The run's own look-ahead: it has an influence on floating-point rows.
            config=replace(config, lookahead=self.get("LOOKAHEAD")), n_features=n_features,
            rows=tuple(self.rows(copy * self.pair("COPY_STRIDE"), shape[0] * shape[1])
                       .reshape(shape) for copy in range(self.get("COPIES"))),
            bit_plane_rows=n_rows * bool(layout),
            labels=labels, weights=weights, label_format=label_format,
            label_shift=self.get("LABEL_SHIFT"),
            intercept_level=self.get("INTERCEPT_LEVEL"), batch=self.get("BATCH"),
            correction_period=self.get("CORRECTION_PERIOD"),
            coefficients=coefficients[positions].astype(np.int32), epochs=epochs,
            model=words[positions].astype(np.int32), intercept=int(words[-2]),
            loss=Loss(self.get("LOSS")), proximal_period=self.get("PROXIMAL_PERIOD"),
            box_limit=self.get("BOX_LIMIT"), fine_rows=self.fine_rows(positions),
            cell_half_levels=self.get("CELL_HALF_LEVELS"), codebooks=self.codebooks(n_features))

    def codebooks(self, n_features):
        """Levels of each feature's codes; None in a pipeline without codebooks."""
        config, beats = self.config, self.get("BEATS_PER_ROW")
        if not config.codebooks:
            return None
        lanes, n_codes = config.rows.lanes, 1 << config.bits
        padded = -(-lanes // 8) * 8         # of a beat and a code
        levels = self.take(self.pair("CODEBOOKS_ADDRESS"), beats * n_codes * padded).view(np.int8)
        of_code = levels.reshape(beats, n_codes, padded)[:, :, :lanes]
        assert not levels.reshape(beats, n_codes, padded)[:, :, lanes:].any()
        return np.moveaxis(of_code, 1, 2).reshape(-1, n_codes)[:n_features]

    def labels(self, n_rows, label_format):
        """Stored labels of a model, and weights of the rows or None."""
        address = self.pair("LABELS_ADDRESS")
        if not (self.config.row_weights and self.get("WEIGHTED")):
            return self.take(address, label_bytes(n_rows, label_format)), None
        size = 8 if label_format == LabelFormat.INT32 else 4
        rows = self.take(address, n_rows * size).reshape(n_rows, size)
        values = 2 * (rows[:, 0] & 1).astype(int) - 1 if label_format == LabelFormat.SIGN else \
            rows[:, :size // 2].copy().view(f"<i{size // 2}")[:, 0]
        return pack_labels(values, label_format), rows[:, -2:].copy().view("<u2")[:, 0]

    def rows(self, start, n_bytes):
        """Bytes of rows, which each port has a part of."""
        ports, width = self.config.row_ports, self.config.port_width // 8
        stride = 4096 * self.get("PORT_STRIDE")
        parts = [self.take(self.pair("ROWS_ADDRESS") + port * stride + start // ports,
                           n_bytes // ports).reshape(-1, width) for port in range(ports)]
        return np.concatenate(parts, axis=1).reshape(-1)

    def fine_rows(self, positions):
        """Fine rows; None if no row may be fetched again."""
        if not self.get("CELL_HALF_LEVELS"):
            return None
        n_rows, n_words = self.get("ROWS"), -(-(positions[-1] + 1) // 4) * 4
        words = self.take(self.pair("FINE_ADDRESS"), 2 * n_rows * n_words).view("<i2")
        return words.reshape(n_rows, n_words)[:, positions].astype(np.int16)

    def step(self):
        """One epoch."""
        done = self.get("EPOCHS_DONE")
        if self.interrupt == done:
            self.interrupt = None
            raise KeyboardInterrupt
        if self.wild:
            self.set("BEATS_LO", self.get("BEATS_LO") + 1)
        if self.run is None or self.hang == done:
            return
        if self.fault and self.fault[0] == done:
            self.end(self.fault[1])
            return
        epoch = next(self.run)
        if epoch.overflow:
            self.set("OVERFLOW", epoch.overflow)
            self.end(Error.OVERFLOW)
            return
        n_features = len(epoch.model)
        words = np.zeros(self.config.rows.model_words(n_features), "<i4")
        words[self.model_positions(n_features)] = epoch.model
        words[-2] = epoch.intercept
        address = self.pair("MODEL_OUT_ADDRESS") + done * self.pair("MODEL_OUT_STRIDE")
        self.memory[address:address + words.nbytes] = words.view(np.uint8)
        self.set("EPOCHS_DONE", done + 1)
        self.set("REFETCHED_ROWS_LO", self.get("REFETCHED_ROWS_LO") + epoch.refetched_rows)
        self.set("BEATS_LO", (done + 1) * self.get("ROWS") * self.get("BEATS_PER_ROW"))
        if done + 1 == self.get("EPOCHS") or self.early:
            self.end()

    def wait(self, done, timeout_s):
        end = time.monotonic() + timeout_s
        while not done():
            if time.monotonic() > end:
                return False
            self.step()
        return True

    def close(self):
        self.closed = True


DEVICES = {"golden": GoldenDevice, "fake": FakeDevice}
if importlib.util.find_spec("numba"):
    DEVICES["cpu"] = importlib.import_module("bitstep.devices.cpu.device").CpuDevice
