"""The command line of mpirun that starts processes of loch-bench on hosts."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from loch.hosts import is_this_machine

# Settings of mpirun: each host's daemon connects to mpirun directly, so that losing a host does not disconnect others.
_MCA = {
    "routed": "direct",
    "plm_rsh_no_tree_spawn": "1",
    "oob_tcp_keepalive_time": "10",
    "oob_tcp_keepalive_intvl": "2",
    "oob_tcp_keepalive_probes": "3",
}
# ssh fails, and with it the launch, instead of asking for a password or waiting for a host that does not answer.
_SSH = "ssh -o BatchMode=yes -o ConnectTimeout=10"


def mpirun(
    hosts: Sequence[tuple[str, int]],
    environment: Mapping[str, str],
    interface: str | None = None,
    *,
    outlives_ranks: bool = True,
) -> list[str]:
    """mpirun's command line up to the program: `hosts` are names with the number of ranks of each, in the order of
    ranks.

    With `outlives_ranks` the other ranks go on when one has failed, and the status of mpirun is 0; without, it is that
    of the first rank that failed."""
    argv = [
        *(
            "mpirun",
            *(["--enable-recovery"] if outlives_ranks else []),
            "--host",
            ",".join(f"{name}:{ranks}" for name, ranks in hosts),
        ),
        *("-n", str(sum(ranks for _, ranks in hosts)), "--map-by", "slot", "--oversubscribe", "--bind-to", "none"),
        *("--wdir", os.getcwd()),
    ]
    for name in sorted(environment):
        if name.startswith("LOCH_") and name not in ("LOCH_BIN", "LOCH_BUILD"):
            argv += ["-x", name]
    parameters = dict(_MCA)
    are_all_here = all(is_this_machine(name) for name, _ in hosts)
    chosen = interface or ("lo" if are_all_here else None)
    if chosen:
        parameters["oob_tcp_if_include"] = chosen
    if not are_all_here and "OMPI_MCA_plm_rsh_agent" not in environment:
        parameters["plm_rsh_agent"] = _SSH
    for name, value in parameters.items():
        argv += ["--mca", name, value]
    return argv + (["--allow-run-as-root"] if os.geteuid() == 0 else [])
