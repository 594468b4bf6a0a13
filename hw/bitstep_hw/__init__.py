"""Amaranth components of the SGD pipelines, and the tops that boards and simulators use."""

TOP = "bitstep_top"     # name of the top module in RTLIL and Verilog
