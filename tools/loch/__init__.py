"""Loch's Python package: building and testing (setup), running experiments (runner), measuring power (power), checking
machines for RDMA (doctor), starting virtual machines with a Soft-RoCE NIC (softroce), mutation testing of the C++ code
(mutate), and making new protocols (new)."""
