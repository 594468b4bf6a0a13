"""A whole pipeline, with and without look-ahead, against sequential SGD."""

import contextlib
import sys

from amaranth import C, Cat, Mux, Signal, signed

from bitstep_hw.pipeline import Pipeline
from bitstep_sim.proofs.formal import Mutation, Property, Surrounding, implies
from bitstep_sim.proofs.ranges import NarrowConfig

# Words this narrow keep every sum of products within what the prover can compare.
NARROW = {"MODEL_WIDTH": 4, "UPDATE_WIDTH": 4, "AUX_WIDTH": 8, "MANTISSA_WIDTH": 2,
          "SHIFT_UNIT": 1, "MAX_SHIFT": 1, "LABEL_WIDTH": 3}
# The rows are given, two values of 2 bits each: with any rows, the prover takes too long. Their
# product with the intercept's is not 0, so that the second row needs the update of the first.
CODES = (0b1101, 0b0101)    # (1, -1) and (1, 1)
START = 4                   # cycle of the strobe ``start``


@contextlib.contextmanager
def narrow():
    """The generators make words of ``NARROW`` widths meanwhile."""
    modules = [module for name, module in sys.modules.items()
               if name.startswith(("bitstep_hw.", "bitstep.config"))
               and name != "bitstep_hw.unit_update"]        # not used by least squares
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


def _sequential(s, config, rows, labels, mantissa, level, model, intercept):
    """Model after the rows, one after the other; every number is assumed to fit its width."""
    words = [*model, intercept]
    for row, label in zip(rows, labels, strict=True):
        inputs = [*row, level]
        z = sum(a * b for a, b in zip(inputs, words, strict=True))
        c = s.named((mantissa * (z - label) + 1) >> 1)
        s.assume(_fits(c, NARROW["UPDATE_WIDTH"]))
        c = s.named(c[:NARROW["UPDATE_WIDTH"]].as_signed())
        updated = []
        for word, number in zip(words, inputs, strict=True):
            exact = s.named(word - c * number)
            s.assume(_fits(exact, NARROW["MODEL_WIDTH"]))
            updated.append(s.named(exact[:NARROW["MODEL_WIDTH"]].as_signed()))
        words = updated
    return words


def pipeline(*, lookahead, cycles, recursion=2):
    """An epoch of the rows ``CODES`` with any labels, from any model; it ends before ``cycles``."""
    def build(s: Surrounding):
        with narrow():
            config = NarrowConfig(bus_width=4, bits=2, max_features=4, lookahead=2,
                                  recursion=recursion, minibatch=False, corrections=False)
            _build(s, config, Pipeline(config=config))

    def _build(s, config, dut):
        m = s.m
        n_rows = len(CODES)
        codes = [C(code, 4) for code in CODES]
        label_shape = signed(NARROW["LABEL_WIDTH"])
        labels = [s.constant(label_shape, name=f"label_{row}") for row in range(n_rows)]
        rows = [[code[:2].as_signed(), code[2:].as_signed()] for code in codes]
        mantissa, level = C(3, 2), C(1, 1)
        word_shape = signed(NARROW["MODEL_WIDTH"])
        model = [s.constant(word_shape, name=f"model_{word}") for word in range(2)]
        intercept = s.constant(word_shape, name="given_intercept")

        cycle = Signal(range(cycles + 2))
        m.d.sync += cycle.eq(Mux(cycle == cycles + 1, cycle, cycle + 1))
        fed, labelled = Signal(range(n_rows + 1)), Signal(range(n_rows + 1))
        names = [path for path, _, _ in dut.signature.flatten(dut)]
        given = {"__".join(map(str, path)): C(0) for path in names}
        given = {name: value for name, value in given.items() if name in _INPUTS}
        given |= {
            "rows": C(n_rows), "beats": C(1), "last_lanes": C(2), "batch": C(1),
            "lookahead": C(lookahead), "intercept_level": level, "mantissa": mantissa,
            "shift": C(1), "start": cycle == START,
            "i_rows__valid": fed != n_rows,
            "i_labels__valid": (labelled != n_rows) & (cycle > START),
            "i_rows__payload": _at(codes, fed), "i_labels__payload": _at(labels, labelled),
            "access_write": (cycle == 1) | (cycle == 2), "access_intercept": cycle == 2,
            "access_i": Mux(cycle == 1, Cat(*model), intercept.as_unsigned())}
        s.add(dut, **given)
        with m.If(dut.i_rows.valid & dut.i_rows.ready):
            m.d.sync += fed.eq(fed + 1)
        with m.If(dut.i_labels.valid & dut.i_labels.ready):
            m.d.sync += labelled.eq(labelled + 1)
        expected = _sequential(s, config, rows, labels, mantissa, level, model, intercept)
        done = Signal()
        with m.If(dut.done):
            m.d.sync += done.eq(1)
        wrong = Signal()        # a flag that a number left its range, though none did
        with m.If(dut.saturated.any()):
            m.d.sync += wrong.eq(1)
        result = dut.access_o
        shown = s.past(done, 3)
        s.check(implies(shown, (result == Cat(*expected[:2])) & ~wrong))
        s.check(implies(cycle == cycles, shown))

    return build


_INPUTS = {"last_lanes", "period", "label_shift", "correction_mantissa", "correction_shift",
           "stop", "loss", "proximal_period", "threshold", "box_limit", "refetch_cell",
           "refetch_slack", "full_address", "access_index", "access_pair",
           "access_shown", "access_clear"}


def _at(values, index):
    """The value of a number."""
    chosen = values[-1]
    for number, value in reversed(list(enumerate(values[:-1]))):
        chosen = Mux(index == number, value, chosen)
    return chosen


PROPERTIES = [
    Property(f"pipeline-d{lookahead}{name}", "Pipeline",
             f"the model after 2 rows is that of sequential SGD, with look-ahead {lookahead}"
             + (", for a fast clock" if name else ""),
             pipeline(lookahead=lookahead, cycles=cycles, recursion=recursion),
             mutation, depth=cycles + 1, skip=cycles, bounded=True, timeout_s=400)
    for lookahead, name, recursion, cycles, mutation in (
        (2, "", 2, 37, Mutation("correlator.py", "(d > skipped)", "(d > skipped + 1)")),
        (0, "", 2, 47, Mutation("solver.py", "self.dot - target - sum(far)",
                                "self.dot - target - sum(far) + 1")),
        (2, "-fast", 4, 76, Mutation("solver.py", "addend=2 * self._near", "addend=self._near")),
        (0, "-fast", 4, 96, Mutation("solver.py", "less.eq(2 - target)", "less.eq(3 - target)")),
    )
]
