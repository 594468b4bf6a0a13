"""The native device: the golden model's integers in compiled loops over stored rows."""
