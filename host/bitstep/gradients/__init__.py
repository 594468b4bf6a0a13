"""Gradients of few bits between workers: codecs, messages, exchange."""

from bitstep.gradients.codecs.base import Codec
from bitstep.gradients.errors import MessageError
from bitstep.gradients.keys import Key
from bitstep.gradients.registry import list_codecs, make_codec
from bitstep.gradients.vectors import BFloat16

__all__ = ["BFloat16", "Codec", "Key", "MessageError", "list_codecs", "make_codec"]
