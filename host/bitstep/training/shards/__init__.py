"""Exact training over shards: parts of the rows, each with codes, keys and inner passes of its own.

A model depends on rows, shards and seed, and not on where shards are or in which order they answer.
"""
