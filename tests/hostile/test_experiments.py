"""Tests of damaged, endless or malicious experiment files, stored points and manifests, and of text that contains
markup."""

from __future__ import annotations

import json
import random
import time
import unittest
from typing import Any
import xml.etree.ElementTree

from loch.runner import commands, expression, grid, located, outputs, overrides, schema
from loch.runner.errors import BadInput
from support import EXPERIMENT, Hostile

LEVELS = "".join(f"  {chr(98 + i)}: &{chr(98 + i)} [{', '.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(8))
TUNED = EXPERIMENT.replace("clients: 1}", "tune: {servers: [1, 2], clients: TREE}, maximize: throughput_ops_s}")
# Bad experiment files, and the words that the single line of the error must contain.
BAD: dict[str, tuple[Any, ...]] = {
    "brackets": ("[" * 3000, ":1"),
    "nested maps": ("a: " + "{a: " * 3000, ":1"),
    "blocks": ("".join(" " * i + f"a{i}:\n" for i in range(900)), ":"),
    "an alias inside of itself": ("name: &a [*a]\n", ":1", "nested"),
    "a mapping inside of itself": ("name: &a {x: *a}\n", ":1", "nested"),
    "a merge of itself": ("name: &a {<<: *a}\n", ":1", "nested"),
    "aliases of aliases": (EXPERIMENT + "x:\n  a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + LEVELS, "50,000 values"),
    "merges of merges": (
        "x: &a {k: 1}\n"
        + "".join(f"x{i}: &x{i} {{<<: [{', '.join([f'*x{i - 1}' if i else '*a'] * 9)}]}}\n" for i in range(8)),
        "50,000 values",
    ),
    "a million bytes": ("# " + "x" * (1 << 20) + "\n" + EXPERIMENT, "1 MiB"),
    "a date that is none": (EXPERIMENT.replace("title: Tiny", "title: 2024-99-99"), ":2: title", "quote it"),
    "thousands of digits": (
        EXPERIMENT.replace("clients: 1}", "clients: " + "9" * 5000 + "}"),
        ":6: systems.CD.clients",
    ),
    "hundreds of digits": (EXPERIMENT.replace("clients: 1}", "clients: " + "9" * 400 + "}"), ":6: systems.CD.clients"),
    "digits with a unit": (EXPERIMENT.replace("duration: 300us", "duration: " + "9" * 400 + "us"), ":9", "duration"),
    "an infinite share": (EXPERIMENT.replace("get: 0.5", "get: .inf"), ":7", "get"),
    "no number": (EXPERIMENT.replace("get: 0.5", "get: .nan"), ":7", "get"),
    "a NUL": (EXPERIMENT.replace("Tiny", "Ti\x00ny"), ":2", "0x0"),
    "an escaped NUL": (EXPERIMENT.replace("Tiny", '"Ti\\0ny"'), ":2: title", "control"),
    "an escape of a terminal": (EXPERIMENT.replace("Tiny", '"\\e[2J"'), ":2: title", "control"),
    "a control character in a value": (EXPERIMENT.replace("uniform", '"uni\\aform"'), ":7", "distribution"),
    "no UTF-8": (EXPERIMENT.replace("Tiny", "T\xefny").encode("latin-1"), "UTF-8"),
    "a tag": (EXPERIMENT.replace("Tiny", "!!python/object/apply:os.system ['touch ran']"), ":2"),
    "binary": (bytes(range(256)), ":"),
    "the same key on one line": (EXPERIMENT.replace("clients: 1}", "clients: 1, clients: 2}"), ":6", "twice"),
    "a name that climbs": (EXPERIMENT.replace("name: tiny", "name: ../../tiny"), ":1: name"),
    "brackets in tune": (TUNED.replace("TREE", '"' + "(" * 5000 + '1"'), ":6", "clients"),
    "a claim of signs": (EXPERIMENT + 'claims: ["' + "-" * 5000 + '1 > CD.throughput_ops_s"]\n', ":11", "claim"),
    "a claim of terms": (
        EXPERIMENT + 'claims: ["' + "1 + " * 3000 + '1 > CD.throughput_ops_s"]\n',
        ":11",
        "claim",
        "400",
    ),
    "a derived number of brackets": (EXPERIMENT + 'derive: {x: "' + "(" * 100 + "1" + ")" * 100 + '"}\n', ":11", "50"),
    "a number too large in a claim": (EXPERIMENT + 'claims: ["CD.throughput_ops_s > 1e999"]\n', ":11", "too large"),
    "text in tune": (TUNED.replace("TREE", '"\'\\"a\\"\'"'), ":6"),
    "a grid": (
        EXPERIMENT.replace(
            "axes: {", "axes: {clients: [%s], window: [%s], keys: [%s], " % (*[", ".join(map(str, range(1, 465)))] * 3,)
        )
        .replace("clients: 1}", "}")
        .replace(", keys: 200}", "}"),
        ":8: axes",
        "combinations",
        "100,000",
    ),
    "a grid of many points": (
        EXPERIMENT.replace("repeats: 1", "repeats: 1000").replace(
            "[64, 128]", "[%s]" % ", ".join(map(str, range(1, 30)))
        ),
        ":8: axes",
        "points",
        "10,000",
    ),
    "an axis": (EXPERIMENT.replace("[64, 128]", str(list(range(1, 20_001)))), ":8: axes.value_size", "1,000"),
    "candidates": (
        TUNED.replace("servers: [1, 2]", f"servers: {list(range(900))}, window: {list(range(1, 900))}").replace(
            "TREE", "1"
        ),
        ":8: axes",
        "10,000",
    ),
    "systems": (
        EXPERIMENT.replace(
            "systems:\n", "systems:\n" + "".join(f"  S{i}: {{protocol: nessie, clients: 1}}\n" for i in range(500))
        ),
        "systems",
        "100",
    ),
}


class Files(Hostile):
    def test_each_is_refused_in_one_line_and_soon(self) -> None:
        for what, (content, *names) in BAD.items():
            self.write("bad.yaml", content)
            with self.subTest(what):
                began = time.monotonic()
                done = self.loch("run", "bad.yaml", "--out", "out")
                self.assertLess(time.monotonic() - began, 20)
                self.assert_refused(done, "bad.yaml", *names)
                self.assertLess(len(done.stderr), 1000)
                self.assertEqual(self.left(), ["bad.yaml"])

    def test_set_is_held_to_the_same(self) -> None:
        self.write("e.yaml", EXPERIMENT)
        for value in (
            "[" * 3000,
            "&a [*a]",
            "9" * 5000,
            "2024-99-99",
            "!!python/name:os.system x",
            '"\\0"',
            "{a: 1, a: 2}",
            ".nan",
        ):
            with self.subTest(value[:30]):
                self.assert_refused(self.loch("run", "e.yaml", "--set", f"clients={value}"), "--set")

    def test_things_that_are_no_files(self) -> None:
        (self.folder / "empty").mkdir()
        for name in ("/dev/zero", "none.yaml", "empty", "/dev/null"):
            with self.subTest(name):
                self.assert_refused(self.loch("run", name), name)


class Mutated(Hostile):
    """Randomly mutated experiment files are accepted, or refused in one line with the file's name."""

    SECONDS = 15.0
    WORDS = (
        "[",
        "]",
        "{",
        "}",
        ":",
        ",",
        "&a ",
        "*a",
        "<<: *a",
        "!!int ",
        "!!binary ",
        "9" * 300,
        "-",
        "0x",
        ".nan",
        ".inf",
        "~",
        "'",
        '"',
        "#",
        "|",
        ">",
        "%",
        "@",
        "\t",
        "\x00",
        "\ud7ff",
        "é",
        "2024-01-01",
        "1e400",
        "12:30:45",
        "\\",
        "? ",
        "---\n",
        "...\n",
    )

    def mutate(self, text: str, rng: random.Random) -> str:
        for _ in range(rng.randint(1, 6)):
            at, kind = rng.randrange(len(text) + 1), rng.randrange(5)
            if kind == 0:
                text = text[:at] + rng.choice(self.WORDS) + text[at:]
            elif kind == 1:
                text = text[:at] + text[at + rng.randint(1, 20) :]
            elif kind == 2:
                begin = rng.randrange(len(text) + 1)
                text = text[:at] + text[begin : begin + rng.randint(1, 80)] + text[at:]
            elif kind == 3:
                text = text[:at] + chr(rng.randrange(256)) + text[at + 1 :]
            else:
                lines = text.splitlines(keepends=True) or [""]
                (
                    rng.shuffle(lines)
                    if rng.random() < 0.05
                    else lines.insert(rng.randrange(len(lines) + 1), rng.choice(lines))
                )
                text = "".join(lines)
        return text

    def test_at_random(self) -> None:
        seed = int(time.time())
        rng, began, tried, refused = random.Random(seed), time.monotonic(), 0, 0
        rich = (
            EXPERIMENT.replace("[64, 128]", "[64, 128], get: [0.1, 0.9]").replace("get: 0.5, ", "")
            + "zip: [[value_size, get]]\n"
            "exclude: [{system: CD, value_size: 64}]\nderive: {gb: duration_s * 2}\nscale: 0.5\nnotes: text\n"
            'claims: ["CD.throughput_ops_s > 0 where value_size >= 4K"]\nsmoke: {measure.repeats: 1}\n'
        )
        base = [EXPERIMENT, TUNED.replace("TREE", "3 - servers"), rich]
        while time.monotonic() - began < self.SECONDS or tried < 200:
            text = self.mutate(rng.choice(base), rng)
            tried += 1
            once = time.monotonic()
            try:
                document = located.parse(text, "m.yaml")
                if document is None or document.entries is None:
                    continue
                overrides.check_smoke(document)
                experiment = schema.read(document, overrides.apply(document, [], None, smoke=False))
                grid.plan(experiment)
            except BadInput as error:
                refused += 1
                self.assertNotIn("\n", str(error), f"seed {seed}, try {tried}: {text!r}")
                self.assertIn("m.yaml", str(error), f"seed {seed}, try {tried}: {text!r}")
            except Exception as error:  # noqa: BLE001  (any exception other than BadInput is a bug)
                self.fail(f"seed {seed}, try {tried}: {type(error).__name__} {error}: {text!r}")
            self.assertLess(time.monotonic() - once, 10, f"seed {seed}, try {tried}: {text!r}")
        self.assertGreater(refused, tried // 10)

    def test_expressions_at_random(self) -> None:
        rng = random.Random(7)
        pieces = (
            "1",
            "2K",
            "5%",
            "9" * 400,
            "1e308",
            "CD.x",
            "CD[a=*].y",
            "min(",
            "argmax(",
            ")",
            "(",
            "-",
            "+",
            "*",
            "/",
            "<",
            ">=",
            "where",
            "and",
            "[",
            "]",
            "=",
            ".",
            ",",
            '"t"',
            "herd.ud-qps",
            "ms",
            "\x00",
            "é",
        )
        for _ in range(20_000):
            text = " ".join(rng.choices(pieces, k=rng.randint(1, 12)))
            for parse in (expression.parse_arithmetic, expression.parse_claim):
                try:
                    tree = parse(text)
                    expression.evaluate(tree if parse is expression.parse_arithmetic else tree.left, lambda name: 0.5)
                except expression.ExpressionError:
                    pass
                except (AttributeError, TypeError) as error:
                    # A name such as CD[clients=*] stands for several values. This test gives every name the value 0.5,
                    # on which a function of several values may fail in this way.
                    self.assertIn("[", text, f"{error}: {text}")


class Stored(Hostile):
    """Tests on the files of one small run: each test damages some and checks how commands react."""

    def setUp(self) -> None:
        super().setUp()
        self.write("e.yaml", EXPERIMENT)
        done = self.loch("run", "e.yaml", "--out", "out", timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.point = sorted((self.folder / "out/points").glob("*.json"))[0]
        self.whole = self.point.read_bytes()

    def changed(self, *path: str, value: object) -> bytes:
        document = json.loads(self.whole)
        node = document
        for key in path[:-1]:
            node = node[key]
        node[path[-1]] = value
        return json.dumps(document).encode()

    def damages(self) -> dict[str, bytes | None]:
        huge = self.whole.replace(b'"throughput_ops_s": ', b'"throughput_ops_s": 1' + b"0" * 400 + b', "x": ', 1)
        return {
            "empty": b"",
            "cut": self.whole[: len(self.whole) // 2],
            "latin": "ä".encode("latin-1") + self.whole,
            "text": b'"text"',
            "list": b"[]",
            "null": b"null",
            "gone": None,
            "NaN": self.changed("throughput_ops_s", value=float("nan")),
            "10^400": huge,
            "1e999": self.whole.replace(b'"throughput_ops_s": ', b'"throughput_ops_s": 1e999, "x": ', 1),
            "brackets": b"[" * 100_000,
            "no runner": self.changed("runner", value=[]),
            "text for a number": self.changed("latency_us", "get", "mean", value="fast"),
            "a list for a mapping": self.changed("latency_us", value=[1]),
            "no operations": self.changed("operations", value=3),
            "a wrong histogram": self.changed("latency_us", "get", "histogram", value=[[1, 2, 3]]),
            "a failure": self.changed("failure", value={"reason": "x"}),
            "a wrong host": self.changed("runner", "host", value=3),
        }

    def test_a_damaged_point_is_named_and_runs_again(self) -> None:
        table = (self.folder / "out/table.csv").read_bytes()
        for what, content in self.damages().items():
            with self.subTest(what):
                self.point.unlink(missing_ok=True)
                if content is not None:
                    self.point.write_bytes(content)
                results, _, store = outputs.load(self.folder / "out")
                self.assertEqual(list(store.damaged), [self.point])
                self.assertEqual([row.stored is None for row in results.rows].count(True), 1)
                if what not in ("empty", "gone", "10^400", "text for a number"):
                    continue
                done = self.loch("plot", "out")
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                self.assertIn(f"points/{self.point.name}", done.stderr)
                self.assertIn("drawn as a gap", done.stderr)
                # the figure marks the failed point
                self.assertIn('id="failed', (self.folder / "out/figure.svg").read_text())
        self.point.write_bytes(b"")
        done = self.loch("score", "out", timeout=120)
        self.assertEqual((done.returncode, self.point.name in done.stderr), (1, True), done.stderr)
        self.assert_refused(self.loch("reference", "out", "--out", "reference"), self.point.name)
        for what in ("cut", "text for a number"):
            self.point.write_bytes(self.damages()[what] or b"")
            done = self.loch("run", "e.yaml", "--out", "out", timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn(self.point.name, done.stderr)  # the damaged point is named
            self.assertEqual((self.folder / "out/table.csv").read_bytes(), table)
            self.assertEqual(self.loch("plot", "out").returncode, 0)

    def test_every_value_of_a_point_by_junk(self) -> None:
        """Each value of a stored point in turn is replaced by junk: the point is drawn, or named as damaged, without a
        traceback."""
        document = json.loads(self.whole)
        rng = random.Random(3)
        paths = [(key,) for key in document] + [
            (key, inner) for key, node in document.items() if isinstance(node, dict) for inner in node
        ]
        for path in rng.sample(paths, 12):
            self.point.write_bytes(
                self.changed(*path, value=rng.choice([None, [], {}, "x", -1, [[1]], True, {"x": {"x": []}}]))
            )
            with self.subTest(path):
                try:
                    commands._redraw(self.folder / "out")
                except BadInput as error:
                    self.fail(f"drawing what was taken for whole: {error}")

    def test_a_damaged_manifest_is_refused(self) -> None:
        path = self.folder / "out/manifest.json"
        whole = path.read_text()
        for what, content in {
            "brackets": "[" * 100_000,
            "deep": whole.replace('"Tiny"', "[" * 900 + "]" * 900),
            "empty": "",
            "cut": whole[:300],
            "list": "[]",
            "NaN": whole.replace("200", "NaN", 1),
            "no points": "{}",
            "10^400": whole.replace('"keys": 200', '"keys": 1' + "0" * 400),
            "a program": whole.replace('"clients": 1', '"clients": 1, "redis.binary": "./x"', 1),
            "wrong choices": whole.replace('"tuned": []', '"tuned": [3]'),
        }.items():
            path.write_text(content)
            with self.subTest(what):
                self.assertNotEqual(content, whole)
                for command in ("plot", "score"):
                    self.assert_refused(self.loch(command, "out"), "manifest.json")


class Text(Hostile):
    """Titles, labels and notes that contain markup, formulas or paths of files."""

    EVIL = "<script>alert(1)</script> [x](javascript:alert(1)) `c` **b** ![i](http://x/y) &lt; $\\frac{ a_b |"

    def setUp(self) -> None:
        super().setUp()
        quoted = json.dumps(self.EVIL)
        self.write(
            "e.yaml",
            EXPERIMENT.replace("title: Tiny", f"title: {quoted}").replace(
                "clients: 1}", f"clients: 1, label: {quoted}}}"
            )
            + "notes: "
            + json.dumps("# heading\n" + self.EVIL + "\n| a | b |\n* item\n1. one")
            + "\n",
        )
        self.done = self.loch("run", "e.yaml", "--out", "out", timeout=120)

    def test_a_formula_that_is_none_is_drawn_as_it_is(self) -> None:
        self.assertEqual(self.done.returncode, 0, self.done.stderr)
        for name in ("figure.svg", "figure.png", "figure.pdf"):
            self.assertGreater((self.folder / "out" / name).stat().st_size, 1000)
        xml.etree.ElementTree.parse(self.folder / "out/figure.svg")

    def test_no_markup_of_theirs_is_in_the_reports(self) -> None:
        text = (self.folder / "out/report.md").read_text(encoding="utf-8")
        page = (self.folder / "out/report.html").read_text(encoding="utf-8")
        for line in text.splitlines():
            for mark in ("<script", "](javascript", "![i]", "**b**"):
                at = line.find(mark)
                self.assertTrue(at < 0 or line[at - 1] == "\\" or (mark[0] == "]" and "\\[x" in line), line)
        self.assertNotIn("<script", page)
        self.assertNotIn('javascript:alert(1)"', page)
        self.assertIn(
            (
                "&lt;script&gt;alert(1)&lt;/script&gt; [x](javascript:alert(1)) `c` **b** ![i](http://x/y) &amp;lt;"
                " $\\frac{ a_b |"
            ),
            page,
        )  # the markup appears as text, as it is in the file
        self.assertEqual(sum(line.startswith("# ") for line in text.splitlines()), 1)
        self.assertNotIn("<b>b</b>", page)


if __name__ == "__main__":
    unittest.main()
