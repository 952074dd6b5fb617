# SPDX-License-Identifier: Apache-2.0
"""Real PyTorch models on a gateway and two workers, for faults that users of other
model servers report. Run by CTest."""

import collections
import json
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import typing
import unittest
import zipfile

import numpy
import torch
from torch import Tensor, nn

import millrace

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from processes import call, eventually, free_port

PROGRAM, SHELL = sys.argv.pop(1), sys.argv.pop(1)


class Big(nn.Module):
    """Returns 128 MiB per row of 16 bytes."""

    def forward(self, x: Tensor) -> Tensor:
        return x[:, :1, None].expand(-1, 4096, 8192).contiguous()


class Identity(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x


class First(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(3, 64, 1)

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(self.c(x))


class Second(nn.Module):
    def __init__(self):
        super().__init__()
        self.c = nn.Conv2d(64, 8, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.c(x).mean((2, 3))


class Normalise(nn.Module):
    """Rows depend on each other by a value."""

    def forward(self, x: Tensor) -> Tensor:
        if float(x.max()) > 1.0:
            x = x / 255.0
        return x.mean(1)


class Inverse(nn.Module):
    """Fails for zeros, the input of a warm-up."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.inv(x)


class AtMost8(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        if x.shape[0] > 8:
            raise RuntimeError("at most 8 rows")
        return x * 2


class Noise(nn.Module):
    """Draws random numbers."""

    def forward(self, x: Tensor) -> Tensor:
        return x + torch.randn_like(x)


class Phase(nn.Module):
    """Returns a tensor with the negation still pending in PyTorch."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.imag(torch.conj(torch.fft.fft(x)))[:, 1:2]


class Named(nn.Module):
    def forward(self, x: Tensor) -> typing.Dict[str, Tensor]:
        return {"classes": x.argmax(1), "halves": (x / 2).half()}


class Age(nn.Module):
    """Accepts numbers from 18 on."""

    def forward(self, age: Tensor) -> Tensor:
        if bool((age < 18).any()):
            raise ValueError("age below 18")
        return torch.log(age.float())


class Picky(nn.Module):
    """Accepts inputs that random numbers never match."""

    def forward(self, x: Tensor) -> Tensor:
        if bool((x[:, 0] != 12345).any()):
            raise ValueError("no such version")
        return x * 2


MODELS = {  # by name: module, inputs, and further options of the import
    "big": (Big(), ["x:F32:-1,4"], []),
    "id": (Identity(), ["x:F32:-1,4"], []),
    # 9 MiB per row between layers
    "wide": (nn.Sequential(First(), Second()), ["x:F32:-1,3,192,192"], ["--layer-size", "0"]),
    "normalise": (Normalise(), ["x:F32:-1,4"], []),
    "inverse": (Inverse(), ["x:F32:-1,3,3"], []),
    "at-most-8": (AtMost8(), ["x:F32:-1,4"], []),
    "noise": (Noise(), ["x:F32:-1,4"], []),
    "phase": (Phase(), ["x:F32:-1,4"], []),
    "named": (Named(), ["x:F32:-1,4"], []),
    "age": (Age(), ["age:I64:-1,1"], []),
    "picky": (Picky(), ["x:F32:-1,2"], ["--sample", "picky.npz"]),
}


def outcome_of(answer):
    return "ok" if not isinstance(answer, Exception) else type(answer).__name__


class RealModels(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.temporary.name)
        numpy.savez_compressed(cls.folder / "picky.npz", x=numpy.array([[12345, 1], [12345, 2]], "f4"))
        for name, (module, inputs, more) in MODELS.items():
            file = cls.folder / f"{name}.pt"
            torch.jit.script(module.eval()).save(str(file))
            done = cls.import_file(file, name, inputs,
                                   [cls.folder / x if x.endswith(".npz") else x for x in more])
            assert done.returncode == 0, done.stderr
        ports = [free_port() for _ in range(4)]
        cls.clients = f"tcp://127.0.0.1:{ports[1]}"
        text = f"cluster: real\nseeds: ['tcp://127.0.0.1:{ports[0]}']\nnodes:\n"
        text += (f"  front: {{roles: [gateway, controller], data: data/front, models: bundles,"
                 f" peers: 'tcp://127.0.0.1:{ports[0]}', clients: '{cls.clients}',"
                 f" operators: 'ipc://{cls.folder}/operators'}}\n")
        for i in range(2):
            text += (f"  w{i}: {{roles: [worker], data: data/w{i}, models: bundles,"
                     f" peers: 'tcp://127.0.0.1:{ports[2 + i]}', devices: [{{type: cpu, lanes: 1}}]}}\n")
        text += "models:\n" + "".join(
            f"  - {{model: {name}{', parts: 2' if name == 'wide' else ''}}}\n" for name in MODELS)
        (cls.folder / "cluster.yaml").write_text(text)
        cls.nodes = {}
        for name in ("front", "w0", "w1"):
            log = open(cls.folder / f"{name}.log", "w")
            cls.nodes[name] = subprocess.Popen(
                [PROGRAM, "node", "--config", cls.folder / "cluster.yaml", "--node", name],
                stdout=log, stderr=log, cwd=cls.folder)
        cls.client = millrace.Client(cls.clients, 20)
        assert eventually(cls.all_ready, 60), cls.logs()

    @classmethod
    def import_file(cls, file, name, inputs, more=()):
        words = [PROGRAM, "model", "import", file, "--name", name, "--store",
                 cls.folder / "bundles", *more]
        for x in inputs:
            words += ["--input", x]
        return call(*words)

    @classmethod
    def all_ready(cls):
        try:
            return len(cls.client.models()) == len(MODELS)
        except millrace.MillraceError:
            return False

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        for x in cls.nodes.values():
            x.send_signal(signal.SIGTERM)
        for x in cls.nodes.values():
            x.wait(20)
        cls.temporary.cleanup()

    @classmethod
    def logs(cls, *names):
        return "\n".join((cls.folder / f"{n}.log").read_text() for n in names or cls.nodes)

    def links_lost(self):
        return self.logs().count("bus.peer_down")

    def ask_all(self, model, inputs, deadline=20):
        ids = [self.client.submit(model, x, deadline=deadline) for x in inputs]
        out = []
        for i in ids:
            try:
                out.append(self.client.result(i))
            except millrace.MillraceError as e:
                out.append(e)
        return out

    def test_an_answer_over_the_limit_is_refused_alone(self):
        """One request of 384 MiB; other requests on the same links are not affected."""
        lost = self.links_lost()
        stop, others = False, collections.Counter()

        def ask_others():
            with millrace.Client(self.clients) as client:
                while not stop:
                    try:
                        client.infer("id", numpy.zeros((1, 4), "f4"), deadline=10, idempotent=False)
                        others["ok"] += 1
                    except millrace.MillraceError as e:
                        others[str(e)] += 1

        threads = [threading.Thread(target=ask_others) for _ in range(2)]
        for x in threads:
            x.start()
        with self.assertRaises(millrace.MillraceError) as refused:
            self.client.infer("big", numpy.ones((3, 4), "f4"), deadline=20)
        stop = True
        for x in threads:
            x.join()
        self.assertEqual(refused.exception.status, "too_large")
        self.assertIn("384", str(refused.exception))
        self.assertEqual(list(others), ["ok"])
        self.assertEqual(self.links_lost(), lost, self.logs())

    def test_batches_are_bounded_by_the_bytes_between_stages(self):
        """64 rows would be 576 MiB between the parts, so batches are smaller."""
        lost = self.links_lost()
        x = numpy.ones((1, 3, 192, 192), "f4")
        answers = self.ask_all("wide", [x] * 150, 60)
        self.assertEqual(collections.Counter(map(outcome_of, answers)), {"ok": 150})
        self.assertEqual(self.links_lost(), lost, self.logs())
        self.assertIn("router.batches_limited", self.logs())

    def test_each_request_has_an_answer_though_not_all_can_be_kept(self):
        answers = self.ask_all("big", [numpy.ones((1, 4), "f4")] * 5, 30)
        found = collections.Counter(map(outcome_of, answers))
        self.assertGreaterEqual(found["ok"], 1)
        for x in answers:
            if isinstance(x, Exception):
                self.assertEqual(x.status, "overloaded", str(x))

    def test_rows_are_no_matter_of_who_shares_the_batch(self):
        """Every 20th request would scale the outputs of others."""
        inputs = [numpy.full((1, 4), 200.0 if i % 20 == 0 else 0.5, "f4") for i in range(60)]
        for i, y in enumerate(self.ask_all("normalise", inputs)):
            self.assertNotIsInstance(y, Exception)
            self.assertAlmostEqual(float(y["output"][0]), 200 / 255 if i % 20 == 0 else 0.5, 2)

    def test_a_warm_up_that_fails_is_a_warning(self):
        """The warm-up of a full batch of zeros fails, because zeros have no inverse. The
        one row at import succeeds."""
        logs = self.logs("w0", "w1")
        self.assertGreaterEqual(logs.count("device.warm_up_failed model=at-most-8"), 1)
        self.assertEqual(logs.count("device.warm_up_failed model=inverse"), 0)
        x = numpy.eye(3, dtype="f4")[None] * 2
        self.assertAlmostEqual(float(self.client.infer("inverse", x)["output"][0, 0, 0]), 0.5)
        answers = self.ask_all("at-most-8", [numpy.ones((1, 4), "f4")] * 30)
        self.assertEqual(collections.Counter(map(outcome_of, answers)), {"ok": 30})

    def test_random_numbers_are_drawn_confined(self):
        x = numpy.zeros((1, 4), "f4")
        first, second = (self.client.infer("noise", x)["output"] for _ in range(2))
        self.assertFalse(numpy.array_equal(first, second))

    def test_what_is_yet_to_be_negated_is(self):
        x = numpy.arange(4, dtype="f4")[None]
        expected = float(Phase()(torch.from_numpy(x)))
        self.assertAlmostEqual(float(self.client.infer("phase", x)["output"][0, 0]), expected, 3)

    def test_outputs_have_the_names_of_a_dictionary_and_every_dtype_is_shown(self):
        numpy.save(self.folder / "x.npy", numpy.arange(8, dtype="f4").reshape(2, 4))
        words = [PROGRAM, "infer", "--gateway", self.clients, "--model", "named", "--input",
                 self.folder / "x.npy", "--output-file", self.folder / "y.npz"]
        shown = call(*words, "--json")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        classes, halves = json.loads(shown.stdout)["outputs"]
        self.assertEqual((classes["name"], classes["values"]), ("classes", [3, 3]))
        self.assertEqual((halves["name"], halves["values"][:3]), ("halves", [0, 0.5, 1]))
        self.assertIn("classes I64[2]: 3 3", call(*words).stdout)
        saved = numpy.load(self.folder / "y.npz")
        self.assertEqual(saved["classes"].tolist(), [3, 3])
        self.assertEqual(saved["halves"].dtype, numpy.float16)

    def test_models_with_conditions_on_their_inputs_are_served(self):
        self.assertAlmostEqual(
            float(self.client.infer("age", numpy.array([[30]]))["output"][0, 0]), 3.4012, 3)
        x = numpy.array([[12345, 4]], "f4")
        self.assertEqual(self.client.infer("picky", x)["output"].tolist(), [[24690, 8]])

    def test_a_sample_that_does_not_fit_is_refused_by_name(self):
        numpy.savez(self.folder / "other.npz", y=numpy.zeros((1, 2), "f4"))
        numpy.savez(self.folder / "long.npz", x=numpy.zeros((1, 3), "f4"))
        (self.folder / "none.npz").write_text("no archive")
        for file, text in (("other.npz", "expected an array of that name"), ("long.npz", "x:F32[1, 3]"),
                           ("none.npz", "expected a file of numpy.savez")):
            done = self.import_file(self.folder / "picky.pt", "misfit", ["x:F32:-1,2"],
                                    ["--sample", self.folder / file])
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(text, done.stderr)

    def test_a_model_that_keeps_state_is_refused_by_its_attribute(self):
        class Counting(nn.Module):
            def __init__(self):
                super().__init__()
                self.n = 0

            def forward(self, x: Tensor) -> Tensor:
                self.n += 1
                return x.sum(1) + self.n

        torch.jit.script(Counting()).save(str(self.folder / "counting.pt"))
        done = self.import_file(self.folder / "counting.pt", "counting", ["x:F32:-1,4"])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("attribute 'n'", done.stderr)

    def test_an_operator_of_a_newer_pytorch_is_named(self):
        new = self.folder / "new.pt"
        with zipfile.ZipFile(self.folder / "id.pt") as old, zipfile.ZipFile(new, "w") as out:
            for name in old.namelist():
                text = old.read(name)
                if name.endswith(".py"):
                    text = text.replace(b"return x", b"return torch.newest(x)")
                out.writestr(name, text)
        done = self.import_file(new, "new", ["x:F32:-1,4"])
        self.assertIn("aten::newest", done.stderr)
        self.assertIn("was made by a newer PyTorch: LibTorch", done.stderr)


if __name__ == "__main__":
    unittest.main()
