# SPDX-License-Identifier: Apache-2.0
"""Recomputes every figure of summary.json from the CSV files of the same run, with
the Python standard library only. Run by CTest."""

import collections
import csv
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

MILLRACE, SCENARIOS = (sys.argv.pop(1) for _ in range(2))
SLO_TIMES = ("1", "1.5", "2", "3")


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def quantile(values, q):
    return sorted(values)[int(q * (len(values) - 1) + 0.5)] if values else 0


def mean(values):
    return sum(values) / len(values) if values else 0


def clipped(begin, end, length):
    return max(0, min(end, length) - max(begin, 0))


def covered(intervals, length):
    """Microseconds of [0, length) in at least one interval."""
    edges = []
    for begin, end in intervals:
        begin, end = max(begin, 0), min(end, length)
        if begin < end:
            edges += [(begin, 1), (end, -1)]
    total = depth = last = 0
    for at, change in sorted(edges):
        if depth > 0:
            total += at - last
        depth, last = depth + change, at
    return total


def latencies(values_us):
    ms = [x / 1000 for x in values_us]
    names = {"p50": 0.5, "p75": 0.75, "p90": 0.9, "p95": 0.95, "p99": 0.99,
             "p999": 0.999, "max": 1}
    out = {f"{name}_ms": quantile(ms, q) for name, q in names.items()}
    return {"requests": len(ms), "mean_ms": mean(ms), **out}


def served(rows, model, length, end):
    ok = [r for r in rows if r["status"] == "ok"]
    took = {r["id"]: int(r["answered_us"]) - int(r["sent_us"]) for r in ok}
    within = {
        k: sum(took[r["id"]] <= float(k) * int(r["slo_us"]) for r in ok)
        for k in SLO_TIMES
    }
    seconds = length / 1e6
    batches = sum(1 / max(1, int(r["batch"])) for r in ok)
    queue = [int(r["queue_us"]) / 1000 for r in ok]
    every = [int(r["answered_us"] or end) - int(r["sent_us"]) for r in rows]
    return {
        "model": model,
        "requests": len(rows),
        "statuses": dict(collections.Counter(r["status"] for r in rows)),
        "goodput": within["1"] / seconds,
        "slo_violations": 1 - within["1"] / len(rows) if rows else 0,
        "goodput_at_slo_times": {k: n / seconds for k, n in within.items()},
        "latency": latencies(every),
        "latency_ok": latencies(took.values()),
        "queue_p50_ms": quantile(queue, 0.5),
        "queue_p99_ms": quantile(queue, 0.99),
        "batch": len(ok) / batches if batches else 0,
    }


def up_times(events, length):
    """Microseconds of the workload during which each node ran, from its events."""
    up, since = collections.Counter(), {}
    for event in events:
        found = re.match(r"simulator\.(\w+) node=(\S+)$", event["event"])
        if found is None or found[1] in ("paused", "resumed"):
            continue
        at, node = int(event["at_us"]), found[2]
        if found[1] == "started":
            since[node] = at
        elif node in since:
            up[node] += clipped(since.pop(node), at, length)
    for node, at in since.items():
        up[node] += clipped(at, length, length)
    return up


def device_use(devices, hosts, held, ran, length):
    up = {h["node"]: int(h["up_us"]) for h in hosts}
    kinds = {}
    for x in devices:
        use = kinds.setdefault(x["kind"], collections.Counter())
        use["devices"] += 1
        use["available"] += up.get(x["device"].split("/")[0], 0)
        use["reserved"] += covered(held[x["device"]], length)
        use["busy"] += covered(ran[x["device"]], length)
    return [
        {
            "kind": kind,
            "devices": use["devices"],
            **{f"{k}_seconds": use[k] / 1e6
               for k in ("available", "reserved", "busy")},
            "utilisation":
                use["busy"] / use["available"] if use["available"] else 0,
        }
        for kind, use in sorted(kinds.items())
    ]


def bills(machines, length):
    """Both bills, by pool and in total."""
    pools = {}
    for m in machines:
        begin, end = int(m["requested_us"]), int(m["released_us"] or length)
        if clipped(begin, end, length) == 0:
            continue
        pool = pools.setdefault(m["pool"], collections.Counter())
        pool["machines"] += 1
        for bill in ("reserved", "used"):
            hours = int(m[f"{bill}_us"]) / 3.6e9
            pool[f"hours_{bill}"] += hours
            pool[f"cost_{bill}"] += hours * float(m["price"])
    rows = [{"pool": name, "hours_used": 0, "cost_used": 0, **pools[name]}
            for name in sorted(pools)]
    return {
        "pools": rows,
        "cost": sum(x["cost_reserved"] for x in rows),
        "cost_used": sum(x["cost_used"] for x in rows),
    }


