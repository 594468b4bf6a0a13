"""Every property, in the order of docs/results/proofs.md."""

from bitstep_sim.proofs import axi, pipelines, queues, ranges, registers, slots, streams
from bitstep_sim.proofs.formal import Property

PROPERTIES = [*streams.PROPERTIES, *queues.PROPERTIES, *axi.PROPERTIES, *slots.PROPERTIES,
              *pipelines.PROPERTIES, *ranges.PROPERTIES, *registers.PROPERTIES]


def find(name: str) -> Property:
    """The property of a name."""
    return next(prop for prop in PROPERTIES if prop.name == name)
