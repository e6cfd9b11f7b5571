#!/usr/bin/python3
"""A fake loch-bench for the runner's tests: prints schema-1 results that depend on the flags only.

Environment variables: FAKE_SLEEP, seconds that a point takes; FAKE_FAIL "value-size=4096", points that end with status
1; FAKE_HANG, points that never end; FAKE_HISTOGRAM "none", latencies without histograms; FAKE_ERRORS, the share of
operations that give up; FAKE_CAVEAT "value-size=4096", points whose rates are marked as doubtful; FAKE_DEPARTURE
"value-size=4096", points that ran over RC; FAKE_NOISE "value-size=4096", points whose repeats differ by up to 30 %;
FAKE_SPIKE "value-size=4096,seed=5", points that are 100 times slower; FAKE_COUNT, a file that gets a line for each point run;
FAKE_TOGETHER "yes", a program that has `points`; FAKE_DIE "get=0.5", points at which the process that runs several is killed;
FAKE_ENDS "yes", a program whose `points` ends after a point that fails, as launched processes do.
"""

import ctypes
import json
import os
import signal
import sys
import time


def flags(argv):
    found, at = {}, 0
    while at < len(argv):
        name, sign, value = argv[at].removeprefix("--").partition("=")
        if sign:
            found[name] = value
            at += 1
            continue
        if at + 1 < len(argv) and not argv[at + 1].startswith("--"):
            found[name] = argv[at + 1]
            at += 2
        else:
            found[name] = "true"
            at += 1
    return found


def matches(given, variable):
    rule = os.environ.get(variable, "")
    return bool(rule) and all(given.get(k) == v for k, _, v in (part.partition("=") for part in rule.split(",")))


def result(given):
    size = int(given.get("value-size", 1024))
    clients = int(given.get("clients", 1))
    nodes = int(given.get("nodes", 1))
    seed = int(given.get("load-seed", given["seed"]))
    wobble = 1 + 0.01 * seed / 10
    if given["fabric"] == "shm":
        wobble *= 0.02
    if matches(given, "FAKE_NOISE"):
        wobble *= 1 + 0.3 * (7 * seed % 11) / 11
    if matches(given, "FAKE_SPIKE"):
        wobble *= 100
    constants = dict(each.split("=") for each in given.get("hardware-set", "").split(",") if each)
    wobble *= float(constants.get("nic.pipeline", 135)) / 135
    get, put = (10 + size / 180) * wobble, (50 + size / 90) * wobble
    rate = 2e6 * nodes * clients / (get + put) * max(0.1, 1 - 0.4 * (clients - 9) ** 2 / 9)

    def buckets(mean):
        if os.environ.get("FAKE_HISTOGRAM") == "none":
            return {}
        return {"histogram": [[mean / 2, 300], [mean, 500], [3 * mean, 190], [9 * mean, 10]]}

    def latency(mean):
        return {
            "mean": mean,
            "min": mean / 2,
            "p50": mean,
            "p90": 2 * mean,
            "p95": 2.4 * mean,
            "p99": 3 * mean,
            "p99_9": 5 * mean,
            "max": 9 * mean,
            "count": 1000,
            **buckets(mean),
        }

    payload = size * 7 / 15
    return {
        "schema": 1,
        "loch": {"version": "0.1.0", "commit": "0" * 40, "dirty": False},
        "protocol": given["protocol"],
        "fabric": given["fabric"],
        "hardware": given.get("hardware", ""),
        "seed": int(given["seed"]),
        "config": {"value_size": size, "clients": clients, "nodes": nodes},
        "duration_s": 0.05,
        "throughput_ops_s": rate,
        "goodput_bytes_s": rate * size,
        "operations": {
            "total": int(rate * 0.05),
            "get": rate * 0.025,
            "put": rate * 0.025,
            "delete": 0,
            "corrupt": 0,
            "error": int(rate * 0.05 * float(os.environ.get("FAKE_ERRORS", "0"))),
        },
        "latency_us": {"all": latency((get + put) / 2), "get": latency(get), "put": latency(put)},
        "verbs": {
            "read": 5000,
            "cas": 500,
            "per_put": {"read": 6.0, "index_read": 5.0, "cas": 1.0, "cdf": {"total": [[6, 0.6], [7, 1.0]]}},
        },
        "wire_bytes": {
            "total": 10**6,
            "payload_per_get": 2 * payload - 48,
            "payload_per_put": 48,
            "payload_per_delete": 0,
        },
        "caveats": ["not steady: <half>"] if matches(given, "FAKE_CAVEAT") else [],
        **({"departure": "over RC"} if matches(given, "FAKE_DEPARTURE") else {}),
        "nodes": [{"node": i} for i in range(nodes)],
        "provenance": {"argv": sys.argv, "time": time.time()},
        "sim": {"events": 12345, "virtual_s": 0.055, "wall_s": time.time() % 1, "trace_hash": "abc"},
    }


