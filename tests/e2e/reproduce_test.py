# SPDX-License-Identifier: Apache-2.0
"""`millrace reproduce` as users call it. Run by CTest with the Python of Debian
only."""

import csv
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

MILLRACE, CONFIG = (sys.argv.pop(1) for _ in range(2))
FOLDER = f"{CONFIG}/experiments"

SMALL = f"""
name: small
says: a small cluster at two rates
figure: Paper, table 1
scenario: SCENARIO
seeds: 2
axes:
  - {{name: rate, key: "workload[0].rate", values: [{{name: 50}}, {{name: 100}}]}}
modes:
  - {{name: one, set: ["models[0].replicas=1"]}}
  - {{name: six, set: ["models[0].replicas=6"]}}
measures:
  - {{name: p99, unit: ms, path: all.latency.p99_ms}}
  - {{name: requests, path: all.requests}}
ratios:
  - {{name: gain, measure: p99, of: {{mode: one}}, to: {{mode: six}}, equal: [all.requests]}}
printed:
  - {{measure: p99, at: {{rate: "50", mode: six}}, value: 7}}
assertions:
  - {{says: more replicas are never slower, ratio: gain, least: 1}}
choices:
  - {{open: length of the run, choice: 2 s, why: it is a test}}
"""


def call(*words):
    return subprocess.run(
        [MILLRACE, "reproduce", *map(str, words)],
        text=True,
        capture_output=True,
        timeout=280,
    )


