"""Models that are scored while they are trained: to stop early, and to show progress."""
