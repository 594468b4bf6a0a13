"""Proved properties of the RTL: ``python -m bitstep_sim.proofs`` (docs/results/proofs.md)."""
