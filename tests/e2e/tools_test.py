# SPDX-License-Identifier: Apache-2.0
"""millrace and actor-shell as users call them, on a cluster of three nodes. Run by
CTest with the Python of Debian only."""

import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from processes import call, eventually
from three_nodes import BUNDLES, MILLRACE, SHELL, Terminal, ThreeNodes

BENCH = f"{MILLRACE}-bench"

SCRIPTS = sys.argv.pop(1)


class Cluster(ThreeNodes):
    def test_shell_what_a_cluster_is_made_of_can_be_seen(self):
        self.assertRegex(self.shell("status").stdout, "3 nodes, 3 in service")
        nodes = {n["node"]["name"]: n for n in self.ask("nodes")["nodes"]}
        self.assertEqual(nodes["front"]["node"]["roles"], ["gateway", "controller"])
        self.assertEqual(nodes["w2"]["devices"][0]["kind"], "slow")
        self.assertGreater(nodes["front"]["load"]["resident"], 1 << 20)
        tree = self.shell("actors", "w1").stdout
        for line in ("w1\n", "  supervisor\n", "    executor/cpu0\n",
                     "    replica/affine.1.", "    monitor\n", "    cache\n"):
            self.assertIn(line, tree)
        self.assertNotIn("w2", tree)
        replica = self.ask("replicas")["replicas"][0]
        self.assertEqual((replica["what"]["node"], replica["state"]), ("w1", "ready"))

    def test_shell_devices_and_replicas_show_the_load_they_have(self):
        load = subprocess.Popen(
            [MILLRACE, "load", "--gateway", f"ipc://{self.folder.name}/clients",
             "--model", "affine", "--closed", "16", "--time", "6s", "--json"],
            stdout=subprocess.PIPE, text=True)

        def busy():
            usage = {d["device"]["id"]: d["usage"] for d in self.ask("devices")["devices"]}
            replica = self.ask("replicas")["replicas"][0]["usage"]
            return (usage.get("cpu0") and usage["cpu0"]["busy"] > 0.01
                    and replica and replica["requests_per_second"] > 100)
        self.assertTrue(eventually(busy, 6))
        found = json.loads(load.communicate()[0])
        self.assertEqual(found["statuses"], {"ok": found["submitted"]})
        self.assertGreater(found["p99_ms"], 0)

    def test_shell_models_are_loaded_and_unloaded(self):
        self.assertEqual(self.shell("load", "identity", "2").returncode, 0)
        self.assertTrue(eventually(lambda: self.model("identity")["ready"] == 2))
        self.assertEqual(self.shell("unload", "identity", "--yes").returncode, 0)
        self.assertTrue(eventually(lambda: self.model("identity")["ready"] == 0))
        self.assertIn("not yet: no node has a bundle", self.ask("load", "no-such-model")["note"])
        self.assertTrue(eventually(lambda: "no node has a bundle" in
                                   self.model("no-such-model").get("note", "")))

    def test_shell_a_forgotten_model_is_registered_no_more(self):
        self.shell("load", "identity")
        self.assertTrue(eventually(lambda: self.model("identity")["ready"] == 1))
        self.assertEqual(self.shell("forget", "identity", "--yes").returncode, 0)
        self.assertTrue(eventually(lambda: "settings" not in self.model("identity")))
        self.assertEqual(self.shell("forget", "identity", "--yes").returncode, 1)

    def test_shell_a_killed_node_is_lost_until_it_is_back(self):
        self.nodes["w2"].kill()
        self.nodes["w2"].wait(10)
        self.assertTrue(eventually(
            lambda: "w2 was lost" in self.shell("status").stdout))
        self.assertRegex(self.shell("nodes").stdout, r"(?m)^w2 +lost")
        self.nodes["w2"] = self.start("w2")
        self.assertTrue(eventually(lambda: self.ask("status")["lost"] == []))

    def test_a_node_whose_data_directory_was_lost_says_so_and_then_joins(self):
        self.nodes["w2"].kill()
        self.nodes["w2"].wait(10)
        shutil.rmtree(pathlib.Path(self.folder.name, "data", "w2"))
        second = subprocess.run(
            [MILLRACE, "node", "--config", str(self.config), "--node", "w2"],
            capture_output=True, text=True, timeout=30)
        self.assertEqual(second.returncode, 1)
        self.assertRegex(second.stderr, "w2: the cluster has seen start .* of this node, "
                                        "this is start 1: its data dir.* start the node again")
        self.nodes["w2"] = self.start("w2")
        self.assertTrue(eventually(lambda: len(self.ask("nodes")["nodes"]) == 3))

    def test_ctrl_c_ends_a_load_which_then_says_what_it_found(self):
        for how in (["--closed", "4"], ["--rate", "50"]):
            with self.subTest(how):
                load = subprocess.Popen(
                    [MILLRACE, "load", "--gateway", f"ipc://{self.folder.name}/clients",
                     "--model", "affine", *how, "--time", "60s", "--json"],
                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
                time.sleep(0.5)
                load.send_signal(signal.SIGINT)
                out, problems = load.communicate(timeout=10)
                self.assertEqual((load.returncode, problems), (0, ""))
                found = json.loads(out)
                self.assertEqual(found["statuses"], {"ok": found["submitted"]})
                self.assertLess(found["seconds"], 10)

    def test_an_open_load_keeps_its_rate_and_shows_when_it_sent(self):
        load = [MILLRACE, "load", "--gateway", f"ipc://{self.folder.name}/clients",
                "--model", "affine", "--json"]
        sends = f"{self.folder.name}/sends.csv"
        begun = time.time() * 1e6
        found = json.loads(call(*load, "--rate", "200", "--cv", "3", "--time", "4s",
                                "--sends", sends).stdout)
        ended = time.time() * 1e6
        self.assertEqual(found["statuses"], {"ok": found["submitted"]})
        self.assertAlmostEqual(found["target_rate"], found["submitted"] / 4, 6)
        self.assertAlmostEqual(found["achieved_rate"] / found["target_rate"], 1, 1)
        lines = open(sends).read().splitlines()
        self.assertEqual(lines[0], "intended_us,sent_us")
        rows = [tuple(map(int, line.split(","))) for line in lines[1:]]
        self.assertEqual(len(rows), found["submitted"])
        for intended, sent in rows:
            self.assertTrue(begun <= intended <= sent <= ended)
        gaps = [b[0] - a[0] for a, b in zip(rows, rows[1:])]
        mean = sum(gaps) / len(gaps)
        cv = (sum(g * g for g in gaps) / len(gaps) - mean ** 2) ** 0.5 / mean
        self.assertGreater(cv, 1.8)  # over a few hundred gaps; 1 without --cv
        delays = max(sent - intended for intended, sent in rows) / 1000
        self.assertLess(abs(delays - found["send_delay_max_ms"]), 1)
        self.assertEqual(call(*load, "--cv", "3", "--closed", "2").returncode, 2)
        self.assertEqual(call(*load, "--rate", "5", "--cv", "0").returncode, 2)

    def test_load_that_is_not_answered_fails_and_does_not_spin(self):
        load = [MILLRACE, "load", "--gateway", f"ipc://{self.folder.name}/clients", "--json"]
        affine = [*load, "--model", "affine"]
        for words in (["--time", "0s"], ["--rate", "-5"], ["--rate", "nan"],
                      ["--rate", "1e12"]):
            with self.subTest(words):
                self.assertEqual(call(*affine, *words).returncode, 1)
        self.assertEqual(call(*affine, "--rows", "0").returncode, 2)
        answer = call(*affine, "--time", "100ms", "--deadline", "0s")
        self.assertEqual(answer.returncode, 1)
        self.assertNotIn("ok", json.loads(answer.stdout)["statuses"])

    def test_shell_a_drained_node_ends_and_its_work_goes_on_elsewhere(self):
        self.assertEqual(self.shell("load", "identity", "1").returncode, 0)
        self.assertTrue(eventually(lambda: self.model("identity")["ready"] == 1))
        self.assertEqual(self.shell("drain", "w1", "--yes").returncode, 0)
        self.assertEqual(self.nodes["w1"].wait(20), 0)
        self.assertTrue(eventually(lambda: self.model("identity")["ready"] == 1))
        self.shell("unload", "identity", "--yes")
        self.assertRegex(self.shell("status").stdout, "(?m)^- w1 left .* ago$")
        self.assertRegex(self.shell("nodes").stdout, r"(?m)^w1 +left .* ago")
        self.assertEqual([x["reason"] for x in self.ask("status")["left"]], ["left"])
        self.nodes["w1"] = self.start("w1")
        self.assertTrue(eventually(lambda: self.ask("status")["left"] == []))

    def test_shell_a_node_that_does_not_answer_is_named_and_the_rest_is_shown(self):
        self.nodes["w2"].send_signal(signal.SIGSTOP)
        self.addCleanup(self.nodes["w2"].send_signal, signal.SIGCONT)
        answer = self.shell("nodes")
        self.assertEqual(answer.returncode, 0)
        self.assertIn("warning: node w2 did not answer", answer.stderr)
        self.assertRegex(answer.stdout, r"(?m)^w1 +ready")
        self.assertRegex(answer.stdout, r"(?m)^w2 +silent")
        self.assertEqual(self.ask("status")["silent"], ["w2"])

    def test_shell_wrong_calls_say_what_is_right(self):
        answer = self.shell("loda", "x")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("no command 'loda' (did you mean 'load'?); there are status, top,"
                      " nodes", answer.stderr)
        answer = self.shell("drain")
        self.assertEqual((answer.returncode, answer.stderr),
                         (2, "actor-shell: usage: drain NODE; found no argument\n"))
        answer = self.shell("load", "affine", "many")
        self.assertEqual(answer.returncode, 2)
        self.assertIn("expected a number of replicas, found 'many'", answer.stderr)
        self.assertEqual(self.shell("drain", "nobody").returncode, 1)
        answer = self.shell("actors", "nobody")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("no node 'nobody'; there are front, w1, w2", answer.stderr)
        answer = self.shell("unload", "nobody")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("model 'nobody' is not registered", answer.stderr)
        commands = [c["command"] for c in self.ask("help")["commands"]]
        self.assertIn("forget", commands)

    def test_shell_reads_commands_from_a_pipe(self):
        answer = self.shell(text="# what there is\nstatus\n\nmodels\nexit\nnodes\n")
        self.assertEqual(answer.returncode, 0)
        self.assertIn("in service", answer.stdout)
        self.assertIn("affine", answer.stdout)
        self.assertNotIn("UPTIME", answer.stdout)


class Calls(unittest.TestCase):
    """Tests without a cluster."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.folder.name)

    def tearDown(self):
        self.folder.cleanup()

    def config(self, text):
        (self.path / "c.yaml").write_text(text)
        return str(self.path / "c.yaml")

    def store(self):
        shutil.copytree(BUNDLES, self.path / "bundles")
        return str(self.path / "bundles")

    def test_signals_while_it_ends_do_not_crash_a_node(self):
        path = self.config("nodes:\n  a: {roles: [controller]}\n")
        node = subprocess.Popen([MILLRACE, "node", "--config", path],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        node.stdout.readline()
        until = time.monotonic() + 20
        while node.poll() is None and time.monotonic() < until:
            node.send_signal(signal.SIGTERM)
        self.assertEqual(node.wait(10), 0)
        node.stdout.close()

    def test_nobody_there_is_a_failure_that_says_so(self):
        nobody = f"ipc://{self.path}/nobody"
        answer = call(SHELL, "--node", nobody, "status")
        self.assertEqual(answer.returncode, 1)
        self.assertIn(f"no answer from {nobody}", answer.stderr)

    def test_a_second_process_under_a_name_that_is_alive_is_told_so(self):
        path = self.config(
            "seeds: ['ipc://{0}/a']\nnodes:\n"
            "  a: {{roles: [controller], peers: 'ipc://{0}/a'}}\n"
            "  b: {{roles: [worker], peers: 'ipc://{0}/b'}}\n".format(self.path))
        first = [subprocess.Popen([MILLRACE, "node", "--config", path, "--node", name],
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
                 for name in "ab"]
        for node in first:
            self.addCleanup(node.kill)
        seen = first[0].stderr.readline()
        while "peer_up" not in seen:
            seen = first[0].stderr.readline()
        twin = subprocess.run(
            [MILLRACE, "node", "--config", path, "--node", "b", "--set", "nodes.b.data=twin",
             "--set", f"nodes.b.peers=ipc://{self.path}/twin.peers"],
            capture_output=True, text=True, timeout=20)
        self.assertEqual(twin.returncode, 1)
        self.assertIn("another process runs under this name", twin.stderr)
        self.assertEqual([node.poll() for node in first], [None, None])
        logs = []
        for node in first:  # the watching node ends first
            node.kill()
            logs.append(node.communicate()[1])
        self.assertNotIn("peer_down", logs[0])

    def test_a_wrong_call_exits_with_2(self):
        for words in (["fly"], [], ["load"], ["node"], ["node", "--fast"],
                      ["infer", "--model", "x", "--app", "y", "--input", "z"],
                      ["infer", "--model", "x", "--accuracy", "1", "--input", "z"]):
            with self.subTest(words):
                self.assertEqual(call(MILLRACE, *words).returncode, 2)

    def test_a_refused_config_exits_with_78_naming_file_line_and_key(self):
        path = self.config("nodes:\n  a:\n    roles: [worker]\n    rak: r1\n")
        answer = call(MILLRACE, "node", "--config", path, "--check")
        self.assertEqual(answer.returncode, 78)
        self.assertIn(f"{path}:4: nodes.a: unknown key 'rak'", answer.stderr)
        answer = call(MILLRACE, "node", "--config", path, "--check", "--json")
        self.assertEqual(json.loads(answer.stdout)["status"], "bad_config")

    def test_a_good_config_is_fine_and_a_value_of_it_can_be_set(self):
        path = self.config("nodes:\n  a: {roles: [worker]}\n  b: {roles: [worker]}\n")
        check = [MILLRACE, "node", "--config", path, "--check"]
        self.assertEqual(call(*check).returncode, 0)
        self.assertTrue(json.loads(call(*check, "--json").stdout)["ok"])
        self.assertEqual(call(*check, "--set", "link.beat=9ms").returncode, 0)
        self.assertEqual(call(*check, "--set", "link.beat=9h").returncode, 78)
        self.assertEqual(call(*check[:-1]).returncode, 78)  # ambiguous: two nodes
        answer = call(MILLRACE, "node", "--config", f"{path}.not", "--check")
        self.assertEqual(answer.returncode, 78)
        self.assertIn(f"{path}.not", answer.stderr)

    def test_a_config_is_held_against_the_bundles_and_profiles_beside_it(self):
        store = self.store()
        profiles = self.path / "profiles.yaml"
        profiles.write_text("models: [{model: relay, points: [{device: V100,"
                            " metrics: {execute_secs: 1}}]}]\n")
        def check(model, more="", node="", models=store):
            path = self.config(f"nodes:\n  a:\n    roles: [worker]\n    models: {models}\n"
                               "    devices: [{}, {type: cpu, kind: small, memory: 100}]\n"
                               f"{node}models: [{model}]\n{more}")
            answer = call(MILLRACE, "node", "--config", path, "--check")
            return answer.returncode, answer.stdout + answer.stderr
        self.assertEqual(check("{model: relay, parts: 2}")[0], 0)
        self.assertNotIn("warning", check("{model: relay, parts: 2}")[1])
        for wrong in ("{model: relay, parts: 99}", "{model: relay, cuts: [70]}"):
            code, text = check(wrong)
            self.assertEqual(code, 78)
            self.assertIn("model 'relay', as in", text)
        code, text = check("{model: relay, complete: true}")
        self.assertEqual(code, 0)
        self.assertIn("complete does nothing", text)
        for words, doubt in (
                ("share: 0.5", "share does nothing"),
                ("device: small", "has 384 B of parameters, but no device that may"
                 " load it has more memory than 100 B"),
                ("device: small, parts: 6", "")):
            code, text = check(f"{{model: relay, {words}}}")
            self.assertEqual(code, 0)
            self.assertIn(doubt, " ".join(text.split()))
            self.assertEqual("warning" in text, doubt != "", text)
        code, text = check("{model: ballast}", node="    cache: {memory: 1MiB}\n",
                           models=BUNDLES)
        self.assertEqual(code, 0)
        self.assertIn("room for the 32 MiB of the model; the largest limit is 1 MiB",
                      " ".join(text.split()))
        code, text = check("{model: nobody}")
        self.assertEqual(code, 0)
        self.assertIn("model 'nobody': not on this host", text)
        text = " ".join(check("{model: relay, version: '7'}")[1].split())
        self.assertIn("no version or alias '7'", text)
        code, text = check("{model: relay, device: gpu}")
        self.assertEqual(code, 78)
        self.assertIn("models[0].device: no node has a device 'gpu'", text)
        code, text = check("{model: relay}", f"profiles: {profiles}\n")
        self.assertEqual(code, 0)
        self.assertIn("nothing reads 'execute_secs'", " ".join(text.split()))
        self.assertIn("no device here is of such a kind", " ".join(text.split()))

    def test_bundles_are_listed_and_verified(self):
        store = self.store()
        listed = json.loads(call(MILLRACE, "model", "list", "--store", store, "--json").stdout)
        names = {m["name"] for m in listed["models"]}
        self.assertLessEqual({"affine", "identity", "picky"}, names)
        verify = [MILLRACE, "model", "verify", "affine", "--store", store]
        self.assertEqual(call(*verify).returncode, 0)

    def test_cuts_of_a_model_with_a_profile_are_planned(self):
        plan = [MILLRACE, "model", "cuts", "t5-3b", "--devices", "8"]
        found = json.loads(call(*plan, "--json").stdout)
        ranges = found["ranges"]
        self.assertEqual((ranges[0]["first_requests"], ranges[-1]["last_requests"]), (1, 3000))
        for x, y in zip(ranges, ranges[1:]):
            self.assertEqual(x["last_requests"] + 1, y["first_requests"])
        self.assertEqual([x["parts"] for x in found["by_parts"]], list(range(1, 9)))
        whole, cut = found["by_parts"][0], found["by_parts"][7]
        self.assertLess(cut["cold_seconds"], whole["cold_seconds"] / 7)
        self.assertEqual(len(cut["cuts"]), 7)
        text = call(*plan, "--requests", "20").stdout
        self.assertRegex(text, r"best +8 +3\.42 s")
        self.assertIn("[=====", text)
        self.assertIn("there is albert-xxlarge", call(MILLRACE, "model", "cuts", "m").stderr)

    def test_recorded_decisions_of_the_thesis_are_made_again(self):
        # IF-59, IF-60: E2 of the interference framework, appendix B.3.
        record = str(pathlib.Path(__file__).parents[1] / "golden" / "appendix-b.record")
        decide = [MILLRACE, "decide", "--record", record]
        self.assertIn("1 the same", call(*decide).stdout)
        for policy, expected in (("wao-usher", "all models 1200 on 3 devices"),
                                 ("usher", "all models 862.38 on 4 devices")):
            found = call(*decide, "--policy", policy, "--set", "rate=300").stdout
            self.assertIn(expected, found)

    def test_of_a_file_with_two_kinds_of_layers_one_is_planned_with(self):
        def kind(layers, seconds):
            points = [{"device": "cpu", "dimensions": {"layer": i},
                       "metrics": {"execute_seconds": seconds, "load_seconds": 1}}
                      for i in range(4)]
            return {"model": "m", "layers": layers, "points": points}

        path = str(self.path / "kinds.yaml")
        pathlib.Path(path).write_text(json.dumps({"models": [kind("aaa", 1), kind("bbb", 2)]}))
        plan = [MILLRACE, "model", "cuts", "m", "--profiles", path, "--json"]
        unclear = call(*plan)
        self.assertEqual(unclear.returncode, 1)
        self.assertIn("has two kinds of layers on 'cpu', aaa and bbb", unclear.stdout + unclear.stderr)
        for layers, seconds in (("aaa", 4), ("b", 8)):
            found = json.loads(call(*plan, "--layers", layers).stdout)
            self.assertAlmostEqual(found["by_parts"][0]["inference_seconds"], seconds)

    def test_layers_of_a_bundle_and_what_crosses_cuts_are_shown(self):
        layers = [MILLRACE, "model", "layers", "residual", "--store", BUNDLES]
        found = json.loads(call(*layers, "--json").stdout)["stages"]
        self.assertEqual([x["name"] for x in found][:3], ["stem", "blocks.0.0", "blocks.0.2"])
        self.assertEqual(found[1]["takes_from"], [0])
        self.assertEqual(found[2]["takes_from"], [0, 1])  # also past a block
        self.assertEqual(found[1]["crossing_tensors"], 2)
        self.assertEqual(found[1]["crossing_bytes_of_a_row"], 4 * (32 + 64))
        text = call(*layers, "--cuts", "3,9").stdout
        self.assertRegex(text, r"(?m)^1 .* 0 +2 +blocks\.1\.0 to blocks\.3\.2$")
        for cuts in ("0", "3,3", "9,3", "14", "x"):
            answer = call(*layers, "--cuts", cuts)
            self.assertEqual(answer.returncode, 2, cuts)
            self.assertIn("--cuts", answer.stderr)

    def test_planning_is_measured(self):
        found = json.loads(call(BENCH, "planner", "--rounds", "1", "--json").stdout)
        for x in found["results"]:
            self.assertGreater(x["value"], 0)
            self.assertGreater(x["floor"], 0)

    def test_a_store_that_is_not_there_or_cannot_be_written_is_named(self):
        nowhere = str(self.path / "nowhere")
        answer = call(MILLRACE, "model", "list", "--store", nowhere)
        self.assertEqual(answer.returncode, 1)
        self.assertIn(f"{nowhere}: is no directory", answer.stderr)
        (self.path / "file").write_text("")
        answer = call(MILLRACE, "model", "import", f"{SCRIPTS}/affine.pt", "--name", "a",
                      "--store", str(self.path / "file"))
        self.assertEqual(answer.returncode, 1)
        self.assertRegex(answer.stderr, "/file: is no directory")
        (self.path / "loop").symlink_to("loop")
        self.assertEqual(call(MILLRACE, "model", "list", "--store", str(self.path)).returncode, 0)
        answer = call(MILLRACE, "fly")
        self.assertIn("no verb 'fly'; there are node, model,", answer.stderr)

    def test_a_bench_without_its_models_says_how_to_make_them(self):
        answer = call(BENCH, "path", "--models", str(self.path))
        self.assertEqual(answer.returncode, 1)
        self.assertIn("tools/example-models digits bench makes them", answer.stderr)
        self.assertEqual(call(BENCH, "path", "--rounds", "0").returncode, 2)

    def test_p8_a_flipped_bit_of_a_bundle_is_found(self):
        store = self.store()
        weights = next(pathlib.Path(store, "affine", "1").glob("*.safetensors"))
        data = bytearray(weights.read_bytes())
        data[-1] ^= 1
        weights.write_bytes(data)
        answer = call(MILLRACE, "model", "verify", "affine", "--store", store)
        self.assertEqual(answer.returncode, 1)
        self.assertIn(weights.name, answer.stderr)

    def test_an_import_that_needs_more_says_what_to_give(self):
        answer = call(MILLRACE, "model", "import", f"{SCRIPTS}/identity.pt",
                      "--name", "i", "--store", str(self.path))
        self.assertEqual(answer.returncode, 1)
        self.assertIn("--input", answer.stderr)

    def test_P13_a_node_listens_to_its_own_host_and_user_alone(self):
        path = self.config(
            "nodes:\n  a:\n    roles: [gateway, controller, worker]\n"
            f"    clients: ipc://{self.path}/clients\n"
            f"    operators: ipc://{self.path}/operators\n    http: 127.0.0.1:0\n")
        node = subprocess.Popen([MILLRACE, "node", "--config", path],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            node.stdout.readline()
            files = set()
            for fd in os.listdir(f"/proc/{node.pid}/fd"):
                with contextlib.suppress(FileNotFoundError):  # closed in the meantime
                    files.add(os.readlink(f"/proc/{node.pid}/fd/{fd}"))
            rows = [x.split() for table in ("tcp", "tcp6")
                    for x in pathlib.Path(f"/proc/{node.pid}/net/{table}").read_text()
                    .splitlines()[1:]]
            listening = [x[1].split(":")[0] for x in rows
                         if x[3] == "0A" and f"socket:[{x[9]}]" in files]
            self.assertEqual(listening, ["0100007F"] * 3)  # peers, bulk, http
            for name in ("clients", "operators"):
                self.assertEqual((self.path / name).stat().st_mode & 0o077, 0)
        finally:
            node.send_signal(signal.SIGTERM)
            self.assertEqual(node.wait(20), 0)
            node.stdout.close()

    def test_P13_without_keys_no_other_host_is_listened_to(self):
        for key in ("clients", "operators", "peers"):
            role = "gateway" if key == "clients" else "controller"
            path = self.config(f"nodes:\n  a:\n    roles: [{role}]\n"
                               f"    {key}: tcp://0.0.0.0:7100\n")
            answer = call(MILLRACE, "node", "--config", path)
            self.assertEqual(answer.returncode, 78)
            self.assertEqual(len(answer.stderr.splitlines()), 1)
            self.assertRegex(answer.stderr, rf"{path}:4: nodes\.a\.{key}: .*keys")

    @unittest.skipUnless(os.geteuid() == 0, "only root gives files to others")
    def test_of_several_new_keys_all_are_made_or_none(self):
        keys = self.path / "several"
        new = lambda *names: call(MILLRACE, "keys", "new", keys, *names, "--role", "node")
        self.assertEqual(new("a").returncode, 0)
        for names, why in ((("b", "a"), "has a key 'a' already"),
                           (("b", "b"), "'b' is named twice"), (("b", "no good"), "no good")):
            answer = new(*names)
            self.assertEqual(answer.returncode, 1, names)
            self.assertIn(why, answer.stderr)
            self.assertFalse((keys / "b.key").exists())
        self.assertEqual(new("b", "c").returncode, 0)

    def test_what_root_writes_into_a_folder_of_keys_is_its_owners(self):
        self.path.chmod(0o755)
        keys = self.path / "keys"
        keys.mkdir(0o700)
        os.chown(keys, 65534, 65534)
        for words in (["new", keys, "ops", "--role", "operator"], ["suspend", keys, "ops"]):
            self.assertEqual(call(MILLRACE, "keys", *words).returncode, 0)
        files = sorted(keys.iterdir())
        self.assertEqual([f.name for f in files], ["allowed.yaml", "cluster.key", "ops.key"])
        self.assertEqual({f.stat().st_uid for f in files}, {65534})
        # Root can check the config, and the owner of the keys can run it.
        config = self.config("keys: keys\nnodes:\n  n:\n    roles: [worker]\n")
        call(MILLRACE, "keys", "new", keys, "n", "--role", "controller")
        check = [MILLRACE, "node", "--config", config, "--check"]
        for words in (check, ["setpriv", "--reuid=65534", "--clear-groups", *check]):
            answer = call(*words)
            self.assertEqual(answer.returncode, 0, answer.stderr)

    def test_an_alias_moves_and_goes_back(self):
        store = self.store()
        for _ in range(2):
            call(MILLRACE, "model", "import", f"{SCRIPTS}/affine.pt", "--name",
                 "affine", "--input", "x:F32:-1,4", "--store", store)

        def aliases():
            listed = call(MILLRACE, "model", "list", "--store", store, "--json").stdout
            return {a: m["version"] for m in json.loads(listed)["models"]
                    if m["name"] == "affine" for a in m["aliases"]}
        alias = [MILLRACE, "model", "alias", "affine", "canary"]
        self.assertEqual(call(*alias, "2", "--store", store).returncode, 0)
        self.assertEqual(call(*alias, "3", "--store", store).returncode, 0)
        self.assertEqual(aliases()["canary"], 3)
        back = [MILLRACE, "model", "rollback", "affine", "canary", "--store", store]
        self.assertEqual(call(*back).returncode, 0)
        self.assertEqual(aliases()["canary"], 2)
        self.assertEqual(call(*alias, "9", "--store", store).returncode, 1)


if __name__ == "__main__":
    unittest.main(verbosity=2)
