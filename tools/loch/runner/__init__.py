"""Runs experiments: reads the YAML, expands it, runs the points, and writes tables, figures and a report."""
