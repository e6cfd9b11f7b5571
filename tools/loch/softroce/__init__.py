"""Machines with a Soft-RoCE NIC, started in QEMU for one command: their image, their network, a run."""
