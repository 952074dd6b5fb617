# SPDX-License-Identifier: Apache-2.0
"""Loads the files for Prometheus and Grafana into a real Prometheus that scrapes a
real node. Run by CTest."""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import numpy
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from processes import free_port

PROGRAM, BUNDLES, SOURCE = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
SHELL = pathlib.Path(PROGRAM).with_name("actor-shell")
FILES = pathlib.Path(SOURCE) / "config/monitoring"

CONFIG = """
cluster: monitored
nodes:
  all:
    roles: [gateway, controller, worker]
    peers: ipc://{folder}/peers
    clients: ipc://{folder}/clients
    operators: ipc://{folder}/operators
    http: 127.0.0.1:0
    models: {bundles}
models:
  - {{model: identity}}
"""


def expressions():
    """All expressions of the dashboard and the alerts."""
    board = json.loads((FILES / "grafana.json").read_text())
    out = [t["expr"] for panel in board["panels"] for t in panel["targets"]]
    rules = yaml.safe_load((FILES / "alerts.yml").read_text())
    return out + [r["expr"] for g in rules["groups"] for r in g["rules"]]


class Monitoring(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        there = pathlib.Path(cls.folder.name)
        (there / "c.yaml").write_text(CONFIG.format(folder=there, bundles=BUNDLES))
        cls.node = subprocess.Popen(
            [PROGRAM, "node", "--config", there / "c.yaml"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        port = re.search(r"http port (\d+)", cls.node.stdout.readline()).group(1)
        cls.metrics = f"http://127.0.0.1:{port}/metrics"
        (there / "alerts.yml").write_text((FILES / "alerts.yml").read_text())
        scrape = yaml.safe_load((FILES / "prometheus.yml").read_text())
        scrape["global"] = {"scrape_interval": "1s", "evaluation_interval": "1s"}
        (jobs,) = scrape["scrape_configs"]
        jobs["static_configs"] = [{"targets": [f"127.0.0.1:{port}"]}]
        (there / "prometheus.yml").write_text(yaml.safe_dump(scrape))
        cls.port = free_port()
        cls.prometheus = subprocess.Popen(
            ["prometheus", f"--config.file={there}/prometheus.yml",
             f"--storage.tsdb.path={there}/data",
             f"--web.listen-address=127.0.0.1:{cls.port}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    @classmethod
    def tearDownClass(cls):
        for x in (cls.prometheus, cls.node):
            x.send_signal(signal.SIGTERM)
            x.wait(30)
        cls.node.stdout.close()
        cls.folder.cleanup()

    def ask(self, page, **words):
        url = f"http://127.0.0.1:{self.port}/api/v1/{page}?{urllib.parse.urlencode(words)}"
        with urllib.request.urlopen(url) as answer:
            return json.load(answer)["data"]

    def eventually(self, what):
        until = time.monotonic() + 30
        while True:
            try:
                if found := what():
                    return found
            except OSError:
                pass
            self.assertLess(time.monotonic(), until, "it did not come about")
            time.sleep(0.2)

    def shell(self, *words, text=None):
        return subprocess.run(
            [SHELL, "--node", f"ipc://{self.folder.name}/operators", *words], input=text,
            capture_output=True, text=True, timeout=60)

    def series(self, name, *labels):
        """Values of the series with this name and all these labels."""
        with urllib.request.urlopen(self.metrics) as answer:
            lines = answer.read().decode().splitlines()
        return [float(x.rsplit(" ", 1)[1]) for x in lines
                if x.startswith(name + "{") and all(y in x for y in labels)]

    def load(self, model):
        return subprocess.run(
            [PROGRAM, "load", "--gateway", f"ipc://{self.folder.name}/clients",
             "--model", model, "--closed", "2", "--time", "1s"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode

    def copies(self, model):
        return (self.series("millrace_model_replicas_wanted", f'model="{model}"'),
                self.series("millrace_model_replicas_ready", f'model="{model}"'))

    def test_copies_wanted_and_ready_follow_load_unload_and_forget(self):
        self.shell("load", "affine", "1")
        self.eventually(lambda: self.copies("affine") == ([1], [1]))
        self.assertEqual(self.load("affine"), 0)
        of_version = ('model="affine"', 'version="1"', 'node="all"')
        for name in ("millrace_request_seconds_count", "millrace_batch_size_count",
                     "millrace_queue_length", "millrace_start_seconds_count"):
            self.assertTrue(self.series(name, *of_version), name)
        self.assertGreater(self.series(
            "millrace_requests_total", 'status="ok"', 'tenant="default"', *of_version), [0])
        self.assertEqual(self.shell("unload", "affine", "--yes").returncode, 0)
        self.eventually(lambda: self.copies("affine") == ([0], [0]))
        self.assertEqual(self.shell("forget", "affine", "--yes").returncode, 0)
        self.eventually(lambda: self.copies("affine") == ([], []))
        # Series of gateways also end, after one more scrape. Start times stay for a
        # while.
        for name in ("millrace_request", "millrace_batch", "millrace_queue",
                     "millrace_replica", "millrace_slo", "millrace_demand"):
            self.eventually(lambda: not self.every(name, 'model="affine"'))

    def every(self, prefix, label):
        with urllib.request.urlopen(self.metrics) as answer:
            return [x for x in answer.read().decode().splitlines()
                    if x.startswith(prefix) and label in x]

    def test_a_model_that_cannot_come_up_is_wanted_and_not_ready(self):
        self.shell("load", "no-such-model", "2")
        self.addCleanup(self.shell, "forget", "no-such-model", "--yes")
        self.eventually(lambda: self.copies("no-such-model") == ([2], [0]))

    def test_names_that_clients_and_operators_invent_leave_no_series(self):
        inputs = pathlib.Path(self.folder.name, "x.npy")
        numpy.save(inputs, numpy.zeros((1, 4), "f4"))
        for i in range(5):
            subprocess.run(
                [PROGRAM, "infer", "--gateway", f"ipc://{self.folder.name}/clients",
                 "--model", f"invented-{i}", "--input", inputs], capture_output=True)
        self.assertGreater(sum(self.series(
            "millrace_requests_total", 'model="unknown"', 'status="unknown_model"')), 4)
        self.assertEqual(self.every("millrace", "invented"), [])
        names = [f"invented-{i}" for i in range(20)]
        self.shell(text="".join(f"load {x}\n" for x in names))
        self.eventually(lambda: self.copies("invented-19") == ([1], [0]))
        for x in self.every("millrace", "invented-19\""):
            self.assertRegex(x, "^millrace_(model_replicas|replica_seconds)_")
        self.shell(text="".join(f"forget {x} --yes\n" for x in names))
        self.eventually(lambda: not self.every("millrace", "invented"))

    def test_the_node_and_its_confined_processes_are_counted_apart(self):
        for name in ("millrace_process_cpu_seconds_total",
                     "millrace_process_resident_memory_bytes"):
            for part in ("node", "confined"):
                self.eventually(lambda: self.series(name, f'part="{part}"') > [0])

    def test_the_build_is_named(self):
        for label in ("version", "commit", "libtorch", "cuda"):
            self.assertEqual(self.series("millrace_build_info", f'{label}="'), [1])

    def test_head_is_answered(self):
        request = urllib.request.Request(self.metrics, method="HEAD")
        with urllib.request.urlopen(request) as answer:
            self.assertEqual((answer.status, answer.read()), (200, b""))
            self.assertGreater(int(answer.headers["Content-Length"]), 1000)

    def test_alerts_fire_when_they_should_and_not_else(self):
        there = pathlib.Path(self.folder.name, "rules")
        there.mkdir()
        shutil.copy(FILES / "alerts.yml", there)
        shutil.copy(pathlib.Path(SOURCE) / "tests/e2e/alerts_test.yaml", there)
        done = subprocess.run(["promtool", "test", "rules", there / "alerts_test.yaml"],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_a_scraped_node_is_up_and_counts_what_it_answers(self):
        self.eventually(lambda: self.ask("query", query="up == 1")["result"])
        subprocess.run(
            [PROGRAM, "load", "--gateway", f"ipc://{self.folder.name}/clients",
             "--model", "identity", "--closed", "4", "--time", "3s"],
            check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        rate = 'sum(rate(millrace_requests_total{status="ok"}[1m]))'
        self.eventually(
            lambda: float(self.ask("query", query=rate)["result"][0]["value"][1]) > 0)

    def test_a_start_is_timed_once(self):
        count = 'millrace_start_seconds_count{model="identity",from="disk"}'
        (x,) = self.eventually(lambda: self.ask("query", query=count)["result"])
        self.assertEqual(float(x["value"][1]), 1)

    def test_prometheus_understands_every_expression(self):
        self.eventually(lambda: self.ask("query", query="up")["result"])
        for x in expressions():
            with self.subTest(x):
                self.assertIn("result", self.ask("query", query=x))

    def test_every_metric_that_is_asked_for_is_declared(self):
        declared = set(re.findall(
            r'"(millrace_\w+)"', (pathlib.Path(SOURCE) / "runtime/metrics.hpp").read_text()))
        asked = set()
        for x in expressions():
            asked |= set(re.findall(r"\bmillrace_\w+", x))
        asked = {re.sub(r"_(bucket|sum|count)$", "", x) for x in asked}
        self.assertGreater(len(asked), 10)
        self.assertEqual(asked - declared, set())

    def test_all_alerts_are_loaded(self):
        rules = self.eventually(lambda: self.ask("rules")["groups"])
        names = [r["name"] for g in rules for r in g["rules"]]
        self.assertGreaterEqual(len(names), 8)
        self.assertTrue(all(r["health"] != "err" for g in rules for r in g["rules"]))


if __name__ == "__main__":
    unittest.main(verbosity=2)
