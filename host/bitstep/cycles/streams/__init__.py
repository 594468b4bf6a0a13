"""What the pipeline reads and writes, and the memory behind it."""
