"""Errors of gradient codecs."""


class MessageError(ValueError):
    """A message that is truncated, corrupted, or of another codec or setting."""


class DivergenceError(ValueError):
    """A residual of error feedback that has grown without bound."""


class ExchangeError(RuntimeError):
    """A rank that failed, or ranks that do not exchange the same thing.

    Parameters
    ----------
    text : str
    cause : str
        Name of the class of the failed rank's error; empty if no rank has told one.
    """

    def __init__(self, text: str, cause: str = ""):
        super().__init__(text)
        self.cause = cause
