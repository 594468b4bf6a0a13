"""Defaults of the estimators against those of scikit-learn."""
