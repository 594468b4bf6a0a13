"""Speed at a desk: time and memory of fits on device cpu, beside scikit-learn's."""
