"""Tests of the JSON Schema of experiments: the stored copy is current, and it accepts and refuses the same as `./loch
run`."""

import json
from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from loch.places import SOURCE
from loch.runner import document, located
from loch.runner.errors import BadInput

COPY = Path(SOURCE) / "experiments/experiment.schema.json"
FILES = [
    path
    for path in sorted((Path(SOURCE) / "experiments").rglob("*.yaml"))
    if path.relative_to(SOURCE).parts[1] not in ("hardware", "faults")
]
GOOD = """\
name: good
paper: {source: nessie-2017, item: Table 1}
systems:
  CD: {protocol: nessie, clients: 12, nessie.filter-bits: 7}
  SD: {protocol: nessie-sd, servers: {value_size <= 2K: 3, else: 2}, tune: {clients: [1, 2], window: 12 - clients}}
workload: {get: 0.5, keys: 1000}
axes: {value_size: [2K, 4096], nessie.expiry: [1s]}
measure: {duration: 5ms, repeats: 2, power: {source: rapl}}
figure: {kind: line, y: [throughput_ops_s], log: true}
claims: ["CD.throughput_ops_s > 0", {about: V88, claim: "CD.throughput_ops_s > 1", why: docs/fidelity.md#method}]
"""
BAD = [
    ("clients: 12,", "clints: 12,", "x.yaml:4: systems.CD.clints: no such key; did you mean clients?"),
    (
        "clients: 12,",
        "clients: [12],",
        "x.yaml:4: systems.CD.clients: expected a whole number from 1 to 4096, found a list",
    ),
    (
        "clients: 12,",
        "clients: many,",
        "x.yaml:4: systems.CD.clients: expected a whole number from 1 to 4096, found 'many'",
    ),
    ("clients: 12,", "clients: 0,", "x.yaml:4: systems.CD.clients: expected a whole number from 1 to 4096, found 0"),
    (
        "clients: 12,",
        "clients: null,",
        "x.yaml:4: systems.CD.clients: expected a whole number from 1 to 4096, found nothing",
    ),
    ("protocol: nessie, ", "", "x.yaml:4: systems.CD.protocol: missing"),
    ("else: 2", "else: two", "x.yaml:5: systems.SD.servers.else: expected a whole number from 0 to 4096, found 'two'"),
    ("get: 0.5", "get: 1.5", "x.yaml:6: workload.get: expected a number from 0 to 1, found 1.5"),
    ("get: 0.5", "gets: 0.5", "x.yaml:6: workload.gets: no such key; did you mean get?"),
    ("[2K, 4096]", "2K", "x.yaml:7: axes.value_size: expected a list of at least one value"),
    ("[2K, 4096]", "[2K, 4Q]", "x.yaml:7: axes.value_size: expected bytes such as 512 or 16K, at most 1G, found '4Q'"),
    ("duration: 5ms", "duration: 5", "x.yaml:8: measure.duration: expected a time with its unit"),
    (
        "repeats: 2",
        "repeats: 2000",
        "x.yaml:8: measure.repeats: expected a whole number from 1 to 1000, or auto, found 2000",
    ),
    ("kind: line", "kind: lines", "x.yaml:9: figure.kind: expected one of line"),
    ("log: true", "log: often", "x.yaml:9: figure.log: expected true or false, found 'often'"),
    (", item: Table 1", "", "x.yaml:2: paper.item: missing; a paper has source: and item:"),
    ("name: good\n", "", "name: missing; every experiment has name:"),
    ("name: good", "name: a/b", "x.yaml:1: name: expected letters, digits"),
    *(
        ("{source: rapl}", instead, f"x.yaml:8: measure.power{said}")
        for instead, said in (
            ("--source rapl --rate 1", ": expected a mapping of keys, found '--source rapl --rate 1'"),
            ("[rapl]", ": expected a mapping of keys, found a list"),
            ("{rate: 1}", ".source: missing; one of ipmi, rapl, replay"),
            ("{source: psu}", ".source: expected one of ipmi, rapl, replay"),
            ("{source: rapl, idel: 1s}", ".idel: no such key; did you mean idle?"),
            ("{source: rapl, result: /etc/passwd}", ".result: no such key"),
            ("{source: rapl, idle: 10}", ".idle: expected a time with its unit"),
            ("{source: rapl, rate: 1000}", ".rate: expected a number from 0.001 to 100, found 1000"),
            ("{source: ipmi, port: 0}", ".port: expected a whole number from 1 to 65535, found 0"),
            ("{source: ipmi, user: -oProxyCommand=id}", ".user: expected a name that does not begin with -"),
            ("{source: ipmi, sensor: [a, b]}", ".sensor: expected a name that does not begin with -, found a list"),
            ("{source: ipmi, password: x}", ".password: a password does not belong in a file"),
        )
    ),
    (
        "workload: {get: 0.5, keys: 1000}",
        "workload: [get]",
        "x.yaml:6: workload: expected a mapping of keys, found a list",
    ),
]


def checked(text: str) -> None:
    item = located.parse(text, "x.yaml")
    assert item is not None
    document.check(item)


@pytest.fixture(scope="module")
def judge() -> jsonschema.Draft7Validator:
    schema = json.loads(COPY.read_text(encoding="utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def test_the_copy_is_what_the_code_makes() -> None:
    assert (
        COPY.read_text(encoding="utf-8") == document.json_schema()
    ), "./loch schema > experiments/experiment.schema.json"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_experiment_is_valid(path: Path, judge: jsonschema.Draft7Validator) -> None:
    said = [error.message for error in judge.iter_errors(located.load(path).plain())]
    assert said == []
    document.check(located.load(path))


def test_the_good_one_is_good(judge: jsonschema.Draft7Validator) -> None:
    checked(GOOD)
    assert list(judge.iter_errors(YAML(typ="safe").load(GOOD))) == []


@pytest.mark.parametrize(("what", "instead", "said"), BAD, ids=[said.split(": ", 1)[1][:60] for _, _, said in BAD])
def test_bad_ones_are_refused_by_both(what: str, instead: str, said: str, judge: jsonschema.Draft7Validator) -> None:
    text = GOOD.replace(what, instead, 1)
    assert text != GOOD
    with pytest.raises(BadInput) as refused:
        checked(text)
    assert said in str(refused.value)
    assert not judge.is_valid(YAML(typ="safe").load(text))


def test_of_several_problems_the_first_is_told() -> None:
    with pytest.raises(BadInput, match="x.yaml:4: "):
        checked(GOOD.replace("kind: line", "kind: lines").replace("clients: 12", "clients: 0"))


@pytest.mark.parametrize("bmc", ['"-H x"', '"a b"', '"{host};id"', '"$(id)"', "[a, '`id`']", "{a: b}"])
def test_a_bmc_is_an_address(bmc: str) -> None:
    with pytest.raises(BadInput, match="x.yaml:8: measure.power.bmc: expected the name or address of a BMC"):
        checked(GOOD.replace("{source: rapl}", f"{{source: ipmi, bmc: {bmc}}}"))


def test_a_program_is_named_by_no_file() -> None:
    with pytest.raises(BadInput, match="redis.binary: programs are named on the command line only"):
        checked(GOOD.replace("nessie.filter-bits: 7", "redis.binary: /bin/sh"))
