"""From a quantized data set and wishes to a job, and from its result to a model."""
