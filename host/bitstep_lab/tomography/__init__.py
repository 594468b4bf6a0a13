"""Reconstruction of an image from its projections by rows of few bits (ZipML paper, section 1).

``python -m bitstep_lab.tomography`` prints the table of docs/results/networks-and-images.md, and
writes a report with the images side by side.
"""
