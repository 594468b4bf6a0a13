"""Access to the weights of the model between slots."""

from amaranth.lib import wiring
from amaranth.lib.wiring import In, Out

from bitstep.pipeline.parts.widths import AUX_WIDTH


class ModelWords(wiring.Signature):
    """Two weights of the model at a time, in the layout of docs/memory-layout.md, as a user of a
    :class:`bitstep_hw.pipeline.model.store.ModelStore` has it. While slots pass, nothing may be
    written, and what is read means nothing.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``max_beats`` and ``model_lanes``.
    intercept : bool
        The user reaches the intercept too.
    clear : bool
        The user clears whole beats.

    Members
    -------
    index : Out
        Beat that is reached.
    pair, shown : Out
        Pair of words in the beat: that which is written, and that which is read.
    write : Out(1), write_data : Out(64)
        Write the pair. It can be read by an index 1 cycle later (2 with a fast clock).
    read_data : In(64)
        The pair that is read. It comes 1 cycle after ``index`` (2 with a fast clock) and follows
        ``shown`` at once.
    late_data : In(64)
        ``read_data``, with a fast clock a cycle later, for consumers that can wait a cycle.
    intercept : Out(1)
        With ``intercept``: the intercept takes the place of the pair.
    clear : Out(1)
        With ``clear``: write ``write_data``, which must be 0, into all words of the beat and into
        the intercept.
    """

    def __init__(self, *, config, intercept=True, clear=True):
        super().__init__({
            "index": Out(range(config.rows.max_beats)),
            "pair": Out(range(config.rows.model_lanes // 2)),
            "shown": Out(range(config.rows.model_lanes // 2)),
            "write": Out(1), "write_data": Out(AUX_WIDTH),
            "read_data": In(AUX_WIDTH), "late_data": In(AUX_WIDTH),
            **({"intercept": Out(1)} if intercept else {}),
            **({"clear": Out(1)} if clear else {}),
        })


def lend(m, words, user):
    """Connect ``user.words`` with ``words`` while ``user.busy`` is 1; what the user does not have
    stays with the owner of ``words``, who must be idle.
    """
    for name, member in user.words.signature.members.items():
        mine, lent = getattr(words, name), getattr(user.words, name)
        if member.flow == In:
            m.d.comb += lent.eq(mine)
        else:
            with m.If(user.busy):
                m.d.comb += mine.eq(lent)
