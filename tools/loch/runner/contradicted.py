"""The conclusions of a paper that results contradict, in words short enough to stand in the picture."""

from __future__ import annotations

import re

from . import claims, second_score
from .tables import Results

# the signs of a claim with what a side is multiplied by: two claims that differ in them alone are one conclusion
_HOW_MUCH = re.compile(r"[<>]=?\s*(?:\d[\d.]*\s*\*\s*)?")
_FIELDS = {
    "throughput_ops_s": "throughput",
    "goodput_bytes_s": "goodput",
    "work_requests_s": "rate of work requests",
    "power_w.mean": "power",
    "gb_sent": "bytes of GETs",
    "gb_sent_all": "bytes",
    "cpu.busy_fraction": "CPU busy",
}
_LATENCIES = {"mean": "mean {}latency", "p50": "median {}latency", "max": "longest {}latency"}
_SIGNS = {" * ": " × ", ">=": "≥", "<=": "≤", "==": "="}


def conclusions(results: Results) -> list[str]:
    """The paper's conclusions that the results contradict: headlines of roles.yaml, which have words of their own,
    then claims of the experiment file that do not hold and say something else."""
    if results.experiment.paper is None:
        return []
    found: list[str] = []
    seen: set[str] = set()
    for headline, said in second_score.headlines(results):
        if said.verdict == second_score.NOT_HELD:
            found.append(headline.says)
        seen.add(_what(headline.claim.text))
    for verdict in claims.judge_all(results):
        # a headline has been judged at the paper's own threshold, repeat by repeat
        if verdict.held is False and _what(verdict.text) not in seen:
            found.append(in_words(verdict.text, {each.name: each.label for each in results.experiment.systems}))
    return found


def _what(text: str) -> str:
    return _HOW_MUCH.sub("~ ", " ".join(text.split()))


def in_words(text: str, labels: dict[str, str]) -> str:
    """A claim as a figure shows it: "goodput: Nessie (CD) > 1.5 × NessieSD at value size ≥ 32K, 50 % GETs"."""
    systems = "|".join(map(re.escape, sorted(labels, key=len, reverse=True)))
    name = re.compile(rf"(?<![\w.])({systems})(?:\[([^\]]*)\])?\.([\w.-]*\w)")
    claim, _, where = " ".join(text.split()).partition(" where ")
    fields = {found[3] for found in name.finditer(claim)}

    def of(found: re.Match[str]) -> str:
        at = ", ".join(_place(each.replace("=", " == ", 1)) for each in (found[2] or "").split(",") if each)
        field = "" if len(fields) == 1 else f", {_field(found[3])}"
        label = labels[found[1]]
        label = label if re.search("[A-Za-z]", label) else f"“{label}”"  # a number, such as that of servers
        return label + (f" ({at}{field})" if at else field)

    claim = name.sub(of, claim)
    for sign, shown in _SIGNS.items():
        claim = claim.replace(sign, shown)
    said = f"{_field(fields.pop())}: {claim}" if len(fields) == 1 else claim
    return said + (f" at {', '.join(map(_place, where.split(' and ')))}" if where else "")


def _place(condition: str) -> str:
    """A condition on an axis: "value size ≥ 32K", "nodes 4", "50 % GETs"."""
    axis, sign, value = (*condition.replace('"', "").split(), "", "")[:3]
    if axis == "get" and sign == "==":
        return f"{100 * float(value):g} % GETs"
    shown = "" if sign == "==" else f"{_SIGNS.get(sign, sign)} "
    return f"{axis.replace('_', ' ')} {shown}{value}".strip()


def _field(name: str) -> str:
    """A result field in words, without its unit."""
    parts = name.split(".")
    if parts[0] == "latency_us" and len(parts) == 3:
        kind = "" if parts[1] == "all" else f"{parts[1].upper()} "
        share = parts[2][1:].replace("_", ".")
        return _LATENCIES.get(parts[2], f"{share}th percentile of {{}}latency").format(kind)
    return _FIELDS.get(name, name.replace("_", " ").replace(".", " "))
