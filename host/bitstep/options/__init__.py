"""Options of trainings and rows: each is described once, and so is each rule between them.

:mod:`bitstep.options.table` has the options, :mod:`bitstep.options.rules` what does not go
together, with the reason. Command line, estimators and documentation are made from both.
"""
