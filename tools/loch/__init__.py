"""Loch's own Python: sets up, builds and tests (setup), runs experiments (runner), measures power, looks at machines
(doctor), starts such with a Soft-RoCE NIC (softroce), judges edits (mutate), makes new protocols (new)."""
