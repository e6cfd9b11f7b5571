"""Energy of a run, measured: where watts come from, how they are sampled, and what they add up to."""
