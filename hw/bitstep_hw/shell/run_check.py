"""Check of a run's registers against the pipeline that is there, and sizes that follow from them.
"""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import data, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.bit_planes import GROUP
from bitstep.pipeline.needs import NEEDS
from bitstep.pipeline.parts.widths import FEW_BITS, MAX_CELL_HALF_LEVELS
from bitstep.pipeline.registers import LabelFormat, Loss
from bitstep_hw.bit_planes.sizes import GROUPS_WIDTH
from bitstep_hw.shell.front_ends import front_end_of
from bitstep_hw.shell.models import models_of
from bitstep_hw.shell.register_bank import writable


def registers_layout(config):
    """Return the layout of the writable registers that a pipeline has, by name."""
    return data.StructLayout({
        name: sum(part.width for part in parts)
        for name, parts in writable(*config.register_choices).items()})


class RunCheck(wiring.Component):
    """Finds out whether a pipeline can do what the registers ask for, and how many beats that is.

    The check follows the registers by two cycles; the product of rows and beats per row takes a
    cycle a bit of the second factor.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline that is there.

    Members
    -------
    registers : In(registers_layout(config))
        The writable registers; constant from two cycles before ``start`` on.
    start : In(1)
        Strobe: multiply anew.
    ready : Out(1)
        ``row_beats`` and ``bad`` are right; not earlier than 2 cycles after ``start``.
    bad : Out(1)
        This pipeline cannot run what the registers ask for.
    row_beats, model_beats : Out(32)
        Beats of an epoch's rows, of bit-plane rows units of 64 bytes in one of their planes; 64-bit
        beats of a model, or of all models of the run.
    codebooks_beats : Out(32)
        64-bit beats of the codebooks; 0 for a pipeline without.
    corrects : Out(1)
        The run has corrections.
    plane_units, last_groups : Out
        Of bit-plane rows: units of 64 bytes in a plane of a block, and groups of 4 values in a
        row's last slot.
    """

    def __init__(self, *, config):
        self.config = config
        self._front_end, self._models = front_end_of(config), models_of(config)
        super().__init__({
            "registers": In(registers_layout(config)),
            "start": In(1), "ready": Out(1), "bad": Out(1),
            "row_beats": Out(32), "model_beats": Out(32), "codebooks_beats": Out(32),
            "corrects": Out(1),
            "plane_units": Out(GROUPS_WIDTH),
            "last_groups": Out(range(config.rows.lanes // GROUP + 1)),
        })

    def elaborate(self, platform):
        m = Module()
        registers = self.registers
        wrong = [*self._wrong_numbers(), *self._wrong_parts()]
        found = Signal(len(wrong))
        bad = Signal()
        model_beats = self._models.beats(
            m, registers.beats_per_row * (self.config.rows.model_lanes // 2) + 1, registers)
        m.d.sync += [
            found.eq(Cat(wrong)), bad.eq(found.any()),
            self.corrects.eq(registers.correction_period != 0),
            self.model_beats.eq(model_beats),
        ]
        total = self._front_end.count_beats(m, self)
        m.d.comb += [self.row_beats.eq(total), self.bad.eq(bad | total[32:].any())]
        return m

    def _wrong_numbers(self):
        """Flags of numbers that no run or not this pipeline can have."""
        registers, config = self.registers, self.config
        lookahead, beats = registers.lookahead, registers.beats_per_row
        too_long = [(lookahead == line - 1) & (beats > config.ahead.line_depth(line))
                    for line in range(1, config.lookahead + 2)]
        addresses = [registers.labels_address, registers.epoch_table_address,
                     registers.model_in_address, registers.coefficients_address,
                     registers.model_out_address, registers.model_out_stride,
                     registers.fine_address, registers.codebooks_address]
        row_align = (config.rows.beat_bytes - 1).bit_length()
        return [
            registers.rows == 0, beats == 0, beats > config.rows.max_beats,
            registers.last_lanes == 0, registers.last_lanes > config.rows.lanes,
            registers.epochs == 0, registers.batch == 0, registers.copies == 0,
            registers.label_format == 3, registers.label_shift > config.rows.max_label_shift,
            # Further bounds: those of an epoch's planes and of several models (InterleavedModels).
            registers.label_shift < self._models.least_label_shift,
            registers.intercept_level > config.rows.intercept_limit,
            lookahead > config.lookahead, *too_long,
            registers.rows_address[:row_align].any(), registers.copy_stride[:row_align].any(),
            *(address[:3].any() for address in addresses),
        ]

    def _wrong_parts(self):
        """Flags of what this pipeline has no part for, and of numbers that contradict each other.
        """
        registers, config = self.registers, self.config
        wrong = self._lacking("minibatch", "corrections")
        logistic, refetching = registers.loss == Loss.LOGISTIC, registers.cell_half_levels != 0
        huber, bound = registers.loss == Loss.HUBER, registers.derivative_bound
        wrong += [
            registers.loss > max(Loss), huber & (bound == 0), ~huber & (bound != 0),
            ~logistic if config.loss_family == "logistic" else logistic,
            (registers.loss != Loss.LEAST_SQUARES) & ~huber
            & (registers.label_format != LabelFormat.SIGN)
            & ~self._front_end.reads_derivatives(registers),
            refetching & ((registers.loss != Loss.HINGE) | (registers.batch != 1)),
            registers.cell_half_levels > MAX_CELL_HALF_LEVELS,
            *self._lacking("proximal", "refetch"),
        ]
        model_bits, update_bits = registers.model_bits, registers.update_bits
        wrong += [
            (model_bits < FEW_BITS[0]) | (model_bits > config.model_bits) if config.model_bits
            else model_bits != 0,
            (update_bits == 1) | (update_bits > FEW_BITS[1]) if config.rounded_updates
            else update_bits != 0,
        ]
        wrong += self._models.wrong(registers)
        wrong.append(registers.gradient & (
            (registers.batch < registers.rows) | (registers.epochs != 1)
            | (registers.correction_period != 0) | (registers.proximal_period != 0)
            if config.stages.full_passes else 1))
        wrong.append(registers.derivatives & (
            ~registers.gradient | (registers.label_format != LabelFormat.SIGN)
            | (registers.loss == Loss.LEAST_SQUARES) | (registers.loss == Loss.HINGE) | huber
            if config.stages.full_passes else 1))
        if config.row_weights:      # a derivative has no weight
            wrong.append(registers.weighted & registers.derivatives)
        return wrong

    def _lacking(self, *choices):
        """Flags of registers that need one of these choices, of those that the pipeline lacks."""
        return [need.asked(self.registers) for need in NEEDS
                if need.choice in choices and not getattr(self.config, need.choice)]

    def product(self, m, length, per=1):
        """Multiply rows by the length of one, a bit a cycle.

        Returns how often ``per``, a power of two, goes into the product, rounded up: 32 bits, and
        above them that there are more. That bit is a register of its own, since a run begins or
        ends in the cycle in which ``bad`` is right.
        """
        shift = per.bit_length() - 1
        width = 32 + shift
        total = Signal(width)
        addend = Signal(width)
        factor = Signal(20)
        too_many = Signal()             # bits of the total
        lost = Signal()                 # ones of the addend
        m.d.sync += self.ready.eq(factor[1:] == 0)
        with m.If(self.start):
            m.d.sync += [self.ready.eq(0), total.eq(per - 1), addend.eq(self.registers.rows),
                         factor.eq(length), too_many.eq(0), lost.eq(0)]
        with m.Else():              # on and on: once the factor is 0, the product stays
            more = total + Mux(factor[0], addend, 0)
            m.d.sync += [total.eq(more), addend.eq(addend << 1), factor.eq(factor >> 1),
                         lost.eq(lost | addend[-1]),
                         too_many.eq(too_many | more[width] | (factor[0] & lost))]
        return Cat(total[shift:], too_many)
