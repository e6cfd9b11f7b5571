"""`loch mutate`: mutation testing. Makes random single edits of the C++ code and finds which tests detect each."""
