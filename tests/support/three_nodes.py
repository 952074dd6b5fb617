# SPDX-License-Identifier: Apache-2.0
"""Three real nodes for Python tests. The first arguments of a test are the paths of
millrace, actor-shell and a folder of bundles."""

import fcntl
import json
import os
import pathlib
import pty
import select
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
import unittest

from processes import call, eventually

MILLRACE, SHELL, BUNDLES = (sys.argv.pop(1) for _ in range(3))

CONFIG = """
cluster: tools
seeds: ["ipc://{folder}/front.peers"]
link: {{timeout: 3s}}
nodes:
  front:
    roles: [gateway, controller]
    peers: ipc://{folder}/front.peers
    clients: ipc://{folder}/clients
    operators: ipc://{folder}/operators
  w1:
    roles: [worker]
    host: "w1 of {folder}"
    peers: ipc://{folder}/w1.peers
    models: {bundles}
  w2:
    roles: [worker]
    host: "w2 of {folder}"
    peers: ipc://{folder}/w2.peers
    models: {bundles_of_w2}
    devices: [{{type: emulated, kind: slow, lanes: 2}}]
{more_of_w2}models:
  - {{model: affine, device: cpu}}
"""


class ThreeNodes(unittest.TestCase):
    """Nodes front, w1 and w2 for all tests. Each test begins when all are ready."""

    more_models = ""  # lines of the config
    bundles = BUNDLES  # of the workers
    bundles_of_w2 = None  # if different
    more_of_w2 = ""  # lines of its config
    within = {}  # by node: words of a program that wraps the node

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.config = pathlib.Path(cls.folder.name) / "cluster.yaml"
        cls.config.write_text(CONFIG.format(
            folder=cls.folder.name, bundles=cls.bundles,
            bundles_of_w2=cls.bundles_of_w2 or cls.bundles,
            more_of_w2=cls.more_of_w2) + cls.more_models)
        cls.nodes = {name: cls.start(name) for name in ("front", "w1", "w2")}

    @classmethod
    def start(cls, name):
        with cls.log_file(name).open("ab") as log:
            return subprocess.Popen(
                [*cls.within.get(name, []), MILLRACE, "node", "--config",
                 str(cls.config), "--node", name],
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    @classmethod
    def log_file(cls, name):
        return pathlib.Path(cls.folder.name, name + ".log")

    @classmethod
    def log(cls, name):
        return cls.log_file(name).read_text()

    @classmethod
    def tearDownClass(cls):
        for node in cls.nodes.values():
            node.send_signal(signal.SIGCONT)
            node.kill()
            node.wait(10)
        cls.folder.cleanup()

    def setUp(self):
        self.assertTrue(eventually(lambda: self.model("affine")["ready"] == 1, 40))
        self.assertTrue(eventually(lambda: len(self.ask("nodes")["nodes"]) == 3))

    def shell(self, *words, text=None):
        address = f"ipc://{self.folder.name}/operators"
        return call(SHELL, "--node", address, *words, text=text)

    def infer(self, *words):
        """Sends one request of two rows to a model with four numbers per row."""
        path = pathlib.Path(self.folder.name, "x.npy")
        if not path.exists():
            header = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4), }"
            header += " " * (117 - len(header)) + "\n"
            path.write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little")
                             + header.encode() + bytes(32))
        return call(MILLRACE, "infer", "--gateway", f"ipc://{self.folder.name}/clients",
                    "--input", str(path), *words)

    def ask(self, *words):
        answer = self.shell("--json", *words)
        self.assertEqual(answer.returncode, 0, answer.stderr + answer.stdout)
        return json.loads(answer.stdout)

    def model(self, name):
        answer = self.shell("--json", "models")
        if answer.returncode != 0:
            return {"ready": 0}
        found = [m for m in json.loads(answer.stdout)["models"]
                 if m["settings"]["model"] == name]
        return found[0] if found else {"ready": 0}


class Terminal:
    """A program at a terminal of 80 columns, and its output."""

    def __init__(self, test, words, home, rows=24):
        self.test = test
        self.seen = b""
        self.pid, self.file = pty.fork()
        if self.pid == 0:
            os.environ.update(HOME=home, TERM="xterm")
            os.execv(words[0], words)
        fcntl.ioctl(self.file, termios.TIOCSWINSZ, struct.pack("HHHH", rows, 80, 0, 0))

    def until(self, text, seconds=10):
        """Reads until the output contains the text. Returns and drops the part before."""
        end = time.monotonic() + seconds
        while text not in self.seen and time.monotonic() < end:
            if select.select([self.file], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.file, 65536)
                except OSError:
                    break
        self.test.assertIn(text, self.seen)
        before, _, self.seen = self.seen.partition(text)
        return before.decode(errors="replace")

    def prompt(self):
        """Reads until the shell waits for a line. libedit prints the prompt slightly
        before that."""
        self.until(b"millrace> ")
        self.test.assertTrue(eventually(
            lambda: not termios.tcgetattr(self.file)[3] & termios.ECHO))

    def everything(self):
        """Returns the output until the program ends."""
        out = b""
        while True:
            try:
                out += os.read(self.file, 65536)
            except OSError:
                self.status()
                return out.decode()

    def type(self, text):
        os.write(self.file, text)

    def status(self):
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
