"""AXI: the signatures of the buses, and the masters that read and write."""
