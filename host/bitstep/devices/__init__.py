"""Devices that run training jobs: the protocol, and the registry of those installed."""
