"""Measured energy of a run: sources of power readings in watts, their sampling, and the energy computed from them."""
