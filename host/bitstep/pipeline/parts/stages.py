"""Stages of a pipeline: the registers and cycles of each, and what follows for the whole.

The hardware and the cycle model read the same numbers here. Cycles are explained in
docs/pipeline.md.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from bitstep.pipeline.parts.formats import RowFormat, format_of, plain_format
from bitstep.pipeline.parts.widths import MODEL_WIDTH, ceil_div

UPDATE_INTERVALS = {"linear": (1, 2, 4), "logistic": (1, 6)}
ROUNDING_STAGES = 4         # cycles in which an update is rounded to few bits
FINE_STAGES = 4             # by which updates with the finer sigmoid of a full pass come later
ROW_DITHER_CYCLES = 20      # from an epoch's start to its first dither, with rows in every cycle
PACKED_DITHER_STAGES = 6     # cycles until the dither of the first packed rows is there
_AHEAD_LEAD = 4             # of the solver, where rows look ahead from a batch to the next
EXPONENT_STAGES = 3         # cycles from the largest magnitude of a model to its exponent


def usual_interval(loss_family: str, row_format: str) -> int:
    """Update interval where none is asked for: the least that is enough for the rows, 2 cycles or,
    for floating-point ones, 4. The logistic loss takes 6, which its sigmoid needs.
    """
    least = plain_format(row_format).usual_interval
    return min(one for one in UPDATE_INTERVALS[loss_family] if one >= least)


@dataclass(frozen=True)
class Clock:
    """Registers that stand wherever a clock of 100 MHz and more on a slow FPGA needs them.

    Parameters
    ----------
    update_interval : int
        Least cycles from a row to the next; with 4 the clock is a fast one. So it is with 1, where
        nothing waits for a row's update inside a batch.
    """

    update_interval: int

    @property
    def every_cycle(self) -> bool:
        """True if rows may come in every cycle: inside a batch none waits for another."""
        return self.update_interval == 1

    @property
    def fast(self) -> bool:
        """True if registers stand everywhere that a fast clock needs them."""
        return self.update_interval in (1, 4)

    @property
    def memory_wait(self) -> int:
        """Cycles that words of a memory wait in registers before they are used: memory blocks are
        slow to answer, so for a fast clock nothing else happens in the cycle in which they do.
        """
        return int(self.fast)

    @property
    def memory_answer(self) -> int:
        """Cycles from an address to its word, as it is used."""
        return 1 + self.memory_wait

    @property
    def always_read(self) -> bool:
        """True if memories are read in every cycle: an enable comes late and drives a lot, so a
        fast clock does without.
        """
        return self.fast

    @property
    def strobe_delay(self) -> int:
        """Cycles that a strobe takes from one part of the hardware to another: for a fast clock one
        for the way alone.
        """
        return int(self.fast)

    @property
    def registered_streams(self) -> bool:
        """True if streams between parts of the hardware pass registers that cut every path, for
        the same reason.
        """
        return self.fast

    def slot_distance(self, beats: int) -> int:
        """Cycles from the last slot of a row of ``beats`` beats to the first of the next: slots
        with the same index are 2 cycles apart, with updates every 4 cycles as many. Where rows come
        in every cycle, nothing keeps slots apart.
        """
        return {2: 3, 3: 2}.get(beats, 1) if self.update_interval == 4 else 1


@dataclass(frozen=True)
class Dither:
    """Generator of the random bits of rows."""

    clock: Clock

    @property
    def cycles(self) -> int:
        """Cycles in which the dither of four rows is generated: few enough that rows never wait for
        it, and a multiple of 5, the groups of four rounds.
        """
        return 5 if self.clock.update_interval == 2 else 15


@dataclass(frozen=True)
class DotProduct:
    """Products of a row with the model, and their sum."""

    rows: RowFormat
    clock: Clock
    model_bits: int

    @property
    def product(self) -> int:
        """Registers of a product in a lane: 2 for a fast clock, and for floating-point products,
        which are aligned in the second.
        """
        return 2 if self.rows.floating or self.clock.fast else 1

    @property
    def term(self) -> int:
        """Registers of the terms of a product in a lane. Where they are fewer than
        :attr:`product`, what takes the terms sums them: the tree of the dot product, and the
        subtraction from the model. That leaves the choice among the rows before a cycle of its own:
        the levels of the row to apply reach the model store so much later than their slot.
        """
        return 2 if self.rows.floating else 1

    @property
    def tree(self) -> int:
        """Registers in the adder tree of the dot product: one for every two levels."""
        return ceil_div(max(self.rows.lanes - 1, 1).bit_length(), 2)

    @property
    def scale(self) -> int:
        """Registers in which the sum over a model of few bits is scaled and gets its intercept."""
        return (2 if self.clock.fast else 1) if self.model_bits else 0

    @property
    def word_width(self) -> int:
        """Bits of a word of the model that a dot product meets, signed."""
        return self.model_bits or MODEL_WIDTH + 1

    @property
    def cycles(self) -> int:
        """Cycles from a row's last slot to its dot product."""
        return 5 + 2 * self.product + self.tree + self.scale


