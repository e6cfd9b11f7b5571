"""Tests of report.html as a file that is read anywhere: every link leads somewhere, nothing is fetched."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

from loch.runner import explanations, inline_svg
from support import ROOT, SMALL, call

CLAIMS = """\
claims:
  - {claim: "CD.throughput_ops_s < 0", why: docs/fidelity.md#nessie-2017}
  - {claim: "CD.throughput_ops_s < 1", why: docs/fidelity.md#no-such-section}
  - {claim: "CD.throughput_ops_s > 0", why: docs/fidelity.md#pilaf-2013}
"""


class Links(HTMLParser):
    """The ids of a page, and everything that it refers to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.targets: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("href", "src", "srcset", "action", "data"):
                self.targets.append(value or "")

    def dead(self) -> list[str]:
        """What leads nowhere once the page is alone: anchors that it lacks, and files beside it."""
        return [
            each
            for each in self.targets
            if not each.startswith(("data:", "https://"))
            and not (each.startswith("#") and unquote(each[1:]) in self.ids)
        ]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The pages of two experiments and the one of both, by folder."""
    folder: Path = tmp_path_factory.mktemp("pages")
    (folder / "yaml").mkdir()
    for name in ("one", "two"):
        text = SMALL.replace("name: small", f"name: {name}") + CLAIMS
        (folder / "yaml" / f"{name}.yaml").write_text(text, encoding="utf-8")
    done = call(folder, "run", "yaml", "--out", "all of it")
    assert done.returncode == 0, done.stderr
    root = folder / "all of it"
    return {name: (root / name / "report.html").read_text(encoding="utf-8") for name in ("", "one", "two")}


@pytest.mark.parametrize("name", ["", "one", "two"])
def test_every_link_of_a_page_leads_somewhere(pages: dict[str, str], name: str) -> None:
    links = Links(pages[name])
    assert links.dead() == []
    assert "#why-fidelity.nessie-2017" in links.targets
    assert len(links.ids) == len(set(links.ids))
    # of sections that a page does not need, or that are not there, it has neither text nor link
    assert [each for each in links.ids if each.startswith("why-")] == ["why-fidelity.nessie-2017"]
    assert "(docs/fidelity.md#no-such-section)" in pages[name]


def figures(page: str) -> list[str]:
    return re.findall(r"<figure.*?</figure>", page, re.DOTALL)


@pytest.mark.parametrize(("name", "count"), [("", 2), ("one", 1)])
def test_figures_are_part_of_the_page(pages: dict[str, str], name: str, count: int) -> None:
    shown = figures(pages[name])
    assert len(shown) == count and "<img" not in pages[name]
    for each in shown:
        assert ">value size (bytes)</text>" in each
        assert re.search(r"<use [^>]*><title>CD, value size 2K: [^<]+ µs[^<]*</title></use>", each)
        assert "<style" not in each and "DejaVuSans-" not in each
    assert pages[name].count('class="small"') == (count if count > 1 else 0)


SVG = """<?xml version="1.0"?>
<svg width="100pt" height="50pt" viewBox="0 0 100 50">
 <defs><style type="text/css">*{stroke-linejoin: round}</style></defs>
 <g id="figure_1">
  <!-- a&lt;b -->
  <g style="fill: #b03000" transform="translate(39.45548 228.440094) rotate(-90) scale(0.07 -0.07)">
   <defs><path id="DejaVuSans-Bold-61" d="M 1 2
L 3.14159 4"/></defs>
   <use xlink:href="#DejaVuSans-Bold-61"/>
   <use xlink:href="#DejaVuSans-Bold-3c" x="67.48"/>
   <use xlink:href="#DejaVuSans-Bold-62" transform="translate(151.26 0)"/>
  </g>
  <path id="m1" d="M 0.123456 1"/>
  <use xlink:href="#m1" x="45.775714"/>
  <g clip-path="url(#p2)"/>
  <clipPath id="p2"><rect x="1"/></clipPath>
 </g>
</svg>
"""


def test_outlines_of_letters_become_text() -> None:
    assert inline_svg.of(SVG, 'a "title"') == (
        '<svg viewBox="0 0 100 50" style="stroke-linejoin: round; stroke-linecap: butt" aria-label="a &quot;title&quot;">'
        '<g id="f-all"><g><text transform="translate(39.46 228.44) rotate(-90) scale(0.07)" x="0 67 151" font-weight="bold" '
        'style="fill: #b03000">a&lt;b</text><path id="f-m1" d="M 0.12 1"/><use href="#f-m1" x="45.78"/>'
        '<g clip-path="url(#f-p2)"/><clipPath id="f-p2"><rect x="1"/></clipPath></g></g></svg>'
    )
    assert 'url(#x3-f-p2)"/><clipPath id="x3-f-p2"' in inline_svg.renamed(inline_svg.of(SVG, ""), "x3")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("a&lt;b", "a&lt;c"),  # letters that are not those of the text
        ("DejaVuSans-Bold", "Other"),
        ('<rect x="1"/>', '<script>alert("x")</script>'),
        ('<rect x="1"/>', '<rect x="1" onclick="x"/>'),
        ('viewBox="0 0 100 50"', ""),
    ],
)
def test_an_svg_of_another_kind_stays_an_image(old: str, new: str) -> None:
    assert old in SVG
    assert inline_svg.of(SVG.replace(old, new), "") == ""


def test_a_dead_link_is_found() -> None:
    text = '<a href="#here"></a><p id="here"><a href="#gone"></a><img src="x.png"><a href="docs/a.md"></a>'
    assert Links(text).dead() == ["#gone", "x.png", "docs/a.md"]


def test_the_overview_links_to_each_experiment(pages: dict[str, str]) -> None:
    assert {"#one", "#two"} <= set(Links(pages[""]).targets)


def test_the_reason_is_the_text_of_the_section(pages: dict[str, str]) -> None:
    title, text = explanations.html("why-fidelity.nessie-2017")
    assert title == "Nessie 2017" and text in pages["one"]
    assert "<li>" in text and "<h2>" not in text and 'href="simulator.md' not in text


def places() -> list[str]:
    found: set[str] = set()
    for path in [*ROOT.glob("experiments/paper/*.yaml"), *ROOT.glob("plots/published/*.yaml")]:
        found.update(re.findall(r"why: (docs/[a-z-]+\.md#[a-z0-9-]+)\b(?!`)", path.read_text(encoding="utf-8")))
    return sorted(found - {"docs/fidelity.md#anchor"})


@pytest.mark.parametrize("place", places())
def test_every_reason_that_an_experiment_gives_is_there(place: str) -> None:
    name = explanations.identity(place)
    assert name and Links(explanations.html(name)[1]).dead() == []
