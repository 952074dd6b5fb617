# SPDX-License-Identifier: Apache-2.0
"""Recomputes both bills of a run only from the events of its nodes, with the
Python standard library, and compares them with the summary to the cent.

Rules of config/SCENARIOS.md: a machine of a pool costs from
`machine.requested` to `machine.released`, any other host from its first
`simulator.started` to the end of the run. Boots, kills and losses end no billed time.
The time between `machine.in_use` and `machine.idle` counts as used. Only the time
of the workload counts, from 0 to the length of the run."""

import collections
import csv
import json
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

MILLRACE, SCENARIOS = (sys.argv.pop(1) for _ in range(2))
BASE_PRICE, POOL_PRICE = 1.2, 3.6  # per hour, from machines.yaml


def price_of(node):
    if node == "base":
        return BASE_PRICE
    return POOL_PRICE if node.startswith("extra-") else 0


def bills(events, length):
    """Returns the cost reserved and used, from the events in order."""
    since, used_since = {}, {}
    reserved, used = (collections.Counter() for _ in range(2))

    def close(begins, to, node, at):
        if node in begins:
            begin = max(0, min(begins.pop(node), length))
            to[node] += max(0, min(at, length) - begin)

    for event in events:
        found = re.match(r"(simulator|machine)\.(\w+) node=(\S+)$", event["event"])
        if found is None:
            continue
        what, node, at = found[2], found[3], int(event["at_us"])
        if what == "requested":
            if node in since:
                raise ValueError(f"{node} is requested twice")
            since[node] = at
        elif what == "started" and not node.startswith("extra-"):
            since.setdefault(node, at)
        elif what == "released":
            close(since, reserved, node, at)
        elif what == "in_use":
            used_since[node] = at
        elif what == "idle":
            close(used_since, used, node, at)
    for node in list(since):
        close(since, reserved, node, length)
    for node in list(used_since):
        close(used_since, used, node, length)
    return tuple(
        sum(us / 3.6e9 * price_of(node) for node, us in bill.items())
        for bill in (reserved, used))


class Bills(unittest.TestCase):
    def compare(self, *words):
        with tempfile.TemporaryDirectory(prefix="millrace-") as folder:
            out = pathlib.Path(folder) / "out"
            x = subprocess.run(
                [MILLRACE, "simulate", f"{SCENARIOS}/machines.yaml", "--out", out,
                 "--set", "record.trace=false", *map(str, words)],
                text=True, capture_output=True, timeout=200)
            self.assertEqual(x.returncode, 0, x.stderr)
            summary = json.loads((out / "summary.json").read_text())
            with open(out / "events.csv", newline="") as file:
                events = list(csv.DictReader(file))
        reserved, used = bills(events, round(summary["seconds"] * 1e6))
        self.assertEqual(round(summary["cost"], 2), round(reserved, 2))
        self.assertEqual(round(summary["cost_used"], 2), round(used, 2))
        # Bills of a minute are small: compare six decimals too.
        self.assertAlmostEqual(summary["cost"], reserved, 6)
        self.assertAlmostEqual(summary["cost_used"], used, 6)
        self.assertGreater(reserved, used)
        self.assertGreater(used, 0)
        return reserved, used

    def test_both_bills_are_those_of_the_events(self):
        self.compare()

    def test_both_bills_are_those_of_the_events_whatever_fails(self):
        faults = ("faults=[{kind: kill, every: 8s, lasts: 2s, nodes: [extra, base]},"
                  "{kind: kill, nodes: [extra-1], at: 5s},"
                  "{kind: kill, nodes: [controller], at: 4s, lasts: 1s}]")
        for seed in range(1, 6):
            self.compare("--seed", seed, "--set", faults)

    def test_a_longer_boot_is_billed(self):
        """Reserved time without a replica increases by the boot times."""
        short, short_used = self.compare("--set", "pools.burst.boot=0s")
        long, long_used = self.compare("--set", "pools.burst.boot=6s",
                                       "--set", "models[0].policy.deadline=60s")
        self.assertGreater(long - long_used, short - short_used)

    def test_bills_of_explored_seeds_are_those_of_the_events(self):
        """The explorer compares the bills itself (I32), also in storms."""
        x = subprocess.run(
            [MILLRACE, "simulate", f"{SCENARIOS}/machines.yaml", "--explore", "40"],
            text=True, capture_output=True, timeout=200)
        self.assertEqual(x.returncode, 0, x.stdout)
        self.assertIn("violations none", x.stdout)


if __name__ == "__main__":
    unittest.main()