class Reproduce(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-"))
        scenario = pathlib.Path(f"{CONFIG}/scenarios/small.yaml").read_text()
        (self.folder / "s.yaml").write_text(scenario.replace("60s", "2s"))

    def tearDown(self):
        subprocess.run(["rm", "-rf", "--one-file-system", self.folder], check=True)

    def experiment(self, text=SMALL, **changes):
        text = text.replace("SCENARIO", "s.yaml")
        for old, new in changes.values():
            self.assertIn(old, text)
            text = text.replace(old, new)
        path = self.folder / "small.yaml"
        path.write_text(text)
        return path

    def test_starts_of_flashpoint(self):
        out = self.folder / "out"
        x = call(
            *("flashpoint-starts", "--folder", FOLDER, "--quick", "--seeds", 2),
            *("--out", out),
        )
        self.assertEqual(x.returncode, 0, x.stdout + x.stderr)
        self.assertIn("Flashpoint, figure 8.5", x.stdout)
        self.assertRegex(x.stdout, r"choice +link to the store: 2203 Mbit/s")
        rows = list(csv.DictReader(open(out / "table.csv", newline="")))
        start = {
            (r["model"], r["mode"]): r for r in rows if r["figure"] == "start"
        }
        store = float(start["t5-3b", "store"]["ours"])
        memory = float(start["t5-3b", "memory"]["ours"])
        self.assertEqual(start["t5-3b", "store"]["seeds"], "2")
        # 11,408 MB at 2203 Mbit/s take 41.4 s.
        self.assertGreater(store, 41.4)
        self.assertLess(memory, store / 2)
        ratio = [r for r in rows if r["mode"] == "store / memory"]
        self.assertAlmostEqual(
            float([r for r in ratio if r["model"] == "t5-3b"][0]["ours"]),
            store / memory,
            places=3,
        )
        both = json.loads((out / "table.json").read_text())
        self.assertEqual(len(both["rows"]), len(rows))
        self.assertIn("+/- 95 %", (out / "table.txt").read_text())

    def test_the_table_has_ours_beside_the_printed_figure(self):
        x = call(self.experiment())
        self.assertEqual(x.returncode, 0, x.stdout + x.stderr)
        self.assertRegex(
            x.stdout, r"p99 +50 +six +ms +7\.00 +\d+\.\d\d +\d+\.\d\d +2 +Paper, table 1"
        )
        self.assertRegex(x.stdout, r"gain +100 +one / six +x +- +\d+\.\d\d")
        self.assertRegex(x.stdout, r"holds +more replicas are never slower")

    def test_finished_cells_are_not_run_again(self):
        ledger = self.folder / "ledger"
        path = self.experiment()
        first = call(path, "--resume", ledger)
        self.assertEqual(first.returncode, 0, first.stderr)
        self.assertIn("0 of 8 runs were finished", first.stderr)
        whole = ledger.read_text()
        self.assertEqual(len(whole.splitlines()), 8)
        cut = len(whole.splitlines(keepends=True)[0]) * 3 + 40
        ledger.write_text(whole[:cut])  # as after a crash
        finished = whole[:cut].count("\n")
        again = call(path, "--resume", ledger)
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertIn(f"{finished} of 8 runs were finished", again.stderr)
        self.assertEqual(again.stdout, first.stdout)
        self.assertEqual(
            sorted(ledger.read_text().splitlines()), sorted(whole.splitlines())
        )
        # Results of another scenario do not count.
        scenario = self.folder / "s.yaml"
        scenario.write_text(scenario.read_text() + "# a comment\n")
        other = call(path, "--resume", ledger, "--seeds", 1)
        self.assertIn("0 of 4 runs were finished; 8 lines of other", other.stderr)

    def test_a_false_assertion_is_a_failure(self):
        x = call(self.experiment(a=("least: 1", "least: 1000")), "--seeds", 1)
        self.assertEqual(x.returncode, 1, x.stderr)
        self.assertRegex(
            x.stdout,
            r"FAILS +more replicas are never slower \(50, one / six: .*,"
            r" expected at least 1000\)",
        )

    def test_runs_that_are_not_alike_have_no_ratio(self):
        path = self.experiment(
            a=("models[0].replicas=6", "workload[0].rate=20"),
            b=('key: "workload[0].rate"', "key: length"),
            c=("{name: 50}, {name: 100}", "{name: 1s}, {name: 2s}"),
            d=('rate: "50"', "rate: 1s"),
        )
        x = call(path, "--seeds", 1)
        self.assertEqual(x.returncode, 1, x.stdout)
        self.assertRegex(x.stdout, r"gain +1s +one / six +x +- +\(empty\)")
        self.assertIn("the runs differ in all.requests", x.stdout)

    def test_a_mode_alone(self):
        x = call(self.experiment(), "--mode", "six", "--json")
        y = json.loads(x.stdout)
        self.assertEqual(x.returncode, 0, x.stderr)
        self.assertEqual({r["at"]["mode"] for r in y["rows"]}, {"six"})
        self.assertEqual(y["assertions"][0]["result"], "not checked")

    def test_a_list(self):
        x = call("--list", "--folder", FOLDER)
        self.assertEqual(x.returncode, 0, x.stderr)
        self.assertRegex(x.stdout, r"flashpoint-starts +Flashpoint, figure 8\.5")

    def test_calls_that_make_no_sense_are_refused(self):
        path = self.experiment()
        for words, says in [
            ((), "expected an experiment, or --list"),
            (
                ("flashpoint-start", "--folder", FOLDER),
                "(did you mean 'flashpoint-starts'?)",
            ),
            ((path, "--mode", "sixx"), "has no mode 'sixx' (did you mean 'six'?)"),
            ((path, "--seeds", 0), "expected a whole number"),
            ((path, "--resume", path), "is no ledger of millrace reproduce"),
            ((path, "--out", "/proc/none"), "/proc/none: cannot be made"),
        ]:
            x = call(*words)
            self.assertEqual(x.returncode, 2, f"{words}: {x.stderr}")
            self.assertIn(says, x.stderr)

    def test_an_experiment_that_makes_no_sense_is_refused(self):
        for old, new, says in [
            ("values: [{name: 50}, {name: 100}]", "values: []", "axes[0].values: is empty"),
            ("workload[0].rate", "workload[0].rat", "cell 50, one: "),
            ("s.yaml", "t.yaml", "small.yaml:5: scenario: there is no file"),
            ("least: 1", "leest: 1", "unknown key 'leest' (did you mean 'least'?)"),
        ]:
            x = call(self.experiment(a=(old, new)))
            self.assertEqual(x.returncode, 78, f"{new}: {x.stderr}")
            self.assertIn(says, x.stderr)


if __name__ == "__main__":
    unittest.main()
