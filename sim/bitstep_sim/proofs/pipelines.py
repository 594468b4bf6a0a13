"""A whole pipeline, with and without look-ahead, against sequential SGD."""

import contextlib
import sys
from dataclasses import dataclass, replace

from amaranth import C, Cat, Mux, Signal, signed

from bitstep.golden.dither import DITHER_WIDTH, dithers
from bitstep_hw.pipeline.pipeline import Pipeline
from bitstep_sim.proofs.formal import Property, Surrounding, implies
from bitstep_sim.proofs.mutation import Mutation
from bitstep_sim.proofs.ranges import NarrowConfig

# Words this narrow keep every sum of products within what the prover can compare.
NARROW = {"MODEL_WIDTH": 4, "UPDATE_WIDTH": 4, "AUX_WIDTH": 8, "MANTISSA_WIDTH": 2,
          "SHIFT_UNIT": 1, "MAX_SHIFT": 1, "LABEL_WIDTH": 3}
START = 4                   # cycle of the strobe ``start``
KEY = 5                     # of the dither: with a shift of 1 its first bits are 1, 0, 1


@dataclass(frozen=True)
class Epoch:
    """Numbers of an epoch. None: any, the same in every cycle.

    Parameters
    ----------
    rows : tuple of (tuple of int or None)
        Levels of each row, two from -1 to 1.
    mantissa : int or None
        The step's mantissa, of 2 bits.
    level : int or None
        INTERCEPT_LEVEL, 0 or 1.
    gap : int
        Cycles from one row to the next at least.
    """

    rows: tuple[tuple[int, int] | None, ...]
    mantissa: int | None = None
    level: int | None = None
    gap: int = 1

    def codes(self, s):
        """The rows as the bus gives them."""
        codes = []
        for number, row in enumerate(self.rows):
            if row is not None:
                codes.append(C(row[0] & 3 | (row[1] & 3) << 2, 4))
                continue
            codes.append(s.constant(4, name=f"row_{number}"))
            for half in (codes[-1][:2], codes[-1][2:]):
                s.assume(half != 2)         # no code of the row format
        return codes

    def scales(self, s):
        """Mantissa and level."""
        mantissa = s.constant(2, name="any_mantissa") if self.mantissa is None \
            else C(self.mantissa, 2)
        return mantissa, s.constant(1, name="any_level") if self.level is None else C(self.level, 1)


@contextlib.contextmanager
def narrow():
    """The generators make words of ``NARROW`` widths meanwhile."""
    modules = [module for name, module in sys.modules.items()
               if name.startswith(("bitstep_hw.", "bitstep.pipeline.config"))
               # Least squares does not use K.
               and name != "bitstep_hw.pipeline.update.derivative_step"]
    changed = [(module, name, getattr(module, name)) for module in modules for name in NARROW
               if hasattr(module, name)]
    try:
        for module, name, _ in changed:
            setattr(module, name, NARROW[name])
        yield
    finally:
        for module, name, value in changed:
            setattr(module, name, value)


def _fits(value, width):
    return (value >= -1 << width - 1) & (value < 1 << width - 1)


def _rounding(row):
    """Addend of a row's c before its bit behind the point is cut off."""
    return int(dithers(KEY, row + 1)[row]) >> DITHER_WIDTH - 1


def _updates(s, dut, n_rows):
    """Updates c that the solver gave to the rows, one after the other."""
    updates = [Signal(signed(NARROW["UPDATE_WIDTH"]), name=f"update_{row}")
               for row in range(n_rows)]
    number = Signal(range(n_rows + 1))
    with s.m.If(dut.paths[0].solver.o_valid & (number != n_rows)):
        s.m.d.sync += number.eq(number + 1)
        with s.m.Switch(number):
            for row, update in enumerate(updates):
                with s.m.Case(row):
                    s.m.d.sync += update.eq(dut.paths[0].solver.o)
    return updates


