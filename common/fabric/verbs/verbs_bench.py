#!/usr/bin/python3
"""Compares the verbs fabric with perftest's tools on this machine's RDMA device, in one run.

Loch's test and perftest's tool of each pair run in turn, for several rounds; the table has the medians, the median of
the rounds' ratios, and the first and third quartile of the ratios (emulated machines and busy hosts spread them).
perftest's tools: ib_read_lat, ib_atomic_lat, ib_write_lat -c UC, ib_send_lat -c UD (latencies) and ib_read_bw with 32
READs outstanding (message rate). With --counters, prints instead how many allocations and system calls the data path
makes in 100,000 operations, on shm and on verbs: counted by the kernel's tracing when run as root, else by strace.

With --old, another build's verbs_micro is the peer instead of perftest's tools, in the same tests: what a change did to
the data path on this device. The two take turns to be first, and a test is worse if the whole 95 % interval of the
median ratio says so.

  ./loch softroce -- common/fabric/verbs/verbs_bench.py
  ./loch softroce -- common/fabric/verbs/verbs_bench.py --old OTHER/build/release/common/fabric/verbs/verbs_micro
"""
import argparse
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
sys.path.insert(0, os.path.join(SOURCE, "tools"))

from loch.runner import intervals  # noqa: E402  (found only now that the tree is on the path)

TRACING = "/sys/kernel/tracing"
LIMITS = {"latency": 1.10, "rate": 0.90}
MIN_ROUNDS = 6  # of --old: the least number whose extremes hold the median with 95 %

# Measurements made by both verbs_micro and perftest: name, TEST of verbs_micro, perftest's command, and "latency" (less
# is better) or "rate" (more is).
PAIRS = [
    ("READ latency, window 1", ["read"], ["ib_read_lat"], "latency"),
    ("CAS latency", ["cas"], ["ib_atomic_lat", "-A", "CMP_AND_SWAP"], "latency"),
    ("UC WRITE latency", ["uc-write"], ["ib_write_lat", "-c", "UC"], "latency"),
    ("UD SEND latency", ["ud-send"], ["ib_send_lat", "-c", "UD"], "latency"),
    ("READ rate, window 32", ["read-rate", "--window", "32"], ["ib_read_bw", "-t", "32"], "rate"),
]


def fail(message, status=1):
    print(f"verbs_bench: {message}", file=sys.stderr)
    sys.exit(status)


def micro():
    build = os.environ.get("LOCH_BUILD", os.path.join(SOURCE, "build"))
    return os.path.join(build, "release", "common", "fabric", "verbs", "verbs_micro")


