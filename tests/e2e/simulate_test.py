# SPDX-License-Identifier: Apache-2.0
"""`millrace simulate` as users call it. Run by CTest with the Python of Debian
only."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

MILLRACE, SCENARIOS = (sys.argv.pop(1) for _ in range(2))
SMALL = f"{SCENARIOS}/small.yaml"


def call(*words, **environment):
    return subprocess.run(
        [MILLRACE, "simulate", *map(str, words)],
        env={**os.environ, **environment},
        text=True,
        capture_output=True,
        timeout=120,
    )


class Simulate(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-"))

    def tearDown(self):
        subprocess.run(["rm", "-rf", "--one-file-system", self.folder], check=True)

    def scenario(self, text):
        path = self.folder / "s.yaml"
        path.write_text(text)
        return path

    def test_prints_a_summary_a_person_can_read(self):
        x = call(SMALL, "--set", "length=5s")
        self.assertEqual(x.returncode, 0, x.stderr)
        self.assertIn("small, seed 1: 5 s of requests", x.stdout)
        self.assertRegex(x.stdout, r"resnet50 +\d+ ")
        self.assertRegex(x.stdout, r"cold starts +host 6")

    def test_json_says_the_same(self):
        x = json.loads(call(SMALL, "--set", "length=5s", "--json").stdout)
        self.assertEqual(x["all"]["statuses"], {"ok": x["all"]["requests"]})
        self.assertGreater(x["all"]["goodput"], 400)
        self.assertGreater(x["utilisation"], 0.1)

    def test_the_same_seed_gives_the_same_bytes(self):
        """Address-space randomisation gives each process other addresses."""
        storm = f"{SCENARIOS}/storm.yaml"
        fault = "faults=[{kind: kill, every: 2s, lasts: 500ms},{kind: loss, at: 3s}]"
        for seed in (1, 2, 3):
            runs = []
            for name in "ab":
                out = self.folder / f"{seed}{name}"
                x = call(storm, "--seed", seed, "--set", fault, "--json", "--out", out)
                self.assertEqual(x.returncode, 0, x.stdout)
                files = {p.name: p.read_bytes() for p in sorted(out.iterdir())}
                runs.append((x.stdout, files))
            self.assertEqual(runs[0], runs[1])
            self.assertEqual(
                set(runs[0][1]),
                {"requests.csv", "batches.csv", "replicas.csv", "events.csv"}
                | {"hosts.csv", "machines.csv", "devices.csv", "links.csv",
                   "replica_counts.csv"}
                | {"summary.json", "trace.json", "plots.gp", "decisions.record"}
                | {f"{p}.svg" for p in ("latency", "replicas", "queues", "requests")},
            )
        one, two = (
            call(storm, "--seed", seed, "--json").stdout for seed in (1, 2)
        )
        self.assertNotEqual(one, two)

    def test_a_number_with_zeros_in_front_is_no_octal_one(self):
        self.assertEqual(
            *(call(SMALL, "--seed", seed, "--json").stdout for seed in ("010", 10))
        )

    def test_many_seeds_do_the_same_in_another_process(self):
        storm = f"{SCENARIOS}/storm.yaml"
        one, two, other = (
            json.loads(
                call(storm, "--explore", 80, "--seed", seed, "--json").stdout
            )
            for seed in (1, 1, 1001)
        )
        self.assertEqual(one, two)
        self.assertNotEqual(one["hash"], other["hash"])

    def test_without_gnuplot_only_the_pictures_are_missing(self):
        out = self.folder / "out"
        x = call(SMALL, "--set", "length=1s", "--json", "--out", out, PATH="/none")
        self.assertEqual(x.returncode, 0, x.stderr)
        self.assertIn("gnuplot-nox", x.stderr)
        self.assertEqual(json.loads(x.stdout), json.load(open(out / "summary.json")))
        self.assertFalse(list(out.glob("*.svg")))

    def test_a_run_takes_the_place_of_another(self):
        out = self.folder / "out"
        call(SMALL, "--set", "length=1s", "--out", out)
        self.assertTrue((out / "requests.csv").exists())
        less = ("--set", "record.requests=false", "--set", "record.trace=false")
        call(SMALL, "--set", "length=1s", *less, "--out", out)
        self.assertFalse((out / "requests.csv").exists())
        self.assertFalse((out / "trace.json").exists())

    def test_tables_and_trace_can_be_read(self):
        out = self.folder / "out"
        call(SMALL, "--set", "length=2s", "--out", out)
        lines = (out / "requests.csv").read_text().splitlines()
        header = lines[0].split(",")
        first = dict(zip(header, lines[1].split(",")))
        self.assertEqual(first["status"], "ok")
        self.assertGreaterEqual(int(first["latency_us"]), 2400)
        trace = json.loads((out / "trace.json").read_text())["traceEvents"]
        begun = {e["id"] for e in trace if e["ph"] == "s"}
        ended = {e["id"] for e in trace if e["ph"] == "f"}
        self.assertEqual(begun, ended)
        self.assertEqual(len(begun), len(lines) - 1)
        slices = [e for e in trace if e["ph"] == "X"]
        for e in trace:  # every arrow lies on a slice of its track
            if e["ph"] == "f":
                self.assertTrue(
                    any(
                        s["pid"] == e["pid"]
                        and s["tid"] == e["tid"]
                        and s["ts"] <= e["ts"] <= s["ts"] + s["dur"]
                        for s in slices
                    )
                )
                break
        self.assertIn("<svg", (out / "latency.svg").read_text())

    def test_arrows_of_a_trace_have_both_ends_whatever_fails(self):
        fault = "faults=[{kind: kill, every: 500ms, lasts: 200ms}]"
        few = "record.trace_requests=500"
        out = self.folder / "out"
        storm = f"{SCENARIOS}/storm.yaml"
        x = call(storm, "--set", fault, "--set", few, "--out", out)
        self.assertEqual(x.returncode, 0, x.stderr)
        trace = json.loads((out / "trace.json").read_text())["traceEvents"]
        begun, ended = (
            sorted(e["id"] for e in trace if e["ph"] == end) for end in "sf"
        )
        self.assertGreater(len(begun), 300)
        self.assertEqual(begun, ended)

    def test_a_wrong_scenario_is_refused_with_file_line_and_key(self):
        path = self.scenario("length: 10s\nhosts: [{name: a, roles: [king]}]\n")
        x = call(path)
        self.assertEqual(x.returncode, 78)
        self.assertIn(
            f"{path}:2: hosts[0].roles[0]: expected one of gateway, controller,"
            " worker, found 'king'",
            x.stderr,
        )
        self.assertEqual(call(self.folder / "none.yaml").returncode, 78)
        self.assertEqual(call().returncode, 2)
        self.assertEqual(call(SMALL, "--plant", "flowers").returncode, 2)

    def test_a_sweep_is_one_table(self):
        x = call(SMALL, "--set", "length=2s", "--sweep", "models[0].replicas=1,6")
        self.assertEqual(x.returncode, 0, x.stderr)
        rows = x.stdout.splitlines()
        self.assertEqual(len(rows), 3)
        self.assertTrue(rows[0].startswith("models[0].replicas"))
        y = json.loads(
            call(
                *(SMALL, "--set", "length=2s", "--json"),
                *("--sweep", "models[0].replicas=1,6", "--sweep", "seed=1,2"),
            ).stdout
        )
        self.assertEqual(len(y), 4)
        self.assertGreater(
            y[0]["result"]["all"]["latency_ok"]["p50_ms"],
            y[2]["result"]["all"]["latency_ok"]["p50_ms"],
        )

    def test_policies_can_be_replaced(self):
        one = call(SMALL, "--set", "length=2s", "--json")
        two = call(
            SMALL, "--set", "length=2s", "--json", "--policy", "dispatch=round_robin"
        )
        self.assertNotEqual(one.stdout, two.stdout)
        x = call(SMALL, "--policy", "dispatch=by_taste")
        self.assertEqual(x.returncode, 78)
        self.assertIn("expected one of pull, round_robin", x.stderr)

    def test_calls_that_contradict_themselves_are_refused(self):
        storm = f"{SCENARIOS}/storm.yaml"
        for call_args, says in [
            ((SMALL, "--plant", "chance"), "requires --explore"),
            ((SMALL, "--explore", 2, "--sweep", "seed=1,2"), "excludes"),
            ((SMALL, "--seed", "-1"), "found '-1'"),
            ((SMALL, "--seed", 2**64), "expected a whole number"),
            ((SMALL, "--policy", "batch"), "expected NAME=VALUE, found 'batch'"),
            ((SMALL, "--sweep", "seed=1,"), "a value is empty"),
            ((SMALL, "--sweep", "seed=1,2", "--seed", 4), "exclude each other"),
            (
                (SMALL, "--sweep", "models[0].replica=1,2"),
                "unknown key 'replica' (did you mean 'replicas'?)",
            ),
            ((SMALL, "--sweep", "lenght=1s,2s"), "(did you mean 'length'?)"),
            ((SMALL, "--out", "/proc/none"), "/proc/none: cannot be made"),
            ((storm, "--explore", 2, "--out", self.folder), "--explore 1"),
            ((storm, "--explore", 9, "--seed", 2**64 - 2), "--seed: too large"),
            (
                (storm, "--explore", 1, "--set", "faults=[{at: 1s}]"),
                "draws its own faults",
            ),
            (
                (f"{SCENARIOS}/machines.yaml", "--real"),
                "machines are simulated only",
            ),
            (
                (f"{SCENARIOS}/gpus-1600.yaml", "--real"),
                "201 nodes, each a process",
            ),
        ]:
            x = call(*call_args)
            self.assertEqual(x.returncode, 2, f"{call_args}: {x.stderr}")
            self.assertIn(says, x.stderr)

    def test_a_seed_can_be_looked_at(self):
        storm = f"{SCENARIOS}/storm.yaml"
        out = self.folder / "seed"
        x = call(storm, "--explore", 1, "--seed", 7, "--faults", 2, "--out", out)
        self.assertEqual(x.returncode, 0, x.stdout)
        faults = [l for l in x.stdout.splitlines() if l.startswith("fault  ")]
        self.assertEqual(len(faults), 2)
        events = (out / "events.csv").read_text()
        for line in faults:
            kind, node = line.split()[1:3]
            self.assertIn(f"fault.{kind} node={node}", events)

    def test_exploring_varies_all_but_what_was_set(self):
        storm = f"{SCENARIOS}/storm.yaml"
        for words, varied in [
            (("--set", "models[0].replicas=2"), "link, network, limits, policies, lanes, disks, parts, sharing"),
            (("--set", "models[0].policy.queue=64"), "link, network, policies, lanes, disks, parts, sharing"),
            (("--set", "network.jitter=1ms"), "link, limits, policies, lanes, disks, parts, sharing"),
            (("--set", "sync=1ms"), "link, network, limits, policies, lanes, parts, sharing"),
            (("--policy", "batch=4"), "link, network, limits, lanes, disks, parts, sharing"),
            (("--set", "models[0].parts=2"), "link, network, limits, policies, lanes, disks, sharing"),
        ]:
            x = call(storm, "--explore", 1, "--faults", 0, *words)
            self.assertIn(f"varied     {varied}\n", x.stdout)

    def test_exploring_finds_nothing_or_what_was_planted(self):
        storm = f"{SCENARIOS}/storm.yaml"
        x = call(storm, "--explore", 60)
        self.assertEqual(x.returncode, 0, x.stdout)
        self.assertIn("violations none", x.stdout)
        x = call(storm, "--explore", 3, "--plant", "double_answer")
        self.assertEqual(x.returncode, 1)
        self.assertIn("I1 (", x.stdout)
        self.assertIn("An accepted request gets exactly one final answer.", x.stdout)
        # The printed call reproduces the violation.
        lines = x.stdout.splitlines()
        again = next(l for l in lines if l.startswith("  millrace simulate ")).split()
        shown = call(*(w.strip("'") for w in again[2:-2]))
        self.assertIn("I1 (", shown.stdout)

    def test_many_violations_are_few_lines_without_escapes(self):
        x = call(f"{SCENARIOS}/storm.yaml", "--explore", 60, "--plant", "double_answer")
        self.assertEqual(x.returncode, 1)
        self.assertRegex(x.stdout, r"  and \d+ seeds more\n")
        self.assertLess(len(x.stdout.splitlines()), 60)
        for text in (x.stdout, x.stderr):
            self.assertNotIn("\x1b", text)
            self.assertNotIn("\r", text)

    def test_the_same_scenario_runs_really(self):
        out = self.folder / "truth"
        x = call(
            *(f"{SCENARIOS}/truth.yaml", "--real", "--json"),
            *("--set", "length=4s", "--out", out, "--set"),
            "faults=[{kind: slow, nodes: [in-use:slow], at: 3s, factor: 2, lasts: 500ms}]",
        )
        self.assertEqual(x.returncode, 0, x.stdout)
        slowed = [
            line
            for log in (out / "real").glob("*.log")
            for line in log.read_text().splitlines()
            if "supervisor.device_slowed" in line
        ]
        self.assertRegex(slowed[0], r"factor=2\b")
        self.assertRegex(slowed[1], r"factor=1\b")
        y = json.loads(x.stdout)
        self.assertEqual(y["real"], {"ok": y["requests"]})
        self.assertEqual(y["simulated"], {"ok": y["requests"]})
        for name in ("placement.deploy", "replica.ready"):
            self.assertEqual(y["decisions"][name]["real"], 3)
            self.assertEqual(y["decisions"][name]["simulated"], 3)
        execute = next(t for t in y["times"] if t["name"] == "execute")
        self.assertLess(abs(execute["real_p50"] - execute["simulated_p50"]), 1)
        page = (out / "truth.md").read_text()
        self.assertIn("## Why they differ", page)
        self.assertIn("<svg", (out / "truth.svg").read_text())


if __name__ == "__main__":
    unittest.main()
