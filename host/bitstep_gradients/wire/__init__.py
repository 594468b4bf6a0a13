"""Bytes of messages: header, scales, payload."""
