# SPDX-License-Identifier: Apache-2.0
"""The Python client and the HTTP endpoint of a running node; run by CTest."""

import asyncio
import contextlib
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.request

import msgpack
import numpy
import zmq

import millrace

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))
from processes import eventually, free_port

PROGRAM, BUNDLES = sys.argv.pop(1), sys.argv.pop(1)

CONFIG = """
cluster: python
nodes:
  all:
    roles: [gateway, controller, worker]
    peers: ipc://{folder}/peers
    clients: ipc://{folder}/clients
    operators: ipc://{folder}/operators
    http: 127.0.0.1:0
    models: {bundles}
models:
  - {{model: affine}}
  - {{model: identity}}
  - {{model: picky}}
"""


class PythonClient(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        config = pathlib.Path(cls.folder.name) / "cluster.yaml"
        config.write_text(CONFIG.format(folder=cls.folder.name, bundles=BUNDLES))
        cls.node = subprocess.Popen(
            [PROGRAM, "node", "--config", str(config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        cls.port = re.search(r"http port (\d+)", cls.node.stdout.readline()).group(1)
        cls.client = millrace.Client(f"ipc://{cls.folder.name}/clients", 20)
        until = time.monotonic() + 30
        while len(cls.models()) < 3:
            if time.monotonic() > until:
                raise RuntimeError("the models were not ready in time")
            time.sleep(0.1)

    @classmethod
    def models(cls):
        try:
            return cls.client.models()
        except millrace.Unavailable:
            return []

    @classmethod
    def tearDownClass(cls):
        cls.client.close()
        cls.node.send_signal(signal.SIGTERM)
        cls.node.wait(20)
        cls.node.stdout.close()
        cls.folder.cleanup()

    def test_an_array_goes_in_and_an_array_comes_out(self):
        x = numpy.arange(8, dtype=numpy.float32).reshape(2, 4)
        answer = self.client.infer("affine", x)
        numpy.testing.assert_allclose(answer["y"], [[24, 58], [48, 146]])
        self.assertEqual((answer.model, answer.version), ("affine", 1))
        self.assertGreater(answer.total, 0)

    def test_inputs_may_be_named_or_listed(self):
        x = numpy.ones((1, 4), numpy.float32)
        for inputs in ({"x": x}, [x], x):
            self.assertEqual(self.client.infer("affine", inputs)["y"].shape, (1, 2))

    def test_many_requests_are_open_at_once_and_each_gets_its_own_answer(self):
        rows = numpy.arange(400, dtype=numpy.float32).reshape(100, 1, 4)
        numbers = [self.client.submit("identity", row) for row in rows]
        for number, row in reversed(list(zip(numbers, rows))):
            (output,) = self.client.result(number).outputs.values()
            numpy.testing.assert_array_equal(output, row)

    def test_a_large_tensor_survives(self):
        x = numpy.random.default_rng(1).random((200_000, 4), numpy.float32)
        (output,) = self.client.infer("identity", x).outputs.values()
        numpy.testing.assert_array_equal(output, x)

    def test_what_goes_wrong_has_a_type_and_says_why(self):
        x = numpy.ones((1, 5), numpy.float32)
        with self.assertRaisesRegex(millrace.BadRequest, r"expected x:F32\[-1, 4\]"):
            self.client.infer("affine", x)
        with self.assertRaises(millrace.UnknownModel):
            self.client.infer("nothing", x)
        with self.assertRaises(millrace.DeadlineExceeded):
            self.client.infer("affine", x[:, :4], deadline=0)
        with self.assertRaisesRegex(millrace.InternalError, "a number above 100"):
            self.client.infer("picky", 1000 * x[:, :4])
        with self.assertRaisesRegex(millrace.BadRequest, "dtype complex64"):
            self.client.infer("affine", x.astype(numpy.complex64))

    def test_what_makes_no_sense_is_refused_before_it_is_sent(self):
        x = numpy.ones((1, 4), numpy.float32)
        for wish in ({"priority": 2**31}, {"deadline": float("nan")}, {"deadline": -1},
                     {"latency": float("inf")}):
            with self.subTest(wish), self.assertRaises(millrace.BadRequest):
                self.client.infer("affine", x, **wish)
        too_long = numpy.broadcast_to(numpy.float32(0), ((1 << 26) + 1,))
        with self.assertRaisesRegex(millrace.TooLarge, "268435460 bytes, at most"):
            self.client.infer("affine", too_long)
        with self.assertRaisesRegex(ValueError, "expected an address like"):
            millrace.Client("nowhere")
        with self.assertRaises(KeyError):
            self.client.result(12345)

    def test_a_closed_client_says_so(self):
        client = millrace.Client(f"ipc://{self.folder.name}/clients")
        client.close()
        with self.assertRaisesRegex(millrace.Unavailable, "closed"):
            client.models()

    def test_bfloat16_comes_back_as_float32(self):
        data = numpy.array([0x3F80, 0xC000], numpy.uint16)
        numpy.testing.assert_array_equal(
            millrace.wire._array_of(data.tobytes(), "BF16"), [1, -2])

    def test_the_models_say_what_they_take(self):
        by_name = {m.model: m for m in self.client.models()}
        self.assertEqual(by_name["affine"].inputs[0]["extents"], [-1, 4])

    def get(self, page):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{page}") as answer:
            return answer.read().decode()

    def test_probes_say_how_the_node_is(self):
        self.assertEqual(self.get("/livez"), "alive\n")
        self.assertEqual(self.get("/readyz"), "ready\n")
        with self.assertRaisesRegex(urllib.error.HTTPError, "404"):
            self.get("/other")

    def test_metrics_are_as_prometheus_wants_them(self):
        self.client.infer("identity", numpy.zeros((1, 4), numpy.float32))
        text = self.get("/metrics")
        self.assertRegex(
            text, r'millrace_request_seconds_count\{model="identity",phase="total"\}'
        )
        self.assertIsNotNone(shutil.which("promtool"), "promtool is not installed")
        check = subprocess.run(
            ["promtool", "check", "metrics"], input=text, text=True, capture_output=True
        )
        self.assertEqual((check.returncode, check.stderr), (0, ""))

    def test_nobody_there_is_unavailable(self):
        with self.assertRaises(millrace.Unavailable):
            millrace.Client("ipc:///tmp/nobody-listens-here", connect_timeout=0.2)


class AsyncPythonClient(unittest.IsolatedAsyncioTestCase):
    """Against the node of PythonClient."""

    @classmethod
    def setUpClass(cls):
        PythonClient.setUpClass()
        cls.address = f"ipc://{PythonClient.folder.name}/clients"

    @classmethod
    def tearDownClass(cls):
        PythonClient.tearDownClass()

    async def test_a_thousand_tasks_each_get_their_own_answer(self):
        rows = numpy.arange(4000, dtype=numpy.float32).reshape(1000, 1, 4)
        async with millrace.AsyncClient(self.address) as client:
            answers = await asyncio.gather(*(client.infer("identity", x) for x in rows))
        for answer, row in zip(answers, rows):
            (output,) = answer.outputs.values()
            numpy.testing.assert_array_equal(output, row)

    async def test_what_goes_wrong_has_a_type(self):
        x = numpy.ones((1, 4), numpy.float32)
        async with millrace.AsyncClient(self.address) as client:
            with self.assertRaises(millrace.UnknownModel):
                await client.infer("nothing", x)
            with self.assertRaises(millrace.DeadlineExceeded):
                await client.infer("affine", x, deadline=0)
            with self.assertRaises(millrace.BadRequest):
                await client.infer("affine", x, priority=2**31)
            self.assertEqual(len(await client.models()), 3)
        with self.assertRaisesRegex(millrace.Unavailable, "not connected"):
            await client.infer("affine", x)

    async def test_nobody_there_is_unavailable(self):
        with self.assertRaises(millrace.Unavailable):
            await millrace.AsyncClient("ipc:///tmp/nobody-listens-here", 0.2).connect()
        with self.assertRaises(ValueError):
            await millrace.AsyncClient("nowhere").connect()


class AsyncPythonClientAlone(unittest.IsolatedAsyncioTestCase):
    async def test_a_task_that_is_cancelled_cancels_its_request(self):
        with zmq.Context() as context, context.socket(zmq.ROUTER) as gateway:
            gateway.bind("tcp://127.0.0.1:*")
            async with millrace.AsyncClient(gateway.last_endpoint.decode()) as client:
                task = asyncio.ensure_future(client.infer("m", numpy.zeros((1, 4), "f4")))
                await asyncio.sleep(0.2)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                kinds = []
                for _ in range(2):
                    self.assertTrue(gateway.poll(5000))
                    kinds.append(gateway.recv_multipart()[1])
                self.assertIn(b"infer", kinds[0])
                self.assertIn(b"cancel", kinds[1])

    async def test_what_was_on_a_lost_connection_is_unavailable_at_once(self):
        with zmq.Context() as context:
            gateway = context.socket(zmq.ROUTER)
            gateway.bind("tcp://127.0.0.1:*")
            async with millrace.AsyncClient(gateway.last_endpoint.decode()) as client:
                task = asyncio.ensure_future(client.infer("m", numpy.zeros((1, 4), "f4"), 60))
                await asyncio.sleep(0.2)
                gateway.close(linger=0)
                with self.assertRaisesRegex(millrace.Unavailable, "was lost"):
                    await asyncio.wait_for(task, 10)


def answer_as_cancelled(gateway):
    """Waits for a request, and answers as if it had been cancelled."""
    connection, first, *_ = gateway.recv_multipart()
    maps = msgpack.Unpacker()
    maps.feed(first)
    number = maps.unpack()["id"]
    answer = {"t": "infer_reply", "id": number}, {"status": "cancelled"}
    gateway.send_multipart([connection, b"".join(map(msgpack.packb, answer))])


def is_bound(socket, address):
    """Another socket that had the address may take a moment to go."""
    try:
        return socket.bind(address) or True
    except zmq.ZMQError:
        return False


@contextlib.contextmanager
def restarted_gateway():
    """Its address, and what starts it again and waits for a client to be back,
    which has not looked what befell it meanwhile."""
    with zmq.Context() as context:
        sockets = []

        def start(address):
            sockets.append(context.socket(zmq.ROUTER))
            sockets[-1].rcvtimeo = 10_000
            eventually(lambda: is_bound(sockets[-1], address))
            return sockets[-1]

        def stop():
            sockets[-1].close(linger=0)

        address = start("tcp://127.0.0.1:*").last_endpoint.decode()

        def restart(client):
            stop()
            time.sleep(0.1)  # until the client's socket knows
            start(address)
            client._socket.poll(10_000, zmq.POLLOUT)
            return sockets[-1]

        yield address, restart
        stop()


@contextlib.contextmanager
def cut_off(seconds):
    """Where connections are ended as soon as they are made, and then a gateway
    listens."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as gateway:
        port = free_port()

        def run():
            with socket.create_server(("127.0.0.1", port)) as listener:
                listener.settimeout(seconds)
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    with contextlib.suppress(TimeoutError):
                        listener.accept()[0].close()
            gateway.bind(f"tcp://127.0.0.1:{port}")

        thread = threading.Thread(target=run)
        thread.start()
        yield f"tcp://127.0.0.1:{port}"
        thread.join()


class PythonClientAlone(unittest.TestCase):
    def test_who_comes_back_before_a_request_loses_nothing(self):
        with restarted_gateway() as (address, restart):
            with millrace.Client(address) as client:
                gateway = restart(client)
                number = client.submit("m", numpy.zeros((1, 4), "f4"), 60)
                answer_as_cancelled(gateway)
                with self.assertRaises(millrace.Cancelled):
                    client.result(number)

    def test_who_comes_back_before_a_request_loses_nothing_in_asyncio(self):
        async def run():
            async with millrace.AsyncClient(address) as client:
                gateway = restart(client)  # the loop sees nothing of it
                task = asyncio.ensure_future(client.infer("m", numpy.zeros((1, 4), "f4"), 60))
                await asyncio.sleep(0.2)
                answer_as_cancelled(gateway)
                with self.assertRaises(millrace.Cancelled):
                    await task

        with restarted_gateway() as (address, restart):
            asyncio.run(run())

    def test_who_is_cut_off_comes_again(self):
        async def run(address):
            await (await millrace.AsyncClient(address, 20).connect()).close()

        with cut_off(0.5) as address:
            millrace.Client(address, 20).close()
        with cut_off(0.5) as address:
            asyncio.run(run(address))

    def test_what_was_on_a_lost_connection_is_unavailable_at_once(self):
        context = zmq.Context()
        gateway = context.socket(zmq.ROUTER)
        gateway.bind("tcp://127.0.0.1:*")
        address = gateway.last_endpoint.decode()
        with millrace.Client(address) as client:
            first = client.submit("m", numpy.zeros((1, 4), "f4"), 60)
            second = client.submit("m", numpy.zeros((1, 4), "f4"), 60)
            gateway.recv_multipart()
            begin = time.monotonic()
            gateway.close(linger=0)
            for number in (second, first):
                with self.assertRaisesRegex(millrace.Unavailable, "was lost"):
                    client.result(number)
            self.assertLess(time.monotonic() - begin, 30)
        context.term()


class PythonClientWithKeys(unittest.TestCase):
    def setUp(self):
        self.scratch = tempfile.TemporaryDirectory()
        self.addCleanup(self.scratch.cleanup)
        folder = pathlib.Path(self.scratch.name)
        self.folder, self.address = folder / "keys", f"ipc://{folder}/clients"
        for name, role in (("all", "controller"), ("app", "client"), ("ops", "operator")):
            self.keys("new", name, "--role", role)
        self.config = folder / "cluster.yaml"
        self.config.write_text("keys: keys" + CONFIG.format(folder=folder, bundles=BUNDLES))
        self.start()
        self.addCleanup(self.stop)

    def keys(self, verb, *words):
        subprocess.run(
            [PROGRAM, "keys", verb, self.folder, *words], check=True, stdout=subprocess.DEVNULL
        )

    def key(self, name):
        return self.folder / f"{name}.key"

    def start(self):
        self.node = subprocess.Popen(
            [PROGRAM, "node", "--config", str(self.config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.node.stdout.readline()

    def stop(self):
        self.node.send_signal(signal.SIGTERM)
        self.node.wait()
        self.node.stdout.close()

    def suspend(self):
        """The key that is there now, and who comes with it is refused."""
        self.keys("suspend", "app")
        self.stop()
        self.start()

    def test_a_key_lets_in_and_none_does_not(self):
        with millrace.Client(self.address, 20, key=self.key("app")) as client:
            self.assertIsInstance(client.models(), list)
        begin = time.monotonic()
        with self.assertRaisesRegex(millrace.Forbidden, "only who has a key"):
            millrace.Client(self.address, 3)
        with self.assertRaisesRegex(millrace.Forbidden, "another role's"):
            millrace.Client(self.address, 20, key=self.key("ops"))
        with self.assertRaisesRegex(millrace.Forbidden, "another role's"):
            asyncio.run(millrace.AsyncClient(self.address, 20, key=self.key("ops")).connect())
        self.assertLess(time.monotonic() - begin, 10)
        with self.assertRaises(ValueError):
            millrace.Client(self.address, 0.5, key=self.key("all"))
        with self.assertRaises(OSError):
            millrace.Client(self.address, 0.5, key=self.key("nobody"))

    def test_who_was_refused_comes_back_once_the_key_is_resumed(self):
        def is_answered():
            try:
                return isinstance(client.models(), list)
            except millrace.Unavailable:
                return False

        def is_refused():
            self.assertFalse(is_answered())
            return client._retry_at is not None

        with millrace.Client(self.address, 20, key=self.key("app")) as client:
            self.suspend()
            self.assertTrue(eventually(is_refused))
            self.keys("resume", "app")
            self.assertTrue(eventually(is_answered))

    def test_who_was_refused_comes_back_in_asyncio(self):
        async def is_answered(client):
            try:
                return isinstance(await client.models(), list)
            except millrace.Unavailable:
                return False

        async def eventually_is(holds):
            for _ in range(200):
                if await holds():
                    return True
                await asyncio.sleep(0.1)
            return False

        async def run():
            async with millrace.AsyncClient(self.address, 20, key=self.key("app")) as client:

                async def is_refused():
                    self.assertFalse(await is_answered(client))
                    return client._retry is not None

                self.suspend()
                self.assertTrue(await eventually_is(is_refused))
                self.keys("resume", "app")
                self.assertTrue(await eventually_is(lambda: is_answered(client)))

        asyncio.run(run())


if __name__ == "__main__":
    unittest.main(verbosity=2)
