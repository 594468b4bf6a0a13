"""Front-ends of the row formats: the way of rows from memory into the pipeline.

:attr:`bitstep.pipeline.parts.formats.RowFormat.front_end` names the one of a format.
"""

from amaranth.lib import wiring

from bitstep_hw.bit_planes.epoch_scale import EpochScale
from bitstep_hw.bit_planes.plane_feeder import PlaneFeeder
from bitstep_hw.bit_planes.transpose import BitPlaneTranspose
from bitstep_hw.parts.run import reads_derivatives
from bitstep_hw.shell.codebooks import Codebooks
from bitstep_hw.shell.job_feeders import RowFeeder


class FrontEnd:
    """Rows that the pipeline takes as they are in memory; the base of all front-ends.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline.
    """

    def __init__(self, config):
        self.config = config

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


class TableFrontEnd(FrontEnd):
    """Codebooks, which turn codes into levels."""

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


FRONT_ENDS = {None: FrontEnd, "tables": TableFrontEnd, "planes": PlaneFrontEnd}
