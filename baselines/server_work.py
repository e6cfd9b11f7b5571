#!/usr/bin/python3
"""CPU time per request of memcached and Redis, as a ratio to the CPU time of a server that only echoes.

kernel_path.h charges the simulated servers the part of this ratio above 1. One server at a time is under load, on a
core of its own; a client on another core keeps one request of each connection outstanding, over TCP to 127.0.0.1, and
never sleeps. With --client-core equal to the server's core (0), client and server take turns, 40 requests at a time:
for a machine on which other programs run. The CPU time, user and system, is what the kernel's scheduler counted for the
server's process. Each ratio divides two runs of the same round; the table has the median of all rounds and, in
brackets, the smallest and the largest ratio. The column "least over least" divides the smallest times of all rounds:
other programs on the machine mostly add time, by evicting cache lines. Last, strace counts the system calls per request
of a shorter run.

Servers: memcached of PATH, or where ./loch installs it, started with -t 1; Redis without any persistence. Requests:
GETs of keys that exist and PUTs that overwrite them, 24-byte keys and 10-byte values, in random order. Echo servers:
one epoll loop, with 16-byte and with 64-byte messages. Two more echo servers are measured but used in no charge: one
asks epoll for room in the socket before each answer and sends the answer in its next pass (as Redis did until 3.0), the
other has a blocking thread for each connection.

ninja -C build/release server_work_load && baselines/server_work.py
"""
import argparse
import os
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

SOURCE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("LOCH_BUILD", os.path.join(SOURCE, "build"))
LOAD = os.path.join(BUILD, "release", "baselines", "server_work_load")
VALUE = b"v" * 10
FIRST = "echo, 16 bytes"  # the case whose CPU time divides that of every other case


def fail(message, status=1):
    print(f"server_work: {message}", file=sys.stderr)
    sys.exit(status)


def key_text(number):
    return b"key-%020d" % number


def memcached_get(key):
    return b"get %b\r\n" % key, b"VALUE %b 0 %d\r\n%b\r\nEND\r\n" % (key, len(VALUE), VALUE)


def memcached_put(key):
    return b"set %b 0 0 %d\r\n%b\r\n" % (key, len(VALUE), VALUE), b"STORED\r\n"


def redis_get(key):
    return b"*2\r\n$3\r\nGET\r\n$%d\r\n%b\r\n" % (len(key), key), b"$%d\r\n%b\r\n" % (len(VALUE), VALUE)


def redis_put(key):
    return b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$%d\r\n%b\r\n" % (len(key), key, len(VALUE), VALUE), b"+OK\r\n"


def echo(size):
    return lambda key: ((key * size)[:size], b"0123456789")


# Each case: its name, the kind of server, and a function that gives the request and the expected reply for a key.
CASES = [
    (FIRST, "echo", echo(16)),
    ("echo, 64 bytes", "echo", echo(64)),
    ("memcached GET", "memcached", memcached_get),
    ("memcached PUT", "memcached", memcached_put),
    ("Redis GET", "redis", redis_get),
    ("Redis PUT", "redis", redis_put),
    ("echo in a second pass", "second-pass", echo(16)),
    ("echo by threads", "threads", echo(16)),
]


def find(*names):
    for name in names:
        path = shutil.which(name, path=os.pathsep.join([os.environ["PATH"], os.path.join(BUILD, "servers/usr/bin")]))
        if path:
            return path
    return fail(f"{names[0]} is not on this machine: ./loch brings it", 2)


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def place(core):
    """Pins this process to `core`, as a batch process: one that it wakes there waits until it sleeps or its time slice
    ends."""
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))


