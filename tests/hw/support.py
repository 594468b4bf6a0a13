"""Helpers of the component tests."""

import random
from weakref import WeakKeyDictionary

import numpy as np
from amaranth import Elaboratable, Module, Shape, Signal, Value
from amaranth.lib import data

from bitstep.golden.steps import WEIGHT_TURN
from bitstep.pipeline.levels import unpack_labels
from bitstep_sim.testing.harness import simulate

NEAREST = 0x8000        # the dither that rounds to nearest, ties up
DITHER_CORNERS = [0, NEAREST - 1, NEAREST, 0xFFFF]
# Cycles after which an AXI master is stopped, and how probably its bus stalls.
STOPS = [*((cycles, 0.0) for cycles in range(0, 60, 3)),
         *((cycles, 0.6) for cycles in range(0, 60, 9))]


def random_dithers(rng, count):
    """Dithers of rows, the corners first."""
    return (DITHER_CORNERS + [rng.getrandbits(16) for _ in range(count)])[:count]


class Clocked(Elaboratable):
    """A combinational component with a clock, which the simulator wants."""

    def __init__(self, component):
        self.component = component

    def elaborate(self, platform):
        m = Module()
        m.submodules.component = self.component
        m.d.sync += Signal(name="clocked").eq(1)
        return m


_STATES = WeakKeyDictionary()   # by engine of a simulation, and by the id of a signal


def _states(engine):
    return _STATES.setdefault(engine, {})


def _state(engine, signal):
    """What sets a signal: its state, which keeps the signal and so its id, a mask, and half the
    range of numbers if they are signed.
    """
    simulated = engine._state
    state = simulated.slots[simulated.get_signal(signal)]
    assert state.signal is signal
    assert not state.is_comb, f"{signal!r} is driven by the component"
    return state, (1 << len(signal)) - 1, 1 << len(signal) - 1 if signal.shape().signed else 0


def _parts(port, value):
    """Pairs of a value of Amaranth and the integer that it gets."""
    if isinstance(port, Signal):
        yield port, int(value)
    elif isinstance(value, (list, tuple, np.ndarray)):
        if isinstance(port, data.View):
            yield port.as_value(), _packed(port.shape(), value)
        else:
            for element, part in zip(port, value, strict=False):
                yield from _parts(element, part)
    elif isinstance(value, dict):
        yield port.as_value(), port.shape().const(value).as_value().value
    else:
        yield Value.cast(port), int(value)


def _packed(layout, elements):
    """Bits of the first elements of an array of numbers or of arrays."""
    packed, width = 0, Shape.cast(layout.elem_shape).width
    assert len(elements) <= layout.length
    for index, element in enumerate(elements):
        if isinstance(element, (list, tuple, np.ndarray)):
            element = _packed(layout.elem_shape, element)
        packed |= (int(element) & (1 << width) - 1) << index * width
    return packed


def put_at_once(ctx, pairs):
    """Set ports, given with their values. The simulator settles once for all of them, which takes
    longer than anything else in most tests.

    What is set is the state of a signal, as ``ctx.set`` sets it of a concatenation: that builds
    one for each call, and asks for the width of each part three times.
    """
    engine = ctx._engine
    states = _states(engine)
    for port, value in pairs:
        for part, number in _parts(port, value):
            if isinstance(part, Signal):
                known = states.get(id(part))
                if known is None:
                    known = states[id(part)] = _state(engine, part)
                state, mask, half = known
                state.update((number + half & mask) - half)
            else:
                engine.set_value(part, number)
    if engine._state.pending:       # of what keeps its value, nothing follows
        engine.step_design()


def put(ctx, port, value):
    """Set a port, or every element of an array of ports."""
    put_at_once(ctx, [(port, value)])


def take(ctx, port):
    """Value of a port; a list for an array of ports."""
    if isinstance(port, Signal):
        return ctx.get(port)
    if isinstance(port, list):
        return [take(ctx, element) for element in port]
    if isinstance(port, data.View) and isinstance(port.shape(), data.ArrayLayout):
        return _elements(port.shape(), ctx.get(port.as_value()))
    return ctx.get(port)


