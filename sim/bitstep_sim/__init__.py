"""The simulated board: the RTL compiled by Verilator, an AXI memory, and the benches."""
