"""Errors of gradient codecs."""


class MessageError(ValueError):
    """A message that is truncated, corrupted, or of another codec or setting."""