def _sequential(s, rows, labels, mantissa, level, words, updates):
    """Model after the rows, one after the other; 1 as long as every number fits its width; and 1
    if each update is right, provided that those before are. ``updates`` are those of the pipeline,
    or None: then the model is that of the right ones.
    """
    fits, right = C(1), C(1)
    for number, (row, label) in enumerate(zip(rows, labels, strict=True)):
        inputs = [*row, level]
        z = sum(a * b for a, b in zip(inputs, words, strict=True))
        c = s.named((mantissa * (z - label) + _rounding(number)) >> 1)
        fits &= _fits(c, NARROW["UPDATE_WIDTH"])
        if updates is not None:
            right &= ~fits | (updates[number] == c)
            c = updates[number]
        c = s.named(c[:NARROW["UPDATE_WIDTH"]].as_signed())
        exact = [s.named(word - c * factor) for word, factor in zip(words, inputs, strict=True)]
        for word in exact:
            fits &= _fits(word, NARROW["MODEL_WIDTH"])
        words = [s.named(word[:NARROW["MODEL_WIDTH"]].as_signed()) for word in exact]
    return words, s.named(fits), s.named(right)


def pipeline(epoch, *, lookahead, cycles, update_interval=2):
    """An epoch with any labels, from any model; it ends before ``cycles``."""
    def build(s: Surrounding):
        with narrow():
            config = NarrowConfig(bus_width=4, bits=2, max_features=4, lookahead=2,
                                  update_interval=update_interval, minibatch=False,
                                  corrections=False)
            _build(s, Pipeline(config=config))

    def _build(s, dut):
        m, n_rows = s.m, len(epoch.rows)
        codes = epoch.codes(s)
        label_shape = signed(NARROW["LABEL_WIDTH"])
        labels = [s.constant(label_shape, name=f"label_{row}") for row in range(n_rows)]
        rows = [[code[:2].as_signed(), code[2:].as_signed()] for code in codes]
        mantissa, level = epoch.scales(s)
        word_shape = signed(NARROW["MODEL_WIDTH"])
        model = [s.constant(word_shape, name=f"model_{word}") for word in range(2)]
        intercept = s.constant(word_shape, name="given_intercept")

        cycle = Signal(range(cycles + 2))
        m.d.sync += cycle.eq(Mux(cycle == cycles + 1, cycle, cycle + 1))
        since = Signal(range(epoch.gap + 1), init=epoch.gap)     # the last row
        fed = Signal(range(n_rows + 1))
        labelled = Signal(range(n_rows + 1))
        names = ["__".join(map(str, path)) for path, _, _ in dut.signature.flatten(dut)]
        given = {name: C(0) for name in names
                 if name in _INPUTS or name.startswith(("run__", "steps__"))}
        given |= {
            "run__rows": C(n_rows), "run__beats_per_row": C(1), "run__last_lanes": C(2),
            "run__batch": C(1), "run__lookahead": C(lookahead), "run__intercept_level": level,
            "steps__mantissa": mantissa, "steps__shift": C(1), "steps__key": C(KEY, 32),
            "start": cycle == START,
            "i_rows__valid": (fed != n_rows) & (since == epoch.gap),
            "i_labels__valid": (labelled != n_rows) & (cycle > START),
            "i_rows__payload": _at(codes, fed), "i_labels__payload": _at(labels, labelled),
            "load": cycle == 0, "i_model__valid": (cycle == 1) | (cycle == 2),
            "i_model__payload": Mux(cycle == 1, Cat(*model), intercept.as_unsigned())}
        s.add(dut, **given)
        with m.If(dut.i_rows.valid & dut.i_rows.ready):
            m.d.sync += [fed.eq(fed + 1), since.eq(1)]
        with m.Elif(since != epoch.gap):
            m.d.sync += since.eq(since + 1)
        with m.If(dut.i_labels.valid & dut.i_labels.ready):
            m.d.sync += labelled.eq(labelled + 1)
        updates = _updates(s, dut, n_rows) if s.helpers else None
        expected, fits, right = _sequential(s, rows, labels, mantissa, level, [*model, intercept],
                                            updates)
        done = Signal()
        with m.If(dut.done):
            m.d.sync += done.eq(1)
        wrong = Signal()        # a flag that a number left its range, though none did
        with m.If(dut.overflowed.any()):
            m.d.sync += wrong.eq(1)
        result = dut.paths[0].store.words.read_data
        shown = s.past(done, 3)
        s.check(implies(shown, right & (~fits | ((result == Cat(*expected[:2])) & ~wrong))))
        s.check(implies(cycle == cycles, shown))
        s.reach((cycle == cycles) & shown & fits & (Cat(*expected) != Cat(*model, intercept)))

    return build


