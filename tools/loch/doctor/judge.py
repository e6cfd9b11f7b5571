"""Judges a machine's facts (probe.py): lines that say what is ready for RDMA, what is not, and how to repair it."""

from __future__ import annotations

import ipaddress
from dataclasses import asdict, dataclass

OK, WARN, NO = "ok", "warn", "no"
MIB = 1 << 20
MEMORY_LOCK_ENOUGH = 1 << 30  # bytes of locked memory; most experiments register less than this on a node
READS_FEW = 4
CLOCK_APART_S = 0.1  # tolerated difference between two hosts' clocks in s, beyond the uncertainty of the measurement
# Node types of Linux's RDMA devices on which Loch cannot run, with the reason.
REFUSED = {
    "4": "iWARP ({name}): no UC, no UD and no atomics, which the protocols need",
    "5": "usNIC: UD only",
    "6": "usNIC over UDP: UD only",
    "7": "no InfiniBand transport (such as Amazon EFA): no RC queue pairs",
}


@dataclass(frozen=True)
class Line:
    name: str
    status: str
    text: str
    mend: str = ""


@dataclass(frozen=True)
class Choice:
    """The device, port and GID that the verbs fabric would open on a host."""

    device: str
    port: int
    gid_index: int
    gid: str
    link_layer: str
    mtu: int | None
    rate: float


@dataclass(frozen=True)
class Verdict:
    host: str
    lines: list[Line]
    choice: Choice | None
    facts: dict

    @property
    def ready(self) -> bool:
        return all(line.status != NO for line in self.lines)

    def as_json(self) -> dict:
        return {
            "host": self.host,
            "ready": self.ready,
            "choice": asdict(self.choice) if self.choice else None,
            "lines": [asdict(line) for line in self.lines],
            "facts": self.facts,
        }


# ---- Ports and GIDs of RDMA devices --------------------------------------------------------------
def address(gid: str) -> str:
    """A GID as text: dotted decimal if it holds an IPv4 address, else as an IPv6 address."""
    parsed = ipaddress.IPv6Address(gid)
    return str(parsed.ipv4_mapped or parsed)


def gid_score(gid: dict) -> int:
    """Rank of an Ethernet port's GID: RoCE v2 first, because it is routable UDP; then an IPv4 address, which an
    operator set."""
    parsed = ipaddress.IPv6Address(gid["gid"])
    if "v2" not in gid["type"]:
        return 1 if parsed.ipv4_mapped else 0
    if parsed.ipv4_mapped:
        return 4
    return 2 if parsed.is_link_local else 3


def best_gid(port: dict) -> dict | None:
    """The GID that Loch would use: on RoCE the best score, then the lowest index; on InfiniBand, addressed by LID, the
    first."""
    if port["link_layer"] == "InfiniBand":
        return port["gids"][0] if port["gids"] else None
    gids: list[dict] = port["gids"]
    return max(gids, key=lambda gid: (gid_score(gid), -gid["index"])) if gids else None


def gigabits(rate: str) -> float:
    try:
        return float(rate.split()[0])
    except (ValueError, IndexError):
        return 0.0


def active_mtu(verbs: dict, port: dict) -> int | None:
    said = verbs.get("ports", {}).get(str(port["number"]), {}).get("active_mtu", "").split()
    return int(said[0]) if said and said[0].isdigit() else None


def refusal(device: dict, verbs: dict) -> str:
    kind = device["node_type"].partition(":")[0]
    if kind in REFUSED:
        return REFUSED[kind].format(
            name="siw" if device["name"].startswith("siw") else device["driver"] or device["name"]
        )
    if verbs.get("transport", "").startswith("iWARP"):
        return REFUSED["4"].format(name=device["name"])
    return ""