def starts(replicas):
    by_source = collections.defaultdict(list)
    for r in replicas:
        if r["ready_us"] and r["decided_us"]:
            by_source[r["source"]].append(r)
    out = []
    for source, rows in sorted(by_source.items()):
        wait = [(int(r["begun_us"]) - int(r["decided_us"])) / 1e6 for r in rows]
        load = [(int(r["ready_us"]) - int(r["begun_us"])) / 1e6 for r in rows]
        whole = [(int(r["ready_us"]) - int(r["decided_us"])) / 1e6 for r in rows]
        fetch = [int(r["fetch_us"]) / 1e6 for r in rows]
        out.append({
            "source": source, "count": len(rows), "fetch_mean": mean(fetch),
            "until_load_mean": mean(wait),
            "load_mean": mean(load), "mean": mean(whole),
            "p50": quantile(whole, 0.5), "p99": quantile(whole, 0.99),
            "max": max(whole),
        })
    return out


def links(rows):
    used = [
        {"link": r["link"], "bytes": float(r["bytes"]),
         "utilisation": min(1.0, float(r["bytes"]) / float(r["room_bytes"]))}
        for r in rows if float(r["bytes"]) > 0
    ]
    return sorted(used, key=lambda x: (-x["utilisation"], x["link"]))[:10]


def counts_over_time(replicas):
    """Number of reserved and ready replicas after each change."""
    changes = collections.defaultdict(lambda: [0, 0])
    for r in replicas:
        changes[int(r["decided_us"] or r["begun_us"]), r["model"]][0] += 1
        if r["ready_us"]:
            changes[int(r["ready_us"]), r["model"]][1] += 1
        if r["ended_us"]:
            end = changes[int(r["ended_us"]), r["model"]]
            end[0] -= 1
            end[1] -= bool(r["ready_us"])
    now = collections.defaultdict(lambda: (0, 0))
    for (at, model), (reserved, ready) in sorted(changes.items()):
        now[model] = (now[model][0] + reserved, now[model][1] + ready)
        yield (at, model), now[model]


def recompute(folder, length):
    """The figures of summary.json that the tables contain."""
    requests, batches, replicas, hosts, machines, devices, events = (
        read(folder / f"{name}.csv")
        for name in ("requests", "batches", "replicas", "hosts", "machines",
                     "devices", "events"))
    # A request with a broken connection has no answer, so its latency counts until the
    # end of the run. The run ends with the workload or with the last answer if that is
    # later.
    end = max([length] + [int(r["answered_us"]) for r in requests
                          if r["answered_us"]])
    models = collections.defaultdict(list)
    for r in requests:
        models[r["model"]].append(r)
    held, ran = (collections.defaultdict(list) for _ in range(2))
    ran_replica = collections.defaultdict(list)
    reserved = ready = 0
    for r in replicas:
        over = int(r["ended_us"] or length)
        begin = int(r["decided_us"] or r["begun_us"])
        held[r["device"]].append((begin, over))
        reserved += clipped(begin, over, length)
        if r["ready_us"]:
            ready += clipped(int(r["ready_us"]), over, length)
    for b in batches:
        interval = int(b["started_us"]), int(b["ended_us"])
        ran[b["device"]].append(interval)
        if b["replica"] != "0":
            ran_replica[b["replica"]].append(interval)
    use = device_use(devices, hosts, held, ran, length)
    available = sum(x["available_seconds"] for x in use)
    names = (re.match(r"fault\.(\w+)", e["event"]) for e in events)
    faults = collections.Counter(m[1] for m in names if m and m[1] != "over")
    return {
        "seconds": length / 1e6,
        "end_seconds": end / 1e6,
        "all_ok": all(r["status"] == "ok" for r in requests),
        "all": served(requests, "", length, end),
        "models": [served(models[m], m, length, end) for m in sorted(models)],
        "cold_starts": dict(collections.Counter(
            r["source"] for r in replicas if r["ready_us"])),
        "starts": starts(replicas),
        "failed_starts": sum(not r["ready_us"] and bool(r["ended_us"]) for r in replicas),
        "replica_seconds": ready / 1e6,
        "reserved_replica_seconds": reserved / 1e6,
        "busy_replica_seconds":
            sum(covered(x, length) for x in ran_replica.values()) / 1e6,
        "devices": use,
        "device_seconds": available,
        "utilisation": sum(x["busy_seconds"] for x in use) / available,
        "links": links(read(folder / "links.csv")),
        **bills(machines, length),
        "faults": dict(faults),
        "errors": sum(e["level"] == "error" for e in events),
    }


