"""`loch doctor`: checks whether a machine is ready for the verbs fabric, from facts (probe.py) judged by rules
(judge.py)."""
