"""Cycle model of the pipelines: the counters that the hardware would show for a job, without RTL.
"""

from bitstep.cycles.refetching import OpenRows
from bitstep.cycles.run import count_epochs
from bitstep.cycles.streams.memory import Memory

__all__ = ["Memory", "OpenRows", "count_epochs"]