class Summary(unittest.TestCase):
    # Not in the tables: the call, counts of the simulator, and byte counts of the object
    # store (checked by tests/scenario/tiers_test.cpp).
    NOT_IN_TABLES = {
        "scenario", "seed", "never_ready", "messages", "actions", "store_bytes"}

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="millrace-"))

    def tearDown(self):
        subprocess.run(["rm", "-rf", "--one-file-system", self.folder], check=True)

    def same(self, one, two, path=""):
        """Compares two values except for rounding; `path` is for the error."""
        if isinstance(one, dict):
            self.assertEqual(set(one), set(two), path)
            for key in one:
                self.same(one[key], two[key], f"{path}.{key}")
        elif isinstance(one, list):
            self.assertEqual(len(one), len(two), path)
            for i, (x, y) in enumerate(zip(one, two)):
                self.same(x, y, f"{path}[{i}]")
        elif isinstance(one, float) or isinstance(two, float):
            self.assertTrue(math.isclose(one, two, rel_tol=1e-9, abs_tol=1e-9),
                            f"{path}: {one} and {two}")
        else:
            self.assertEqual(one, two, path)

    def run_and_compare(self, scenario, *words):
        out = self.folder / "out"
        x = subprocess.run(
            [MILLRACE, "simulate", f"{SCENARIOS}/{scenario}", "--out", out,
             "--set", "record.trace=false", *map(str, words)],
            text=True, capture_output=True, timeout=200)
        self.assertEqual(x.returncode, 0, x.stderr)
        found = json.loads((out / "summary.json").read_text())
        length = round(found["seconds"] * 1e6)
        again = recompute(out, length)
        self.assertEqual(set(found), set(again) | self.NOT_IN_TABLES)
        for key in again:
            self.same(found[key], again[key], key)
        counts = {
            (int(r["at_us"]), r["model"]): (int(r["reserved"]), int(r["ready"]))
            for r in read(out / "replica_counts.csv")
        }
        last = {}
        for (at, model), both in counts_over_time(read(out / "replicas.csv")):
            # No row if the sum does not change, as for a start and an end at once.
            if both != last.get(model, (0, 0)):
                self.assertEqual(counts[at, model], both, (at, model))
            last[model] = both
        up = up_times(read(out / "events.csv"), length)
        for host in read(out / "hosts.csv"):
            self.assertEqual(int(host["up_us"]), up[host["node"]], host["node"])
        return found

    def test_every_figure_is_that_of_the_tables_where_all_goes_well(self):
        found = self.run_and_compare("small.yaml", "--set", "length=10s")
        self.assertTrue(found["all_ok"])
        self.assertEqual(found["all"]["latency"], found["all"]["latency_ok"])
        self.assertGreater(found["devices"][0]["busy_seconds"], 1)

    def test_every_figure_is_that_of_the_tables_whatever_fails(self):
        faults = ("faults=[{kind: kill, every: 2s, lasts: 700ms},"
                  "{kind: kill, nodes: [gateway], at: 4s, lasts: 500ms},"
                  "{kind: loss, at: 3s}]")
        for seed in (1, 2, 3):
            found = self.run_and_compare(
                "storm.yaml", "--seed", seed, "--set", faults)
            self.assertFalse(found["all_ok"])
            self.assertIn("(connection lost)", found["all"]["statuses"])
            # The latency of a lost request counts until the end of the run.
            self.assertGreater(found["all"]["latency"]["max_ms"], 10_000)
            self.assertLess(found["all"]["latency_ok"]["max_ms"], 1_000)

    def test_each_lane_of_a_device_is_in_the_table_of_batches(self):
        self.run_and_compare(
            "small.yaml", "--set", "length=2s", "--set", "workload[0].rate=4000",
            "--set", "hosts[1].devices[0].lanes=2")
        lanes = {b["lane"] for b in read(self.folder / "out/batches.csv")}
        self.assertEqual(lanes, {"0", "1"})

    def test_every_figure_is_that_of_the_tables_where_machines_come_and_go(self):
        found = self.run_and_compare("machines.yaml")
        self.assertEqual([x["pool"] for x in found["pools"]], ["", "burst"])
        self.assertLess(found["cost_used"], found["cost"])

    def test_starts_from_the_store_are_timed_from_the_decision(self):
        found = self.run_and_compare(
            "cold-starts.yaml", "--set", "length=160s",
            "--set", "workload[0].to_rate=20")
        store = next(x for x in found["starts"] if x["source"] == "store")
        # One host of the chain, at 1 Gbit/s.
        self.assertGreater(store["fetch_mean"], 3.5)
        self.assertLess(store["load_mean"], 2)
        self.assertGreater(found["cost"], 0)


if __name__ == "__main__":
    unittest.main()
