"""Epochs whose rows are fetched again, simulated cycle by cycle in compiled loops."""
