"""The frame around a pipeline: registers, control of a run, feeders of its streams."""