def _elements(layout, packed):
    """Elements of an array that is packed into an integer."""
    shape = Shape.cast(layout.elem_shape)
    elements = [packed >> index * shape.width & (1 << shape.width) - 1
                for index in range(layout.length)]
    if isinstance(layout.elem_shape, data.ArrayLayout):
        return [_elements(layout.elem_shape, element) for element in elements]
    if shape.signed:
        return [element - (element >> shape.width - 1 << shape.width) for element in elements]
    return elements


def put_all_of(ctx, component, values):
    """Set ports by name."""
    put_at_once(ctx, [(getattr(component, name), value) for name, value in values.items()])


async def ticks(ctx, cycles):
    """Let ``cycles`` cycles pass."""
    for _ in range(cycles):
        await ctx.tick()


def trace(dut, cycles, outputs, *, tail=40, **constant):
    """Ports of a component over time.

    Parameters
    ----------
    cycles : list of dict
        For each cycle, values of input ports by name. A port keeps its value until it is set
        again.
    outputs : sequence of str
        Ports to record.
    tail : int
        Cycles more, in which every input that was ever set in ``cycles`` and is one bit is 0.
    **constant
        Inputs that are set once, two cycles before.

    Returns
    -------
    list of dict
        Values of the outputs in each cycle, of the tail too.
    """
    recorded = []
    scalars = {name for cycle in cycles for name, value in cycle.items()
               if not isinstance(value, (list, tuple, np.ndarray, dict))}
    strobes = {name for name in scalars if len(getattr(dut, name)) == 1}
    quiet = dict.fromkeys(strobes, 0)
    quiet.update({"slot": {"valid": 0}} if any("slot" in cycle for cycle in cycles) else {})

    async def testbench(ctx):
        put_all_of(ctx, dut, constant)
        await ticks(ctx, 2)
        for cycle in [*cycles, *[quiet] * tail]:
            put_all_of(ctx, dut, cycle)
            recorded.append({name: take(ctx, getattr(dut, name)) for name in outputs})
            await ctx.tick()

    simulate(dut, testbench, limit=len(cycles) + tail + 10)
    return recorded


def in_rows(rows, rng, *, gap=0.3, pitch=1, apart=1):
    """Beats of rows in order, as (row, beat, first, last), with None for idle cycles.

    Parameters
    ----------
    rows : sequence of int
        Beats of each row.
    gap : float
        Probability of an idle cycle before a beat.
    pitch : int
        Least number of cycles from a row's last beat to the next row's.
    apart : int
        Least number of cycles from a beat to the one with the same number in the next row.
    """
    schedule, last, before = [], -pitch, {}
    for row, beats in enumerate(rows):
        for beat in range(beats):
            while rng.random() < gap or (beat == beats - 1 and len(schedule) - last < pitch) \
                    or len(schedule) - before.get(beat, -apart) < apart:
                schedule.append(None)
            before[beat] = len(schedule)
            schedule.append((row, beat, beat == 0, beat == beats - 1))
        last = len(schedule) - 1
    return schedule


def signed_number(rng, width):
    """A random signed number, often an extreme one."""
    if rng.random() < 0.2:
        return rng.choice([0, 1, -1, (1 << width - 1) - 1, -(1 << width - 1)])
    return rng.randrange(-1 << width - 1, 1 << width - 1)


def signed_numbers(rng, width, count):
    """Random signed numbers, the extremes among them."""
    return [signed_number(rng, width) for _ in range(count)]


def model_beats(config, model, intercept):
    """64-bit beats of a model in memory (docs/memory-layout.md); ``model`` has the shape
    (beats, lanes).
    """
    lanes = config.rows.model_lanes
    words = [word for beat in model for word in (*beat, *[0] * (lanes - len(beat)))]
    words = [int(word) & 0xFFFF_FFFF for word in (*words, intercept, 0)]
    return [low | high << 32 for low, high in zip(words[::2], words[1::2], strict=True)]


