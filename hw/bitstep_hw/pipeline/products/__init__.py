"""Dot products of a row with the model and with earlier rows."""
