"""Exchange of messages between ranks, so that all end with the same averages."""

from bitstep.gradients.exchange.aggregator import Aggregator
from bitstep.gradients.exchange.schemes import EXCHANGES, AllGather, Exchange, TwoPhase
from bitstep.gradients.exchange.traffic import Count, Traffic
from bitstep.gradients.exchange.transport import Transport

__all__ = ["EXCHANGES", "Aggregator", "AllGather", "Count", "Exchange", "Traffic", "Transport",
           "TwoPhase"]
