"""Control of a whole run: loads, epochs, models out, and its end."""

from amaranth import Cat, Module, Mux, Signal
from amaranth.lib import stream, wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.bit_planes import GROUP
from bitstep.pipeline.parts.widths import AUX_WIDTH
from bitstep.pipeline.registers import Error
from bitstep_hw.axi.buses import JOB_LAYOUT
from bitstep_hw.bit_planes.sizes import GROUPS_WIDTH
from bitstep_hw.parts.arithmetic import same
from bitstep_hw.parts.fsm import stoppable_states
from bitstep_hw.parts.reset import SETTLE
from bitstep_hw.parts.run import EpochSteps, RunRegisters
from bitstep_hw.shell.front_ends import front_end_of
from bitstep_hw.shell.models import models_of
from bitstep_hw.shell.run_check import RunCheck, registers_layout


class RunControl(wiring.Component):
    """State machine that takes a run from its start to its end, whatever happens.

    It checks the registers, loads the first model and the coefficients, then for each epoch takes
    its table entry, lets the pipeline work and writes the model. Every end goes through ``stop``:
    inputs are cut off, transfers under way are completed, and only then is the run done.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline whose runs these are.

    Members
    -------
    registers : In(registers_layout(config))
        The writable registers, by name.
    start, abort : In(1)
        Strobes from the register CONTROL.
    begin : Out(1), stop : Out(1)
        Strobe: the checked run begins. While ``stop`` is 1, inputs are cut off.
    row_error, aux_error, write_error, misaligned : In(1), overflowed : In(3)
        Strobes of what can go wrong.
    buses_idle, write_idle : In(1)
        Nothing under way on any bus; nothing on the writing one.
    row_beats, model_beats, codebooks_beats : Out(32), corrects : Out(1), ...
        From :class:`bitstep_hw.shell.run_check.RunCheck`.
    label_beats : In(32)
        64-bit beats of an epoch's labels.
    i : In(stream.Signature(64)), o_labels, o_model, o_tables : Out(stream.Signature(64))
        The auxiliary stream, and where it goes; ``o_tables``: the codebooks.
    tables_done : In(1)
        Strobe beside the last word of the codebooks.
    job : Out(stream.Signature(JOB_LAYOUT))
        Blocks for the models to be written.
    clear, load, load_coefficients, unload : Out(1), port_done : In(1)
        Commands of :class:`bitstep_hw.pipeline.model.port.ModelPort`.
    epoch_start : Out(1), epoch_done : In(1)
        Strobes around an epoch of the pipeline.
    run : Out(RunRegisters), steps : Out(EpochSteps)
        The registers that the pipeline needs; the epoch's table entry.
    busy, done, model_io : Out(1)
        State of the run; ``model_io`` while models and tables move.
    error : Out(4), overflow : Out(3 * models), epochs_done : Out(32)
        As the registers of these names.
    model : Out, more_steps : Out(EpochSteps()).array(models - 1)
        With more than one model: the one that the port's command is for; the table's entries of all
        but the first.
    """

    def __init__(self, *, config):
        self.config = config
        self._front_end, self._models = front_end_of(config), models_of(config)
        super().__init__({
            "registers": In(registers_layout(config)),
            "start": In(1), "abort": In(1), "begin": Out(1), "stop": Out(1),
            "row_error": In(1), "aux_error": In(1), "write_error": In(1), "misaligned": In(1),
            "overflowed": In(3 * config.models), "buses_idle": In(1), "write_idle": In(1),
            "row_beats": Out(32), "model_beats": Out(32), "codebooks_beats": Out(32),
            "corrects": Out(1), "label_beats": In(32), "plane_units": Out(GROUPS_WIDTH),
            "last_groups": Out(range(config.rows.lanes // GROUP + 1)),
            "i": In(stream.Signature(AUX_WIDTH)),
            "o_labels": Out(stream.Signature(AUX_WIDTH)),
            "o_model": Out(stream.Signature(AUX_WIDTH)),
            "o_tables": Out(stream.Signature(AUX_WIDTH)), "tables_done": In(1),
            "job": Out(stream.Signature(JOB_LAYOUT)),
            "clear": Out(1), "load": Out(1), "load_coefficients": Out(1), "unload": Out(1),
            "port_done": In(1),
            "epoch_start": Out(1), "epoch_done": In(1),
            "run": Out(RunRegisters(row_weights=config.row_weights)), "steps": Out(EpochSteps()),
            "busy": Out(1), "done": Out(1), "model_io": Out(1),
            "error": Out(4), "overflow": Out(3 * config.models), "epochs_done": Out(32),
            "model": Out(range(config.models)),
            "more_steps": Out(EpochSteps()).array(config.models - 1),
        })

    def elaborate(self, platform):
        m = Module()
        m.submodules.check = check = RunCheck(config=self.config)
        self._models.place(m, self)
        stopping = Signal()
        failure = self._failure(m, stopping)
        address = Signal(64)
        settle = Signal(range(SETTLE))
        to_labels = Signal()
        to_model = Signal()
        take_entry = Signal()
        to_tables = Signal()
        table_ready = Signal()
        self._front_end.connect_control(m, self, to_tables, table_ready)
        m.d.comb += [
            check.registers.eq(self.registers), check.start.eq(self.start & ~self.busy),
            *same(self, check, "row_beats", "model_beats", "codebooks_beats", "corrects",
                  *self._front_end.sizes),
            *(getattr(self.run, name).eq(self.registers[name])
              for name in self.run.signature.members),
            self.o_labels.payload.eq(self.i.payload), self.o_model.payload.eq(self.i.payload),
            self.o_labels.valid.eq(to_labels & self.i.valid),
            self.o_model.valid.eq(to_model & self.i.valid),
            self.i.ready.eq((to_labels & self.o_labels.ready) | (to_model & self.o_model.ready)
                            | table_ready | take_entry),
            self.job.payload.address.eq(address),
            self.job.payload.beats.eq(self.model_beats << self.run.gradient),   # of two halves
        ]
        labels_left = Signal(32)        # of this epoch
        sent = Signal()
        expected = Signal()         # labels_left is not 0
        with m.If(self.epoch_start):
            m.d.sync += [labels_left.eq(self.label_beats), expected.eq(self.label_beats != 0),
                         sent.eq(0)]
        with m.Elif(self.o_labels.valid & self.o_labels.ready):
            m.d.sync += [labels_left.eq(labels_left - 1), expected.eq(labels_left != 1)]
        with m.Elif(self.job.valid & self.job.ready):
            m.d.sync += sent.eq(1)
        state = stoppable_states(m, failure, "Stop", statements=[settle.eq(0)])
        with m.FSM() as fsm:
            m.d.comb += self.busy.eq(~fsm.ongoing("Idle"))
            with m.State("Idle"):
                with m.If(self.start):
                    m.d.sync += [self.done.eq(0), self.error.eq(0), self.overflow.eq(0),
                                 self.epochs_done.eq(0),
                                 address.eq(self.registers.model_out_address)]
                    self._models.begin()
                    m.next = "Check"
            self._load_states(m, state, check, to_model, to_tables)
            self._epoch_states(m, state, expected, to_labels, take_entry)
            self._write_states(m, state, failure, sent, address, settle)
            # A register, because so many things wait for it.
            m.d.comb += stopping.eq(fsm.ongoing("Stop"))
            m.d.sync += self.stop.eq(stopping)
            with m.State("Stop"):
                m.d.sync += settle.eq(settle + 1)
                with m.If(~self.buses_idle):
                    m.d.sync += settle.eq(0)
                with m.Elif(settle == SETTLE - 1):
                    m.d.sync += [settle.eq(0), self.done.eq(1)]
                    m.next = "Idle"
        return m

    def _load_states(self, m, state, check, to_model, to_tables):
        """States from the start to the first epoch."""
        registers, models = self.registers, self._models
        last = self._front_end.before_epochs
        with state("Check"):
            with m.If(check.bad):
                m.d.sync += self.error.eq(Error.BAD_CONFIGURATION.value)
                m.next = "Stop"
            with m.Elif(check.ready):
                m.d.comb += [self.begin.eq(1), self.load.eq(registers.warm_start),
                             self.clear.eq(~registers.warm_start)]
                m.next = "Model"
        with state("Model"):
            m.d.comb += [to_model.eq(registers.warm_start), self.model_io.eq(1)]
            with m.If(self.port_done):
                # Clearing is for all models at once.
                models.after_each("Load-Next", "Model-Loaded", loops=registers.warm_start)
        models.command_state(state, "Load-Next", self.load, "Model")
        with state("Model-Loaded"):
            m.d.comb += self.load_coefficients.eq(self.corrects)
            m.next = last
            with m.If(self.corrects):
                m.next = "Coefficients"
        with state("Coefficients"):
            m.d.comb += [to_model.eq(1), self.model_io.eq(1)]
            with m.If(self.port_done):
                models.after_each("Coefficients-Next", last)
        models.command_state(state, "Coefficients-Next", self.load_coefficients, "Coefficients")
        self._front_end.load_state(m, state, self, to_tables)

    def _epoch_states(self, m, state, expected, to_labels, take_entry):
        """States of an epoch, up to the verdict on its model."""
        with state("Table"):
            m.d.comb += [take_entry.eq(1), self.model_io.eq(1)]
            with m.If(self.i.valid):
                self._models.store(slice(AUX_WIDTH))
                m.next = "Table-Rest"
        with state("Table-Rest"):
            m.d.comb += [take_entry.eq(1), self.model_io.eq(1)]
            with m.If(self.i.valid):
                self._models.store(slice(AUX_WIDTH, None))
                self._models.after_each("Table", "Start")
        with state("Start"):
            m.d.comb += self.epoch_start.eq(1)
            m.next = "Epoch"
        with state("Epoch"):
            m.d.comb += to_labels.eq(expected)
            with m.If(self.epoch_done):
                m.next = "Judge"
        with state("Judge"):
            # One cycle after the pipeline's last word, its flags have arrived too.
            with m.If(self._models.ended()):
                m.d.sync += self.error.eq(Error.OVERFLOW.value)
                m.next = "Stop"
            with m.Else():
                # Derivatives are written already, or on their way, in place of a model.
                m.d.comb += self.unload.eq(~self.run.derivatives)
                m.next = "Write"
                if self.config.stages.full_passes:
                    with m.If(self.run.derivatives):
                        m.next = "Written"

    def _write_states(self, m, state, failure, sent, address, settle):
        """States in which an epoch's model goes to memory."""
        last_epoch = Signal()       # a cycle late: the number changes at an epoch's end
        m.d.sync += last_epoch.eq(self.epochs_done == self.registers.epochs - 1)
        with state("Write"):
            m.d.comb += [self.job.valid.eq(~sent), self.model_io.eq(1)]
            with m.If(self.port_done):
                self._models.after_each("Unload-Next", "Written")
        self._models.command_state(state, "Unload-Next", self.unload, "Write",
                                   statements=[self.job.valid.eq(~sent)])
        with state("Written"):
            # Four cycles pass before ``write_idle`` tells of this model.
            m.d.comb += self.model_io.eq(1)
            m.d.sync += settle.eq(Mux(settle == 4, 4, settle + 1))
            with m.If((settle == 4) & self.write_idle & ~failure):
                m.d.sync += [settle.eq(0), self.epochs_done.eq(self.epochs_done + 1),
                             address.eq(address + self.registers.model_out_stride)]
                m.next = "Table"
                with m.If(last_epoch):
                    m.next = "Stop"

    def _failure(self, m, stopping):
        """Keep the first reason of a failure, and collect what overflowed; returns the flag that
        the run fails now.
        """
        failure = Signal()
        causes = [(self.abort, Error.ABORTED), (self.row_error, Error.ROW_READ),
                  (self.aux_error, Error.AUX_READ), (self.write_error, Error.MODEL_WRITE),
                  (self.misaligned | (self.epoch_start & self._models.bad_shift()),
                   Error.BAD_CONFIGURATION)]
        m.d.comb += failure.eq(Cat(cause for cause, _ in causes).any())
        with m.If(self.busy & ~stopping):
            m.d.sync += self.overflow.eq(self.overflow | self._models.seen())
            for cause, reason in reversed(causes):
                with m.If(cause):
                    m.d.sync += self.error.eq(reason.value)
        return failure
