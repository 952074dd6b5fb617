# SPDX-License-Identifier: Apache-2.0
"""actor-shell: its output for requests, events and hosts, and its behaviour at a
terminal. Run by CTest with the Python of Debian only."""

import json
import pathlib
import random
import re
import subprocess
import sys
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from processes import call, eventually
from three_nodes import MILLRACE, SHELL, Terminal, ThreeNodes


class Shell(ThreeNodes):
    def at_terminal(self, *words, rows=24):
        address = f"ipc://{self.folder.name}/operators"
        return Terminal(self, [SHELL, "--node", address, *words], self.folder.name, rows)

    def load(self, seconds="3s"):
        load = subprocess.Popen(
            [MILLRACE, "load", "--gateway", f"ipc://{self.folder.name}/clients", "--model",
             "affine", "--closed", "8", "--time", seconds, "--json"],
            stdout=subprocess.DEVNULL)
        self.addCleanup(load.wait)
        return load

    def test_explain_tells_of_a_request_what_became_of_it(self):
        self.assertEqual(self.infer("--model", "affine", "--trace", "order 7").returncode, 0)
        told = self.shell("explain", "order 7").stdout
        self.assertRegex(told, r"request 'order 7' \(number \d+\) at front: ok after ")
        for line in (r"asked for +'model affine'", r"model +affine version 1",
                     r"answered by +affine\.1\.\d+", r"had +30 s, used 0\.\d %",
                     r"queue +\d", r"execute +\d"):
            self.assertRegex(told, line)
        story = self.ask("explain", "order 7")["requests"][0]
        self.assertEqual((story["status"], story["attempts"]), ("ok", 1))
        self.assertGreaterEqual(
            story["total_us"], story["queue_us"] + story["execute_us"]
        )
        by_number = self.ask("explain", str(story["number"]))["requests"]
        self.assertEqual([x["trace"] for x in by_number], ["order 7"])

    def test_explain_tells_why_a_request_was_refused(self):
        self.infer("--model", "no-such", "--trace", "bad")
        told = self.shell("explain", "bad").stdout
        self.assertRegex(told, r"request 'bad' \(number \d+\) at front: unknown_model")
        self.assertIn("refused before a model was chosen", told)
        self.assertIn("unknown_model", self.shell("explain").stdout)
        number = re.search(r"number (\d+)", told).group(1)
        self.assertIn("request 'bad'", self.shell("explain", number).stdout)
        answer = self.shell("explain", "never-heard-of")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("no gateway remembers request 'never-heard-of'", answer.stderr)

    def test_set_changes_settings_of_a_model_that_is_served(self):
        done = self.shell("set", "affine", "policy.batch=3", "slo=70ms")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("policy.batch", done.stdout)
        self.assertIn("slo 0 -> 70000", done.stdout)
        again = self.shell("set", "affine", "slo=70ms")
        self.assertIn("has these settings already", again.stdout)
        self.assertEqual(self.infer("--model", "affine").returncode, 0)
        wrong = self.shell("set", "affine", "polcy.batch=3")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("policy", wrong.stderr)
        named = self.shell("set", "affine", "model=other")
        self.assertIn("cannot be changed", named.stderr)
        none = self.shell("set", "no-such", "slo=1s")
        self.assertIn("not registered", none.stderr)

    def test_queue_shows_what_waits_and_who_takes_it(self):
        load = self.load()

        def busy():
            queues = self.ask("queue", "affine")["queues"]
            return queues and queues[0]["running"] > 0
        self.assertTrue(eventually(busy, 5))
        queue = self.ask("queue")["queues"][0]
        self.assertEqual((queue["gateway"], queue["model"]), ("front", "affine"))
        self.assertEqual(len(queue["replicas"]), 1)
        self.assertRegex(self.shell("queue").stdout, r"affine\.1 +front +\d+ of 4096")
        load.wait()
        answer = self.shell("queue", "none")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("no gateway has seen a replica of 'none'", answer.stderr)

    def test_trace_has_a_span_per_hop_and_arrows_between_nodes(self):
        self.load()
        path = pathlib.Path(self.folder.name, "trace.json")
        answer = self.ask("trace", "1s", str(path))
        self.assertGreater(answer["requests"], 10)
        self.assertEqual(set(answer["clocks"]), {"front", "w1", "w2"})
        trace = json.loads(path.read_text())["traceEvents"]
        nodes = {x["pid"]: x["args"]["name"] for x in trace if x["name"] == "process_name"}
        self.assertEqual(set(nodes.values()), {"front", "w1", "w2"})
        tracks = {(x["pid"], x["tid"]): x["args"]["name"] for x in trace
                  if x["name"] == "thread_name"}
        spans = [x for x in trace if x["ph"] == "X"]
        where = {(nodes[x["pid"]], tracks[x["pid"], x["tid"]], x["name"]) for x in spans}
        worker = next(node for node, track, _ in where if track == "executor/cpu0")
        for hop in (("front", "gateway", "affine"), ("front", "router/affine queue", "waits"),
                    ("front", "router/affine", "given"), (worker, "executor/cpu0", "runs"),
                    (worker, "executor/cpu0 queue", "waits")):
            self.assertIn(hop, where)
        self.assertTrue(any(track.startswith("replica/affine.1.") for _, track, _ in where))
        # An arrow goes from the front node to the worker, and not back in time beyond the
        # clock error.
        flows = {}
        for x in trace:
            if x["ph"] in "stf":
                flows.setdefault(x["id"], []).append(x)
        self.assertGreater(len(flows), 10)
        within = sum(x["within_us"] for x in answer["clocks"].values())
        for steps in flows.values():
            self.assertEqual([x["ph"] for x in steps], ["s", "t", "f"])
            self.assertEqual([nodes[x["pid"]] for x in steps], ["front", worker, worker])
            times = [x["ts"] for x in steps]
            for before, after in zip(times, times[1:]):
                self.assertLessEqual(before, after + within)
        # Spans of a track never overlap, because Perfetto would drop one.
        ends = {}
        for x in sorted(spans, key=lambda x: x["ts"]):
            key = x["pid"], x["tid"]
            self.assertGreaterEqual(x["ts"], ends.get(key, 0))
            ends[key] = x["ts"] + x["dur"]

    def test_plans_of_many_layers_hold_up_nobody(self):
        chance = random.Random(1)
        points = "".join(
            f"      - {{device: gpu, dimensions: {{layer: {i}}}, metrics: {{execute_seconds:"
            f" {chance.random() / 100}, attach_seconds: {chance.random()}, output_bytes:"
            f" {chance.randrange(10 ** 6)}}}}}\n" for i in range(110))
        path = pathlib.Path(self.folder.name, "many.yaml")
        path.write_text("models:\n  - model: many\n    points:\n" + points)
        imported = self.shell("import-profiles", str(path))
        self.assertEqual(imported.returncode, 0)
        warnings = " ".join(imported.stderr.split())
        self.assertIn("no node here has a bundle of 'many'", warnings)
        self.assertIn("no device here is of kind 'gpu' (there is cpu, slow)", warnings)
        self.assertIn("without parameter_bytes on 'gpu'", warnings)
        lost = self.shell("events").stdout.count("peer_down")
        begun = time.monotonic()
        plans = subprocess.Popen(
            [SHELL, "--node", f"ipc://{self.folder.name}/operators", "plans", "many", "100"],
            stdout=subprocess.PIPE, text=True)
        slowest = 0
        while plans.poll() is None:
            asked = time.monotonic()
            self.assertIn("3 in service", self.shell("status").stdout)
            slowest = max(slowest, time.monotonic() - asked)
        self.assertEqual(plans.returncode, 0)
        self.assertIn("many on 100 devices of kind gpu", plans.stdout.read())
        plans.stdout.close()
        self.assertGreater(time.monotonic() - begun, 2 * slowest)  # the work was long
        self.assertEqual(self.shell("events").stdout.count("peer_down"), lost)
        refused = self.shell("forget-profiles", "many")
        self.assertEqual(refused.returncode, 1)
        self.assertIn("--yes", refused.stderr)
        self.assertEqual(self.shell("--yes", "forget-profiles", "many").returncode, 0)
        self.assertEqual(self.shell("plans", "many").returncode, 1)
        self.assertIn("no profile of 'many'",
                      self.shell("--yes", "forget-profiles", "many").stderr)

    def test_trace_without_load_says_so(self):
        path = pathlib.Path(self.folder.name, "quiet.json")
        answer = self.shell("trace", "0.2", str(path))
        self.assertIn("0 requests", answer.stdout)
        self.assertIn("is there load?", answer.stdout)
        json.loads(path.read_text())
        for wrong in ("never", "0s", "2h"):
            self.assertEqual(self.shell("trace", wrong).returncode, 2)

    def test_ctrl_c_ends_a_trace_early_and_what_was_recorded_is_there(self):
        self.load()
        path = pathlib.Path(self.folder.name, "early.json")
        terminal = self.at_terminal("trace", "60", str(path))
        terminal.until(b"recording")
        terminal.type(b"\x03")
        terminal.until(b"early.json: ")
        self.assertEqual(terminal.status(), 0)
        json.loads(path.read_text())

    def test_events_tell_why_a_node_went_and_outlive_it(self):
        self.nodes["w2"].kill()
        self.nodes["w2"].wait(10)
        self.assertTrue(eventually(lambda: any(
            x["event"] == "peer_down" and x["fields"]["node"] == "w2"
            for x in self.ask("events", "front")["events"])))
        for words in (("events", "w2"), ("actors", "w2"), ("drain", "w2"), ("doctor", "w2")):
            answer = self.shell(*words)
            self.assertEqual(answer.returncode, 1, words)
            self.assertIn("node w2 was lost ", answer.stderr)
        self.nodes["w2"] = self.start("w2")
        self.assertTrue(eventually(lambda: len(self.ask("nodes")["nodes"]) == 3))
        # Two starts of w2; the event of the first is from the previous process.
        self.assertTrue(eventually(lambda: sum(
            (x["component"], x["event"]) == ("node", "started")
            for x in self.ask("events", "w2")["events"]) >= 2))
        self.assertEqual(len(self.ask("events", "w2", "1")["events"]), 1)
        events = (MILLRACE, "store", "events", f"{self.folder.name}/data/w2")
        self.assertTrue(eventually(lambda: call(*events).stdout.count("node.started") >= 2))
        self.assertEqual(call(*events).returncode, 0)
        kept = json.loads(call(*events, "--json").stdout)
        self.assertTrue(kept["whole"])
        self.assertIn("started", [x["event"] for x in kept["events"]])

    def test_log_says_more_when_it_is_told_to(self):
        self.assertEqual(self.shell("log", "debug").stdout,
                         "front, w1, w2: events from debug on are logged\n")
        self.assertEqual(self.shell("log", "info", "w1").returncode, 0)
        self.assertEqual(self.shell("log", "info").returncode, 0)
        answer = self.shell("log", "loud")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("expected debug, info, warning, error or off, found 'loud'", answer.stderr)
        for words in (("log", "info", "nobody"), ("events", "nobody"), ("doctor", "nobody")):
            answer = self.shell(*words)
            self.assertEqual(answer.returncode, 1)
            self.assertIn("no node 'nobody'; there are front, w1, w2", answer.stderr)

    def test_doctor_looks_at_every_host(self):
        answer = self.shell("doctor")
        for what in ("open files", "clock", "libraries", "versions", "wall clocks",
                     "locked memory", "threads", "cores", "disk", "huge pages", "landlock",
                     "waiting connections", "ports for connections"):
            self.assertIn(what, answer.stdout)
        # Problems come first with advice. The rest is one line.
        lines = answer.stdout.splitlines()
        self.assertRegex(lines[-1], "^good on 3 nodes: ")
        for line in lines[:-1]:
            self.assertRegex(line, "^((bad|notice): |  to do: )")
        found = json.loads(self.shell("--json", "doctor", "w1").stdout)
        self.assertEqual(list(found["nodes"]), ["w1"])
        self.assertIn("libzmq.so", json.dumps(found))
        limits = subprocess.run(["sh", "-c", "ulimit -n"], capture_output=True, text=True)
        files = next(x for x in found["nodes"]["w1"]["findings"] if x["what"] == "open files")
        self.assertTrue(files["found"].endswith(limits.stdout.strip()), files)

    def test_what_takes_away_asks_first_and_in_scripts_wants_yes(self):
        answer = self.shell("drain", "w1")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("This ends node w1 and its 1 replica(s).", answer.stderr)
        self.assertIn("--yes", answer.stderr)
        self.shell("load", "identity", "2")
        answer = self.shell("load", "identity", "1")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("1 instead of 2 replica(s) of identity", answer.stderr)
        self.assertEqual(self.shell("load", "identity", "2").returncode, 0)
        for words in (("unload", "affine"), ("forget", "affine")):
            terminal = self.at_terminal(*words)
            terminal.until(b"Go on? [y/N]")
            terminal.type(b"\n")
            terminal.until(b"nothing was changed")
            self.assertEqual(terminal.status(), 1)
        self.assertEqual(self.model("affine")["settings"]["replicas"], 1)
        self.shell("load", "identity")
        terminal = self.at_terminal("forget", "identity")
        terminal.until(b"Go on? [y/N]")
        terminal.type(b"y\n")
        terminal.until(b"no longer registered")
        self.assertEqual(terminal.status(), 0)

    def test_top_shows_all_of_it_until_q(self):
        terminal = self.at_terminal("top", "0.2", rows=40)
        for text in (b"q quits", b"3 nodes", b"MODEL", b"P99", b"NODE", b"DEVICE",
                     b"REPLICA", b"WAITING"):
            terminal.until(text)
        terminal.type(b"d")
        terminal.until(b"d + devices")
        terminal.until(b"REPLICA")
        screen = terminal.until(b"WAITING")
        self.assertNotIn("\nDEVICE", screen)
        terminal.type(b"q")
        terminal.until(b"\x1b[?1049l")
        self.assertEqual(terminal.status(), 0)
        self.assertIn("3 nodes", self.shell("top").stdout)

    def test_top_tells_of_lines_that_do_not_fit_and_of_models_without_replicas(self):
        self.shell("load", "no-such", "1")
        terminal = self.at_terminal("top", "0.2", rows=12)
        terminal.until(b"no-such has 0 of 1 replica(s): no node has a bundle of the"
                       b" model")
        terminal.until(b"lines more, in a higher window or with parts hidden")
        terminal.type(b"q")
        self.assertEqual(terminal.status(), 0)
        self.shell("forget", "no-such", "--yes")

    def test_a_version_that_no_node_has_is_asked_about_and_stays_a_trouble(self):
        answer = self.shell("load", "affine", "1", "77")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("No node has version '77' of affine; there are 1, default. Until a"
                      " node has it, replicas that are lost are not replaced.",
                      answer.stderr)
        self.assertEqual(self.shell("load", "affine", "1", "77", "--yes").returncode, 0)
        status = self.shell("status").stdout
        self.assertIn("affine has 1 of 1 replica(s): no node has a bundle of version '77';"
                      " there is 1 (default); serving replicas stay, but are not replaced"
                      " after a loss", status)
        self.assertEqual(self.shell("load", "affine", "1", "1").returncode, 0)
        self.assertTrue(eventually(lambda: "affine" not in self.shell("status").stdout))
        # Each change is an event that names the change.
        events = self.shell("events", "front").stdout
        self.assertIn('registry.changed model=affine replicas=1 what="version "77" -> "1""',
                      events.replace("\\", ""))

    def test_watch_runs_a_command_again_and_again(self):
        terminal = self.at_terminal("watch", "0.2", "nodes")
        for _ in range(3):
            terminal.until(b"every 200 ms: nodes")
            terminal.until(b"UPTIME")
        terminal.type(b"q")
        self.assertEqual(terminal.status(), 0)
        for wrong in (["1"], ["top"], ["dance"], ["drain"], ["load", "affine", "2"],
                      ["2", "drain", "w1", "--yes"]):
            self.assertEqual(self.shell("watch", *wrong).returncode, 2, wrong)
        self.assertEqual(self.model("affine")["settings"]["replicas"], 1)

    def test_shell_converses_with_help_completion_and_history(self):
        terminal = self.at_terminal()
        terminal.prompt()
        terminal.type(b"help\n")
        terminal.until(b"finish a node's work, then end the node")
        terminal.type(b"mod\t\n")
        terminal.until(b"WANTED")
        terminal.type(b"actors w2\t\n")
        terminal.until(b"supervisor")
        terminal.type(b"queue aff\t\n")
        terminal.until(b"affine.1")
        terminal.type(b"watch top\t\n")  # `watch` takes no `top`, so no completion
        terminal.until(b"watch repeats commands that only read, and end; top is not one")
        terminal.type(b"explain 'x\n")
        terminal.until(b"a ' that is not closed")
        terminal.type(b"exit\n")
        self.assertEqual(terminal.status(), 0)
        history = pathlib.Path(self.folder.name, ".actor-shell-history").read_text()
        self.assertIn("help", history)

    def test_ctrl_c_ends_a_line_or_a_question_not_the_shell(self):
        terminal = self.at_terminal()
        terminal.prompt()
        terminal.type(b"drain w1")
        terminal.until(b"drain w1")
        terminal.type(b"\x03")
        terminal.prompt()
        terminal.type(b"unload affine\n")
        terminal.until(b"Go on? [y/N]")
        terminal.type(b"\x03")
        terminal.until(b"nothing was changed")
        terminal.prompt()
        terminal.type(b"nodes\n")
        terminal.until(b"UPTIME")
        terminal.type(b"exit\n")
        self.assertEqual(terminal.status(), 0)

    def test_what_goes_wrong_is_json_where_json_is_asked_for(self):
        for words, rc in ((("explain", "none"), 1), (("top",), 2), (("help", "dance"), 2)):
            answer = self.shell(*words, "--json")
            self.assertEqual(answer.returncode, rc, words)
            self.assertTrue(json.loads(answer.stdout)["error"], words)
        answer = call(SHELL, "--node", "ipc:///nowhere", "nodes", "--json")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("no answer from", json.loads(answer.stdout)["error"])

    def test_help_needs_no_cluster(self):
        answer = call(SHELL, "--node", "ipc:///nowhere", "help", "top", "--json")
        self.assertEqual(json.loads(answer.stdout)["command"], "top")

    def test_output_that_nobody_takes_is_a_failure(self):
        with open("/dev/full", "w") as full:
            for words in ([SHELL, "help"], [MILLRACE, "node", "--options"]):
                done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True)
                self.assertEqual(done.returncode, 1, words)
                self.assertIn("could not be written", done.stderr)

    def test_a_mistyped_model_is_asked_about_and_in_scripts_noted(self):
        for words, code in ((("unload", "affin"), 1), (("trust", "affin"), 1),
                            (("load", "affin"), 0)):
            answer = self.shell(*words)
            self.assertEqual(answer.returncode, code, words)
            self.assertIn("'affin' (did you mean 'affine'?)", answer.stderr)
        self.assertEqual(self.shell("forget", "affin", "--yes").returncode, 0)
        terminal = self.at_terminal("load", "affin")
        terminal.until(b"(did you mean 'affine'?)")
        terminal.type(b"n\n")
        terminal.until(b"nothing was changed")
        self.assertEqual(terminal.status(), 1)

    def test_models_show_the_load_of_each(self):
        self.load("2s")
        self.assertTrue(eventually(lambda: (self.model("affine").get("demand") or {})
                                   .get("latency_p99", 0) > 0, 5))
        self.assertRegex(self.shell("models").stdout,
                         r"(?m)^affine +[\d.]+ +[\d.]+.?s +[\d.]+.?s +0\.0% +1 +1 ")
        top = self.shell("top").stdout
        self.assertRegex(top, r"MODEL +REQ/S +P50 +P99 +ERRORS")

    def test_lines_fit_a_terminal_of_80_columns(self):
        self.infer("--model", "affine", "--trace", "a name that is rather long for a request")
        for words in (("status",), ("nodes",), ("devices",), ("replicas",), ("models",),
                      ("actors",), ("queue",), ("explain",), ("events",), ("doctor",),
                      ("load", "affine", "1"), ("help",), ("cold-starts",),
                      ("pipelines", "affine"), ("demand",), ("scaling",), ("placement",),
                      ("cache",), ("decisions",),
                      ("explain", "a name that is rather long for a request")):
            text = self.at_terminal(*words).everything()
            for line in re.split(r"[\r\n]+", text):
                self.assertLessEqual(len(line), 80, (words, line))
            self.assertNotIn("…", text, words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
