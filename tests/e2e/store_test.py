# SPDX-License-Identifier: Apache-2.0
"""The data of a node on disk, and `millrace store` on it. Run by CTest with the
Python of Debian only."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from processes import call, eventually, free_port

MILLRACE, SHELL = (sys.argv.pop(1) for _ in range(2))

CONFIG = """
nodes:
  one:
    roles: [gateway, controller]
    peers: ipc://{folder}/peers
    clients: ipc://{folder}/clients
    operators: ipc://{folder}/operators
    data: {folder}/data
"""


class Store(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.data = self.folder / "data"
        self.journal = self.data / "facts.journal"
        self.config = self.folder / "config.yaml"
        self.config.write_text(CONFIG.format(folder=folder.name))
        self.node = None
        self.addCleanup(self.kill)

    def start(self, *prefix):
        words = [*prefix, MILLRACE, "node", "--config", str(self.config)]
        self.node = subprocess.Popen(
            words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        until = time.monotonic() + 20
        while self.ask("nodes").returncode != 0:
            self.assertLess(time.monotonic(), until, "the node does not answer")
            time.sleep(0.05)

    def kill(self):
        if self.node is not None:
            self.node.kill()
            self.node.wait(10)
        self.node = None

    def ask(self, *words):
        return call(SHELL, "--node", f"ipc://{self.folder}/operators", *words)

    def register(self, *names):
        for name in names:
            x = self.ask("load", name, 1)
            self.assertEqual(x.returncode, 0, x.stderr)

    def store(self, *words, rc=0):
        x = call(MILLRACE, "store", *words)
        self.assertEqual(x.returncode, rc, x.stdout + x.stderr)
        return x

    def registered(self):
        rows = json.loads(self.store("list", self.data, "--json").stdout)
        return [x["key"] for x in rows if x["table"] == "models"]

    def flip(self, at):
        content = bytearray(self.journal.read_bytes())
        content[at] ^= 4
        self.journal.write_bytes(content)

    def test_P3_what_was_acknowledged_is_there_after_kill_9(self):
        self.start()
        for i in range(10):
            self.register(f"model-{i}")
            self.kill()
            self.assertEqual(self.registered(), [f"model-{k}" for k in range(i + 1)])
            self.start()
        self.assertEqual(json.loads(self.ask("models", "--json").stdout)["models"][3]
                         ["settings"]["model"], "model-3")

    def test_P18_a_full_disk_shows_until_there_is_room(self):
        port = free_port()
        self.config.write_text(CONFIG.format(folder=self.folder)
                               + f"    http: 127.0.0.1:{port}\n")
        self.data.mkdir()
        # In a chroot the root is no mount, so it cannot be made private.
        self.start("unshare", "-m", "--propagation", "unchanged", "sh", "-c",
                   "mount --make-rprivate / 2>/dev/null;"
                   f' mount -t tmpfs -o size=1m none {self.data} && exec "$@"', "sh")

        def page(name):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/{name}") as answer:
                return answer.read().decode()

        self.assertEqual(page("readyz"), "ready\n")
        filler = pathlib.Path(f"/proc/{self.node.pid}/root{self.data}/filler")
        with open(filler, "wb", buffering=0) as file, self.assertRaises(OSError):
            while True:
                file.write(bytes(4096))
        # The last page of the journal has space for some changes.
        taken = [f"model-{i}" for i in range(100)]
        for n, name in enumerate(taken):
            x = self.ask("load", name, 0)
            if x.returncode != 0:
                break
        taken[n:] = []
        self.assertIn("No space left on device", x.stderr)
        # Other files, written twice per second, may find space without clearing the error
        # of the journal.
        time.sleep(1.2)
        trouble = r"disk: .*/data/facts\.journal.*No space left on device"
        self.assertRegex(self.ask("status").stdout, "one: " + trouble)
        self.assertRegex(page("readyz"), "(?s)^ready\n.*trouble: " + trouble)
        refuses = f'millrace_disk_refuses{{folder="{self.data}",node="one"}}'
        self.assertIn(f"\n{refuses} 1\n", page("metrics"))
        x = self.ask("doctor")
        self.assertEqual(x.returncode, 1)
        self.assertRegex(x.stdout, "trouble: " + trouble)
        filler.unlink()
        self.assertTrue(eventually(lambda: page("readyz") == "ready\n"))
        self.assertIn(f"\n{refuses} 0\n", page("metrics"))
        self.register("with-room")
        self.assertEqual(
            [x["settings"]["model"]
             for x in json.loads(self.ask("models", "--json").stdout)["models"]],
            sorted([*taken, "with-room"]))

    def test_P6_nothing_is_acknowledged_before_it_is_synced(self):
        log = self.folder / "calls"
        self.start("strace", "-D", "-f", "-e", "trace=write,sendto,sendmsg,fsync,/rename",
                   "-y",
                   "-s", "400", "-o", log)
        self.register("one-model")
        self.kill()
        lines = log.read_text().splitlines()
        written = [i for i, x in enumerate(lines)
                   if "facts.journal" in x and "one-model" in x and "write(" in x]
        self.assertTrue(written, "the row was not written")
        synced = next(i for i, x in enumerate(lines)
                      if i > written[0] and re.search(r"fsync\(.*facts.journal", x))
        told = next(i for i, x in enumerate(lines)
                    if i > written[0] and re.search(r"send(to|msg)\(", x))
        self.assertLess(synced, told)
        # The rename of the file is also synced, so a loss of power keeps its name.
        named = next(i for i, x in enumerate(lines)
                     if re.search(r"rename.*facts\.journal", x))
        folder_synced = next(i for i, x in enumerate(lines)
                             if i > named and re.search(r"fsync\(\d+<[^>]*/data>\)", x))
        self.assertLess(folder_synced, written[0])

    @unittest.skipIf(os.geteuid() != 0, "root alone acts for others")
    def test_P6_what_root_restores_or_repairs_is_its_owners(self):
        self.start()
        self.register("first")
        backup = self.folder / "backup"
        self.store("backup", self.data, backup)
        self.kill()
        owner = 65534
        for x in (self.data, *self.data.iterdir()):
            os.chown(x, owner, owner)
        self.folder.chmod(0o755)
        self.store("restore", backup, self.data)
        self.store("repair", self.data)
        self.assertEqual({x.stat().st_uid for x in self.data.iterdir()}, {owner})

    def test_P6_a_damaged_journal_is_refused_and_can_be_mended(self):
        self.start()
        self.register("first", "second", "third")
        backup = self.folder / "backup"
        self.store("backup", self.data, backup)
        # No other process may write while the node uses the journal.
        x = self.store("restore", backup, self.data, rc=1)
        self.assertIn("another process uses it", x.stderr)
        self.kill()
        self.flip(self.journal.read_bytes().index(b"second"))
        x = self.store("check", self.data, rc=1)
        self.assertRegex(x.stdout, r"bytes \d+ to \d+ are damaged; the \d records")
        x = call(MILLRACE, "node", "--config", self.config)
        self.assertEqual(x.returncode, 78)
        self.assertRegex(x.stderr, r"facts.journal: bytes \d+ to \d+ are damaged")
        self.assertIn("millrace store re", x.stderr)
        x = self.store("backup", self.data, self.folder / "other", rc=1)
        self.assertIn("is not backed up", x.stderr)
        self.store("repair", self.data)
        self.assertEqual(self.registered(), ["first"])
        self.assertTrue((self.data / "facts.journal.damaged-1").exists())
        self.store("restore", backup, self.data)
        self.assertEqual(self.registered(), ["first", "second", "third"])
        # The previous file is a journal and not a backup.
        before = self.data / "facts.journal.before-restore-1"
        self.assertIn("--may-be-cut", self.store("restore", before, self.data, rc=1).stderr)
        self.store("restore", before, self.data, "--may-be-cut")
        self.assertEqual(self.registered(), ["first"])
        self.store("restore", backup, self.data)
        self.assertIn("already", self.store("backup", backup, self.folder / "x", rc=1).stderr)
        # A backup replaces neither an existing file nor a device.
        for there in (backup, "/dev/full"):
            self.assertIn("expected a new file",
                          self.store("backup", self.data, there, rc=1).stderr)
        self.start()

    def test_P6_a_backup_that_was_cut_anywhere_is_refused(self):
        self.start()
        self.register("first", "second", "third")
        backup = self.folder / "backup"
        self.store("backup", self.data, backup)
        self.kill()
        self.assertIn("whole", self.store("check", backup).stdout)
        content = backup.read_bytes()
        starts = [m.start() for m in re.finditer(b"MRJ1", content)]
        self.assertEqual(len(starts), 6)  # schema, counter, rows, end
        before = self.journal.read_bytes()
        for n in [*starts[1:], starts[-1] - 3, len(content) - 1]:
            with self.subTest(n):
                backup.write_bytes(content[:n])
                self.store("check", backup, rc=1)
                self.store("restore", backup, self.data, rc=1)
        self.assertEqual(self.journal.read_bytes(), before)
        # With --may-be-cut its complete records are restored.
        backup.write_bytes(content[:starts[4] + 7])
        self.assertIn("--may-be-cut", self.store("restore", backup, self.data, rc=1).stderr)
        self.store("restore", backup, self.data, "--may-be-cut")
        self.assertEqual(self.registered(), ["first", "second"])

    def test_P6_what_power_tore_off_is_dropped(self):
        self.start()
        self.register("first", "second")
        self.kill()
        with open(self.journal, "r+b") as file:
            file.truncate(self.journal.stat().st_size - 5)
        x = self.store("check", self.data)
        self.assertIn("power failure", x.stdout)
        self.start()
        self.assertEqual(self.registered(), ["first"])
        self.store("check", self.data)

    def test_wrong_calls_say_what_was_expected(self):
        for words, says in [
            (("check", self.folder / "nowhere"), "nowhere"),
            (("check", self.config), "is not a fact journal"),
            (("restore", self.config, self.data), "is not a fact journal"),
            (("repair", self.data), "data: cannot open"),
        ]:
            with self.subTest(words):
                self.assertIn(says, self.store(*words, rc=1).stderr)
        self.assertEqual(call(MILLRACE, "store").returncode, 2)
        self.assertFalse(self.data.exists(), "nothing was made")


if __name__ == "__main__":
    unittest.main(verbosity=0)
