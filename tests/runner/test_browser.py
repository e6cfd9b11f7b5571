"""Tests of report.html in a real browser: it opens offline, shows its figures, fits a phone's screen, and prints."""

import json
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

import matplotlib.image

from support import SMALL, call

CHROMIUM = shutil.which("chromium")
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
# A script that measures the page. The page's own policy forbids scripts, so a copy without the policy is measured.
PROBE = """<script>addEventListener("load", () => {
  document.title = JSON.stringify({width: innerWidth, needed: document.documentElement.scrollWidth,
    pictures: [...document.querySelectorAll("figure > svg")].map(each => [each.viewBox.baseVal.width, each.clientWidth]),
    selected: [...document.querySelectorAll("figure text")].map(each => { getSelection().selectAllChildren(each);
      return getSelection().toString(); }),
    letters: [...document.querySelectorAll("figure text")].map(each => each.getBoundingClientRect().height),
    fetched: performance.getEntriesByType("resource").map(each => each.name).filter(name => !name.startsWith("data:"))});
});</script>"""


@unittest.skipUnless(CHROMIUM, "chromium is not installed")
class Browser(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        scratch = tempfile.TemporaryDirectory()
        cls.addClassCleanup(scratch.cleanup)
        cls.folder = Path(scratch.name)
        (cls.folder / "yaml").mkdir()
        for name, width in (("one", "one"), ("two", "two")):
            text = SMALL.replace("name: small", f"name: {name}").replace(
                "{kind: line,", f"{{kind: line, width: {width},"
            )
            (cls.folder / "yaml" / f"{name}.yaml").write_text(text, encoding="utf-8")
        done = call(cls.folder, "run", "yaml", "--out", "all")
        assert done.returncode == 0, done.stderr
        cls.page = cls.folder / "all" / "report.html"

    def browse(self, path, *flags):
        with tempfile.TemporaryDirectory() as profile:
            done = subprocess.run(
                [CHROMIUM, *FLAGS, f"--user-data-dir={profile}", *flags, path.as_uri()],
                text=True,
                capture_output=True,
                timeout=240,
                check=False,
            )
        self.assertEqual(done.returncode, 0, done.stderr[-2000:])
        return done.stdout

    def test_it_fits_a_phone_and_fetches_nothing(self):
        text, removed = re.subn(
            r'<meta http-equiv="Content-Security-Policy"[^>]*>', "", self.page.read_text(encoding="utf-8")
        )
        self.assertEqual(removed, 1)
        probed = self.folder / "probed.html"
        probed.write_text(text.replace("</body>", PROBE + "</body>"), encoding="utf-8")
        dom = self.browse(probed, "--dump-dom", "--window-size=400,800")
        seen = json.loads(re.search(r"<title>(\{.*?\})</title>", dom).group(1))
        self.assertEqual(seen["fetched"], [])
        self.assertLessEqual(seen["needed"], seen["width"])
        self.assertEqual(len(seen["pictures"]), 2)
        for natural, shown in seen["pictures"]:
            self.assertGreater(natural, 100)
            self.assertGreater(shown, 250)
        self.assertIn("value size (bytes)", seen["selected"])
        self.assertGreater(min(seen["letters"]), 4)

    def test_its_figures_are_there_to_see_with_its_policy_in_place(self):
        shot = self.folder / "shot.png"
        self.browse(self.page, f"--screenshot={shot}", "--window-size=900,1400")
        pixels = (matplotlib.image.imread(shot)[:, :, :3] * 255).round().astype(int)
        self.assertEqual(pixels.shape[1], 900)
        blue = (abs(pixels - (0x00, 0x72, 0xB2)) <= 2).all(axis=2)  # pixels in the colour of Nessie's line
        self.assertGreater(int(blue.sum()), 500)

    def test_it_prints(self):
        printed = self.folder / "page.pdf"
        self.browse(self.page, f"--print-to-pdf={printed}", "--no-pdf-header-footer")
        pages = len(re.findall(rb"/Type /Page\b", printed.read_bytes()))
        self.assertIn(pages, range(3, 8))  # the overview, then the experiments, of which each begins on a new page


if __name__ == "__main__":
    unittest.main()
