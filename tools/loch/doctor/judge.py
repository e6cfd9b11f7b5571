"""Judges a machine's facts (probe.py): lines that say what is ready for RDMA, what is not, and how to repair it."""

from __future__ import annotations

from dataclasses import asdict, dataclass

OK, WARN, NO = "ok", "warn", "no"
MIB = 1 << 20
MEMORY_LOCK_ENOUGH = 1 << 30  # bytes of locked memory; most experiments register less than this on a node
READS_FEW = 4
CLOCK_APART_S = 0.1  # tolerated difference between two hosts' clocks in s, beyond the uncertainty of the measurement
SOFT_ROCE = "rdma link add rxe0 type rxe netdev DEVICE, or ./loch softroce"


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
    gid_index: int | None
    gid: str | None
    link_layer: str
    mtu: int | None
    rate: float  # Gbit/s
    network: str


@dataclass(frozen=True)
class Verdict:
    host: str
    lines: list[Line]
    choice: Choice | None  # the first of `rails`
    facts: dict
    rails: tuple[Choice, ...] = ()

    @property
    def ready(self) -> bool:
        return all(line.status != NO for line in self.lines)

    def as_json(self) -> dict:
        return {
            "host": self.host,
            "ready": self.ready,
            "choice": asdict(self.choice) if self.choice else None,
            "rails": [asdict(rail) for rail in self.rails],
            "lines": [asdict(line) for line in self.lines],
            "facts": self.facts,
        }


# ---- RDMA devices, as loch-bench reports them ----------------------------------------------------
def _by_name(facts: dict) -> dict[str, dict]:
    """What the kernel's files say of each RDMA device, by name; they may lack a device that loch-bench lists."""
    return {device["name"]: device for device in facts["devices"]}


def _netdev(kernel: dict, port: dict) -> str:
    """The network interface of a port's GIDs, or the word DEVICE for the reader to replace."""
    gids = [gid for each in kernel.get("ports", []) if each["number"] == port["port"] for gid in each["gids"]]
    return next((gid["netdev"] for gid in gids if gid["netdev"]), kernel.get("parent") or "DEVICE")


def _place(port: dict) -> str:
    rate = f"{port['gigabits_s']:g} Gbit/s" if port["gigabits_s"] else "unknown rate"
    return f"port {port['port']}, {port['link_layer'] or 'unknown link'}, {rate}"


def _mend_of_refusal(port: dict, kernel: dict) -> str:
    if port["state"] not in (None, "ACTIVE"):
        if port["link_layer"] == "InfiniBand":
            return "plug in the cable, or start the subnet manager (opensm) if the link is up"
        return f"ip link set {_netdev(kernel, port)} up, and look at the cable"
    if port["link_layer"] == "InfiniBand" and port["lid"] == 0:
        return "start a subnet manager: opensm on one host, or the switch's own"
    if "no GID" in port["refusal"]:
        return f"ip addr add ADDRESS/24 dev {_netdev(kernel, port)}"
    if "cannot be opened" in port["refusal"]:
        return f"chmod a+rw {kernel.get('verbs_file') or '/dev/infiniband/uverbs*'} (rdma-core's udev rules do it)"
    return f"an InfiniBand or RoCE NIC; with none, Soft-RoCE: {SOFT_ROCE}"


def port_line(name: str, port: dict, kernel: dict) -> Line:
    where = _place(port)
    if port["refusal"]:
        state = f": {port['state']}" if port["state"] not in (None, "ACTIVE") else ""
        return Line(name, NO, f"{where}{state}, refused: {port['refusal']}", _mend_of_refusal(port, kernel))
    mtu = port["mtu_bytes"]
    few = port["link_layer"] == "Ethernet" and mtu is not None and mtu < 4096
    mend = f"for MTU 4096: ip link set {_netdev(kernel, port)} mtu 4200, on every host and the switch" if few else ""
    return Line(name, OK, f"{where}, active, MTU {mtu or 'unknown'}", mend)


def gid_line(name: str, port: dict, kernel: dict) -> Line:
    """The report's line on the GID that the fabric takes on a usable port."""
    taken = port["taken"]
    if taken["link_layer"] == "InfiniBand":
        index = "no GID" if taken["gid_index"] is None else f"GID index {taken['gid_index']}"
        return Line(name, OK, f"LID {port['lid']}, {index}")
    shown = f"index {taken['gid_index']}: {taken['gid']}, {taken['gid_type']}"
    if taken["gid_type"] != "RoCE v2":
        return Line(
            name,
            WARN,
            f"{shown}: no RoCE v2, so one Ethernet segment only",
            f"RoCE v2 needs an address on {_netdev(kernel, port)} and, on some NICs, firmware that has it",
        )
    if ":" in taken["gid"]:
        return Line(
            name,
            WARN,
            f"{shown}: no IPv4 address there",
            f"ip addr add ADDRESS/24 dev {_netdev(kernel, port)}, if hosts do not reach each other",
        )
    others = len(port["gids"]) - 1
    return Line(name, OK, shown + (f" ({others} other{'s' if others > 1 else ''})" if others else ""))


