"""Every property, in the order of docs/proofs.md."""

from bitstep_sim.proofs import axi

PROPERTIES = [*axi.PROPERTIES]
