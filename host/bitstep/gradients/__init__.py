"""Gradients of few bits between workers: codecs, messages, exchange."""

from bitstep.gradients.codecs.base import Codec
from bitstep.gradients.control.dq_sgd import DqSgd
from bitstep.gradients.control.feedback import ErrorFeedback
from bitstep.gradients.control.heuristics import AdaQs, OlandRaj
from bitstep.gradients.errors import MessageError
from bitstep.gradients.keys import Key
from bitstep.gradients.registry import list_codecs, make_codec
from bitstep.gradients.vectors import BFloat16

__all__ = ["AdaQs", "BFloat16", "Codec", "DqSgd", "ErrorFeedback", "Key", "MessageError",
           "OlandRaj", "list_codecs", "make_codec"]
