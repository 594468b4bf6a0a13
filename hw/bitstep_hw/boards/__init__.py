"""Boards: what surrounds the pipeline on each of them, and the flows that build and measure it.

The identity of a pipeline (:func:`bitstep_hw.top.identity`) does not change with its
surroundings.
"""
