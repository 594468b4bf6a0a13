"""Front-ends of the row formats: the way of rows from memory into the pipeline, and all else that
the shell does otherwise for them.

:attr:`bitstep.pipeline.parts.formats.RowFormat.front_end` names the one of a format.
"""

from amaranth import C, Cat, Mux
from amaranth.lib import wiring

from bitstep_hw.bit_planes.epoch_scale import EpochScale
from bitstep_hw.bit_planes.plane_feeder import PlaneFeeder
from bitstep_hw.bit_planes.sizes import UNIT_GROUPS, BitPlaneSizes
from bitstep_hw.bit_planes.transpose import BitPlaneTranspose
from bitstep_hw.parts.run import reads_derivatives
from bitstep_hw.shell.beat_count import BeatCount
from bitstep_hw.shell.codebooks import Codebooks
from bitstep_hw.shell.job_feeders import RowFeeder


class FrontEnd:
    """Rows that the pipeline takes as they are in memory; the base of all front-ends.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline.

    Attributes
    ----------
    sizes : tuple of str
        Members of :class:`bitstep_hw.shell.run_check.RunCheck` with sizes that only its rows have.
    before_epochs : str
        State of the control that follows the first model and the coefficients.
    """

    sizes: tuple[str, ...] = ()
    before_epochs = "Table"

    def __init__(self, config):
        self.config = config

    def count_beats(self, m, check):
        """Beats of all rows, for the check of a run; with bits above the 32nd if they are too many.
        """
        return check.product(m, check.registers.beats_per_row)

    def reads_derivatives(self, registers):
        """1 if the labels of a run are derivatives at a centre."""
        del registers
        return C(0)

    def label_rows(self, bank, control):
        """Rows that have labels in memory."""
        del control
        return bank.rows

    def connect_control(self, m, control, wanted, ready):
        """What the control loads, out of its stream while it is ``wanted``; drive ``ready``."""

    def load_state(self, m, state, control, wanted):
        """State of the control in which that is loaded."""

    def connect_rows(self, m, control, rows, pipeline):
        """Beats from the reader ``rows`` into the pipeline; returns the strobe that one entered."""
        wiring.connect(m, rows.o, pipeline.i_rows)
        return pipeline.beat_entered

    def place_feeder(self, m, bank, control, strobe):
        """Make the feeder of the reader a submodule and return it. ``strobe(m, value, name)`` is a
        strobe as it arrives there.
        """
        begin = strobe(m, control.begin, "begin_rows")
        m.submodules.row_feeder = feeder = RowFeeder()
        m.d.comb += [feeder.start.eq(begin), feeder.epochs.eq(bank.epochs),
                     feeder.beats.eq(control.row_beats)]
        return feeder

    def connect_aux(self, m, bank, control, feeder):
        """What the auxiliary stream has for it, into the feeder of that."""


class PackedFrontEnd(FrontEnd):
    """Packed rows, which share beats, and labels stand together as their rows do."""

    def count_beats(self, m, check):
        """Beats of all rows; with bits above the 32nd if their labels are too many to count."""
        m.submodules.count = count = BeatCount(rows_per_beat=self.config.rows.rows_per_beat)
        m.d.comb += [count.start.eq(check.start), count.rows.eq(check.registers.rows),
                     check.ready.eq(count.ready)]
        labels = count.beats * self.config.rows.label_rows
        return Cat(count.beats, Mux(count.ready, labels[32:], 0))

    def label_rows(self, bank, control):
        """Rows of whole beats."""
        return control.row_beats * self.config.rows.label_rows


