"""The laboratory: races against a CPU and a float pipeline, and methods that were measured and
left.
"""
