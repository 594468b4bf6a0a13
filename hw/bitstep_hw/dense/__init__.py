"""The pipeline for dense rows: the rows of a beat together, and models in turn on one path."""
