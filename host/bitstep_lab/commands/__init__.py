"""Subcommands of ``bitstep`` that measure."""
