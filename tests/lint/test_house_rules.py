"""Tests that the house rules can fail: forbidden includes for every line of docs/floors.txt, a permission that no file
uses, and a drawing that differs from the includes."""

import shutil
import tempfile
import unittest
from pathlib import Path

import floors
import house_rules

ROOT = house_rules.ROOT


class Planted(unittest.TestCase):
    def setUp(self):
        self.sources = house_rules.includes()
        self.plan, wrong = floors.read(ROOT)
        self.assertEqual(wrong, [])

    def found(self, sources=None, change=None, drawing=True):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "docs").mkdir()
            for name in ("docs/floors.txt", "docs/map.svg") if drawing else ("docs/floors.txt",):
                shutil.copy(ROOT / name, root / name)
            for protocol in self.plan.protocols:
                (root / protocol).mkdir()
                (root / protocol / "module.h").touch()
            if change:
                change(root)
            return list(floors.faults(root, sources or self.sources))

    def test_the_tree_is_as_its_plan_says(self):
        self.assertEqual(self.found(), [])
        self.assertGreaterEqual(len(self.plan.floors), 6)

    def test_an_include_that_no_line_allows_is_found_in_every_module(self):
        modules = [*(module for module in self.plan.may if module != floors.PROTOCOL), *self.plan.protocols]
        for module in modules:
            row = floors.PROTOCOL if module in self.plan.protocols else module
            for other in modules:
                if other == module or other in self.plan.may[row]:
                    continue
                with self.subTest(module=module, includes=other):
                    self.assertIsNotNone(self.plan.fault(f"{module}/planted.cc", f"{other}/planted.h"))
                    self.assertIsNone(self.plan.fault(f"{module}/planted_test.cc", f"{other}/planted.h"))
            other = next(each for each in reversed(modules) if each != module and each not in self.plan.may[row])
            said = self.found({**self.sources, f"{module}/planted.cc": [f"{other}/planted.h"]})
            self.assertTrue(
                any(line.startswith(f"{module}/planted.cc: includes {other}/planted.h: ") for line in said), said
            )

    def test_a_library_that_one_module_knows_is_found_elsewhere(self):
        for header, module in (("infiniband/verbs.h", "common/fabric/verbs"), ("pmix.h", "common/cluster")):
            self.assertEqual(self.plan.fault(f"{module}/x.cc", header), None)
            self.assertIn("alone knows", self.plan.fault("common/kv/x.cc", header))

    def test_a_line_that_points_up_or_sideways_is_found(self):
        for line in ("  common/base           : common/coro", "  common/base           : common/base"):

            def change(root, line=line):
                path = root / "docs/floors.txt"
                text = path.read_text(encoding="utf-8")
                path.write_text(text.replace("  common/base           :", line, 1), encoding="utf-8")

            self.assertTrue(any("not on a lower floor" in said for said in self.found(change=change)))

    def test_a_module_that_is_named_and_not_included_is_found(self):
        def change(root):
            path = root / "docs/floors.txt"
            text = path.read_text(encoding="utf-8")
            path.write_text(
                text.replace(
                    "common/fabric/step    : common/coro common/fabric",
                    "common/fabric/step    : common/base common/coro common/fabric",
                ),
                encoding="utf-8",
            )

        self.assertIn(
            "docs/floors.txt: common/fabric/step may include common/base, and no file of it does",
            self.found(change=change),
        )

    def test_a_folder_that_is_no_module_is_found(self):
        said = self.found({**self.sources, "common/attic/x.cc": ["common/base/result.h"]})
        self.assertIn(
            "common/attic/x.cc: includes common/base/result.h: common/attic is no module of docs/floors.txt", said
        )

    def test_a_drawing_of_other_includes_is_found(self):
        fewer = {name: targets for name, targets in self.sources.items() if not name.startswith("app/fuzz/")}
        self.assertTrue(any(line.startswith("docs/map.svg: ") for line in self.found(fewer)))
        self.assertTrue(any(line.startswith("docs/map.svg: ") for line in self.found(drawing=False)))


