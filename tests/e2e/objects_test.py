# SPDX-License-Identifier: Apache-2.0
"""Models fetched from object stores: a folder, a web server, S3."""

import pathlib
import shutil
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from object_servers import HttpServer, S3Server
from processes import call, eventually
from three_nodes import BUNDLES, MILLRACE, ThreeNodes

MODEL = "ballast"  # 32 MiB of weights


def setUpModule():
    global folder, zoo, http, s3
    folder = tempfile.TemporaryDirectory()
    zoo = pathlib.Path(folder.name, "zoo")
    shutil.copytree(BUNDLES, zoo)
    made = call(MILLRACE, "model", "index", "--store", zoo)
    assert made.returncode == 0, made.stderr
    http, s3 = HttpServer(zoo), S3Server(zoo)


def tearDownModule():
    http.stop()
    s3.stop()
    folder.cleanup()


def credentials(name, key, secret):
    path = pathlib.Path(folder.name, name)
    path.write_text(f"[default]\naws_access_key_id = {key}\n"
                    f"aws_secret_access_key = {secret}\n")
    return path


class FromAStore(ThreeNodes):
    """Workers without bundles, and a store with bundles."""

    bundles = "/nowhere"

    @classmethod
    def store(cls):
        raise unittest.SkipTest("is for those below")

    @classmethod
    def setUpClass(cls):
        cls.more_models = (f"  - {{model: {MODEL}, replicas: 2}}\n"
                           f"object_stores:\n  zoo: {cls.store()}\n")
        super().setUpClass()

    def setUp(self):
        self.assertTrue(eventually(lambda: self.model(MODEL)["ready"] == 2, 40),
                        self.log("front"))

    def brought(self):
        """The first source of the model that each worker was given."""
        out = {}
        for line in self.log("front").splitlines():
            if "chains.set_sources" in line and f"model={MODEL}" in line:
                words = dict(x.split("=", 1) for x in line.split() if "=" in x)
                out.setdefault(words["node"], words["from"])
        return out

    def test_FP_52_one_host_reads_the_store_and_passes_it_on(self):
        first, second = sorted(self.brought().items(),
                               key=lambda x: x[1] != "store:zoo")
        self.assertEqual(first[1], "store:zoo")
        self.assertEqual(second[1], first[0])
        self.assertEqual(self.infer("--model", MODEL).returncode, 0)
        cached = self.ask("cache")["nodes"]
        for node in ("w1", "w2"):
            there, = [x for x in cached[node]["bundles"] if x["model"] == MODEL]
            self.assertEqual((there["state"], there["there"]), ("memory", there["bytes"]))

    def test_cold_starts_says_what_took_how_long(self):
        self.assertEqual(self.infer("--model", MODEL).returncode, 0)
        answered = lambda: any(
            x["how"]["first_answer_us"] >= 0
            for x in self.ask("cold-starts", MODEL)["starts"])
        self.assertTrue(eventually(answered))
        for x in self.ask("cold-starts", MODEL)["starts"]:
            how = x["how"]
            if x["ready_us"] == 0:  # a failed start
                continue
            steps = x["order_us"] + how["fetch_us"] + how["load_us"] + how["warm_up_us"]
            self.assertGreater(how["fetch_us"], 0)
            self.assertLess(steps - x["order_us"], x["ready_us"])
            self.assertIn(how["from"], {"store:zoo", "w1", "w2"} - {how["what"]["node"]})
        self.assertRegex(self.shell("cold-starts").stdout, rf"{MODEL}\S+ .*store:zoo .*=")

    def test_stores_shows_what_is_in_it(self):
        found = self.ask("stores")["stores"]["zoo"]
        self.assertEqual(found["error"], "")
        self.assertGreater(found["models"], 5)
        self.assertGreaterEqual(found["read_ago_us"], 0)
        self.assertRegex(self.shell("stores").stdout, r"zoo +\S+:/\S+ +\d+ .* ago")


class FromAFolder(FromAStore):
    @classmethod
    def store(cls):
        return f"{{url: 'file://{zoo}'}}"


class FromAWebServer(FromAStore):
    @classmethod
    def store(cls):
        # Each fault ends after some tries.
        http.failures = {"index.yaml": ["refuse"],
                         f"{MODEL}/1/model.yaml": ["refuse_for_ever"],
                         f"{MODEL}/1/weights.safetensors": ["refuse", "cut", "hang"]}
        cls.addClassCleanup(http.failures.clear)
        http.asked.clear()
        return f"{{url: '{http.url}/files', own_network: true}}"

    def test_each_chunk_is_asked_for_once(self):
        asked = http.asked.count(f"{MODEL}/1/weights.safetensors")
        self.assertEqual(asked, 33 + 3)  # chunks plus failed requests

    def test_what_a_host_has_is_not_read_again_when_the_store_is_away(self):
        http.failures["index.yaml"] = ["refuse"] * 1000
        self.addCleanup(http.failures.clear)
        self.assertEqual(self.shell("--yes", "load", MODEL, "0").returncode, 0)
        self.assertTrue(eventually(lambda: self.model(MODEL)["ready"] == 0))
        asked = len([x for x in http.asked if x != "index.yaml"])
        self.assertEqual(self.shell("load", MODEL, "2").returncode, 0)
        self.assertTrue(eventually(lambda: self.model(MODEL)["ready"] == 2))
        self.assertEqual(len([x for x in http.asked if x != "index.yaml"]), asked)


