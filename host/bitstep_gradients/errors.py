"""Errors of gradient codecs."""


class MessageError(ValueError):
    """A message that is truncated, corrupted, or of another codec or setting."""


class ExchangeError(RuntimeError):
    """A rank that failed, or ranks that do not exchange the same thing."""
