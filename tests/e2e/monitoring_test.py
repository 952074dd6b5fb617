# SPDX-License-Identifier: Apache-2.0
"""The files for Prometheus and Grafana, loaded into a real Prometheus that
scrapes a real node; run by CTest."""

import json
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.parse
import urllib.request

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from processes import free_port

PROGRAM, BUNDLES, SOURCE = sys.argv.pop(1), sys.argv.pop(1), sys.argv.pop(1)
FILES = pathlib.Path(SOURCE) / "config/monitoring"

CONFIG = """
cluster: monitored
nodes:
  all:
    roles: [gateway, controller, worker]
    peers: ipc://{folder}/peers
    clients: ipc://{folder}/clients
    http: 127.0.0.1:0
    models: {bundles}
models:
  - {{model: identity}}
"""


def expressions():
    """Every expression that the dashboard and the alerts ask for."""
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
            r'"(millrace_\w+)"', (pathlib.Path(SOURCE) / "runtime/metrics.cpp").read_text()))
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
