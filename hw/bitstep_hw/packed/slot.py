"""Layout of a slot of packed rows: rows of one beat and one batch, for one model."""

from amaranth.lib import data


def slot_layout(config):
    """Return the layout of a slot.

    Parameters
    ----------
    config : PipelineConfig
        Gives ``models`` and ``rows_per_beat``.

    Members
    -------
    valid : 1
        There is a slot in this cycle; without it the rest means nothing.
    first : 1
        The slot is the first of its batch for this model.
    model
        Number of the model.
    rows
        A bit for each row of the beat: 1 if it takes part.
    correct, sample : 1
        Add the pending correction to the model before all else; store what that gives, for the
        next one.
    """
    return data.StructLayout({"valid": 1, "first": 1, "model": range(config.models),
                              "rows": config.rows.rows_per_beat, "correct": 1, "sample": 1})
