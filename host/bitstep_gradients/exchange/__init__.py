"""Exchange of messages between ranks, so that all end with the same averages."""

from bitstep_gradients.exchange.aggregator import Aggregator
from bitstep_gradients.exchange.schemes import EXCHANGES, AllGather, Exchange, TwoPhase
from bitstep_gradients.exchange.traffic import Count, Traffic
from bitstep_gradients.exchange.transport import Transport

__all__ = ["EXCHANGES", "Aggregator", "AllGather", "Count", "Exchange", "Traffic", "Transport",
           "TwoPhase"]
