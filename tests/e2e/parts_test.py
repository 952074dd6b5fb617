# SPDX-License-Identifier: Apache-2.0
"""Models in parts and costs of models in actor-shell. Run by CTest with the Python of
Debian only."""

import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from processes import call, eventually
from three_nodes import MILLRACE, ThreeNodes


class Parts(ThreeNodes):
    more_models = "  - {model: relay, parts: 2, device: cpu}\n"

    def setUp(self):
        super().setUp()
        self.assertTrue(eventually(lambda: self.model("relay")["ready"] == 1, 40))

    def test_pipelines_draws_the_parts_and_explain_tells_of_each(self):
        self.assertEqual(self.infer("--model", "relay", "--trace", "one").returncode, 0)
        drawn = self.shell("pipelines").stdout
        self.assertRegex(drawn, r"relay\.1 at front: 0 of \d+ requests wait")
        self.assertRegex(drawn, r"(?s)layers 0 to \d of 6.*relay\.1\.\d+ +w1/cpu0.*"
                                r"layers \d to 5 of 6.*relay\.1\.\d+ +w1/cpu0.*answers")
        self.assertNotIn("affine", drawn)  # a whole model
        stages = self.ask("pipelines", "relay")["pipelines"][0]["stages"]
        self.assertEqual([x["layers"]["first"] for x in stages], [0, 3])
        told = self.shell("explain", "one").stdout
        for x in stages:
            self.assertIn(x["replicas"][0]["replica"], told)
        answer = self.shell("pipelines", "none")
        self.assertEqual(answer.returncode, 1)
        self.assertIn("none", answer.stderr)

    def test_what_a_model_costs_is_measured_and_goes_from_one_cluster_to_another(self):
        answer = self.shell("measure", "relay", "-", "1", "0.5")
        self.assertEqual(answer.returncode, 0, answer.stderr)
        self.assertRegex(answer.stdout, r"relay +slow +6 [0-9a-f]{8} +\d.*w2/emu")
        measured = self.ask("profiles", "relay")["profiles"]
        self.assertEqual(len(measured), 1)
        self.assertNotEqual(measured[0]["layers"], "")
        self.assertIn("1 to", self.shell("plans", "relay", "2").stdout)
        file = pathlib.Path(self.folder.name, "relay.yaml")
        self.assertIn("1 profile of 1 model",
                      self.shell("export-profiles", str(file), "relay").stdout)
        self.assertEqual(self.shell("--yes", "forget-profiles", "relay").returncode, 0)
        self.assertEqual(self.ask("profiles", "relay")["profiles"], [])
        self.assertEqual(self.shell("export-profiles", str(file), "relay").returncode, 1)
        self.assertEqual(self.shell("import-profiles", str(file)).returncode, 0)
        self.assertEqual(self.ask("profiles", "relay")["profiles"], measured)
        planned = call(MILLRACE, "model", "cuts", "relay", "--profiles", str(file),
                       "--requests", "1..10", "--devices", "2")
        self.assertEqual(planned.returncode, 0, planned.stderr)

    def test_what_cannot_be_measured(self):
        for words, says, code in (
                (["none"], "none", 1), (["relay", "v100"], "v100", 1),
                (["relay", "-", "0"], "for the free axes", 2),
                (["relay", "-", "1", "x"], "expected a number X from 0 on", 2)):
            answer = self.shell("measure", *words)
            self.assertEqual(answer.returncode, code, words)
            self.assertIn(says, answer.stderr)


if __name__ == "__main__":
    unittest.main(verbosity=2)
