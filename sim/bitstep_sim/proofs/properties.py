"""Every property, in the order of docs/proofs.md."""

from bitstep_sim.proofs import axi, pipelines, queues, ranges, registers, slots, streams

PROPERTIES = [*streams.PROPERTIES, *queues.PROPERTIES, *axi.PROPERTIES, *slots.PROPERTIES,
              *pipelines.PROPERTIES, *ranges.PROPERTIES, *registers.PROPERTIES]
