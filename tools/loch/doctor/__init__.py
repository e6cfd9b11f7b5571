"""Is a machine ready for the verbs fabric? Facts (probe), and what they mean (judge)."""
