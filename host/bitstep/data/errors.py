"""The error that says what is wrong with somebody's data."""


class DataError(ValueError):
    """Data, a data file or the name of a data set cannot be used.

    The message names the place (file and line, or row and column), what was found, what must hold
    and what to do.
    """
