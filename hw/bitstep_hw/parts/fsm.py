"""States of a machine that a stop signal can end at any time."""

import contextlib


def stoppable_states(m, stop, target, *, statements=()):
    """Return a ``m.State`` whose states all go to ``target`` when ``stop`` is 1, whatever else they
    say.

    Parameters
    ----------
    m : Module
        Module with the state machine.
    stop : Signal
        Ends every state.
    target : str
        The state that follows.
    statements : sequence of statements
        What else happens in the domain ``sync`` when a state is ended.
    """
    @contextlib.contextmanager
    def state(name):
        with m.State(name):
            yield
            with m.If(stop):
                m.d.sync += list(statements)
                m.next = target

    return state
