"""`loch calibrate --rows`: simulates the rows of a table of microbenchmarks that others measured."""
