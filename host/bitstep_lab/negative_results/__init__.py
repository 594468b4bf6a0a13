"""What the ZipML paper (Zhang et al., ICML 2017) tried for non-linear losses and found not to pay.

``python -m bitstep_lab.negative_results`` prints the tables of
docs/results/negative-results.md. Nothing else in bitstep uses this package, and no pipeline
computes what it computes.
"""
