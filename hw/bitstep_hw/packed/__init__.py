"""The pipeline for packed rows: the rows of a beat together, and interleaved models on one path."""
