#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""import_module_test.py MILLRACE: imports modules with tools/import-module."""

import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
TOOL = HERE.parent.parent / "tools/import-module"
MILLRACE = ""


class ImportModule(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.store = pathlib.Path(folder.name)

    def millrace(self, *words):
        return subprocess.run([MILLRACE, *words, "--store", self.store],
                              capture_output=True, text=True)

    def imported(self, module, *words, inputs=("x:F32:-1,4",), rest=()):
        if ":" not in module:
            module = "make_models:" + module
        command = [TOOL, module, "--name", "m",
                   "--millrace", MILLRACE]
        for x in inputs:
            command += ["--input", x]
        return subprocess.run(
            [*command, *words, "--", "--store", self.store, *rest],
            capture_output=True, text=True, cwd=HERE.parent / "support")

    def refusal(self, *words, **options):
        x = self.imported(*words, **options)
        self.assertEqual(x.returncode, 1, x.stderr)
        return x.stderr.splitlines()[-1]

    def layers_of(self, x):
        self.assertEqual(x.returncode, 0, x.stderr)
        verified = self.millrace("model", "verify", "m")
        self.assertEqual(verified.returncode, 0, verified.stderr)
        manifest = (self.store / "m/1/model.yaml").read_text()
        start = manifest.index("\nlayers:")
        return [line.split('"')[1] for line in manifest[start:].splitlines()
                if line.startswith("  - name:")]

    def test_a_module_is_traced_and_cut(self):
        x = self.imported("Residual", rest=["--layer-size", "0"])
        names = self.layers_of(x)
        self.assertEqual((names[0], names[-1], len(names)),
                         ("stem", "head", 14))

    def test_several_inputs_and_outputs(self):
        x = self.imported("Encoder", rest=["--layer-size", "0"],
                          inputs=["ids:I64:-1,-1", "mask:F32:-1,-1"])
        self.assertGreater(len(self.layers_of(x)), 5)

    def test_a_module_that_changes_itself_is_cut_by_a_layers_file(self):
        layers = self.store / "layers.yaml"
        layers.write_text("layers:\n"
                          "- {part: first, takes: x, gives: h}\n"
                          "- {part: [second], takes: h, name: last}\n")
        x = self.imported("Counting", "--layers", layers)
        self.assertEqual(self.layers_of(x), ["first", "last"])

    def test_errors_in_a_layers_file_are_named(self):
        layers = self.store / "layers.yaml"
        for text, says in (
                ("- {part: first, takes: y, gives: h}\n"
                 "- {part: second, takes: h}", "layer first takes 'y'"),
                ("- {part: third, takes: x}", "has no part 'third' (it has"),
                ("- {part: first, takes: x, gives: h}", "have no name here"),
                ("- {part: first, takes: x, as: h}", "'as' is not known"),
                ("- {part: first}", "layer 1: takes is missing"),
                ("- {part: first, takes: x, name: a b}", "'a b': expected a"),
                ("- {part: first, takes: x, name: forward}", "a member of every module"),
                ("- 3", "layer 1: expected keys of"),
                ("- {part: [], takes: x}", "part: expected a name"),
                ("- {part: 3, takes: x}", "part: expected a name"),
                ("- {part: first, takes: [1]}", "takes: expected a name"),
                ("- {part: first, takes: x, gives: h}\n"
                 "- {part: first, takes: h}", "another layer has the name 'first'"),
                ("", "expected a list of layers"),
                ("  first", "expected a list of layers")):
            layers.write_text("layers:\n" + text)
            self.assertIn(says, self.refusal("Counting", "--layers", layers))
        layers.write_text("layers: [{part: first, takes: x}]")
        self.assertIn("'x-1': expected a name of letters", self.refusal(
            "Counting", "--layers", layers, inputs=["x-1:F32:-1,4"]))
        self.assertIn("does not run on these inputs", self.refusal(
            "Counting", "--layers", layers, inputs=["x:F32:-1,5"]))
        says = self.refusal("Counting", "--layers", self.store / "nowhere")
        self.assertIn("nowhere: No such file", says)

    def test_invalid_weights_are_refused(self):
        file = self.store / "weights.pth"
        says = self.refusal("Affine", "--weights", file)
        self.assertIn("weights.pth: No such file", says)
        file.write_text("no weights")
        says = self.refusal("Affine", "--weights", file)
        self.assertIn("expected a state_dict written by torch.save", says)

    def test_layers_that_compute_something_else_are_refused(self):
        layers = self.store / "layers.yaml"
        for text, says in (
                ("- {part: first, takes: x}", "other values than the module"),
                ("- {part: first, takes: x, gives: [h, g]}\n"
                 "- {part: second, takes: h}", "first: expected 2 values"),
                ("- {part: blocks.0, takes: x}", "do not run one after the")):
            layers.write_text("layers:\n" + text)
            module = "Residual" if "blocks" in text else "Counting"
            self.assertIn(says, self.refusal(module, "--layers", layers))

    def test_a_forward_that_decides_by_its_inputs_is_not_traced(self):
        says = self.refusal("Deciding")
        self.assertIn("computes other values than the module", says)

    def test_a_random_forward_is_refused(self):
        self.assertIn("other values at each call", self.refusal("Dicing"))

    def test_code_that_cannot_be_compiled_is_refused(self):
        says = self.refusal("Opaque", "--script")
        self.assertIn("the module cannot be compiled: ", says)
        layers = self.store / "layers.yaml"
        layers.write_text("layers: [{part: inner, takes: x, script: true}]")
        says = self.refusal("Opaque", "--layers", layers)
        self.assertIn("layer inner cannot be compiled: ", says)

    def test_torchvisions_families_are_imported_as_they_are(self):
        for name, least, *more in (
                ("resnet18", 12), ("mobilenet_v2", 12),
                ("vgg11", 8, "--arg", "init_weights=false"),
                ("DenseNet", 12, "--arg", "block_config=[3, 3, 3]")):
            with self.subTest(name):
                x = self.imported("torchvision.models:" + name, *more,
                                  inputs=["image:F32:-1,3,64,64"])
                self.assertGreaterEqual(len(self.layers_of(x)), least)
                shutil.rmtree(self.store / "m")

    def test_numbers_that_a_trace_fixes_are_pointed_out(self):
        x = self.imported("Sized")
        self.assertIn("make_models.py:", x.stderr)
        self.assertIn("note:", x.stderr)

    def test_invalid_arguments_are_refused(self):
        for words, inputs, says in (
                (["Nothing"], ["x:F32:-1,4"], "has no attribute 'Nothing'"),
                (["Nested"], ["x:F32:-1,4"], "cannot be called with these arguments"),
                (["Affine"], ["x:float:-1,4"], "expected NAME:DTYPE:EXTENTS"),
                (["Affine"], ["x:F32:-1,5"], "cannot be traced: mat1 and mat2"),
                (["zipfile.ZipFile", "--arg", "file=nowhere"], ["x:F32:-1,4"],
                 "made no module: FileNotFoundError"),
                (["Affine", "--arg", "x"], ["x:F32:-1,4"], "KEY=VALUE")):
            self.assertIn(says, self.refusal(*words, inputs=inputs))


if __name__ == "__main__":
    MILLRACE = str(pathlib.Path(sys.argv.pop(1)).resolve())
    unittest.main()
