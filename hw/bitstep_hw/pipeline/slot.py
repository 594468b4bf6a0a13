"""Layout of a slot: one beat of one row, with what the pipeline must do to it."""

from amaranth.lib import data

from bitstep.pipeline.parts.widths import MAX_LOOKAHEAD


def slot_layout(config, *, beats=None):
    """Return the layout of a slot.

    Parameters
    ----------
    config : PipelineConfig
        The pipeline.
    beats : int, optional
        Largest number of beats; that of the longest row by default.

    Members
    -------
    valid : 1
        There is a slot in this cycle; without it the rest means nothing.
    first, last : 1
        First and last beat of the row.
    idle_row : 1
        The row only fills a slot: it has no data and gives no update.
    index
        Number of the beat in its row, the address of its weights.
    apply : 1
        A row of this epoch is to be applied to these words (the row ``lookahead + 1`` before).
    skip
        Rows before this one that belong to the same batch, at most ``lookahead``.
    frozen, freeze : 1
        Use the model at the batch's start; store this slot's words as such.
    correct, commit : 1
        The pending correction counts for this row; write it into the model.
    sample : 1
        Store this slot's words for the next correction.
    """
    return data.StructLayout({
        "valid": 1, "first": 1, "last": 1, "idle_row": 1,
        "index": range(beats or config.rows.max_beats),
        "apply": 1,
        "skip": range(MAX_LOOKAHEAD + 1),
        "frozen": 1, "freeze": 1,
        "correct": 1, "commit": 1, "sample": 1,
    })