@dataclass(frozen=True)
class Solver:
    """The recursion from a dot product and the rows before to the update of a row.

    Parameters
    ----------
    clock : Clock
    correlated_rows : int
        Rows before a row whose products with it are formed: the nearest, or, where rows come in
        every cycle, the nearest that have their updates.
    rounding : int
        Cycles in which an update is rounded to few bits.
    fine : int
        Cycles by which updates of a gradient come later: those of the finer sigmoid.
    loss_family : str
        Family of the losses that it has the updates of.
    """

    clock: Clock
    correlated_rows: int
    rounding: int
    fine: int
    loss_family: str

    # By loss family and update interval.
    _STAGES: ClassVar[dict[tuple[str, int], int]] = {
        ("linear", 1): 5, ("linear", 2): 4, ("linear", 4): 5, ("logistic", 1): 9,
        ("logistic", 6): 7}

    @property
    def lead(self) -> int:
        """Cycles by which a row's label, and :attr:`products` later its products with the rows
        before, reach the solver before its dot product.
        """
        if self.clock.every_cycle:
            return _AHEAD_LEAD if self.correlated_rows else 2
        return {4: 3}.get(self.clock.update_interval, 1)

    @property
    def products(self) -> int:
        """Cycles from a row's label to its products with the rows before: where rows come in every
        cycle, one to look the updates of these rows up.
        """
        return int(self.clock.every_cycle and self.correlated_rows > 0)

    @property
    def cycles(self) -> int:
        """Cycles from a dot product to the update, before it is rounded to few bits."""
        return self._STAGES[self.loss_family, self.clock.update_interval]

    @property
    def entered(self) -> int:
        """Cycles from a row's label to its update, where rows look ahead from a batch to the
        next.
        """
        return self.cycles + _AHEAD_LEAD


@dataclass(frozen=True)
class ModelStore:
    """The weights of the model and their updates."""

    dot: DotProduct

    @property
    def forwarded(self) -> int:
        """Slots before a slot whose words it may take, since they come too late for the memory: 4
        where the same words may be met in every cycle, else none.
        """
        return 4 if self.dot.clock.every_cycle else 0

    @property
    def entry(self) -> int:
        """Cycles from a slot to the store: the choice among these slots' words takes one of them.
        """
        return 1 if self.forwarded else 2

    @property
    def sampled(self) -> int:
        """Cycles from a slot to the words that a correction is computed from."""
        return 3 + self.dot.product

    @property
    def words(self) -> int:
        """Cycles from a slot to its words, as the dot product takes them."""
        return self.sampled + 1


@dataclass(frozen=True)
class Corrections:
    """The engine that turns words which it has sampled into corrections.

    Parameters
    ----------
    rows : RowFormat
    clock : Clock
    beats : int
        Beats whose words the engine has room for.
    sampled : int
        Cycles from a slot to the words that it samples.
    """

    rows: RowFormat
    clock: Clock
    beats: int
    sampled: int

    @property
    def constants(self) -> bool:
        """True if corrections add constants."""
        return self.rows.centred

    @property
    def lanes(self) -> int:
        """Weights that the engine treats in a cycle; an even number."""
        return max(2, ceil_div(self.rows.model_lanes, 32) * 2)

    @property
    def groups(self) -> int:
        """Groups of ``lanes`` words in a beat's model."""
        return ceil_div(self.rows.model_lanes, self.lanes)

    @property
    def answer(self) -> int:
        """Cycles from an address to the word in the store, or to the coefficient."""
        return self.clock.memory_answer

    @property
    def wait(self) -> int:
        """Cycles that sampled words wait before they are stored: one where the clock is fast and no
        row waits for another. A boundary, where the pipeline has settled, waits for it.
        """
        return int(self.clock.every_cycle)

    @property
    def between(self) -> int:
        """Registers between the two multipliers: one where the clock is to be fastest."""
        return int(self.clock.every_cycle)

    @property
    def cycles(self) -> int:
        """Cycles from an address to the correction that is written back."""
        return 5 + self.answer + self.between

    def delay(self, beats: int) -> int:
        """Cycles from the last slot that samples the model, with words of ``beats`` beats, to the
        first slot that may see its corrections.
        """
        # The walk begins after the sample; its end is known a cycle after the last word is written,
        # and heard another cycle later. The intercept comes after the words.
        walk = self.groups * beats + int(self.constants)
        return self.sampled + self.wait + walk + self.cycles + 2


