"""Every property, in the order of docs/proofs.md."""

from bitstep_sim.proofs import axi, queues, registers, streams

PROPERTIES = [*streams.PROPERTIES, *queues.PROPERTIES, *axi.PROPERTIES, *registers.PROPERTIES]
