"""Properties of the RTL: a component whose inputs are free, what must hold, and faults to find.

A property is a module around one or more components. Inputs that it does not set may have any value
in any cycle, so what is asserted holds in every surrounding that meets what is assumed. A proof by
induction may also assert what links its own registers with those inside (``inside``): without that,
the prover would start from states that never occur.
"""

from collections.abc import Callable
from dataclasses import dataclass

from amaranth.asserts import AnyConst, AnySeq
from amaranth.hdl import Assert, Assume, ClockDomain, Cover, Fragment, Module, Signal, Value
from amaranth.lib.wiring import In

from bitstep_sim.proofs.mutation import Mutation


class Surrounding:
    """A module around the components of a property.

    Attributes
    ----------
    m : Module
        The property. Its registers start from their initial values and are never reset; so do the
        components'.
    started : Signal
        0 in the first cycle alone.
    ports : list of Signal
        Signals that keep their names, for structures; inputs if nothing drives them.
    helpers : bool
        If true, what only helps the induction is asserted too.
    covers : bool
        If true, nothing is asserted: the prover looks for runs that reach what is claimed.
    reached : int
        Number of conditions that some run must meet.
    """

    def __init__(self, *, helpers=True, covers=False):
        self.m = Module()
        self.ports = []
        self.helpers, self.covers, self.reached = helpers and not covers, covers, 0
        self.clock = ClockDomain("sync", reset_less=True)
        self.m.domains.sync = self.clock
        self.started = Signal()
        self.m.d.sync += self.started.eq(1)
        self._number = 0

    def add(self, component, name="dut", **inputs):
        """Put a component in.

        Parameters
        ----------
        component : wiring.Component
        name : str
        **inputs : Value
            Inputs by name, with those of members joined by ``__``. Any other input is free.

        Returns
        -------
        Fragment
            The component, for :func:`inside`.
        """
        fragment = Fragment.get(component, None)
        self.m.submodules[name] = fragment
        for path, member, port in component.signature.flatten(component):
            if member.flow == In:
                given = inputs.pop("__".join(map(str, path)), None)
                port = Value.cast(port)
                self.m.d.comb += port.eq(AnySeq(len(port)) if given is None else given)
        assert not inputs, f"no such inputs: {', '.join(inputs)}"
        return fragment

    def constant(self, shape, *, name=None):
        """Any value, the same in every cycle."""
        return self.named(AnyConst(shape), shape, name)

    def free(self, shape, *, name=None):
        """Any value in any cycle."""
        return self.named(AnySeq(shape), shape, name)

    def named(self, value, shape=None, name=None):
        """A signal with a value, which traces then show.

        Parameters
        ----------
        value : Value
        shape : shape-like, optional
            Default: that of the value.
        name : str, optional
            Name in the traces.
        """
        self._number += 1
        signal = Signal(value.shape() if shape is None else shape,
                        name=name or f"value_{self._number}")
        self.m.d.comb += signal.eq(value)
        return signal

    def past(self, value, cycles=1):
        """A value as it was some cycles before; 0 before the first cycle."""
        for _ in range(cycles):
            self._number += 1
            register = Signal(value.shape(), name=f"past_{self._number}")
            self.m.d.sync += register.eq(value)
            value = register
        return value

    def assume(self, condition):
        """Only what meets ``condition`` in every cycle is looked at."""
        self.m.d.comb += Assume(condition, src_loc_at=1)

    def check(self, condition):
        """``condition`` must hold in every cycle."""
        if not self.covers:
            self.m.d.comb += Assert(condition, src_loc_at=1)

    def reach(self, condition):
        """Some run meets ``condition``: without one, what is claimed of it would hold for want of
        examples.
        """
        self.reached += 1
        if self.covers:
            self.m.d.comb += Cover(condition, src_loc_at=1)

    def seek(self, condition):
        """Only runs that meet ``condition`` are looked through for :meth:`reach`, which is faster;
        what is proved holds without it.
        """
        if self.covers:
            self.assume(condition)

    def helper(self, condition):
        """As :meth:`check`, of registers inside.

        Without it the induction would begin in states that never occur. Counterexamples of a
        mutation must do without.
        """
        if self.helpers:
            self.m.d.comb += Assert(condition, src_loc_at=1)

    def held(self, valid, ready, *payload, cut=0, assumed=False):
        """Check the rule of streams: a payload that is valid and not ready stays as it is.

        Parameters
        ----------
        valid, ready : Value
            Of the stream.
        *payload : Value
        cut : Value
            1 in a cycle in which the rule need not hold.
        assumed : bool
            Assume the rule instead of checking it.
        """
        waiting = self.past(valid & ~ready)
        rule = ~waiting | cut | valid
        for part in payload:
            part = Value.cast(part)
            rule &= ~waiting | cut | (part == self.past(part))
        (self.assume if assumed else self.check)(rule)
        if not assumed:
            self.reach(waiting & valid & ready)