@dataclass(frozen=True)
class RoundedModel:
    """The copy of few bits that dot products meet, rounded when a batch begins."""

    rows: RowFormat
    clock: Clock
    dither: Dither

    @property
    def lanes(self) -> int:
        """Weights that are rounded in a cycle, a power of two: a quarter of a beat's, at most
        32. Four rounds of the generator of dithers in a cycle keep up with 32, fewer with 16.
        """
        most = 32 if self.dither.cycles == 5 else 16
        return min(most, 1 << max(self.rows.model_lanes.bit_length() - 3, 1))

    @property
    def groups(self) -> int:
        """Groups of ``lanes`` words in a beat."""
        return ceil_div(self.rows.lanes, self.lanes)

    def cycles(self, beats: int) -> int:
        """Cycles in which the model of a batch is rounded, with rows of ``beats`` beats."""
        walk, answer = beats * self.groups, self.clock.memory_answer
        # The largest magnitude: of each lane, then of all, then its exponent.
        largest = walk + answer + (self.lanes - 1).bit_length() + 4 + EXPONENT_STAGES
        return max(largest, self.dither.cycles + 2) + walk + answer + 4


@dataclass(frozen=True)
class Proximal:
    """Proximal steps: a walk through the words, pair by pair."""

    clock: Clock

    def cycles(self, pairs: int, beats: int) -> int:
        """Cycles of a step on words of so many pairs and beats, from its strobe."""
        return 2 * pairs + beats * self.clock.memory_answer


@dataclass(frozen=True)
class Refetching:
    """Rows that are read again with 16 bits a value."""

    clock: Clock

    @property
    def first_pair(self) -> int:
        """Cycles from the decision to read a row, or from the last pair of a beat, to the first in
        which the next pair can be taken.
        """
        return 2 + self.clock.memory_wait

    def decision(self, pairs: int, beats: int, *, active: bool) -> int:
        """Cycles from a row's last pair to the decision on it or, if it is ``active``, to its last
        word.
        """
        wait = self.clock.memory_wait
        return 7 + wait + 2 * pairs + (beats - 1) * (1 + wait) if active else 6


@dataclass(frozen=True)
class ModelPort:
    """The way of models between memory and the store."""

    clock: Clock

    @property
    def next_model(self) -> int:
        """Cycles between two models that are loaded or written one after the other."""
        return 2 + 2 * self.clock.strobe_delay


