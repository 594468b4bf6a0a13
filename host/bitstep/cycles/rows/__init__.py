"""Rows and the times at which they enter the pipeline."""
