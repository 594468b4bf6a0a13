"""Amaranth's buffered FIFO in proofs."""

from bitstep_sim.proofs.formal import implies, inside


def fifo_inside(s, fragment, prefix, depth):
    """Bound the registers of Amaranth's buffered FIFO, for the induction.

    Its output register stays empty for one cycle.

    Parameters
    ----------
    s : Surrounding
    fragment : Fragment
        The component that has the FIFO, as :meth:`Surrounding.add` returns it.
    prefix : str
        Names of the submodules on the way to it, with a dot behind each.
    depth : int
    """
    inner, ready = inside(fragment, prefix + "inner_level"), inside(fragment, prefix + "r_rdy")
    s.helper(inner + ready <= depth)
    s.helper(implies(~ready, inner <= 1))
