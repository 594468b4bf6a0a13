"""Bitstreams and clocks for Lattice ECP5, by Yosys and nextpnr."""
