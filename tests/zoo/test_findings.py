"""Regression tests of `--fabric verbs`: each is a run on an emulated device on which a fault was once found."""

from __future__ import annotations

import json
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import zoo
from test_processes import run_in_two


def protocol(name: str) -> zoo.Protocol:
    return next(each for each in zoo.protocols() if each.name == name)


def result_of(settings: str, name: str, *more: str) -> Any:
    outcome = zoo.run_protocol(zoo.RELEASE, settings, protocol(name), more)
    assert not outcome.fault, f"{settings}: {outcome.fault}\n{outcome.said}"
    return outcome.result


def ended(result: Any) -> int:
    """Operations inside and outside the measurement window of 20 ms, within which a busy machine may complete none."""
    return int(result["operations"]["total"]) + int(result["operations"].get("outside_window", 0))


def test_order_is_asked_of_a_queue_pair_that_is_ready_to_send() -> None:
    """libmlx5 answers the question whether bytes are placed in memory in order with 0 for a queue pair that is not
    ready to send; protocols would then never rely on the order."""
    assert result_of("mlx5-ib", "nessie")["capabilities"]["in_order_placement"] is True
    for silent in ("mlx4", "mlx5-adaptive"):
        assert result_of(silent, "nessie")["capabilities"]["in_order_placement"] is False


def test_the_least_of_two_unlike_devices_counts() -> None:
    """Both processes must agree how to detect a frame's arrival, by its last byte or by a checksum; else no frame would
    be accepted."""
    with tempfile.TemporaryDirectory(prefix="loch-zoo-") as name:
        result = run_in_two("mlx5-roce,order=always", "mlx5-roce,order=never", "nessie-sd", Path(name))
    assert result["capabilities"]["in_order_placement"] is False
    assert ended(result) > 0


def test_nessie_has_the_defaults_of_real_time() -> None:
    """On verbs the defaults for spare entries are those of shm: with others, replaced entries expire so late that a run
    measures waits for free entries."""

    def spare_entries(of: Any) -> Any:
        options = of["config"]["options"]
        return {name: options[name] for name in options if re.search("expiry|spare", name)}

    with tempfile.TemporaryDirectory(prefix="loch-zoo-") as name:
        path = Path(name) / "result.json"
        flags = ["shm" if word == "verbs" else word for word in zoo.flags_of("nessie")]
        outcome = zoo.execute([zoo.bench(zoo.RELEASE), *flags, "--json", str(path)], dict(os.environ))
        assert outcome.status == 0, outcome.said
        on_shm = spare_entries(json.loads(path.read_text()))
    on_verbs = spare_entries(result_of("mlx5-roce", "nessie"))
    assert on_verbs["nessie.spare-memory"] == 128 << 20
    assert on_verbs == on_shm


def test_bytes_on_the_wire_are_those_of_the_link() -> None:
    """A READ takes more bytes on RoCE v2, with Ethernet, IP and UDP headers on each packet, than on InfiniBand."""

    def per_operation(settings: str) -> float:
        result = result_of(settings, "drtm-em", "--get", "1")
        return float(result["wire_bytes"]["per_get"])

    assert per_operation("mlx5-roce") > per_operation("mlx5-ib,mtu=1024") + 10


def test_a_port_that_requires_a_global_header_gets_one() -> None:
    assert ended(result_of("mlx5-vf", "herd")) > 0


def test_what_a_protocol_does_not_use_is_not_asked_for() -> None:
    """Nessie receives no message: it needs neither shared receive queues nor UC."""
    assert ended(result_of("no-srq", "nessie")) > 0
    assert ended(result_of("irdma", "nessie-sd")) > 0


def test_the_better_of_two_devices_is_opened() -> None:
    """The emulated Azure HB machine lists its Ethernet device before the InfiniBand device, which must be chosen."""
    assert result_of("azure-hb", "nessie")["capabilities"]["device"] == "zoo_mlx5_1"


def test_a_partition_key_with_full_membership_is_chosen() -> None:
    """A partition of which the port is a full member is chosen, because two limited members cannot communicate."""
    assert ended(result_of("azure-hb", "nessie", "--device", "zoo_mlx5_1")) > 0


def test_unlike_interfaces_of_two_hosts_meet_on_the_subnet_that_both_have() -> None:
    """Two hosts must choose GIDs of the same subnet, although one lists those of a VLAN interface first, which the
    other lacks."""
    with tempfile.TemporaryDirectory(prefix="loch-zoo-") as name:
        result = run_in_two("mlx5-lag", "mlx5-roce,mtu=4096", "nessie", Path(name))
    assert ended(result) > 0
