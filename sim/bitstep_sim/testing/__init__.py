"""Tools for tests: stream endpoints, an AXI memory, random jobs."""
