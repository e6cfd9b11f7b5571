"""What ./loch sees to before a command runs: packages, builds, and the tests. Standard library alone, since the first run
on a machine comes before its packages."""
