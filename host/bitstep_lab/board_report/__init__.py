"""The report of a configuration on a board: resources, latency, time of an epoch, loss by bits."""
