"""Facts about the machine that this process runs on."""

import os


def available_cores() -> int:
    """Count the processor cores that this process may use, at least 1."""
    if hasattr(os, "sched_getaffinity"):        # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
