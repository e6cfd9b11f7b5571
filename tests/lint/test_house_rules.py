"""The house rules can fail: an include that a line of docs/floors.txt does not allow, for every line of it; a line that
allows what nobody includes; a drawing that is not of the includes."""

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

    def test_an_include_that_no_line_allows_is_found_in_every_room(self):
        rooms = [*(room for room in self.plan.may if room != floors.PROTOCOL), *self.plan.protocols]
        for room in rooms:
            row = floors.PROTOCOL if room in self.plan.protocols else room
            for other in rooms:
                if other == room or other in self.plan.may[row]:
                    continue
                with self.subTest(room=room, includes=other):
                    self.assertIsNotNone(self.plan.fault(f"{room}/planted.cc", f"{other}/planted.h"))
                    self.assertIsNone(self.plan.fault(f"{room}/planted_test.cc", f"{other}/planted.h"))
            other = next(each for each in reversed(rooms) if each != room and each not in self.plan.may[row])
            said = self.found({**self.sources, f"{room}/planted.cc": [f"{other}/planted.h"]})
            self.assertTrue(any(line.startswith(f"{room}/planted.cc: includes {other}/planted.h: ") for line in said), said)

    def test_a_library_that_one_room_knows_is_found_elsewhere(self):
        for header, room in (("infiniband/verbs.h", "common/fabric/verbs"), ("mpi.h", "common/cluster")):
            self.assertEqual(self.plan.fault(f"{room}/x.cc", header), None)
            self.assertIn("alone knows", self.plan.fault("common/kv/x.cc", header))

    def test_a_line_that_points_up_or_sideways_is_found(self):
        for line in ("  common/base           : common/coro", "  common/base           : common/base"):
            def change(root, line=line):
                path = root / "docs/floors.txt"
                text = path.read_text(encoding="utf-8")
                path.write_text(text.replace("  common/base           :", line, 1), encoding="utf-8")
            self.assertTrue(any("not on a lower floor" in said for said in self.found(change=change)))

    def test_a_room_that_is_named_and_not_included_is_found(self):
        def change(root):
            path = root / "docs/floors.txt"
            text = path.read_text(encoding="utf-8")
            path.write_text(text.replace("common/fabric/step    : common/fabric", "common/fabric/step    : common/base common/fabric"),
                            encoding="utf-8")
        self.assertIn("docs/floors.txt: common/fabric/step may include common/base, and no file of it does",
                      self.found(change=change))

    def test_a_folder_that_is_no_room_is_found(self):
        said = self.found({**self.sources, "common/attic/x.cc": ["common/base/result.h"]})
        self.assertIn("common/attic/x.cc: includes common/base/result.h: common/attic is no room of docs/floors.txt", said)

    def test_a_drawing_of_other_includes_is_found(self):
        fewer = {name: targets for name, targets in self.sources.items() if not name.startswith("app/fuzz/")}
        self.assertTrue(any(line.startswith("docs/map.svg: ") for line in self.found(fewer)))
        self.assertTrue(any(line.startswith("docs/map.svg: ") for line in self.found(drawing=False)))


class Numbers(unittest.TestCase):
    def test_a_number_that_no_page_explains_is_found(self):
        known = house_rules.explained()
        self.assertLessEqual({"H1", "H13", "A4", "Q5", "P2", "S2", "V1", "V84"}, known)
        with tempfile.TemporaryDirectory() as folder:
            for name, text in (("x.cc", "// H1 and H77, PROTOCOLS 3.4\nint a = 0;\n"), ("x.py", "# H1 and H77, PROTOCOLS 3.4\na = 0\n"),
                               ("x.md", "H1 and H77, PROTOCOLS 3.4\n")):
                path = Path(folder) / name
                path.write_text(text, encoding="utf-8")
                said = list(house_rules.number_faults(path, name, known))
                self.assertEqual([line.split(": ")[1].split(" ")[0] for line in said], ["H77", "refers"])


if __name__ == "__main__":
    unittest.main()
