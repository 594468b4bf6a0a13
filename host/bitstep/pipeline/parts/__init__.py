"""What a pipeline is put together from: widths of the interface, row formats and stages."""
