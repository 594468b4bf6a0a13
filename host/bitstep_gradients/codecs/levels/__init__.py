"""Codecs whose levels are not uniform: fixed, fitted to the gradients, or optimal."""
