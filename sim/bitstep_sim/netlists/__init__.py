"""Netlists that Yosys made of a pipeline, for the simulated board; models of their cells."""
