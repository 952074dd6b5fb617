# SPDX-License-Identifier: Apache-2.0
"""Tests the files that `cmake --install` installs. Run by CTest."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import unittest

BUILD, BUNDLES = pathlib.Path(sys.argv.pop(1)), sys.argv.pop(1)
EXAMPLE = pathlib.Path(__file__).parent / "installed"
SOURCE = pathlib.Path(__file__).parent.parent.parent

CONFIG = """
cluster: installed
nodes:
  all:
    roles: [gateway, controller, worker]
    peers: ipc://{folder}/peers
    clients: ipc://{folder}/clients
    operators: ipc://{folder}/operators
    models: {bundles}
models:
  - {{model: identity}}
"""


def run(*words, **more):
    return subprocess.run(
        [str(x) for x in words], check=True, capture_output=True, text=True, timeout=120, **more)


class Installed(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = tempfile.TemporaryDirectory()
        cls.folder = pathlib.Path(cls.scratch.name)
        cls.prefix = cls.folder / "prefix"
        run("cmake", "--install", BUILD, "--prefix", cls.prefix)
        (cls.folder / "c.yaml").write_text(CONFIG.format(folder=cls.folder, bundles=BUNDLES))

    @classmethod
    def tearDownClass(cls):
        cls.scratch.cleanup()

    def test_a_node_tells_its_service_manager_how_it_is(self):
        """The node also serves an external client program."""
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(self.folder / "notify"))
            manager.settimeout(30)
            node = subprocess.Popen(
                [self.prefix / "bin/millrace", "node", "--config", self.folder / "c.yaml"],
                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.folder,
                env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify")})
            try:
                self.assertIn(b"READY=1", manager.recv(4096))
                self.use()
                node.send_signal(signal.SIGTERM)
                said = manager.recv(4096)
                self.assertIn(b"STOPPING=1", said)
                self.assertIn(b"STATUS=draining", said)
                self.assertEqual(node.wait(30), 0)
            finally:
                node.kill()
                node.wait()

    def use(self):
        shell = [self.prefix / "bin/actor-shell", "--node", f"ipc://{self.folder}/operators"]
        for _ in range(100):
            if re.search(r"identity +default +1 +1", run(*shell, "models").stdout):
                break
        work = self.folder / "work"
        run("cmake", "-S", EXAMPLE, "-B", work, f"-DCMAKE_PREFIX_PATH={self.prefix}")
        run("cmake", "--build", work)
        answer = run(work / "ask", f"ipc://{self.folder}/clients", "identity")
        self.assertEqual(answer.stdout, "ok 1\n")

    def test_there_are_manuals_and_completion(self):
        for program in ("millrace", "actor-shell"):
            page = (self.prefix / f"share/man/man1/{program}.1").read_text()
            for heading in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS"):
                self.assertIn(f".SH {heading}\n", page)
            script = self.prefix / f"share/bash-completion/completions/{program}"
            run("bash", "-n", script)

    def test_what_an_operator_reads_is_there(self):
        pages = self.prefix / "share/doc/millrace"
        for name in ("config/OPERATING", "config/REFERENCE", "config/KEYS", "README"):
            self.assertTrue((pages / f"{name}.md").read_text())

    def test_links_of_installed_pages_lead_to_installed_pages(self):
        pages = self.prefix / "share/doc/millrace"
        found = 0
        for page in pages.rglob("*.md"):
            for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", page.read_text()):
                if "://" not in link:
                    found += 1
                    self.assertTrue((page.parent / link).exists(), f"{page}: {link}")
        self.assertGreater(found, 15)

    def test_a_purge_removes_the_configuration_and_a_removal_does_not(self):
        keys = self.folder / "root/etc/millrace/keys"
        keys.mkdir(parents=True)
        (keys / "alpha.key").write_text("secret")
        script = SOURCE / "config/deploy/postrm"
        root = {**os.environ, "DPKG_ROOT": str(self.folder / "root")}
        run(script, "remove", env=root)
        self.assertTrue((keys / "alpha.key").exists())
        run(script, "purge", env=root)
        self.assertFalse(keys.parent.exists())

    def complete(self, program, *words):
        script = self.prefix / f"share/bash-completion/completions/{program}"
        quoted = " ".join(f"'{x}'" for x in (program, *words))
        function = "_" + program.replace("-", "_")
        return run("bash", "-c", f"source {script}; COMP_WORDS=({quoted});"
                   f" COMP_CWORD={len(words)}; {function}; echo ${{COMPREPLY[@]}}").stdout.split()

    def test_completion_knows_verbs_commands_and_options(self):
        self.assertEqual(self.complete("millrace", "sim"), ["simulate"])
        self.assertEqual(self.complete("millrace", "model", "imp"), ["import"])
        self.assertEqual(self.complete("millrace", "model", "import", "--labels", "x", "--batch"),
                         ["--batch-axis"])
        self.assertEqual(self.complete("actor-shell", "--json", "repl"), ["replicas"])

    def test_the_unit_file_is_one(self):
        unit = self.prefix / "lib/systemd/system/millrace@.service"
        lines = unit.read_text().splitlines()
        self.assertIn("Type=notify", lines)
        # Workers open a GPU if present, but no other device.
        self.assertIn("DevicePolicy=closed", lines)
        self.assertEqual([x for x in lines if x.startswith("DeviceAllow=")],
                         ["DeviceAllow=char-nvidia* rw"])
        self.assertNotIn("PrivateDevices=yes", lines)


if __name__ == "__main__":
    unittest.main(verbosity=2)
