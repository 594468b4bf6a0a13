"""Boards: what surrounds the pipeline on each of them, and the flows that build and measure it.

A package of its own, so that the identity of a pipeline (:mod:`bitstep_hw.identity`) does not
change with its surroundings.
"""
