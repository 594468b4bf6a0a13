"""Codecs of gradients, one family a file."""