def implies(condition, result):
    """1 unless ``condition`` is 1 and ``result`` is 0; of one bit each."""
    return ~condition | result


def inside(fragment, path, *, width=None):
    """Find a register or wire of a component by its name.

    Parameters
    ----------
    fragment : Fragment
        The component, as :meth:`Surrounding.add` returns it.
    path : str
        Its name behind those of submodules: ``store.level``. A signal that is made in one statement
        with others needs ``name=``, since Amaranth does not find its name in Python 3.13 and later.
    width : int, optional
        Bits of the signal, to choose among several of a name.

    Raises
    ------
    LookupError
        If there is not exactly one.
    """
    *parents, name = path.split(".")
    for parent in parents:
        fragment = fragment.find_subfragment(parent)
    statements = [one for several in fragment.statements.values() for one in several]
    for signals in ("_lhs_signals", "_rhs_signals"):        # driven here, else from outside
        found = {id(signal): signal for statement in statements
                 for signal in getattr(statement, signals)()
                 if signal.name == name and width in (None, len(signal))}
        if found:
            break
    if len(found) != 1:
        raise LookupError(f"The component has {len(found)} signals {path!r}, not one: has it "
                          "been renamed?")
    return next(iter(found.values()))


@dataclass(frozen=True)
class Property:
    """A claim about a component, with the method of its proof and faults that break it.

    Parameters
    ----------
    name : str
        Unique, of the form ``subject-rule``.
    component : str
        Name of the component.
    claim : str
        The property in words.
    build : callable
        Takes a :class:`Surrounding` and puts components, assumptions and assertions into it.
    depth : int
        Steps of the induction, or, if ``bounded``, cycles from the start that are looked at.
    bounded : bool
        If true, only runs of ``depth`` cycles are looked at, because induction does not hold.
    timeout_s : int
        Seconds after which the prover gives up.
    mutation : Mutation
        A fault by which it breaks.
    others : tuple of Mutation
        Further faults, each of which breaks it.
    breaks_at : int
        Cycles within which the fault breaks it.
    breaks_from : int
        Cycles before that in which nothing is asserted, because it surely holds there.
    skip : int
        Cycles before anything is asserted, if ``bounded``.
    reaches_at : int
        Cycles within which some run meets each condition of :meth:`Surrounding.reach`; 0 for those
        that are looked at, ``depth`` if ``bounded``, else ``breaks_at``.
    reaches_from : int
        First cycle to look at. To show that a condition is not met earlier takes most of the time;
        the cycles before are looked at only if some condition is not met in those after. The result
        does not depend on it.
    wires : tuple of pairs of str
        Instead of cycles, a structure: no path without a register from the first port to the
        second.
    slow : bool
        If true, the proof takes a minute or more, and is left to ``--all``.
    """

    name: str
    component: str
    claim: str
    build: Callable[[Surrounding], None]
    mutation: Mutation
    depth: int = 1
    bounded: bool = False
    timeout_s: int = 300
    breaks_at: int = 20
    breaks_from: int = 0
    wires: tuple[tuple[str, str], ...] = ()
    skip: int = 0
    reaches_at: int = 0
    reaches_from: int = 0
    others: tuple[Mutation, ...] = ()
    slow: bool = False

    @property
    def mutations(self) -> tuple[Mutation, ...]:
        """Every fault by which it breaks."""
        return (self.mutation, *self.others)

    @property
    def reaches_within(self) -> int:
        """Cycles in which what it claims is reached."""
        return self.reaches_at or (self.depth if self.bounded else max(self.depth, self.breaks_at))

    @property
    def method(self) -> str:
        """Method of the proof, for the table."""
        if self.wires:
            return "structure"
        return f"{self.depth} cycles" if self.bounded else f"induction {self.depth}"
