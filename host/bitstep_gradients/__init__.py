"""Gradients of few bits between workers: codecs, messages, exchange."""

from bitstep_gradients.codecs.base import Codec
from bitstep_gradients.codecs.signs import majority_vote
from bitstep_gradients.control.dq_sgd import DqSgd
from bitstep_gradients.control.feedback import ErrorFeedback
from bitstep_gradients.control.heuristics import AdaQs, OlandRaj
from bitstep_gradients.errors import MessageError
from bitstep_gradients.keys import Key
from bitstep_gradients.registry import list_codecs, make_codec
from bitstep_gradients.vectors import BFloat16

__all__ = ["AdaQs", "BFloat16", "Codec", "DqSgd", "ErrorFeedback", "Key", "MessageError",
           "OlandRaj", "list_codecs", "majority_vote", "make_codec"]
