"""The pipeline: rows, their products, updates, and the model."""
