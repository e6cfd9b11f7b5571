#!/usr/bin/python3
"""Measures the CPU time of a small request in memcached and Redis, relative to a server that only echoes.

The ratios are what the modelled servers are charged beyond an echo (kernel_path.h). One server at a time is under load,
on its own core; a client on another core keeps one request outstanding on each connection, over TCP of 127.0.0.1, and
never sleeps. With --client-core 0, client and server share one core and alternate, 40 requests at a time: use this on a
machine with other load. CPU time, user and system, is what the kernel's scheduler counted for the server. Each
ratio compares two runs of the same round; the table has medians and, in brackets, the minimum and maximum of all
rounds. "Least over least" divides the minima, which other load disturbed least: other load mostly adds time, by cold
caches. Finally, strace counts the system calls of a shorter run; the table has the number for each request.

Servers: from PATH, or memcached as installed by ./loch; memcached -t 1, and Redis without persistence.
Requests: GETs and PUTs of present keys, 24 bytes of key, 10 of value, in random order. Echo servers: one epoll, 16 and
64 bytes; and two for comparison only: one that waits for EPOLLOUT before each answer (as Redis did before 3.0), and one
with a blocking thread for each connection.

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
FIRST = "echo, 16 bytes"  # the case with which every other case's CPU time is compared


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


# Each case: name, kind of server, and a function from a key's text to the request and its reply.
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
    """Pins this process to the core, as a batch process: it then does not preempt the process that wakes it there."""
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
            # Debian's redis-tools contains the Redis server only as the program redis-check-rdb, which acts as the
            # server when it is called as redis-server.
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
        """CPU time of the server: nanoseconds in all, and clock ticks in user and in system mode; includes ended threads."""
        with open(f"/proc/{self.process.pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        # The id of the process's CPU-time clock, computed as clock_getcpuclockid() does.
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
        """Sends `requests` requests to the server; returns the seconds until all were answered."""
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
        """Number of system calls for each request, by name of the call."""
        requests = 2_000
        with tempfile.NamedTemporaryFile("r") as out:
            tracer = subprocess.Popen(
                ["strace", "-f", "-c", "-U", "calls,name", "-o", out.name, "-p", str(self.server.process.pid)],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
            )
            tracer.stderr.readline()  # waits for the line by which strace reports that it has attached
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
            at = number % len(cases)  # rotates the order, so that each case is measured first in some round
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
