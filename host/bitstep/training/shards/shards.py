"""Where shards are: in this process, or with an engine that calls them elsewhere."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from bitstep.pipeline.device import Device
from bitstep.training.shards.shard import Shard, ShardFacts


class Shards(ABC):
    """All shards of a training.

    Attributes
    ----------
    facts : sequence of ShardFacts
        Of each shard, in their order.
    """

    facts: Sequence[ShardFacts]

    @abstractmethod
    def each(self, name: str, method: str, *arguments: Any, **options: Any) -> list[Any]:
        """Call a method of every shard.

        Parameters
        ----------
        name : str
            Of the pass, for who looks at an engine.
        method : str
            Name of a method of :class:`bitstep.training.shards.shard.Shard` that takes a device.
        arguments, options
            Others of its arguments.

        Returns
        -------
        list
            In the order of the shards.
        """


class LocalShards(Shards):
    """Shards in this process, which use its device one after the other."""

    def __init__(self, shards: Sequence[Shard], device: Device):
        self._shards, self._device = shards, device
        self.facts = [one.facts for one in shards]

    def each(self, name: str, method: str, *arguments: Any, **options: Any) -> list[Any]:
        """See :class:`Shards`."""
        del name
        return [getattr(one, method)(self._device, *arguments, **options)
                for one in self._shards]