class Server:
    def __init__(self, kind, core, folder):
        self.port = free_port()
        port = str(self.port)
        if kind == "memcached":
            command = [
                find("memcached"),
                "-l",
                "127.0.0.1",
                "-p",
                port,
                "-U",
                "0",
                "-t",
                "1",
                "-m",
                "256",
                "-u",
                "root",
            ]
        elif kind == "redis":
            # Debian's redis-tools installs the Redis server as redis-check-rdb; the program acts as a server if argv[0]
            # says so.
            link = os.path.join(folder, "redis-server")
            os.symlink(find("redis-server", "redis-check-rdb"), link)
            command = [
                link,
                "--bind",
                "127.0.0.1",
                "--port",
                port,
                "--save",
                "",
                "--appendonly",
                "no",
                "--dir",
                folder,
                "--loglevel",
                "warning",
            ]
        else:
            command = [LOAD, "echo", port, {"echo": "at-once"}.get(kind, kind)]
        self.process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, preexec_fn=lambda: place(core)
        )
        for _ in range(100):
            if self.process.poll() is not None:
                fail(f"{command[0]} ended at once")
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                time.sleep(0.05)
        fail(f"{command[0]} does not listen")

    def stop(self):
        self.process.kill()
        self.process.wait()

    def cpu(self):
        """CPU time of the server's process, ended threads included: in nanoseconds, then user and system time in clock
        ticks."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        # The number of the process's CPU clock, computed from the process id as clock_getcpuclockid() does.
        return time.clock_gettime_ns(~self.process.pid << 3 | 2), int(fields[11]), int(fields[12])


class Case:
    def __init__(self, name, server, texts, arguments, folder):
        self.name, self.server = name, server
        request, self.reply = texts(key_text(0))
        self.sizes = [str(len(request)), str(len(self.reply))]
        self.file = os.path.join(folder, name)
        order = list(range(arguments.keys))
        random.Random(1).shuffle(order)
        with open(self.file, "wb") as file:
            file.writelines(texts(key_text(number))[0] for number in order)

    def load(self, arguments, requests):
        """Has the client send `requests` requests to the server; returns how many seconds the client took."""
        done = subprocess.run(
            [LOAD, "load", str(self.server.port), str(arguments.connections), str(requests), *self.sizes, self.file],
            capture_output=True,
            text=True,
            timeout=1800,
            preexec_fn=lambda: place(arguments.client_core),
        )
        if done.returncode != 0:
            fail(f"{self.name}: {done.stderr.strip()}")
        answered, seconds, reply = done.stdout.rstrip("\n").split(" ", 2)
        if int(answered) != requests or reply.split()[0] != self.reply.split()[0].decode():
            fail(f"{self.name}: {answered} of {requests} answered, the last with {reply}")
        return float(seconds)

    def measure(self, arguments):
        before = self.server.cpu()
        seconds = self.load(arguments, arguments.requests)
        after = self.server.cpu()
        ran, user, system = (b - a for a, b in zip(before, after))
        return {
            "ns": ran / arguments.requests,
            "rate": arguments.requests / seconds,
            "user": ran / arguments.requests * user / max(1, user + system),
            "busy": min(1, ran / 1e9 / seconds),
        }

    def system_calls(self, arguments):
        """Calls per request of each system call that the server makes, by strace; calls rarer than 0.01 are left
        out."""
        requests = 2_000
        with tempfile.NamedTemporaryFile("r") as out:
            tracer = subprocess.Popen(
                ["strace", "-f", "-c", "-U", "calls,name", "-o", out.name, "-p", str(self.server.process.pid)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            tracer.stderr.readline()  # waits for strace's first line, which says that it is attached
            self.load(arguments, requests)
            tracer.send_signal(signal.SIGINT)
            tracer.communicate()
            found = re.findall(r"^\s*(\d+)\s+([a-z]\w+)$", out.read(), re.MULTILINE)
        calls = {name: int(n) / requests for n, name in found if name != "total"}
        return {name: n for name, n in sorted(calls.items(), key=lambda each: -each[1]) if n >= 0.01}


def spread(values, digits):
    low, middle, high = (f"{v:,.{digits}f}" for v in (min(values), statistics.median(values), max(values)))
    return f"{middle} ({low} to {high})"


def run(arguments, folder):
    servers, cases = {}, []
    try:
        for name, kind, texts in CASES:
            if kind not in servers:
                os.mkdir(os.path.join(folder, kind))
                servers[kind] = Server(kind, arguments.server_core, os.path.join(folder, kind))
            cases.append(Case(name, servers[kind], texts, arguments, folder))
        for case in cases:
            if case.name.endswith("PUT"):
                case.load(arguments, max(arguments.keys, arguments.connections))
        rounds = []
        for number in range(arguments.rounds):
            at = number % len(cases)  # each round begins with another case, so that no case is always first
            measured = {case.name: case.measure(arguments) for case in cases[at:] + cases[:at]}
            rounds.append(measured)
            print(
                f"round {number + 1}: " + ", ".join(f"{case.name} {measured[case.name]['ns']:.0f}" for case in cases),
                file=sys.stderr,
                flush=True,
            )
        report(cases, rounds, arguments)
    finally:
        for server in servers.values():
            server.stop()


def report(cases, rounds, arguments):
    traced = shutil.which("strace") is not None
    print(
        f"{arguments.rounds} rounds of {arguments.requests} requests each, {arguments.connections} connections, "
        f"{os.uname().release}"
    )
    print(
        "| | CPU of a request, ns | of it user | least over least | over the echo | user beyond the echo's | system"
        " beyond the echo's | 1,000 a second | of its time | system calls |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    for case in cases:
        own = [each[case.name] for each in rounds]
        base = [each[FIRST] for each in rounds]
        pairs = list(zip(own, base))
        least = min(each["ns"] for each in own) / min(each["ns"] for each in base)
        middle = {name: statistics.median(each[name] for each in own) for name in own[0]}
        user = statistics.median((a["user"] - b["user"]) / b["ns"] for a, b in pairs)
        system = statistics.median((a["ns"] - a["user"] - b["ns"] + b["user"]) / b["ns"] for a, b in pairs)
        calls = case.system_calls(arguments) if traced else {}
        print(
            (
                f"| {case.name} | {spread([each['ns'] for each in own], 0)} | {middle['user']:.0f} | {least:.2f} |"
                f" {spread([a['ns'] / b['ns'] for a, b in pairs], 2)} | {user:+.2f} | {system:+.2f} |"
                f" {middle['rate'] / 1e3:.0f} | {middle['busy']:.0%} |"
                f" {', '.join(f'{name} {n:.2f}' for name, n in calls.items()) or 'no strace here'} |"
            ),
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=25, help="(default 25)")
    parser.add_argument("--requests", type=int, default=20_000, help="of each case and round (default 20000)")
    parser.add_argument("--connections", type=int, default=40, help="(default 40)")
    parser.add_argument("--keys", type=int, default=20_000, help="records (default 20000)")
    parser.add_argument("--server-core", type=int, default=0, help="(default 0)")
    parser.add_argument("--client-core", type=int, default=1, help="(default 1)")
    arguments = parser.parse_args()
    if not os.access(LOAD, os.X_OK):
        fail(f"{LOAD} is not built: ninja -C {os.path.join(BUILD, 'release')} server_work_load", 2)
    if (
        arguments.rounds < 1
        or arguments.keys < 1
        or arguments.requests < arguments.connections
        or arguments.connections < 1
    ):
        fail("expected rounds, keys and connections above 0, and as many requests as connections", 2)
    cores = os.sched_getaffinity(0)
    if not {arguments.server_core, arguments.client_core} <= cores:
        fail(f"expected cores of {sorted(cores)}", 2)
    with tempfile.TemporaryDirectory(prefix="loch-server-work-") as folder:
        run(arguments, folder)


if __name__ == "__main__":
    main()
