# SPDX-License-Identifier: Apache-2.0
"""The disk cache keeps bundles of other hosts through a restart and fetches broken
bundles again (P7, P8). Run by CTest with the Python of Debian only."""

import json
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from processes import eventually
from three_nodes import BUNDLES, ThreeNodes

MODEL = "ballast"  # 32 MiB of weights


def flip(file):
    """Flips a bit in the middle of a file."""
    with file.open("r+b") as x:
        x.seek(20 << 20)
        byte = x.read(1)[0]
        x.seek(20 << 20)
        x.write(bytes([byte ^ 4]))


class OnW2(ThreeNodes):
    """w2 has a separate folder of bundles and runs the model."""

    more_models = f"  - {{model: {MODEL}, device: slow}}\n"  # device `slow` is on w2
    bundles_of_w2 = "/nowhere"

    @classmethod
    def setUpClass(cls):
        cls.data = tempfile.TemporaryDirectory()
        cls.more_of_w2 = f"    data: {cls.data.name}\n    cache: {{disk: 1GiB}}\n"
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.data.cleanup()

    def setUp(self):
        super().setUp()
        self.assertTrue(self.is_ready(), self.log("w2"))

    def is_ready(self):
        return eventually(lambda: self.model(MODEL)["ready"] == 1, 40)

    def has_logged(self, what):
        return eventually(lambda: what in self.log("w2"))

    def on_w2(self, state):
        return [x for x in self.ask("cache", "w2")["nodes"]["w2"]["bundles"]
                if x["model"] == MODEL and x["state"] == state]


class Kept(OnW2):
    def setUp(self):
        super().setUp()
        self.assertTrue(self.has_logged("cache.kept"), self.log("w2"))

    def files(self):
        return list(pathlib.Path(self.data.name, "bundles").glob("*/weights.safetensors"))

    def restart(self, meanwhile=lambda: None):
        """Kills and restarts w2. Returns its log since the restart."""
        before = len(self.log("w2"))
        self.nodes["w2"].send_signal(signal.SIGKILL)
        self.nodes["w2"].wait(10)
        meanwhile()
        self.assertTrue(eventually(lambda: self.model(MODEL)["ready"] == 0, 20))
        self.nodes["w2"] = self.start("w2")
        self.assertTrue(self.is_ready(), self.log("w2")[before:])
        return self.log("w2")[before:]

    def outputs(self):
        answer = self.infer("--model", MODEL, "--json")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        return json.loads(answer.stdout)["outputs"]

    def test_1_it_is_there_after_a_restart_and_need_not_come_again(self):
        self.assertEqual(len(self.files()), 1)
        log = self.restart()
        self.assertIn("cache.adopted bundles=1", log)
        self.assertNotIn("relay.arrived", log)
        self.assertEqual(len(self.on_w2("kept")), 1)
        # The bundle is also in memory, where a change of the file has no effect.
        there, = self.on_w2("memory")
        self.assertEqual(there["there"], there["bytes"])
        before = self.outputs()
        file, = self.files()
        flip(file)
        self.assertEqual(self.outputs(), before)
        flip(file)

    def test_2_what_is_broken_there_comes_again(self):
        file, = self.files()
        log = self.restart(lambda: flip(file))
        self.assertIn("cache.quarantined", log)
        self.assertTrue(eventually(
            lambda: self.log("w2").rfind("cache.kept") > self.log("w2").rfind(
                "cache.quarantined")))
        self.assertEqual(self.infer("--model", MODEL).returncode, 0)


class Broken(OnW2):
    """The local bundle of w2 is broken, the bundle of w1 is valid."""

    @classmethod
    def setUpClass(cls):
        cls.own = tempfile.TemporaryDirectory()
        cls.bundles_of_w2 = cls.own.name + "/bundles"
        shutil.copytree(BUNDLES, cls.bundles_of_w2)
        cls.file = pathlib.Path(cls.bundles_of_w2, MODEL, "1", "weights.safetensors")
        flip(cls.file)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.own.cleanup()

    def test_it_is_left_where_it_is_and_got_from_another_host(self):
        log = self.log("w2")
        self.assertIn("cache.quarantined", log)
        self.assertLess(log.index("cache.quarantined"), log.index("relay.arrived"))
        self.assertTrue(self.file.exists())
        self.assertEqual(len(self.on_w2("broken")), 1)
        self.assertEqual(self.infer("--model", MODEL).returncode, 0)


class Full(OnW2):
    """The disk of w2 has no space for the model."""

    @classmethod
    def start(cls, name):
        cls.within = {"w2": [
            "unshare", "--mount", "sh", "-c",
            f'mount -t tmpfs -o size=8m none {cls.data.name} && exec "$@"', "sh"]}
        return super().start(name)

    def status(self):
        return self.shell("status").stdout

    def test_it_is_served_from_memory_until_there_is_room(self):
        self.assertTrue(self.has_logged("cache.cannot_keep"))
        self.assertIn("no space for 32 MiB", self.log("w2"))
        self.assertEqual(self.infer("--model", MODEL).returncode, 0)
        says_so = "ballast cannot be kept: .*no space for 32 MiB, [0-9.]+ MiB are free"
        self.assertTrue(eventually(lambda: re.search(says_so, self.status())),
                        self.status())
        # The path as seen in the mount namespace of the node.
        seen = pathlib.Path(f"/proc/{self.nodes['w2'].pid}/root{self.data.name}/bundles")
        self.assertTrue(eventually(lambda: list(seen.glob("*")) == []))
        subprocess.run(["nsenter", "--mount", "--target", str(self.nodes["w2"].pid),
                        "mount", "-o", "remount,size=128m", self.data.name], check=True)
        self.assertTrue(eventually(lambda: self.on_w2("kept"), 30), self.log("w2"))
        self.assertNotIn("cannot be kept", self.status())


if __name__ == "__main__":
    unittest.main(verbosity=2)
