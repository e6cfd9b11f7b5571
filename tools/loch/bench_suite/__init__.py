"""`loch bench-suite`: how fast the simulator is on this machine, beside other simulators."""
