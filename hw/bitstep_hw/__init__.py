"""Amaranth components of the SGD pipelines, and the tops that boards and simulators use."""
