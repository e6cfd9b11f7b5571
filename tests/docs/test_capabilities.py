"""Tests that the table of docs/implementing-a-fabric.md says what the fabrics report."""

import json
import os
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs/implementing-a-fabric.md"
RUNS = {
    "`shm`": ("--fabric", "shm"),
    "`ofi` on `tcp;ofi_rxm`": ("--fabric", "ofi", "--ofi-provider", "tcp;ofi_rxm"),
    "`sim`, `connectx3-10gbe`": ("--fabric", "sim", "--hardware", "connectx3-10gbe"),
}
CAPABILITIES = (
    *("atomic_scope", "untorn_bytes", "in_order_placement", "in_order_reads", "write_then_read", "target_cpu"),
)


def table():
    """The page's table: by column, the word for each capability."""
    rows = [[cell.strip() for cell in line.strip().strip("|").split("|")] for line in PAGE.read_text().splitlines()]
    first = next(at for at, row in enumerate(rows) if row[:2] == ["", "`shm`"])
    last = next(at for at in range(first, len(rows)) if rows[at] == [""])
    head, body = rows[first], rows[first + 2 : last]
    return {name: {row[0].strip("`"): row[at] for row in body} for at, name in enumerate(head) if name}


def reported(flags):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "result.json"
        command = [os.environ["LOCH_BIN"], "bench", "--protocol", "nessie", *flags, "--nodes", "2", "--clients", "1"]
        load = ["--keys", "50", "--warmup", "1ms", "--duration", "2ms", "--json", str(path)]
        subprocess.run([*command, *load], check=True, capture_output=True, timeout=120)
        return json.loads(path.read_text())["capabilities"]


class Capabilities(unittest.TestCase):
    def test_the_table_says_what_the_fabrics_report(self):
        columns = table()
        self.assertEqual(set(columns), {*RUNS, "`verbs`"})
        for name, flags in RUNS.items():
            with self.subTest(fabric=name):
                self.assertEqual(tuple(columns[name]), CAPABILITIES)
                report = reported(flags)
                said = {each: str(report[each]).lower() for each in CAPABILITIES}
                self.assertEqual(columns[name], said)


if __name__ == "__main__":
    unittest.main()
