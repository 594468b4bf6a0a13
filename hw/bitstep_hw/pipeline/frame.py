"""Ports that all pipelines have, and what the commands between epochs do."""

from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import AUX_WIDTH
from bitstep_hw.parts.run import EpochSteps, RunRegisters
from bitstep_hw.pipeline.model.port import ModelPort


class PipelineFrame(wiring.Component):
    """Base of the pipelines: ports, and the models' way in and out.

    Parameters
    ----------
    config : PipelineConfig
        The choices that the pipeline is made from.
    labels : ShapeLike
        Shape of the labels that come together, and of what comes with them.
    more : dict
        Further ports.

    Members
    -------
    run : In(RunRegisters), steps : In(EpochSteps)
        Numbers of the run and of the epoch.
    start : In(1), done : Out(1)
        Strobes around an epoch.
    stop : In(1)
        Ends an epoch early; hold it for ``config.latency`` cycles before the next one.
    misaligned : Out(1), waits : Out(7)
        From the sequencer: a period that is no multiple of the batch; the reason why no row entered
        (rows, labels, look-ahead, recursion, correction, refetch, flush), bit 0 first.
    beat_entered, row_refetched : Out(1)
        Strobes: a beat of a row entered; a row is fetched again.
    clear, load, load_coefficients, unload : In(1), model_done : Out(1)
        Commands between epochs, and the strobe that one has ended, as those of
        :class:`bitstep_hw.pipeline.model.port.ModelPort`.
    i_model : In(stream.Signature(64)), o_model : Out(stream.Signature(64))
        Models and coefficients in, models out.
    i_rows : In(stream.Signature(beat_width)), i_labels : In(stream.Signature(labels))
        The epoch's rows and labels.
    overflowed : Out(3 * models)
        Strobes, three for each model, as :class:`bitstep.pipeline.registers.Overflow`.
    model : In, overflow : In(3 * models), more_steps : In(EpochSteps()).array(models - 1)
        With more than one model: the one that the next load or unload is for, the flags of all, and
        the epoch's numbers of all but the first.
    """

    def __init__(self, config, *, labels, more):
        self.config = config
        self.port = ModelPort(config=config)
        self.has_more_models = config.models > 1
        super().__init__({
            "run": In(RunRegisters(row_weights=config.row_weights)), "steps": In(EpochSteps()),
            "start": In(1), "stop": In(1), "done": Out(1),
            "i_rows": In(stream.Signature(config.rows.beat_width)),
            "i_labels": In(stream.Signature(labels)),
            "overflowed": Out(3 * config.models), "misaligned": Out(1), "waits": Out(7),
            "beat_entered": Out(1), "row_refetched": Out(1),
            "clear": In(1), "load": In(1), "load_coefficients": In(1), "unload": In(1),
            "model_done": Out(1),
            "i_model": In(stream.Signature(AUX_WIDTH)), "o_model": Out(stream.Signature(AUX_WIDTH)),
            "model": In(range(config.models)), "overflow": In(3 * config.models),
            "more_steps": In(EpochSteps()).array(config.models - 1),
            **more,
        })

    @property
    def all_steps(self):
        """Numbers of the epoch, of every model."""
        return [self.steps, *self.more_steps]

    @property
    def label_shifts(self):
        """Scale of every model's labels. Models of a run differ in it, so it stands with their
        steps.
        """
        return [steps.label_shift for steps in self.all_steps] if self.has_more_models \
            else [self.run.label_shift]

    def connect_streams(self, m):
        """The models, on their way in and out."""
        wiring.connect(m, wiring.flipped(self.i_model), self.port.i)
        wiring.connect(m, self.port.o, wiring.flipped(self.o_model))

    def connect_commands(self, m, *, beats):
        """Commands to the port; ``beats``: those of a model."""
        port = self.port
        m.d.comb += [
            port.beats.eq(beats), port.stop.eq(self.stop), port.clear.eq(self.clear),
            port.load.eq(self.load), port.load_coefficients.eq(self.load_coefficients),
            port.unload.eq(self.unload), self.model_done.eq(port.done),
        ]

    def connect_selection(self, m):
        """The number of the model that a command is for, and the flags of that model."""
        if self.has_more_models:
            port = self.port
            m.d.comb += [port.model.eq(self.model),
                         port.flags.eq(self.overflow.word_select(port.selected, 3))]