def port_line(name: str, device: dict, port: dict, mtu: int | None) -> Line:
    where = f"port {port['number']}, {port['link_layer'] or 'unknown link'}, {port['rate'] or 'unknown rate'}"
    if port["state"] != "ACTIVE":
        netdev = next((gid["netdev"] for gid in port["gids"] if gid["netdev"]), device["parent"] or "DEVICE")
        cable = port["physical"] not in ("LinkUp", "")
        mend = f"ip link set {netdev} up{', and look at the cable' if cable else ''}"
        if port["link_layer"] == "InfiniBand":
            mend = "plug in the cable, or start the subnet manager (opensm) if the link is up"
        return Line(name, NO, f"{where}: {port['state'] or 'no state'}, {port['physical'] or 'no link'}", mend)
    if port["link_layer"] == "InfiniBand" and int(port["lid"] or "0", 0) == 0:
        return Line(name, NO, f"{where}: no LID", "start a subnet manager: opensm on one host, or the switch's own")
    if port["link_layer"] == "Ethernet" and mtu is not None and mtu < 4096:
        netdev = next((gid["netdev"] for gid in port["gids"] if gid["netdev"]), "DEVICE")
        return Line(
            name,
            OK,
            f"{where}, active, MTU {mtu}",
            f"for MTU 4096: ip link set {netdev} mtu 4200, on every host and the switch",
        )
    return Line(name, OK, f"{where}, active, MTU {mtu or 'unknown'}")


def gid_line(name: str, port: dict, gid: dict | None) -> Line:
    if gid is None:
        return Line(
            name,
            NO,
            "the port has no GID",
            "give its network device an IPv4 address: ip addr add ADDRESS/24 dev DEVICE",
        )
    if port["link_layer"] == "InfiniBand":
        return Line(name, OK, f"LID {port['lid']}, GID index {gid['index']}")
    shown = f"index {gid['index']}: {address(gid['gid'])}, {gid['type'] or 'unknown type'}"
    score = gid_score(gid)
    if score == 4:
        others = len(port["gids"]) - 1
        return Line(name, OK, shown + (f" ({others} other{'s' if others > 1 else ''})" if others else ""))
    device = gid["netdev"] or "DEVICE"
    if score >= 2:
        return Line(
            name,
            WARN,
            f"{shown}: no IPv4 address there",
            f"ip addr add ADDRESS/24 dev {device}, if hosts do not reach each other",
        )
    return Line(
        name,
        WARN,
        f"{shown}: no RoCE v2, so one Ethernet segment only",
        f"RoCE v2 needs an address on {device} and, on some NICs, firmware that has it",
    )


# ---- Capabilities of RDMA devices ----------------------------------------------------------------
def ability_lines(device: dict, verbs: dict) -> list[Line]:
    name = device["name"]
    atomic = verbs.get("atomic_cap", "").split(" ")[0]
    scope = {
        "ATOMIC_HCA": Line(
            f"{name} atomics", OK, "ATOMIC_HCA: against requests through this NIC only, not against the CPU"
        ),
        "ATOMIC_GLOB": Line(f"{name} atomics", OK, "ATOMIC_GLOB: against every access, the CPU's too"),
        "ATOMIC_NONE": Line(
            f"{name} atomics",
            NO,
            "ATOMIC_NONE: no compare-and-swap",
            "some NICs have it switched off in firmware or for virtual functions; else another NIC",
        ),
    }
    lines = [scope.get(atomic, Line(f"{name} atomics", WARN, f"unknown scope '{atomic}'"))]
    lines.append(Line(f"{name} transports", OK, "RC, UC and UD"))
    depths = [verbs.get(key, "") for key in ("max_qp_rd_atom", "max_qp_init_rd_atom")]
    reads = min((int(depth) for depth in depths if depth.isdigit()), default=None)
    if reads == 0:
        lines.append(Line(f"{name} reads", NO, "no outstanding READ or atomic on a queue pair", "another NIC"))
    else:
        few = reads is not None and reads < READS_FEW
        lines.append(
            Line(
                f"{name} reads",
                WARN if few else OK,
                f"{reads or 'unknown'} outstanding READs and atomics on a queue pair",
                "keep --window small" if few else "",
            )
        )
    return lines


