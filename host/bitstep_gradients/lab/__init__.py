"""Gradients of few bits between workers, measured."""
