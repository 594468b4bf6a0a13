"""Ports that every solver has."""

from amaranth import C, Cat, Mux, signed
from amaranth.lib.wiring import In, Out

from bitstep.golden.dither import DITHER_WIDTH
from bitstep.pipeline.parts.widths import (
    FEW_BITS,
    LABEL_WIDTH,
    MANTISSA_WIDTH,
    MAX_LABEL_SHIFT,
    MAX_LOOKAHEAD,
    MAX_SHIFT,
    UPDATE_WIDTH,
)
from bitstep_hw.parts.arithmetic import delay
from bitstep_hw.pipeline.update.derivative_step import STEP_WIDTH
from bitstep_hw.pipeline.update.update_history import UpdateHistory, UpdateMemory


def solver_ports(config):
    """Return the members by which the pipeline is connected with its solver, whatever its loss.

    Members
    -------
    clear : In(1)
        Strobe: forget every c; between epochs.
    valid : In(1)
        Strobe: a row enters, ``solver.lead`` cycles before its dot product.
    idle_row : In(1)
        The row only fills a slot and has c = 0.
    products : In(signed(gram_width)).array(correlated_rows)
        Products of the row that enters with the rows before, nearest first; with
        ``batch_lookahead`` a cycle later, with those before the last ``idle_rows``.
    idle_rows : In
        With ``batch_lookahead``: rows without data between two batches; constant during an epoch.
    label : In(signed(32))
        Label of the row that enters.
    dot : In(signed(dot_width))
        Dot product of the row that entered ``solver.lead`` cycles before.
    dither : In(16)
        Random bits of the row of ``dot``.
    take : Out(1)
        Strobe, with ``dot``: ``dither`` is used.
    mantissa : In(18)
        Mantissa of the step size; constant during an epoch. With ``row_weights`` that of the row
        that enters, and so are ``derivative_step``, ``step_too_large`` and a linear solver's
        ``bound``.
    shift : In
        Its shift, in units of 8 bits; constant during an epoch.
    label_shift : In
        Fraction bits of the dot product beyond the label's; constant during an epoch.
    derivative_step : In(47)
        K of :class:`bitstep_hw.pipeline.update.derivative_step.DerivativeStep`, with 16 fraction
        bits; constant during an epoch.
    step_too_large : In(1)
        K does not fit; constant during an epoch.
    update_bits : In
        With ``rounded_updates``: the register; constant during an epoch.
    o_valid : Out(1)
        Strobe: ``o`` is the c of a row.
    o : Out(signed(32))
        c.
    overflowed : Out(1)
        Strobe: the c of a row did not fit.
    derivatives : In(1)
        Of bit-plane rows: labels are derivatives at a centre; constant during a run.
    to_nearest : In(1)
        With ``full_passes``: c is rounded to nearest, ties up, without dither; constant
        during a run.
    o_with_data, o_positive : Out(1)
        With ``full_passes``, or ``refetch``, beside ``o``: the row has data; its label is positive.
    fine : In(1)
        With ``solver.fine``: sigmoids are the finer ones, and updates come so many cycles later;
        constant during a run.
    """
    return {
        "clear": In(1), "valid": In(1), "idle_row": In(1),
        "products": In(signed(config.rows.gram_width)).array(config.stages.solver.correlated_rows),
        "label": In(signed(LABEL_WIDTH)),
        "dot": In(signed(config.rows.dot_width)),
        "dither": In(DITHER_WIDTH),
        "take": Out(1),
        "mantissa": In(MANTISSA_WIDTH),
        "shift": In(range(MAX_SHIFT + 1)),
        "label_shift": In(range(MAX_LABEL_SHIFT + 1)),
        "derivative_step": In(STEP_WIDTH),
        "step_too_large": In(1),
        "idle_rows": In(range(MAX_LOOKAHEAD + 1)),
        "update_bits": In(range(FEW_BITS[1] + 1)),
        "o_valid": Out(1), "o": Out(signed(UPDATE_WIDTH)),
        "overflowed": Out(1),
        "derivatives": In(1), "to_nearest": In(1), "o_with_data": Out(1), "o_positive": Out(1),
        "fine": In(1),
    }


class RowSteps:
    """What a solver scales rows by: constant during an epoch, or with ``row_weights`` each row's
    own, on its way through the solver.

    Parameters
    ----------
    m : Module
        Module of the solver.
    solver : Component
    history : UpdateHistory
        Counts the cycles that a row has left.
    late : int, optional
        Cycles after the row in which its largest derivative comes; its mantissa comes with it.
    constants : dict of Value, optional
        By the names of ports: what is used of them while they are constant.
    """

    def __init__(self, m, solver, history, *, late=0, constants=None):
        self._m, self._solver, self._entry, self._late = m, solver, history.entry, late
        self._constants, self._found = constants or {}, {}

    def at(self, name, left):
        """The port ``name`` for the row with ``left`` cycles left."""
        comes = self._entry - (0 if name == "mantissa" else self._late)
        if not self._solver.config.row_weights:
            return self._constants.get(name, getattr(self._solver, name))
        if left == comes:
            return getattr(self._solver, name)
        assert left < comes, f"{name} comes {left - comes} cycles too late"
        if (name, left) not in self._found:
            before = self.at(name, left + 1)
            self._found[name, left] = delay(self._m, before, 1, name=f"{name}_at_{left}")
        return self._found[name, left]


def doubled_dither(solver):
    """The dither of a row d and a half, d + 1/2 with 17 bits: 2 d + 1; of a run that rounds to
    nearest what does as a half.
    """
    doubled = Cat(C(1, 1), solver.dither)
    if not solver.config.stages.full_passes:
        return doubled
    return Mux(solver.to_nearest, C(1 << DITHER_WIDTH, DITHER_WIDTH + 1), doubled)


def history_of(m, solver):
    """The updates of the last rows, for a solver."""
    strobes = {"valid": solver.valid, "idle_row": solver.idle_row, "clear": solver.clear}
    if solver.config.batch_lookahead:
        return UpdateMemory(m, solver.config, idle_rows=solver.idle_rows, **strobes)
    rows = max(solver.config.stages.solver.correlated_rows, 1)
    return UpdateHistory(m, solver.config, rows=rows, **strobes)


def give_update(m, solver, history, positive):
    """Connect the update of the row with no cycles left; ``positive``: the label of the row with
    one cycle left is positive.
    """
    m.d.comb += [solver.o_valid.eq(history.stage_valid[0]), solver.o.eq(history.newest)]
    if solver.config.stages.full_passes:
        m.d.comb += solver.o_with_data.eq(~history.stage_idle[0])
        m.d.sync += solver.o_positive.eq(positive)
