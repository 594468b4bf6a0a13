"""Races between pipelines, CPU baselines and scikit-learn, and the report of all of them."""
