"""Tests of what docs/fidelity.md says about medians of latency, by the kept results and the published values."""

from __future__ import annotations

import csv
import re
from pathlib import Path
from statistics import median

from ruamel.yaml import YAML

ROOT = Path(__file__).resolve().parents[2]


def published() -> tuple[list[int], dict[str, list[float]]]:
    """SMART's Figure 5a: numbers of threads, and by metric the values at them."""
    text = (ROOT / "plots/published/smart-2024.yaml").read_text(encoding="utf-8")
    item = YAML(typ="safe").load(text)["items"]["Figure 5"]
    return item["at"], {metric: values["RACE"] for metric, values in item["metrics"].items()}


def errors(metric: str) -> list[float]:
    """The errors of the kept results in percent, in the order of `published()`; of several repeats that of the median."""
    at, values = published()
    found: dict[int, list[float]] = {}
    with (ROOT / "reference/smart-2024-figure5/table.csv").open(encoding="utf-8") as table:
        for row in csv.DictReader(table):
            found.setdefault(int(row["clients"]), []).append(float(row[metric]))
    return [100 * (median(found[threads]) / value - 1) for threads, value in zip(at, values[metric])]


def paragraph() -> str:
    text = (ROOT / "docs/fidelity.md").read_text(encoding="utf-8")
    found = re.search(r"\*\*Updates alone\*\* \(Figure 5a.*?\n\n", text, re.S)
    assert found is not None
    return found[0].replace("\n", " ")


def test_errors_of_medians_are_as_the_page_says() -> None:
    said = re.search(r"with ([\d, and]+) threads are off by ([-+\d, and]+) %", paragraph())
    assert said is not None
    assert [int(each) for each in re.findall(r"\d+", said[1])] == published()[0]
    assert [int(each) for each in re.findall(r"[-+]\d+", said[2])] == [
        round(each) for each in errors("latency_us.all.p50")
    ]


def test_errors_of_rates_and_of_the_99th_percentile_are_as_the_page_says() -> None:
    text = paragraph()
    rates, longest = errors("throughput_ops_s"), errors("latency_us.all.p99")
    assert f"median error {round(median(abs(each) for each in rates))} %" in text
    assert f"low by {round(-max(rates[1:5]))} to {round(-min(rates[1:5]))} %" in text
    assert f"99th percentile is {round(min(longest[2:]))} to {round(max(longest[2:]))} % long from 4 threads on" in text
