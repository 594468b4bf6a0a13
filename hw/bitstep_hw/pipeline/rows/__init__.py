"""Rows: their order, decoding and delay."""
