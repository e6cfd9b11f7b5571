"""Virtual machines with a Soft-RoCE NIC, started in QEMU for one command: their image, their network, and a run."""