def ours(test, size, operations, program=None):
    done = subprocess.run(
        [program or micro(), *test, "--bytes", str(size), "--operations", str(operations)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode != 0:
        fail(f"{' '.join(test)}: {done.stderr.strip()}")
    result = json.loads(done.stdout)
    return result.get("median_us", result.get("mops")), result


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def parse_latency(text):
    """The median latency in µs: the fifth number of perftest's row (bytes, iterations, min, max, typical, ...)."""
    for line in text.splitlines():
        numbers = re.findall(r"[\d.]+", line)
        if re.match(r"^\s*\d+\s+\d+\s", line) and len(numbers) >= 5:
            return float(numbers[4])
    return None


def parse_rate(text):
    """The message rate, in millions a second: the last column of perftest's row."""
    for line in text.splitlines():
        if re.match(r"^\s*\d+\s+\d+\s", line):
            return float(line.split()[-1])
    return None


def theirs(command, size, operations, kind):
    port = free_port()
    flags = ["-F", "-p", str(port), "-n", str(operations)]
    if "atomic" not in command[0]:
        flags += ["-s", str(size)]
    server = subprocess.Popen([*command, *flags], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        for _ in range(100):  # tries to connect, at most 100 times, until perftest's server listens
            time.sleep(0.1)
            done = subprocess.run([*command, *flags, "127.0.0.1"], capture_output=True, text=True, timeout=300)
            value = (parse_latency if kind == "latency" else parse_rate)(done.stdout)
            if value is not None:
                return value
            if server.poll() is not None:
                break
        fail(f"{' '.join(command)}: {done.stderr.strip() or done.stdout.strip()}")
    finally:
        server.kill()
        server.wait()


def compare(arguments):
    rows, worst = [], 0
    for name, test, command, kind in PAIRS:
        unit = "us" if kind == "latency" else "M/s"
        pairs = []
        for _ in range(arguments.rounds):
            mine, _ = ours(test, arguments.bytes, arguments.operations)
            pairs.append((mine, theirs(command, arguments.bytes, arguments.operations, kind)))
        ratios = [a / b for a, b in pairs]
        ratio = statistics.median(ratios)
        low, _, high = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        holds = ratio <= LIMITS[kind] if kind == "latency" else ratio >= LIMITS[kind]
        worst += not holds
        sign = "at most" if kind == "latency" else "at least"
        rows.append(
            (
                name,
                f"{statistics.median(a for a, _ in pairs):.4g} {unit}",
                " ".join(command),
                f"{statistics.median(b for _, b in pairs):.4g} {unit}",
                f"{ratio:.2f}",
                f"{low:.2f} to {high:.2f}",
                f"{sign} {LIMITS[kind]:.2f}",
                "holds" if holds else "FALLS SHORT",
            )
        )
        print(f"{name}: {rows[-1][1]} against {rows[-1][3]}, ratio {ratio:.2f}", file=sys.stderr, flush=True)
    print(
        f"| {arguments.bytes} bytes, {arguments.operations} operations, median of {arguments.rounds} rounds "
        "| loch | peer | peer's | ratio | its middle half | wanted | |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        print("| " + " | ".join(row) + " |")
    return 0 if worst == 0 else 1


def compare_builds(arguments):
    """This build over the one of --old: medians, the median of the rounds' ratios, and its interval."""
    pairs = {name: [] for name, *_ in PAIRS}
    for number in range(arguments.rounds):
        for name, test, _, _ in PAIRS:
            order = [None, arguments.old][:: 1 if number % 2 == 0 else -1]
            measured = {program: ours(test, arguments.bytes, arguments.operations, program)[0] for program in order}
            pairs[name].append((measured[None], measured[arguments.old]))
        print(f"round {number + 1} of {arguments.rounds}", file=sys.stderr, flush=True)
    print(
        f"| {arguments.bytes} bytes, {arguments.operations} operations, median of {arguments.rounds} rounds "
        "| this build | the old one | ratio | its interval | |"
    )
    print("|---|---|---|---|---|---|")
    worse = 0
    for name, _, _, kind in PAIRS:
        unit = "us" if kind == "latency" else "M/s"
        ratio = intervals.median([new / old for new, old in pairs[name]])
        is_worse = ratio.low > 1 if kind == "latency" else ratio.high < 1
        is_better = ratio.high < 1 if kind == "latency" else ratio.low > 1
        worse += is_worse
        medians = [statistics.median(each) for each in zip(*pairs[name])]
        print(
            f"| {name} | {medians[0]:.4g} {unit} | {medians[1]:.4g} {unit} | {ratio.middle:.2f} "
            f"| {ratio.low:.2f} to {ratio.high:.2f}, {100 * ratio.level:.1f} % "
            f"| {'WORSE' if is_worse else 'better' if is_better else 'not told apart'} |"
        )
    return 0 if worse == 0 else 1


def traced_calls(command):
    """How often the command made each system call, by a histogram of the kernel on a tracepoint; None where tracing is
    refused.

    Only threads seen in the command's task list, which is read every 20 ms, are counted: shorter-lived ones may be
    missed.
    """
    trigger, histogram = (os.path.join(TRACING, "events/raw_syscalls/sys_enter", name) for name in ("trigger", "hist"))
    if not os.path.exists(trigger):
        subprocess.run(["mount", "-t", "tracefs", "nodev", TRACING], capture_output=True)
    by_thread = "hist:keys=common_pid,id.syscall:size=8192"
    try:
        with open(trigger, "w") as file:
            file.write(by_thread)
    except OSError:
        return None
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        threads = {str(process.pid)}
        while process.poll() is None:
            try:
                threads.update(os.listdir(f"/proc/{process.pid}/task"))
            except FileNotFoundError:
                break
            time.sleep(0.02)
        out, errors = process.communicate()
        if process.returncode != 0:
            fail(f"{' '.join(command)}: {errors.strip()[-300:]}")
        calls = {}
        for line in open(histogram):
            found = re.search(r"common_pid:\s*(\d+), id: (?:sys_)?(\w+).*hitcount:\s*(\d+)", line)
            if found and found[1] in threads:
                calls[found[2]] = calls.get(found[2], 0) + int(found[3])
        return calls, json.loads(out.splitlines()[-1])
    finally:
        with open(trigger, "w") as file:
            file.write("!" + by_thread)


def system_calls(command):
    """How often the command made each system call: by the kernel's tracing, else by strace, which is a hundred times
    slower."""
    counted = traced_calls(command)
    if counted is not None:
        return counted
    if shutil.which("strace") is None:
        fail("strace is not here: apt-get install strace")
    with_counts = subprocess.run(
        ["strace", "-f", "-c", "-o", "/dev/stderr", *command], capture_output=True, text=True, timeout=900
    )
    if with_counts.returncode != 0:
        fail(f"{' '.join(command)}: {with_counts.stderr.strip()[-300:]}")
    calls = {}
    for line in with_counts.stderr.splitlines():
        fields = line.split()
        if len(fields) >= 5 and re.fullmatch(r"[\d.]+", fields[0]) and fields[3].isdigit() and fields[-1] != "total":
            calls[fields[-1]] = int(fields[3])
    return calls, json.loads(with_counts.stdout.splitlines()[-1])


def count(arguments):
    fabrics = ["shm"] + (
        ["verbs"] if os.path.isdir("/sys/class/infiniband") and os.listdir("/sys/class/infiniband") else []
    )
    print(
        "| fabric, test | operations | allocations | system calls beyond those of set-up | of them the provider's"
        " doorbell | cores given up |"
    )
    print("|---|---|---|---|---|---|")
    for fabric in fabrics:
        for test in (["read"], ["cas"], ["read-rate", "--window", "32"]):
            command = [micro(), "--fabric", fabric, *test, "--operations"]
            few, _ = system_calls([*command, "1000"])
            many, result = system_calls([*command, str(1000 + arguments.operations)])
            more = {name: many[name] - few.get(name, 0) for name in many if many[name] > few.get(name, 0)}
            # the provider rxe rings a doorbell by one write() to the uverbs device
            bell = sum(more.get(name, 0) for name in ("write", "ioctl"))
            given_up = more.get("sched_yield", 0) + more.get("clock_nanosleep", 0)
            rest = {
                name: n for name, n in more.items() if name not in ("write", "ioctl", "sched_yield", "clock_nanosleep")
            }
            besides = f"({', '.join(f'{name} {n}' for name, n in sorted(rest.items()))} besides)" if rest else ""
            print(
                (
                    f"| {fabric} {' '.join(test)} | {arguments.operations} | {result['allocations']} |"
                    f" {sum(more.values())} {besides} |"
                    f" {bell} | {given_up} |"
                ),
                flush=True,
            )
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bytes", type=int, default=64, help="payload (default 64)")
    parser.add_argument(
        "--operations", type=int, default=5000, help="a measurement (default 5000; 100000 with --counters)"
    )
    parser.add_argument("--rounds", type=int, default=15, help="of each pair, in turn (default 15)")
    parser.add_argument("--counters", action="store_true", help="allocations and system calls instead")
    parser.add_argument("--old", metavar="VERBS_MICRO", help="compare with this other build of verbs_micro instead")
    arguments = parser.parse_args()
    if not os.path.exists(micro()):
        fail(f"{micro()} is not built: ninja -C build/release verbs_micro", 2)
    if arguments.counters:
        arguments.operations = 100_000
        return count(arguments)
    if arguments.old is None:
        return compare(arguments)
    if not os.access(arguments.old, os.X_OK):
        fail(f"--old: {arguments.old} is no program", 2)
    if arguments.rounds < MIN_ROUNDS:
        fail(f"--rounds: an interval of at least 95 % needs {MIN_ROUNDS} rounds", 2)
    return compare_builds(arguments)


if __name__ == "__main__":
    sys.exit(main())
