"""Tables of docs/: each module prints one."""
