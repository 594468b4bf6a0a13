"""Models of a run: what the shell does once for each of them."""

from amaranth import C, Cat, Mux, Signal
from amaranth.lib import data, wiring

from bitstep.pipeline.job import EPOCH_FIELDS
from bitstep.pipeline.losses import solver_shift

TABLE_LAYOUT = data.StructLayout(dict(EPOCH_FIELDS))
# Of a model that a run does not have: steps of 0. No shift is 0, which would make no correction but
# leave the last one of an earlier run.
_STILL = TABLE_LAYOUT.const({"shift": 1, "correction_shift": 1})


class OneModel:
    """Part of the shell of a pipeline with one model: its check, its entry of the epoch table, and
    the end of a run whose model leaves its range. The base of :class:`InterleavedModels`.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline.

    Attributes
    ----------
    least_label_shift : int
        Least value of the register LABEL_SHIFT.
    entries : list of Signal
        The table's entry of each model; from :meth:`place` on.
    """

    def __init__(self, config):
        self.config = config
        self.least_label_shift = solver_shift(config.loss_family)

    # Of the check of a run

    def beats(self, m, beats, registers):
        """64-bit beats of all models of a run, of which one has ``beats``."""
        del m, registers
        return beats

    def wrong(self, registers):
        """Flags of numbers of models that a run cannot have."""
        del registers
        return []

    # Of its control

    def place(self, m, control):
        """Make it a part of a control, whose module is ``m``."""
        self._m, self._control = m, control
        self.entries = [Signal(TABLE_LAYOUT, name=f"entry_{model}" if model else "entry")
                        for model in range(self.config.models)]
        for steps, entry in zip([control.steps, *control.more_steps], self.entries, strict=True):
            m.d.comb += [getattr(steps, name).eq(entry[name]) for name in steps.signature.members]

    def begin(self):
        """Begin a run."""

    def store(self, part):
        """Store a part of the table's entry of the model whose turn it is."""
        self._m.d.sync += self.entries[0].as_value()[part].eq(self._control.i.payload)

    def after_each(self, again, then, *, loops=1):
        """Go to ``again`` for the next model, or to ``then`` after the last one or without loop."""
        del again, loops
        self._m.next = then

    def command_state(self, state, name, strobe, then, *, statements=()):
        """State that gives the port its command again, for the next model."""

    def bad_shift(self):
        """Flag that a model's label shift is none; a cycle after its entry."""
        return C(0)         # it is a register

    def seen(self):
        """Strobes of what overflows, of the models that the run has."""
        return self._control.overflowed

    def ended(self):
        """True if the run ends for the models that have left their range."""
        (flag,) = self._flags()
        return flag

    def _flags(self):
        return [self._control.overflow[3 * number:3 * number + 3].any()
                for number in range(len(self.entries))]

    # Of the top

    def connect(self, m, bank, control, pipeline, labels):
        """What tells models apart, into the pipeline and the unpacker of labels."""

    def connect_feeder(self, m, bank, feeder):
        """What tells models apart, into the feeder of the auxiliary stream."""


class InterleavedModels(OneModel):
    """The same for several models, whose turns come one after the other."""

    def __init__(self, config):
        super().__init__(config)
        self.least_label_shift = 0          # those of models stand in the table

    def beats(self, m, beats, registers):
        """64-bit beats of all models of a run, of which one has ``beats``."""
        one = Signal(32)        # a cycle for each product
        m.d.sync += one.eq(beats)
        return one * registers.models

    def wrong(self, registers):
        """Flags of numbers of models that a run cannot have."""
        return [registers.models == 0, registers.models > self.config.models]

    def begin(self):
        """Begin a run. Models that it does not use get step 0."""
        self._m.d.sync += [self._control.model.eq(0),
                           *(entry.eq(_STILL) for entry in self.entries)]

    def store(self, part):
        """Store a part of the table's entry of the model whose turn it is."""
        control, m = self._control, self._m
        for number, entry in enumerate(self.entries):
            with m.If(control.model == number):
                m.d.sync += entry.as_value()[part].eq(control.i.payload)

    def after_each(self, again, then, *, loops=1):
        """Go to ``again`` for the next model, or to ``then`` after the last one or without loop."""
        control, m = self._control, self._m
        m.next = then
        m.d.sync += control.model.eq(0)
        with m.If((control.model + 1 != control.registers.models) & loops):
            m.d.sync += control.model.eq(control.model + 1)
            m.next = again

    def command_state(self, state, name, strobe, then, *, statements=()):
        """State that gives the port its command again, for the next model."""
        with state(name):
            self._m.d.comb += [strobe.eq(1), self._control.model_io.eq(1), *statements]
            self._m.next = then

    def bad_shift(self):
        """Flag that a model's label shift is none; a cycle after its entry."""
        config, registers = self.config, self._control.registers
        bad = Signal()
        least = solver_shift(config.loss_family)
        self._m.d.sync += bad.eq(Cat((registers.models > number) & (
            (entry.label_shift < least) | (entry.label_shift > config.rows.max_label_shift))
            for number, entry in enumerate(self.entries)).any())
        return bad

    def seen(self):
        """Strobes of what overflows, of the models that the run has."""
        control = self._control
        return control.overflowed & Cat((control.registers.models > number).replicate(3)
                                       for number in range(len(self.entries)))

    def ended(self):
        """True if the run ends for the models that have left their range."""
        registers, flags = self._control.registers, self._flags()
        on = Cat((registers.models > number) & ~flag for number, flag in enumerate(flags))
        return Mux(registers.end_with_first, Cat(flags).any(), ~on.any())

    def connect(self, m, bank, control, pipeline, labels):
        """What tells models apart, into the pipeline and the unpacker of labels."""
        m.d.comb += [
            pipeline.model.eq(control.model), pipeline.overflow.eq(control.overflow),
            labels.shared.eq(bank.shared_labels),
        ]
        if self.config.rows.packed:
            m.d.comb += pipeline.models.eq(bank.models)
        for source, target in zip(control.more_steps, pipeline.more_steps, strict=True):
            wiring.connect(m, source, target)

    def connect_feeder(self, m, bank, feeder):
        """What tells models apart, into the feeder of the auxiliary stream."""
        m.d.comb += [feeder.models.eq(bank.models), feeder.shared_labels.eq(bank.shared_labels)]


def models_of(config):
    """Return what the shell of a pipeline does for its models."""
    return (OneModel if config.models == 1 else InterleavedModels)(config)