def device_lines(device: dict, facts: dict) -> tuple[list[Line], list[Choice]]:
    """The report's lines on one RDMA device, and the ports of the device that Loch can use."""
    name, verbs = device["name"], facts["verbs"].get(device["name"], {})
    why = refusal(device, verbs)
    if why:
        return [
            Line(
                name,
                NO,
                f"refused: {why}",
                "an InfiniBand or RoCE NIC; with none, Soft-RoCE: "
                "rdma link add rxe0 type rxe netdev DEVICE, or ./loch softroce",
            )
        ], []
    label = device["model"] or device["driver"] or ("Soft-RoCE" if name.startswith("rxe") else "an RDMA device")
    firmware = f", firmware {device['firmware']}" if device["firmware"] not in ("", "0.0.0") else ""
    lines = [Line(name, OK, label + firmware)]
    if not device["verbs_file"]:
        lines = [Line(name, NO, "no /dev/infiniband/uverbs file", "modprobe ib_uverbs")]
    elif not device["verbs_file_usable"]:
        lines = [
            Line(
                name,
                NO,
                f"{device['verbs_file']} is not yours to open",
                f"chmod a+rw {device['verbs_file']} (rdma-core's udev rules do it)",
            )
        ]
    elif not facts["ibv_devinfo"]:
        lines = [
            Line(
                name,
                NO,
                "ibv_devinfo is missing, so nobody can ask the device",
                "apt-get install ibverbs-utils ibverbs-providers",
            )
        ]
    elif not verbs:
        lines = [
            Line(name, NO, "libibverbs does not know the device", "apt-get install ibverbs-providers (or the vendor's)")
        ]
    asked = lines[0].status == OK
    choices = []
    for port in device["ports"]:
        tag = f"{name}/{port['number']}" if len(device["ports"]) > 1 else name
        mtu = active_mtu(verbs, port)
        gid = best_gid(port)
        of_port = [port_line(f"{tag} port", device, port, mtu), gid_line(f"{tag} GID", port, gid)]
        lines += of_port
        if gid and asked and all(line.status != NO for line in of_port):
            choices.append(
                Choice(
                    name,
                    port["number"],
                    gid["index"],
                    address(gid["gid"]),
                    port["link_layer"],
                    mtu,
                    gigabits(port["rate"]),
                )
            )
    able = ability_lines(device, verbs) if asked else []
    if any(line.status == NO for line in able):
        choices = []
    return lines + able, choices


def all_device_lines(facts: dict) -> tuple[list[Line], Choice | None]:
    """The report's lines on all RDMA devices, and the best port. Faults are only warnings if another device is
    usable."""
    if not facts["devices"]:
        return [
            Line(
                "devices",
                NO,
                "no RDMA device",
                "load the NIC's driver (such as mlx5_ib); with no such NIC, Soft-RoCE: "
                "rdma link add rxe0 type rxe netdev DEVICE, or try it in a machine: ./loch softroce",
            )
        ], None
    lines: list[Line] = []
    choices: list[Choice] = []
    for device in facts["devices"]:
        more, usable = device_lines(device, facts)
        lines += more
        choices += usable
    if not choices:
        return lines, None
    best = max(choices, key=lambda choice: (choice.rate, [-ord(letter) for letter in choice.device], -choice.port))
    softened = [Line(line.name, WARN, line.text, line.mend) if line.status == NO else line for line in lines]
    way = f", GID index {best.gid_index} ({best.gid})" if best.link_layer == "Ethernet" else ""
    return [Line("choice", OK, f"{best.device} port {best.port}{way}"), *softened], best


# ---- The machine: memory, kernel, clock, launchers -----------------------------------------------
def memory_lock_line(limit: dict) -> Line:
    mend = "in /etc/security/limits.conf: `* soft memlock unlimited` and `* hard memlock unlimited`, then log in again"
    if limit["soft"] is None:
        return Line("memory lock", OK, "unlimited")
    shown = f"{limit['soft'] // MIB} MiB" if limit["soft"] >= MIB else f"{limit['soft']} bytes"
    if limit["exempt"]:
        return Line("memory lock", OK, f"{shown}, but this user (CAP_IPC_LOCK) may exceed it")
    if limit["soft"] >= MEMORY_LOCK_ENOUGH:
        return Line("memory lock", WARN, f"{shown}: larger regions cannot be registered", mend)
    return Line("memory lock", NO, f"{shown}: too little to register an index and its data", mend)


def huge_page_line(pages: dict) -> Line:
    said = ", ".join(
        f"{pool['free']} of {pool['total']} pages of {pool['size_kb'] // 1024} MiB free"
        for pool in pages["pools"]
        if pool["total"]
    )
    if said:
        return Line("huge pages", OK, said)
    return Line(
        "huge pages",
        WARN,
        f"none reserved (transparent: {pages['transparent'] or 'unknown'}); " "NICs miss in their translation caches",
        "sysctl vm.nr_hugepages=1024 (2 GiB), as root",
    )


