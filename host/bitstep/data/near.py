"""What a message about an unknown name adds: the known one that is most alike."""

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """End of a message about an unknown name: the known one that is most alike, or nothing.

    Parameters
    ----------
    name : str
        What was given.
    names : iterable of str
        Those that are known.
    """
    close = difflib.get_close_matches(name, list(names), n=1)
    return f"; did you mean {close[0]!r}?" if close else ""