class Stages:
    """The stages of a configuration's pipeline; those that it lacks are None.

    Parameters
    ----------
    choices : PipelineConfig
        The configuration, of which the choices alone are read.

    Attributes
    ----------
    rows : RowFormat
    clock : Clock
    dither : Dither
    dot : DotProduct
    store : ModelStore
    corrections : Corrections or None
    rounding : RoundedModel or None
    proximal : Proximal or None
    refetching : Refetching or None
    solver : Solver
    port : ModelPort
    has_constants : bool
        Corrections add constants.
    full_passes : bool
        A run can sum the gradient of all rows, in words of 64 bits, or write the derivatives of
        all rows' losses as labels.
    """

    def __init__(self, choices: Any):
        self.rows = rows = format_of(choices)
        self.clock = clock = Clock(choices.update_interval)
        self.dither, self.port = Dither(clock), ModelPort(clock)
        self.dot = self._dot_product(choices)
        self.store = self._model_store(choices)
        self.corrections = self._corrections(choices) if choices.corrections else None
        self.has_constants = self.corrections is not None and self.corrections.constants
        self.full_passes = self.has_constants and choices.minibatch
        self.rounding = RoundedModel(rows, clock, self.dither) if choices.model_bits else None
        self.proximal = Proximal(clock) if choices.proximal else None
        self.refetching = Refetching(clock) if choices.refetch else None
        self.solver = Solver(
            clock, correlated_rows=choices.batch_lookahead if choices.drains
            else choices.lookahead,
            rounding=ROUNDING_STAGES if choices.rounded_updates else 0,
            fine=FINE_STAGES if self.full_passes and choices.loss_family == "logistic" else 0,
            loss_family=choices.loss_family)

    def _dot_product(self, choices):
        return DotProduct(self.rows, self.clock, choices.model_bits)

    def _model_store(self, choices):
        del choices
        return ModelStore(self.dot)

    def _corrections(self, choices):
        del choices
        return Corrections(self.rows, self.clock, self.rows.max_beats, self.store.sampled)

    @property
    def solver_entry(self) -> int:
        """Cycles from a row's last slot until it enters the solver, with its label."""
        return self.dot.cycles - self.solver.lead

    @cached_property
    def latency(self) -> int:
        """Cycles from a row's last beat to the first beat that may apply its update."""
        return self.dot.cycles + self.solver.cycles + self.solver.rounding

    @property
    def start_delay(self) -> int:
        """Cycles by which an epoch's first slot comes later, so that its dither is there with its
        dot product.
        """
        dither = ROW_DITHER_CYCLES if self.clock.every_cycle else self.dither.cycles
        return max(0, dither + 1 - self.dot.cycles)

    def required_lookahead(self, beats: int) -> int:
        """Least look-ahead with which rows of ``beats`` beats never wait for an update."""
        pitch = max(beats, self.clock.update_interval)
        return ceil_div(self.latency + beats - 1, pitch) - 1


@dataclass(frozen=True)
class PackedDotProduct(DotProduct):
    """Products of the rows of a beat with a model, and their sums."""

    words: int

    @property
    def tree(self) -> int:
        """Registers in the adder tree, which adds the intercept and the label, too. Of the shortest
        rows there is one more without corrections: the largest derivative takes as long.
        """
        return max(ceil_div((self.rows.lanes + 1).bit_length(), 2), 3 - self.words)

    @property
    def cycles(self) -> int:
        """Cycles from a slot to its dot products less the labels."""
        return 1 + self.words + self.tree


@dataclass(frozen=True)
class PackedModelStore(ModelStore):
    """The weights of all models, each a word of the memory."""

    corrected: bool

    @property
    def sampled(self) -> int:
        """Cycles from a slot to the words that a correction is computed from."""
        return 2

    @property
    def words(self) -> int:
        """Cycles from a slot to its weights: one more with corrections."""
        return 1 + self.corrected

    @property
    def sum(self) -> int:
        """Registers in the sum of a beat's rows: one for every two levels, of which the
        subtraction from the model is one and has its own.
        """
        return ceil_div((self.dot.rows.rows_per_beat - 1).bit_length() + 1, 2) - 1


class PackedStages(Stages):
    """The stages of a pipeline for packed rows: models are interleaved on one path, and a beat of
    the engine of corrections is a model.
    """

    store: PackedModelStore

    def _dot_product(self, choices):
        return PackedDotProduct(self.rows, self.clock, 0, 1 + choices.corrections)

    def _model_store(self, choices):
        return PackedModelStore(self.dot, choices.corrections)

    def _corrections(self, choices):
        return Corrections(self.rows, self.clock, choices.models, self.store.sampled)

    @cached_property
    def latency(self) -> int:
        """Cycles from a slot to the first one that may see its update: two of the solver, the
        products with the levels, their sum, and the model's turn.
        """
        return self.dot.cycles + 3 + self.store.sum + 1

    @property
    def start_delay(self) -> int:
        """Cycles by which an epoch's first slot comes later, so that its dither is there beside its
        beat.
        """
        return PACKED_DITHER_STAGES

    def required_lookahead(self, beats: int) -> int:
        """0: batches of packed rows wait for their updates."""
        del beats
        return 0


def stages_of(choices: Any) -> Stages:
    """Return the stages of a configuration's pipeline."""
    return (PackedStages if choices.packed else Stages)(choices)