class TableFrontEnd(FrontEnd):
    """Codebooks, which turn codes into levels."""

    before_epochs = "Codebooks"

    def count_beats(self, m, check):
        """Beats of all rows, and those of the tables."""
        words = self.config.rows.codebook_beat_words
        m.d.sync += check.codebooks_beats.eq(check.registers.beats_per_row * words)
        return super().count_beats(m, check)

    def connect_control(self, m, control, wanted, ready):
        """The tables."""
        m.d.comb += [control.o_tables.payload.eq(control.i.payload),
                     control.o_tables.valid.eq(wanted & control.i.valid),
                     ready.eq(wanted & control.o_tables.ready)]

    def load_state(self, m, state, control, wanted):
        """Load the tables."""
        with state(self.before_epochs):
            m.d.comb += [wanted.eq(1), control.model_io.eq(1)]
            with m.If(control.tables_done):
                m.next = super().before_epochs

    def connect_rows(self, m, control, rows, pipeline):
        """Rows through the tables."""
        m.submodules.tables = tables = Codebooks(config=self.config)
        wiring.connect(m, control.o_tables, tables.i_tables)
        wiring.connect(m, rows.o, tables.i)
        wiring.connect(m, tables.o, pipeline.i_rows)
        m.d.comb += [
            tables.clear.eq(control.begin | control.stop),
            tables.beats.eq(control.run.beats_per_row),
            tables.words.eq(control.codebooks_beats), control.tables_done.eq(tables.done),
        ]
        return pipeline.beat_entered

    def connect_aux(self, m, bank, control, feeder):
        """Address and size of the tables."""
        m.d.comb += [feeder.codebooks_address.eq(bank.codebooks_address),
                     feeder.codebooks_beats.eq(control.codebooks_beats)]


class PlaneFrontEnd(FrontEnd):
    """Planes of bit-plane rows, which are put together to codes."""

    sizes = ("plane_units", "last_groups")

    def count_beats(self, m, check):
        """Sizes of bit-plane rows; returns the units of a plane of all rows."""
        m.submodules.sizes = sizes = BitPlaneSizes(config=self.config)
        m.d.comb += [
            sizes.beats.eq(check.registers.beats_per_row),
            sizes.last_lanes.eq(check.registers.last_lanes),
            check.plane_units.eq(sizes.plane_units), check.last_groups.eq(sizes.last_groups),
        ]
        return check.product(m, sizes.groups, per=UNIT_GROUPS)

    def reads_derivatives(self, registers):
        """1 if the labels of a run are derivatives at a centre."""
        return reads_derivatives(registers)

    def connect_rows(self, m, control, rows, pipeline):
        """Planes into the pipeline, in slots."""
        m.submodules.transpose = transpose = BitPlaneTranspose(config=self.config)
        m.submodules.scale = scale = EpochScale(config=self.config)
        wiring.connect(m, rows.o, transpose.i)
        wiring.connect(m, transpose.o, pipeline.i_rows)
        run, planes = control.run, control.steps.planes
        m.d.comb += [
            transpose.start.eq(pipeline.start), transpose.stop.eq(control.stop),
            transpose.planes.eq(planes), transpose.rows.eq(run.rows),
            transpose.beats.eq(run.beats_per_row), transpose.last_groups.eq(control.last_groups),
            transpose.plane_units.eq(control.plane_units), transpose.units.eq(control.row_beats),
            scale.planes.eq(planes), scale.label_shift.eq(run.label_shift),
            scale.intercept_level.eq(run.intercept_level),
            scale.derivatives.eq(run.derivatives | reads_derivatives(run)),
            pipeline.run.label_shift.eq(scale.o_label_shift),
            pipeline.run.intercept_level.eq(scale.o_intercept_level),
            control.misaligned.eq(pipeline.misaligned | (control.epoch_start & scale.bad)),
        ]
        if self.config.stages.solver.fine:
            m.d.comb += scale.fine.eq(run.gradient & ~run.derivatives)
        return transpose.i.valid & transpose.i.ready

    def place_feeder(self, m, bank, control, strobe):
        """A feeder of planes."""
        begin = strobe(m, control.begin, "begin_rows")
        m.submodules.row_feeder = feeder = PlaneFeeder(config=self.config)
        m.d.comb += [
            feeder.begin.eq(begin), feeder.planes.eq(control.steps.planes),
            feeder.start.eq(strobe(m, control.epoch_start, "start_rows")),
            feeder.plane_units.eq(control.plane_units), feeder.units.eq(control.row_beats),
        ]
        return feeder


_FRONT_ENDS = {None: FrontEnd, "tables": TableFrontEnd, "planes": PlaneFrontEnd}


def front_end_of(config):
    """Return the front-end of a pipeline."""
    kind = PackedFrontEnd if config.rows.packed else _FRONT_ENDS[config.rows.front_end]
    return kind(config)
