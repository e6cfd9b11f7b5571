"""Figures of experiments, drawn from stored results."""