class FromS3(FromAStore):
    @classmethod
    def store(cls):
        own = credentials("own", s3.key["AccessKeyId"], s3.key["SecretAccessKey"])
        return (f"{{url: 's3://models/team', endpoint: '{s3.url}',"
                f" credentials: {own}, own_network: true}}")


class FromALyingServer(ThreeNodes):
    """A store with a byte that contradicts its manifest (P8)."""

    bundles = "/nowhere"

    @classmethod
    def setUpClass(cls):
        cls.lying = pathlib.Path(folder.name, "lying")
        shutil.copytree(zoo, cls.lying)
        cls.weights = cls.lying / MODEL / "1" / "weights.safetensors"
        cls.flip()
        cls.more_models = (f"  - {{model: {MODEL}}}\n"
                           f"object_stores:\n  zoo: {{url: 'file://{cls.lying}'}}\n")
        super().setUpClass()

    def setUp(self):
        pass

    @classmethod
    def flip(cls):
        with cls.weights.open("r+b") as x:
            x.seek(20 << 20)
            byte = x.read(1)[0]
            x.seek(20 << 20)
            x.write(bytes([byte ^ 4]))

    def test_what_is_wrong_is_never_used_and_what_is_mended_is(self):
        workers = ("w1", "w2")
        refused = lambda: any("relay.source_lost" in self.log(x) for x in workers)
        self.assertTrue(eventually(refused, 20))
        self.assertIn("SHA-256", "".join(self.log(x) for x in workers))
        time.sleep(2)
        self.assertEqual(self.model(MODEL)["ready"], 0)
        self.flip()
        self.assertTrue(eventually(lambda: self.model(MODEL)["ready"] == 1, 20))


class WhatIsWrong(ThreeNodes):
    """Unreadable stores report the reason."""

    bundles = "/nowhere"

    @classmethod
    def setUpClass(cls):
        own = credentials("own", s3.key["AccessKeyId"], s3.key["SecretAccessKey"])
        other = credentials("other", s3.key["AccessKeyId"], "another")
        stranger = credentials("stranger", "NOBODY", "nothing")
        at = f"endpoint: '{s3.url}', own_network: true"
        cls.more_models = f"""object_stores:
  other: {{url: 's3://models/team', {at}, credentials: {other}}}
  stranger: {{url: 's3://models/team', {at}, credentials: {stranger}}}
  nobody: {{url: 's3://models/team', {at}}}
  bucket: {{url: 's3://none/team', {at}, credentials: {own}}}
  folder: {{url: 's3://models/none', {at}, credentials: {own}}}
  file: {{url: 'file:///nowhere'}}
  moved: {{url: '{http.url}/moved', own_network: true}}
  inside: {{url: '{http.url.replace("http", "https")}'}}
  metadata: {{url: 'http://169.254.169.254', own_network: true}}
  unknown: {{url: 'https://none.invalid'}}
"""
        super().setUpClass()

    def setUp(self):
        pass

    def test_each_error_names_what_is_wrong(self):
        says = {
            "other": "SignatureDoesNotMatch.*credentials of .*/other",
            "stranger": "InvalidAccessKeyId.*credentials of .*/stranger",
            "nobody": "AWS_ACCESS_KEY_ID",
            "bucket": "NoSuchBucket",
            "folder": "NoSuchKey",
            "file": "file:///nowhere/index.yaml: there is no such file",
            "moved": "HTTP 302.*not followed",
            "inside": "127.0.0.1.*own_network: true",
            "metadata": "169.254.169.254.*never contacted",
            "unknown": "none.invalid",
        }

        def all_failed():
            answer = self.shell("--json", "stores")
            return answer.returncode == 0 and all(
                x["error"] for x in self.ask("stores")["stores"].values())

        self.assertTrue(eventually(all_failed, 40))
        for name, x in self.ask("stores")["stores"].items():
            self.assertRegex(x["error"], says.pop(name), name)
            self.assertEqual((x["models"], x["read_ago_us"]), (0, -1), name)
        self.assertEqual(says, {})


class WithoutRanges(ThreeNodes):
    bundles = "/nowhere"

    @classmethod
    def setUpClass(cls):
        cls.more_models = (
            f"  - {{model: {MODEL}}}\n"
            f"object_stores:\n  zoo: {{url: '{http.url}/whole', own_network: true}}\n")
        super().setUpClass()

    def setUp(self):
        pass

    def test_a_server_without_ranges_is_named_as_that(self):
        self.assertTrue(eventually(
            lambda: any("does not support byte ranges" in self.log(x) for x in ("w1", "w2")), 20))


if __name__ == "__main__":
    unittest.main(verbosity=2)