async def write_model(ctx, words, config, model, intercept):
    """Write weights of shape (beats, lanes), and the intercept, as a user of ``words``, those
    of a store.
    """
    for index, beat in enumerate(model):
        beat = [*beat, *[0] * (config.rows.model_lanes - len(beat))]
        put(ctx, words.index, index)
        await ctx.tick()
        for pair in range(config.rows.model_lanes // 2):
            low, high = (int(word) & 0xFFFF_FFFF for word in beat[2 * pair:2 * pair + 2])
            put_all_of(ctx, words, {"pair": pair, "write": 1, "write_data": low | high << 32})
            await ctx.tick()
        put(ctx, words.write, 0)
    put_all_of(ctx, words, {"write": 1, "intercept": 1,
                            "write_data": int(intercept) & 0xFFFF_FFFF})
    await ctx.tick()
    put_all_of(ctx, words, {"write": 0, "intercept": 0})


def halves(word):
    """The two signed 32-bit words of a pair."""
    return np.array([word], np.uint64).view(np.int32).tolist()


async def read_model(ctx, words, config, beats):
    """Weights of shape (beats, lanes), and the intercept, as a user of ``words``, those of a
    store.
    """
    model = []
    if config.clock.fast:       # for what was written last
        await ctx.tick()
    for index in range(beats):
        put(ctx, words.index, index)
        await ticks(ctx, 2 if config.clock.fast else 1)
        beat = []
        for pair in range(config.rows.model_lanes // 2):
            put(ctx, words.shown, pair)
            beat += halves(ctx.get(words.read_data))
        model.append(beat[:config.rows.lanes])
    put(ctx, words.intercept, 1)
    intercept = halves(ctx.get(words.read_data))[0]
    put(ctx, words.intercept, 0)
    return model, intercept


async def load_coefficients(ctx, engine, config, coefficients):
    """Load coefficients of shape (n_features,) into a correction engine."""
    beats = config.rows.beats(len(coefficients))
    words = np.zeros((beats, config.rows.model_lanes), np.int64)
    for feature, coefficient in enumerate(coefficients):
        words[feature // config.rows.lanes, feature % config.rows.lanes] = coefficient
    put(ctx, engine.load_start, 1)
    await ctx.tick()
    put_all_of(ctx, engine, {"load_start": 0, "load": 1})
    for low, high in words.reshape(-1, 2).tolist():
        put(ctx, engine.load_i, low & 0xFFFF_FFFF | (high & 0xFFFF_FFFF) << 32)
        await ctx.tick()
    put(ctx, engine.load, 0)


async def send_model(ctx, dut, command, beats):
    """Give a pipeline's command and the beats that it takes, one a cycle."""
    put(ctx, getattr(dut, command), 1)
    await ctx.tick()
    put_all_of(ctx, dut, {command: 0})
    put(ctx, dut.i_model.valid, 1)
    for beat in beats:
        put(ctx, dut.i_model.payload, beat)
        assert ctx.get(dut.i_model.ready)
        await ctx.tick()
    put(ctx, dut.i_model.valid, 0)
    await ticks(ctx, 2)


async def receive_model(ctx, dut, config, beats):
    """Weights of shape (beats, lanes), and the intercept, that a pipeline unloads."""
    put(ctx, dut.unload, 1)
    put(ctx, dut.o_model.ready, 1)
    await ctx.tick()
    put(ctx, dut.unload, 0)
    words = []
    while len(words) <= beats * config.rows.model_lanes:
        if ctx.get(dut.o_model.valid):
            words += halves(ctx.get(dut.o_model.payload))
        await ctx.tick()
    starts = range(0, beats * config.rows.model_lanes, config.rows.model_lanes)
    return [words[start:start + config.rows.lanes] for start in starts], words[-2]


def beats_of(rows, beat_bytes):
    """Beats, as integers, of packed rows: uint8 of shape (n_rows, bytes)."""
    return [int.from_bytes(row[at:at + beat_bytes].tobytes(), "little")
            for row in rows for at in range(0, rows.shape[1], beat_bytes)]


def fine_beats(job):
    """64-bit beats of all fine rows, in the layout of docs/memory-layout.md."""
    config, feature = job.config, np.arange(job.n_features)
    words = np.zeros((job.n_rows, config.rows.fine_words(job.n_features)), "<i2")
    lanes = config.rows.lanes
    words[:, feature // lanes * config.rows.model_lanes + feature % lanes] = job.fine_rows
    return words.reshape(-1).view("<u8").tolist()


def run_pipeline(dut, job, *, lookahead=None, stall=0.0, seed=0, limit=20_000):
    """Run a job on a :class:`bitstep_hw.pipeline.pipeline.Pipeline`.

    Returns
    -------
    list of (model, intercept, overflowed, cycles)
        One an epoch; the model is a list of ``n_features`` words.
    """
    config = dut.config
    labels = unpack_labels(job.labels, job.label_format, job.n_rows).tolist()
    if config.row_weights:
        weights = np.zeros(job.n_rows, int) if job.weights is None else job.weights
        labels = [{"labels": label, "weight": weight, "place": WEIGHT_TURN * row & 0xFFFF}
                  for row, (label, weight) in enumerate(zip(labels, weights.tolist(), strict=True))]
    rng = random.Random(f"{seed}-pipeline")
    results = []
    constant = {
        "rows": job.n_rows, "beats_per_row": job.beats, "batch": job.batch,
        "last_lanes": job.n_features - (job.beats - 1) * config.rows.lanes,
        "lookahead": config.ahead.of_rows(job.beats) if lookahead is None else lookahead,
        "correction_period": job.correction_period, "intercept_level": job.intercept_level,
        "label_shift": job.label_shift, "loss": job.loss,
        "proximal_period": job.proximal_period, "box_limit": job.box_limit,
        "cell_half_levels": job.cell_half_levels}
    if config.row_weights:
        constant["weighted"] = job.weighted
    constant["lookahead_margin"] = \
        job.cell_half_levels * constant["lookahead"] * job.n_features * config.rows.level_limit

    fine_rows = fine_beats(job) if job.cell_half_levels else []

    async def epoch(ctx, beats):
        put(ctx, dut.start, 1)
        await ctx.tick()
        put(ctx, dut.start, 0)
        waiting = {"i_rows": list(beats), "i_labels": list(labels)}
        if job.cell_half_levels:
            waiting["i_fine"] = []
            ctx.set(dut.fine_job.ready, 1)
        overflowed = 0
        for cycle in range(limit):
            offers = []
            for name, values in waiting.items():
                port = getattr(dut, name)
                offered = bool(values) and rng.random() >= stall
                offers.append((port.valid, offered))
                if offered:
                    offers.append((port.payload, values[0]))
            put_at_once(ctx, offers)
            for name, values in waiting.items():
                port = getattr(dut, name)
                if ctx.get(port.valid) and ctx.get(port.ready):
                    values.pop(0)
            if job.cell_half_levels and ctx.get(dut.fine_job.valid):
                first, count = (ctx.get(dut.fine_job.payload.address) // 8,
                                ctx.get(dut.fine_job.payload.beats))
                waiting["i_fine"] += fine_rows[first:first + count]
            overflowed |= ctx.get(dut.overflowed)
            done = ctx.get(dut.done)
            await ctx.tick()
            if done:
                assert not any(waiting.values()), "not every row was used"
                return overflowed | ctx.get(dut.overflowed), cycle + 1
        raise TimeoutError(f"The epoch took more than {limit} cycles")

    def padded(numbers, intercept):
        words = np.zeros(job.beats * config.rows.lanes, np.int64)
        words[:job.n_features] = numbers
        return model_beats(config, words.reshape(job.beats, -1), intercept)

    async def testbench(ctx):
        put_all_of(ctx, dut.run, constant)
        if config.corrections:
            await send_model(ctx, dut, "load_coefficients", padded(job.coefficients, 0))
        await send_model(ctx, dut, "load", padded(job.model, job.intercept))
        for number, steps in enumerate(job.epochs):
            put_all_of(ctx, dut.steps, {
                "mantissa": steps.mantissa, "shift": steps.shift,
                "correction_mantissa": steps.correction_mantissa,
                "correction_shift": steps.correction_shift, "threshold": steps.threshold,
                "key": steps.key})
            rows = job.rows[number % len(job.rows)]
            overflowed, cycles = await epoch(ctx, beats_of(rows, config.rows.beat_bytes))
            model, intercept = await receive_model(ctx, dut, config, job.beats)
            results.append((np.ravel(model)[:job.n_features].tolist(), intercept, overflowed,
                            cycles))

    async def dither_is_there(ctx):
        """No row takes its random bits before they are made."""
        while True:
            *_, take, valid = await ctx.tick().sample(dut.dither.take, dut.dither.valid)
            assert valid or not take

    simulate(dut, testbench, processes=[dither_is_there], limit=limit * len(job.epochs))
    return results
