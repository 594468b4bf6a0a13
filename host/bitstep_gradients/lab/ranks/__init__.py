"""Workers of a race as ranks of the real exchange: threads of this process, or processes."""
