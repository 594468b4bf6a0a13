"""State machines that anything may be cut short by."""

import contextlib


def stoppable_states(m, stop, target, *, statements=()):
    """``m.State``, but every state goes to ``target`` when ``stop`` is 1, whatever else it says.

    ``statements`` are carried out on the way.
    """
    @contextlib.contextmanager
    def state(name):
        with m.State(name):
            yield
            with m.If(stop):
                m.d.sync += list(statements)
                m.next = target

    return state
