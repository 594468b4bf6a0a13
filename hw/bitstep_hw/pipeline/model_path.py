"""The part of the pipeline that each model has of its own."""

from amaranth import C, Signal
from amaranth.lib import wiring

from bitstep_hw.parts.arithmetic import delay, each, same
from bitstep_hw.pipeline.model.store import ModelStore
from bitstep_hw.pipeline.products.dot_product import DotProduct
from bitstep_hw.pipeline.update.derivative_step import DerivativeStep
from bitstep_hw.pipeline.update.linear_solver import LinearSolver
from bitstep_hw.pipeline.update.logistic_solver import LogisticSolver
from bitstep_hw.pipeline.update.row_decision import bound_width
from bitstep_hw.pipeline.update.row_mantissa import row_mantissa
from bitstep_hw.pipeline.update.update_queue import UpdateQueue

SOLVERS = {"linear": LinearSolver, "logistic": LogisticSolver}


class ModelPath:
    """Weights, dot product, solver and updates of one model.

    Everything that depends on the rows alone comes from the pipeline, and all models meet a slot in
    the same cycle. So what one of them waits for, all do, and a strobe of the first is one of all.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline.
    number : int
        Number of the model, from 0.

    Attributes
    ----------
    left_update, left_correction, rewritten : Value
        Strobes: an update, a correction, or a word of a row that was fetched again left its range.
        The stages that only some pipelines have add theirs.
    """

    def __init__(self, config, number):
        self.config, self.number = config, number
        self.updates = UpdateQueue(config=config)
        self.store = ModelStore(config=config)
        self.dot_product = DotProduct(config=config)
        linear = config.loss_family == "linear"
        # Registers of a product: of a mantissa with a weight, or with a bound.
        self._product_stages = 2 if config.stages.clock.fast else 1
        self.derivative_step = DerivativeStep(
            bound_width=bound_width(config) if linear else None,
            product_stages=self._product_stages, decoded=config.clock.every_cycle)
        # With ``row_weights``: cycles from a row's own mantissa until the row enters the solver,
        # and from its largest derivative, which may also come after the row has entered: rows that
        # look ahead from a batch to the next enter early.
        self._mantissa_wait = config.stages.solver_entry - self._product_stages - 1
        self._step_wait = self._mantissa_wait - self.derivative_step.latency
        late = {"steps_late": max(-self._step_wait, 0)} if linear else {}
        self.solver = SOLVERS[config.loss_family](config=config, **late)
        self.left_update, self.left_correction, self.rewritten = self.solver.overflowed, C(0), C(0)

    def named(self, name):
        """``name``, with the number of further models."""
        return name + (f"_{self.number}" if self.number else "")

    def place(self, m, *names):
        """Make parts submodules, in the order of ``names``."""
        for name in names:
            m.submodules[self.named(name)] = getattr(self, name)

    def selects(self, port, strobe):
        """``strobe`` of the port, while it has this model selected."""
        del port
        return strobe

    def connect_words(self, m, port):
        """Words to the port."""
        wiring.connect(m, port.words, self.store.words)

    def connect_model(self, m, pipeline, slots):
        """The model and its updates."""
        store, updates = self.store, self.updates
        m.d.comb += [
            updates.clear.eq(pipeline.start), updates.slot.eq(slots[1]),
            updates.i_valid.eq(self.solver.o_valid), updates.i.eq(self.solver.o),
            store.slot.eq(slots[self.config.stages.store.entry]), store.update.eq(updates.o),
            store.intercept_level.eq(pipeline.run.intercept_level),
            *each(store.levels, pipeline.levels.applied),
        ]

    def connect_dot_product(self, m, pipeline, dotted, level):
        """The dot product of the slot ``dotted``, whose intercept counts ``level``."""
        dot_product = self.dot_product
        m.d.comb += [
            dot_product.valid.eq(dotted.valid), dot_product.first.eq(dotted.first),
            dot_product.last.eq(dotted.last),
            dot_product.intercept.eq(self.store.intercept), dot_product.intercept_level.eq(level),
            *each(dot_product.levels, pipeline.levels.late_dot),
        ]

    def connect_solver(self, m, pipeline, dotted, label, steps, label_shift, row):
        """The solver; ``label`` is that of the row that enters, with its products; ``row`` came
        with its last slot.
        """
        solver, step, stages = self.solver, self.derivative_step, self.config.stages
        mantissa, scale = self._scale(m, pipeline, steps, row)
        since_dotted = stages.dot.cycles - stages.solver.lead - stages.store.words
        m.d.comb += [
            solver.clear.eq(pipeline.start), solver.valid.eq(pipeline.correlator.o_valid),
            solver.idle_row.eq(delay(m, dotted.idle_row, since_dotted, name=self.named("idle"))),
            solver.label.eq(label),
            *each(solver.products, pipeline.correlator.products),
            solver.dot.eq(self.dot_product.o), solver.dither.eq(pipeline.dither.o),
            solver.derivative_step.eq(scale["derivative_step"]),
            solver.step_too_large.eq(scale["step_too_large"]),
        ]
        if self.config.batch_lookahead:
            m.d.comb += solver.idle_rows.eq(pipeline.idle_rows)
        if self.config.loss_family == "linear":
            m.d.comb += [step.factor.eq(pipeline.run.derivative_bound),
                         solver.bound.eq(scale["bound"])]
        for part, own in ((solver, scale["mantissa"]), (step, mantissa)):
            m.d.comb += [part.mantissa.eq(own), part.shift.eq(steps.shift),
                         part.label_shift.eq(label_shift)]
        for extra in pipeline.extras:
            extra.connect_solver(m, solver, pipeline.run)
        m.d.comb += same(solver, pipeline.run, *solver.RUN_NUMBERS)

    def _scale(self, m, pipeline, steps, row):
        """What the solver scales a row by, when it takes it, by name; with ``row_weights`` from the
        row's own mantissa.
        """
        step, mantissa, wait, then = self.derivative_step, steps.mantissa, 0, 0
        if self.config.row_weights:
            weighted = pipeline.run.weighted
            if self.config.refetch:     # at an epoch's start its K, which bounds those of all rows
                weighted = weighted & ~pipeline.start
            mantissa = Signal.like(steps.mantissa, name=self.named("own"), reset_less=True)
            m.d.sync += mantissa.eq(row_mantissa(
                m, weighted, steps.key, mantissa=steps.mantissa, weight=row.weight,
                place=row.place, stages=self._product_stages, kept=steps.mantissa,
                name=self.named))
            wait, then = self._mantissa_wait, max(self._step_wait, 0)
        scale = {"mantissa": delay(m, mantissa, wait, name=self.named("own")),
                 "derivative_step": step.value, "step_too_large": step.too_large}
        if self.config.loss_family == "linear":
            scale["bound"] = step.bound
        return mantissa, {name: value if name == "mantissa" else
                          delay(m, value, then, name=self.named(name))
                          for name, value in scale.items()}

    def overflowed(self):
        """Flags of what leaves its range, bits as
        :class:`bitstep.pipeline.registers.Overflow`.
        """
        return [self.left_update, self.store.overflowed | self.rewritten, self.left_correction]


class OneOfSeveral(ModelPath):
    """The same of one of several models, of which the port selects one."""

    def selects(self, port, strobe):
        """``strobe`` of the port, while it has this model selected."""
        return strobe & (port.selected == self.number)

    def connect_words(self, m, port):
        """Words to the port, while it has this model selected; all of them are cleared at once."""
        words, mine = port.words, self.store.words
        m.d.comb += same(mine, words, "index", "pair", "shown", "write_data", "intercept", "clear")
        m.d.comb += mine.write.eq(self.selects(port, words.write))


def paths_of(config):
    """Return the paths of a pipeline's models."""
    kind = ModelPath if config.models == 1 else OneOfSeveral
    return [kind(config, number) for number in range(config.models)]


def connect_selected(m, paths, port):
    """Words that are read, of the model that the port has selected."""
    for name in ("read_data", "late_data"):
        value = getattr(port.words, name)
        with m.Switch(port.selected):
            for path in paths:
                with m.Case(path.number):
                    m.d.comb += value.eq(getattr(path.store.words, name))