def ability_lines(name: str, can: dict) -> list[Line]:
    """The report's lines on what a device can do. Protocols differ in their needs (needs.py), so a capability that some
    protocols do without is a warning."""
    scope = {
        "nic": Line(f"{name} atomics", OK, "of the NIC: against requests through this NIC only, not against the CPU"),
        "global": Line(f"{name} atomics", OK, "global: against every access, the CPU's too"),
        "none": Line(
            f"{name} atomics",
            WARN,
            "none: no compare-and-swap, which some protocols need (--protocol)",
            "some NICs have it switched off in firmware or for virtual functions; else another NIC",
        ),
    }
    has = [transport.upper() for transport in ("rc", "uc", "ud") if can[transport]]
    queues = "" if can["receives_connected"] else "; no shared receive queues"
    less = len(has) < 3
    transports = Line(
        f"{name} transports",
        WARN if less else OK,
        f"{', '.join(has)}{' alone' if less else ''}{queues}; {can['max_inline_bytes']} bytes inline",
        "protocols that need others are refused (--protocol); some run over RC by an option" if less else "",
    )
    lines = [scope[can["atomic_scope"]], transports]
    if can["rc"]:
        few = can["max_rd_atomic"] < READS_FEW
        text = f"{can['max_rd_atomic']} outstanding READs and atomics on a queue pair"
        lines.append(Line(f"{name} reads", WARN if few else OK, text, "keep --window small" if few else ""))
    return lines


def device_lines(name: str, ports: list[dict], kernel: dict) -> list[Line]:
    """The report's lines on one RDMA device and its ports."""
    firmware = next((port["firmware"] for port in ports if port["firmware"]), "")
    driver = next((port["driver"] for port in ports if port["driver"]), "")
    label = kernel.get("model") or driver or ("Soft-RoCE" if name.startswith("rxe") else "an RDMA device")
    lines = [Line(name, OK, label + (f", firmware {firmware}" if firmware not in ("", "0.0.0") else ""))]
    for port in ports:
        tag = f"{name}/{port['port']}" if len(ports) > 1 else name
        lines.append(port_line(f"{tag} port", port, kernel))
        if not port["refusal"]:
            lines.append(gid_line(f"{tag} GID", port, kernel))
    can = next((port["can"] for port in ports if port["can"]), None)
    return lines + (ability_lines(name, can) if can else [])


def unlisted_line(device: dict) -> Line:
    """The line on a device that the kernel has and that libibverbs does not list."""
    name = device["name"]
    if not device["verbs_file"]:
        return Line(name, NO, "no /dev/infiniband/uverbs file", "modprobe ib_uverbs")
    return Line(name, NO, "libibverbs does not know the device", "apt-get install ibverbs-providers (or the vendor's)")


def _choice(fabric: dict, taken: dict) -> Choice:
    at = (taken["device"], taken["port"])
    port = next(port for port in fabric["ports"] if (port["device"], port["port"]) == at)
    gid_index, gid = taken["gid_index"], taken["gid"]
    return Choice(*at, gid_index, gid, taken["link_layer"], port["mtu_bytes"], taken["gigabits_s"], taken["network"])


def _rails(fabric: dict) -> tuple[Choice, ...]:
    """The ports that the fabric would use at once; none if it refuses all."""
    if fabric["choice"] is None:
        return ()
    return tuple(_choice(fabric, taken) for taken in fabric.get("rails") or [fabric["choice"]])


def choice_line(name: str, choice: Choice) -> Line:
    way = f", GID index {choice.gid_index} ({choice.gid})" if choice.link_layer == "Ethernet" else ""
    return Line(name, OK, f"{choice.device} port {choice.port}{way}")


def all_device_lines(facts: dict) -> tuple[list[Line], tuple[Choice, ...]]:
    """The report's lines on all RDMA devices, and the fabric's choice, by rail. Faults are only warnings if another
    device is usable."""
    fabric = facts["fabric"]
    if "fault" in fabric:
        return [
            Line(
                "devices",
                NO,
                f"the verbs fabric cannot be asked: {fabric['fault']}",
                "./loch devices builds it and asks; every host needs it at the same path, such as in a shared folder",
            )
        ], ()
    if not facts["devices"] and not fabric["ports"]:
        return [
            Line(
                "devices",
                NO,
                "no RDMA device",
                f"load the NIC's driver (such as mlx5_ib); with no such NIC, Soft-RoCE: {SOFT_ROCE}",
            )
        ], ()
    kernel = _by_name(facts)
    names = list(dict.fromkeys(port["device"] for port in fabric["ports"]))
    lines: list[Line] = []
    for name in names:
        ports = [port for port in fabric["ports"] if port["device"] == name]
        lines += device_lines(name, ports, kernel.get(name, {}))
    lines += [unlisted_line(device) for name, device in kernel.items() if name not in names]
    rails = _rails(fabric)
    if not rails:
        if all(line.status != NO for line in lines):
            lines.append(Line("choice", NO, fabric["refusal"], "./loch devices lists what each port has"))
        return lines, ()
    softened = [Line(line.name, WARN, line.text, line.mend) if line.status == NO else line for line in lines]
    if len(rails) == 1:
        return [choice_line("choice", rails[0]), *softened], rails
    return [*(choice_line(f"rail {number}", rail) for number, rail in enumerate(rails)), *softened], rails


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
        text = "neither mpirun nor srun: ssh starts the processes, and shm has one process"
        return Line("launcher", WARN, text, "apt-get install openmpi-bin")
    return Line("launcher", OK, "; ".join(found.values()))


def judge(facts: dict, host: str | None = None) -> Verdict:
    lines, rails = all_device_lines(facts)
    lines += [
        memory_lock_line(facts["memory_lock"]),
        huge_page_line(facts["huge_pages"]),
        governor_line(facts["governors"]),
        clock_line(facts["clock"]),
        ipmi_line(facts["ipmi"]),
        launcher_line(facts["launchers"]),
    ]
    return Verdict(host or facts["host"], lines, rails[0] if rails else None, facts, rails)


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
        "rails",
        {verdict.host: str(len(verdict.rails)) for verdict in verdicts if verdict.rails},
        "--device has to name equally many on each host",
        NO,
    )
    lines += _differ(
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