class Numbers(unittest.TestCase):
    def test_a_number_that_no_page_explains_is_found(self):
        known = house_rules.explained()
        self.assertLessEqual({"H1", "H13", "A4", "Q5", "P2", "S2", "V1", "V84"}, known)
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (
                ("x.cc", "// H1 and H77, PROTOCOLS 3.4\nint a = 0;\n"),
                ("x.py", "# H1 and H77, PROTOCOLS 3.4\na = 0\n"),
                ("x.md", "H1 and H77, PROTOCOLS 3.4\n"),
            ):
                path = Path(folder) / name
                path.write_text(text, encoding="utf-8")
                said = list(house_rules.number_faults(path, name, known))
                self.assertEqual([line.split(": ")[1].split(" ")[0] for line in said], ["H77", "refers"])


class Links(unittest.TestCase):
    def test_a_link_to_a_heading_that_is_not_there_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            page, other = Path(folder) / "page.md", Path(folder) / "other.md"
            other.write_text("# Other page\n\n## What `x-y` is: costs, and more\n", encoding="utf-8")
            page.write_text(
                "# Page\n\n[a](other.md#what-x-y-is-costs-and-more) [b](other.md#gone) [c](#page) [d](gone.md)\n",
                encoding="utf-8",
            )
            self.assertEqual(
                list(house_rules.link_faults(page, "page.md")),
                [
                    "page.md:3: links to other.md#gone; other.md has no such heading",
                    "page.md:3: links to gone.md, which is not there",
                ],
            )

    def test_a_name_that_its_file_does_not_hold_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "page.md"
            (Path(folder) / "code.cc").write_text("void Thing::here() {}\n", encoding="utf-8")
            page.write_text("[`Thing::here`](code.cc) [`Thing::gone`](code.cc) [code](code.cc)\n", encoding="utf-8")
            self.assertEqual(list(house_rules.named_faults(page, "page.md")), ["page.md:1: code.cc has no Thing::gone"])


class Words(unittest.TestCase):
    def test_a_retired_word_is_found_in_prose_and_not_in_names(self):
        with tempfile.TemporaryDirectory() as folder:
            listed = Path(folder) / "words.txt"
            listed.write_text("# a comment\ngizmo, gizmos: device\nold way: road\n", encoding="utf-8")
            retired = house_rules.retired_words(listed)
            for name, text, lines in (
                ("x.cc", '// A gizmo.\nint gizmo = 0;  // --gizmo-size, "gizmo", a.gizmo\n// the old way\n', [1, 3]),
                ("x.py", '"""Some gizmos."""\n# a gizmo\ngizmo = "gizmo"\n', [1, 2]),
                ("x.md", "`gizmo` and\n```\ngizmo\n```\na gizmo.\n", [5]),
            ):
                path = Path(folder) / name
                path.write_text(text, encoding="utf-8")
                said = list(house_rules.word_faults(path, name, retired))
                self.assertEqual([int(each.split(":")[1]) for each in said], lines, said)


class Openings(unittest.TestCase):
    def test_a_file_that_does_not_say_what_it_does_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.cc"
            for text, is_fault in (
                ("// Sorts the keys of a shard by size.\nint a;\n", False),
                ("int a;  // Sorts the keys of a shard.\n", True),
                ('#include "x.h"\n// Sorts the keys of a shard.\n', True),
                ("// Sorting\nint a;\n", True),
                ("// x.cc\nint a;\n", True),
                ("// Sorts the keys of a shard\nint a;\n", True),
            ):
                path.write_text(text, encoding="utf-8")
                self.assertEqual(bool(list(house_rules.opening_faults(path, "x.cc"))), is_fault, text)


class Decisions(unittest.TestCase):
    def test_a_record_without_a_row_a_date_or_its_number_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            shutil.copytree(ROOT / "docs/decisions", root / "docs/decisions")
            shutil.copy(ROOT / "docs/decisions.md", root / "docs")
            self.assertEqual(list(house_rules.decision_faults(root)), [])
            last = len(list((root / "docs/decisions").iterdir()))
            (root / f"docs/decisions/{last + 1:04d}-planted.md").write_text(
                f"# {last + 1:04d}: Planted\n", encoding="utf-8"
            )
            (root / f"docs/decisions/{last + 3:04d}-gap.md").write_text("# Gap\n", encoding="utf-8")
            said = "\n".join(house_rules.decision_faults(root))
            self.assertIn("planted.md: a record has a date", said)
            self.assertIn("planted.md: has no row", said)
            self.assertIn("gap.md: expected the record of number", said)


if __name__ == "__main__":
    unittest.main()