def governor_line(governors: dict[str, int]) -> Line:
    if not governors:
        return Line("CPU governor", OK, "none: the frequency is not the kernel's to set here")
    if set(governors) == {"performance"}:
        return Line("CPU governor", OK, "performance")
    said = ", ".join(f"{name} on {count} CPUs" for name, count in sorted(governors.items()))
    return Line("CPU governor", WARN, f"{said}: latencies will vary", "cpupower frequency-set -g performance, as root")


def clock_line(clock: dict) -> Line:
    services = ", ".join(clock["services"])
    if clock["synchronised"]:
        by = f" ({services})" if services else ""
        return Line("clock", OK, f"synchronised{by}, to within {(clock['error_us'] or 0) / 1000:.0f} ms at worst")
    if services:
        return Line(
            "clock", WARN, f"not synchronised yet, though {services} runs", "chronyc tracking, or timedatectl, says why"
        )
    return Line(
        "clock",
        WARN,
        "nothing synchronises it: histories of several hosts cannot be merged exactly",
        "apt-get install chrony, on every host",
    )


def ipmi_line(ipmi: dict) -> Line:
    if not ipmi["file"]:
        return Line(
            "IPMI",
            WARN,
            "no /dev/ipmi0: no power figures of the whole machine",
            "modprobe ipmi_si ipmi_devintf, where the board has a management controller",
        )
    if not ipmi["usable"]:
        return Line("IPMI", WARN, f"{ipmi['file']} is not yours to open", f"chmod a+rw {ipmi['file']}, as root")
    if not ipmi["tools"]:
        return Line("IPMI", WARN, f"{ipmi['file']} is there, no tool to read it", "apt-get install ipmitool")
    return Line("IPMI", OK, f"{ipmi['file']}, {', '.join(ipmi['tools'])}")


def launcher_line(found: dict[str, str]) -> Line:
    if not found:
        return Line("launcher", NO, "neither mpirun nor srun", "apt-get install openmpi-bin")
    return Line("launcher", OK, "; ".join(found.values()))


def judge(facts: dict, host: str | None = None) -> Verdict:
    lines, choice = all_device_lines(facts)
    lines += [
        memory_lock_line(facts["memory_lock"]),
        huge_page_line(facts["huge_pages"]),
        governor_line(facts["governors"]),
        clock_line(facts["clock"]),
        ipmi_line(facts["ipmi"]),
        launcher_line(facts["launchers"]),
    ]
    return Verdict(host or facts["host"], lines, choice, facts)


# ---- Comparing several hosts ---------------------------------------------------------------------
def _differ(name: str, what: dict[str, str], mend: str, status: str = WARN) -> list[Line]:
    """One report line with each host's value if the hosts' values differ; none if all are equal."""
    if len(set(what.values())) < 2:
        return []
    groups: dict[str, list[str]] = {}
    for host, value in what.items():
        groups.setdefault(value, []).append(host)
    return [Line(name, status, "; ".join(f"{value} on {', '.join(hosts)}" for value, hosts in groups.items()), mend)]


def compare(verdicts: list[Verdict], offsets: dict[str, tuple[float, float]]) -> list[Line]:
    """Report lines on what must be equal on all hosts: link layer, MTU, Open MPI, and clocks.

    `offsets`: by host, how many seconds its clock is ahead of this machine's, and the uncertainty (±) in seconds.
    """
    chosen = {verdict.host: verdict.choice for verdict in verdicts if verdict.choice}
    lines = _differ(
        "link layer",
        {host: choice.link_layer for host, choice in chosen.items()},
        "hosts on different networks do not reach each other: choose devices of one kind",
        NO,
    )
    lines += _differ(
        "MTU", {host: str(choice.mtu) for host, choice in chosen.items()}, "the smaller one is used; set them alike"
    )
    lines += _differ(
        "mpirun",
        {v.host: v.facts["launchers"]["mpirun"] for v in verdicts if "mpirun" in v.facts["launchers"]},
        "install the same Open MPI everywhere",
    )
    apart = {host: ahead for host, (ahead, sure) in offsets.items() if abs(ahead) > sure + CLOCK_APART_S}
    if apart:
        said = "; ".join(f"{host} is {ahead:+.1f} s" for host, ahead in apart.items())
        lines.append(Line("clocks", WARN, said + " from here", "apt-get install chrony, on every host"))
    return lines