_INPUTS = {"stop", "clear", "load_coefficients", "unload", "o_model__ready"}


def _at(values, index):
    """The value of a number."""
    chosen = values[-1]
    for number, value in reversed(list(enumerate(values[:-1]))):
        chosen = Mux(index == number, value, chosen)
    return chosen


# Three rows, so that the last needs the updates of both before, and no product of two of them with
# the intercept's is 0 at both of its levels.
FIRST = Epoch(((1, -1), (1, 1), (1, 0)), mantissa=3)
SECOND = Epoch(((0, 1), (-1, 1), (1, -1)), mantissa=1)
THIRD = Epoch(((-1, 1), (1, 0), (-1, -1)), mantissa=2)

_SOLVER = "pipeline/update/linear_solver.py"
_NO_SECOND = Mutation(_SOLVER, "less.eq(final - product)", "less.eq(final)")
_NO_FAR_FAST = Mutation("pipeline/update/update_history.py", "self.before(d, self.entry), 1,",
                        "self.before(d, self.entry) & 0, 1,")
_GAPS = Mutation("pipeline/update/update_history.py", "for left in range(1, cycles_left))",
                 "for left in range(2, cycles_left))")
# Proofs that take longer than the one that stays. It has neither look-ahead nor a fast clock, which
# are left to the tests of the pipeline by day.
_SLOW = ("pipeline-d2", "pipeline-d2-second", "pipeline-d2-gaps", "pipeline-d2-fast",
         "pipeline-d2-fast-gaps", "pipeline-d0-fast")
# Name, look-ahead, cycles per update, epoch, cycles until it has surely ended, faults.
_EPOCHS = [
    ("pipeline-d2", 2, 2, FIRST, 40,
     [Mutation("pipeline/products/correlator.py", "(d > skipped)", "(d > skipped + 1)"),
      _NO_SECOND]),
    ("pipeline-d2-second", 2, 2, SECOND, 40, [_NO_SECOND]),
    ("pipeline-d2-gaps", 2, 2, replace(THIRD, gap=3), 42, [_GAPS, _NO_SECOND]),
    ("pipeline-d0", 0, 2, FIRST, 64,
     [Mutation(_SOLVER, "self.dot - target - sum(far)", "self.dot - target - sum(far) + 1")]),
    ("pipeline-d2-fast", 2, 4, FIRST, 91,
     [Mutation(_SOLVER, "addend=2 * self._near", "addend=self._near"), _NO_FAR_FAST]),
    ("pipeline-d2-fast-gaps", 2, 4, replace(SECOND, gap=7), 97, [_NO_FAR_FAST]),
    ("pipeline-d0-fast", 0, 4, FIRST, 137,
     [Mutation(_SOLVER, "less.eq(2 - target)", "less.eq(3 - target)")]),
]


def _claim(lookahead, update_interval, epoch):
    rows = ", ".join(f"({a}, {b})" for a, b in epoch.rows)
    return (f"the model after the rows {rows} is that of sequential SGD, with look-ahead "
            f"{lookahead}, {update_interval} cycles per update, mantissa {epoch.mantissa}"
            + (f", {epoch.gap} cycles from row to row" if epoch.gap > 1 else ""))


PROPERTIES = [
    Property(name, "Pipeline", _claim(lookahead, update_interval, epoch),
             pipeline(epoch, lookahead=lookahead, cycles=cycles,
                      update_interval=update_interval),
             first, others=tuple(others), depth=cycles + 1, skip=cycles, bounded=True,
             timeout_s=600, slow=name in _SLOW)
    for name, lookahead, update_interval, epoch, cycles, (first, *others) in _EPOCHS
]
