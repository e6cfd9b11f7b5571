"""What ./loch prepares before a command runs: Debian packages, builds, and the tests.

Uses Python's standard library only, because the first run on a machine precedes the installation of packages.
"""
