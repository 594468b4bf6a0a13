"""A convolutional network whose weights have few levels while it is trained (ZipML, section 5.3).

``python -m bitstep_lab.quantized_networks`` prints the table of
docs/results/networks-and-images.md. It needs torch.
"""
