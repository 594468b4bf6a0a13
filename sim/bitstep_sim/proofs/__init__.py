"""Properties of the RTL that are proved: ``python -m bitstep_sim.proofs`` (docs/proofs.md)."""
