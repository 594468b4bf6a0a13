"""Interleaved models of a run: what its control does once for each of them."""

from contextlib import nullcontext

from amaranth import C, Cat, Mux, Signal
from amaranth.lib import data

from bitstep.pipeline.job import EPOCH_FIELDS
from bitstep.pipeline.losses import solver_shift

TABLE_LAYOUT = data.StructLayout(dict(EPOCH_FIELDS))
# Of a model that a run does not have: steps of 0. No shift is 0, which would make no correction but
# leave the last one of an earlier run.
_STILL = TABLE_LAYOUT.const({"shift": 1, "correction_shift": 1})


class InterleavedModels:
    """Part of :class:`bitstep_hw.shell.run_control.RunControl`: entries of the epoch table, the
    model whose turn it is, and the end of models that leave their range. With one model nothing is
    interleaved.

    Parameters
    ----------
    m : Module
        Module of the control.
    control : RunControl

    Attributes
    ----------
    entries : list of Signal
        The table's entry of each model.
    """

    def __init__(self, m, control):
        self._m, self._control = m, control
        self._several = control.config.models > 1
        self.entries = [Signal(TABLE_LAYOUT, name=f"entry_{model}" if model else "entry")
                        for model in range(control.config.models)]
        all_steps = [control.steps, *(control.more_steps if self._several else ())]
        for steps, entry in zip(all_steps, self.entries, strict=True):
            m.d.comb += [getattr(steps, name).eq(entry[name]) for name in steps.signature.members]

    def begin(self):
        """Begin a run. Models that it does not use hold still with steps of 0."""
        if self._several:
            self._m.d.sync += [self._control.model.eq(0),
                               *(entry.eq(_STILL) for entry in self.entries)]

    def store(self, part):
        """Store a part of the table's entry of the model whose turn it is."""
        control, m = self._control, self._m
        for number, entry in enumerate(self.entries):
            with m.If(control.model == number) if self._several else nullcontext():
                m.d.sync += entry.as_value()[part].eq(control.i.payload)

    def after_each(self, again, then, *, loops=1):
        """Go to ``again`` for the next model, or to ``then`` after the last one or without loop."""
        control, m = self._control, self._m
        m.next = then
        if self._several:
            m.d.sync += control.model.eq(0)
            with m.If((control.model + 1 != control.registers.models) & loops):
                m.d.sync += control.model.eq(control.model + 1)
                m.next = again

    def command_state(self, state, name, strobe, then, *, statements=()):
        """State that gives the port its command again, for the next model."""
        if self._several:
            with state(name):
                self._m.d.comb += [strobe.eq(1), self._control.model_io.eq(1), *statements]
                self._m.next = then

    def bad_shift(self):
        """Flag that a model's label shift is none; a cycle after its entry, and 0 with one model,
        whose label shift is a register.
        """
        if not self._several:
            return C(0)
        config, registers, bad = self._control.config, self._control.registers, Signal()
        least = solver_shift(config.loss_family)
        self._m.d.sync += bad.eq(Cat((registers.models > number) & (
            (entry.label_shift < least) | (entry.label_shift > config.rows.max_label_shift))
            for number, entry in enumerate(self.entries)).any())
        return bad

    def seen(self):
        """Strobes of what overflows, of the models that the run has."""
        control = self._control
        if not self._several:
            return control.overflowed
        return control.overflowed & Cat((control.registers.models > number).replicate(3)
                                       for number in range(len(self.entries)))

    def ended(self):
        """True if the run ends for the models that have left their range."""
        registers = self._control.registers
        flags = [self._control.overflow[3 * number:3 * number + 3].any()
                 for number in range(len(self.entries))]
        if not self._several:
            return flags[0]
        on = Cat((registers.models > number) & ~flag for number, flag in enumerate(flags))
        return Mux(registers.end_with_first, Cat(flags).any(), ~on.any())
