"""Methods for non-linear losses that the ZipML paper (Zhang et al., ICML 2017) found not to pay.

``python -m bitstep_lab.negative_results`` prints the tables of
docs/results/negative-results.md. Nothing else in bitstep uses this package, and no pipeline
computes what it computes.
"""
