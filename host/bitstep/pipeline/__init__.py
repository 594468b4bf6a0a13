"""A pipeline as the host sees it: configuration, registers, memory, jobs and their results."""
