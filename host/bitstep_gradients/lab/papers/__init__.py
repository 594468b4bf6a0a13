"""Figures that the papers on gradients of few bits print, computed again."""
