"""Compares what protocols need of an RDMA device (`loch list protocols`) with the capabilities of the
chosen device."""

from __future__ import annotations

import difflib
import json
import subprocess
from typing import Any

from loch.doctor.judge import NO, OK, Choice, Line, Verdict

LIMIT_S = 60


class Unknown(Exception):
    """A protocol that loch-bench does not have, or a loch-bench that does not answer; the message is one line."""


def of_protocols(binary: str, names: list[str]) -> dict[str, dict[str, Any]]:
    """The needs of each named protocol: the field `needs` of `loch list protocols --json`."""
    try:
        done = subprocess.run(
            [binary, "list", "protocols", "--json"], capture_output=True, text=True, timeout=LIMIT_S, check=True
        )
        listed = {each["name"]: each["needs"] for each in json.loads(done.stdout)}
    except (OSError, subprocess.SubprocessError, ValueError, KeyError) as error:
        raise Unknown(f"--protocol: {binary} does not list its protocols ({error})") from error
    for name in names:
        if name not in listed:
            near = difflib.get_close_matches(name, listed, 1)
            raise Unknown(
                f"--protocol {name}: no such protocol"
                + (f"; did you mean {near[0]}?" if near else "; ./loch list protocols")
            )
    return {name: listed[name] for name in names}


def said(needs: dict[str, Any]) -> list[str]:
    """A protocol's needs in words: transports, atomics' scope, inline bytes."""
    words = [transport.upper() for transport in ("rc", "uc", "ud") if needs[transport]]
    if needs["atomic_scope"] == "nic":
        words.append("compare-and-swap (ATOMIC_HCA)")
    elif needs["atomic_scope"] == "global":
        words.append("compare-and-swap against the CPU's accesses too (ATOMIC_GLOB)")
    if needs["untorn_bytes"] > 8:
        words.append(f"{needs['untorn_bytes']} aligned bytes that are transferred at once")
    if needs["in_order_placement"]:
        words.append("bytes placed in the order of their addresses")
    if needs["max_rd_atomic"]:
        words.append(f"{needs['max_rd_atomic']} outstanding READs and atomics on a queue pair")
    if needs["max_inline_bytes"]:
        words.append(f"{needs['max_inline_bytes']} inline bytes")
    return words


SCOPES = ("none", "nic", "global")


def missing(needs: dict[str, Any], can: dict[str, Any]) -> list[str]:
    """The protocol's needs that the device lacks. `can`: the capabilities that the fabric found when it opened the
    device."""
    lacks = [transport.upper() for transport in ("rc", "uc", "ud") if needs[transport] and not can[transport]]
    if (needs.get("receives_rc") or needs.get("receives_uc")) and not can["receives_connected"]:
        lacks.append("shared receive queues")
    if SCOPES.index(needs["atomic_scope"]) > SCOPES.index(can["atomic_scope"]):
        lacks.append("compare-and-swap" if can["atomic_scope"] == "none" else "atomics against the CPU's accesses")
    if needs["untorn_bytes"] > can["untorn_bytes"]:
        lacks.append(f"{needs['untorn_bytes']} bytes at once: the device has {can['untorn_bytes']}")
    if needs["in_order_placement"] and not can["in_order_placement"]:
        lacks.append("bytes placed in order, as far as the device says (--assume-order)")
    for key, what in (("max_rd_atomic", "outstanding READs and atomics"), ("max_inline_bytes", "inline bytes")):
        if needs[key] > can[key]:
            lacks.append(f"{needs[key]} {what}: the device has {can[key]}")
    return lacks


def _can(verdict: Verdict, choice: Choice) -> dict[str, Any]:
    """The capabilities of a port that the host would use."""
    ports = verdict.facts["fabric"]["ports"]
    found: dict[str, Any] = next(
        port["can"] for port in ports if (port["device"], port["port"]) == (choice.device, choice.port)
    )
    return found


def lines(needs_of: dict[str, dict[str, Any]], verdict: Verdict) -> list[Line]:
    """One report line for each protocol: whether the device that this host would use has what the protocol needs."""
    found = []
    for name, needs in needs_of.items():
        words = said(needs)
        title = f"protocol {name}"
        if not words:
            found.append(Line(title, OK, "needs nothing of an RDMA device"))
        elif verdict.choice is None:
            found.append(
                Line(
                    title,
                    NO,
                    f"needs {', '.join(words)}, and no device can be used",
                    f"without a device: ./loch bench --protocol {name} --fabric sim, or --fabric shm",
                )
            )
        else:
            text = f"needs {', '.join(words)}"
            lacking = {rail.device: missing(needs, _can(verdict, rail)) for rail in verdict.rails}
            lacks = [f"{device} lacks {'; '.join(what)}" for device, what in lacking.items() if what]
            if lacks:
                found.append(Line(title, NO, f"{text}; {', '.join(lacks)}", "another device: --device"))
            else:
                have = "has them" if len(lacking) == 1 else "have them"
                found.append(Line(title, OK, f"{text}: {', '.join(lacking)} {have}"))
    return found