def points(path, is_dry):
    """Runs points as `loch-bench points` does: each point of the list in a child process; prints a line of JSON when it
    begins and when it ends. Of several ranks, the first alone runs them."""
    if os.environ.get("OMPI_COMM_WORLD_RANK", "0") != "0":
        return 0
    with open(path, encoding="utf-8") as stream:
        listed = json.load(stream)
    for number, entry in enumerate(listed):
        given = flags(entry["arguments"])
        if is_dry:
            is_bad = int(given.get("nessie.filter-bits", "7")) > 15
            refusal = '--nessie.filter-bits: "99" is not a whole number from 0 to 15' if is_bad else ""
            print(json.dumps({"point": number, "status": 2 if is_bad else 0, "refusal": refusal}), flush=True)
            continue
        if matches(given, "FAKE_DIE"):
            os.kill(os.getpid(), signal.SIGKILL)
        child = os.fork()
        if child == 0:
            os.environ["FAKE_PROCESS"] = str(os.getppid())
            into = os.open(entry["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            os.dup2(into, 1)
            os.dup2(into, 2)
            os._exit(main(["bench", *entry["arguments"]]))
        print(json.dumps({"point": number, "pid": child}), flush=True)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        print(json.dumps({"point": number, "status": status}), flush=True)
        if status and os.environ.get("FAKE_ENDS"):
            break
    return 0


def main(argv):
    if argv[:1] == ["list"]:
        fabrics = ["sim", "shm", *(["verbs", "ofi"] if os.environ.get("FAKE_TOGETHER") else [])]
        names = {"protocols": ["nessie", "nessie-sd"], "fabrics": fabrics}[argv[1]]
        print(json.dumps([{"name": name} for name in names]))
        return 0
    if argv[:2] == ["describe", "--hardware"]:
        pipeline = {"key": "nic.pipeline", "value": "135", "unit": "ns", "is_whole": False, "source": "a paper"}
        ranged = {"low": 100, "high": 200, "log": False}
        other = {"key": "nic.page", "value": "4096", "unit": "B", "is_whole": True, "source": "x86"}
        print(json.dumps({"schema": 1, "name": argv[2], "constants": [{**pipeline, **ranged}, other]}))
        return 0
    if argv[:1] == ["describe"]:
        with open(os.path.join(os.environ["LOCH_HOME"], "tools/loch/runner/flags.json"), encoding="utf-8") as flags_:
            options = [{"key": "nessie.filter-bits"}, {"key": "nessie.variant"}]
            known = {"flags": json.load(flags_), "protocols": [{"name": "nessie", "options": options}]}
        if os.environ.get("FAKE_TOGETHER"):
            known["commands"] = [{"name": "points"}]
        known["dies_with"] = "LOCH_DIES_WITH"
        print(json.dumps(known))
        return 0
    if argv[:1] == ["points"]:
        return points(argv[1], "--dry-run" in argv)
    if argv[:1] == ["calibrate"]:
        rows = [
            {
                "id": "V167",
                "hardware": "connect-ib-2x56g",
                "what": "outbound UD SEND",
                "unit": "M/s",
                "published": 80,
                "obtained": 84,
                "error": 0.05,
                "claim": None,
                "holds": True,
            },
            {
                "id": "V177",
                "hardware": "connect-ib-2x56g",
                "what": "misses",
                "unit": "1",
                "published": None,
                "obtained": 0.9,
                "error": None,
                "claim": "grow with N",
                "holds": True,
            },
        ]
        with open(argv[2], "w", encoding="utf-8") as stream:
            json.dump(rows, stream)
        return 0
    given = flags(argv[1:])
    if "dry-run" in given:
        if int(given.get("nessie.filter-bits", "7")) > 15:
            print('loch bench: --nessie.filter-bits: "99" is not a whole number from 0 to 15', file=sys.stderr)
            return 2
        return 0
    if "FAKE_COUNT" in os.environ:
        with open(os.environ["FAKE_COUNT"], "a", encoding="utf-8") as stream:
            process = [os.environ.get("FAKE_PROCESS", "alone")] if os.environ.get("FAKE_TOGETHER") else []
            stream.write(" ".join([*process, *argv]) + "\n")
    if matches(given, "FAKE_HANG"):
        time.sleep(600)
    time.sleep(float(os.environ.get("FAKE_SLEEP", "0")))
    if matches(given, "FAKE_FAIL"):
        print("the store is full: enlarge the table", file=sys.stderr, flush=True)
        return 1
    if os.environ.get("OMPI_COMM_WORLD_RANK", "0") != "0":
        return 0  # only the first rank writes the result
    with open(given["json"], "w", encoding="utf-8") as stream:
        json.dump(result(given), stream)
    return 0


def tie():
    """Ends with the process that LOCH_DIES_WITH names, as loch-bench does."""
    parent = os.environ.pop("LOCH_DIES_WITH", None)
    if parent is not None:
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
        if str(os.getppid()) != parent:
            sys.exit(1)


if __name__ == "__main__":
    tie()
    sys.exit(main(sys.argv[1:]))
