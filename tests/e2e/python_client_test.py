# SPDX-License-Identifier: Apache-2.0
"""Tests both Python clients with one table of behaviours. Run by CTest.

Below, each row is a function that is run with either client. BEHAVIOURS, at the end, is
the table: name, action, expectation, and the C++ test of the same behaviour."""

import contextlib
import dataclasses
import pathlib
import re
import shutil
import subprocess
import sys
import threading
import time
import typing
import unittest
import urllib.error
import urllib.request

import millrace
import numpy
import zmq

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "support"))
from processes import eventually
from python_client_fixtures import CLIENTS, ForgetfulProxy, Gateway, Node, cut_off

PROGRAM, BUNDLES = sys.argv.pop(1), sys.argv.pop(1)
ROW = numpy.ones((1, 4), numpy.float32)
CHUNK = numpy.zeros((64, 256), numpy.float32)  # 64 KiB: over 1000 fill the send buffer
FILL = 1400


def outcome(client, request):
    """"ok", or the text of the error."""
    try:
        client.result(request)
        return "ok"
    except millrace.MillraceError as error:
        return str(error)


def only_output(answer):
    (output,) = answer.outputs.values()
    return output


def without_axes(test, connect):
    with Gateway() as gateway, connect(gateway.address) as client:
        for scalar in (numpy.array(3, "f4"), 3.0, numpy.float32(3)):
            output = only_output(client.infer("m", {"t": scalar}))
            test.assertEqual((output.shape, output), ((), 3))
        test.assertEqual([body["inputs"][0]["shape"] for _, body, _ in gateway.requests], [[]] * 3)
        turned = numpy.arange(6, dtype="f4").reshape(2, 3).T
        numpy.testing.assert_array_equal(only_output(client.infer("m", turned)), turned)


def lost_while_open(test, connect):
    with Gateway() as gateway, connect(gateway.address) as client:
        requests = [client.submit("silent", ROW, 60) for _ in range(2)]
        test.assertTrue(eventually(lambda: len(gateway.requests) == 2))
        begin = time.monotonic()
        gateway.stop()
        for request in reversed(requests):
            test.assertIn("was lost", outcome(client, request))
        test.assertLess(time.monotonic() - begin, 30)
        gateway.start()


def made_again(test, connect):
    with Gateway() as gateway, connect(gateway.address) as client:
        gateway.stop()
        time.sleep(0.3)  # until the socket has noticed
        later = threading.Timer(0.5, gateway.start)
        later.start()
        test.assertEqual(outcome(client, client.submit("m", ROW, 20)), "ok")
        later.join()


def back_before_a_request(test, connect):
    with Gateway() as gateway, connect(gateway.address) as client:

        def restart():
            gateway.stop()
            time.sleep(0.1)  # until the socket has noticed
            gateway.start()
            client.socket.poll(10_000, zmq.POLLOUT)

        client.while_it_does_nothing(restart)
        test.assertEqual(outcome(client, client.submit("m", ROW, 20)), "ok")


def not_reached(test, connect):
    def is_not_sent():
        begin = time.monotonic()
        text = outcome(client, client.submit("m", ROW, 0.4))
        return "no gateway could be reached" in text and time.monotonic() - begin > 0.35

    with Gateway() as gateway, connect(gateway.address) as client:
        gateway.stop()
        test.assertTrue(eventually(is_not_sent))
        gateway.start()


def forgotten(test, connect):
    with Gateway() as gateway, ForgetfulProxy(gateway) as proxy:
        with connect(proxy.address) as client:
            test.assertEqual(outcome(client, client.submit("m", ROW)), "ok")
            proxy.forget()
            short, long = client.submit("m", ROW, 1), client.submit("m", ROW, 60)
            test.assertIn("no answer", outcome(client, short))
            test.assertIn("was lost", outcome(client, long))
            for _ in range(3):
                test.assertEqual(outcome(client, client.submit("m", ROW, 20)), "ok")
            test.assertEqual(proxy.made, 2)


def late_but_alive(test, connect):
    with Gateway() as gateway, connect(gateway.address) as client:
        late, held = client.submit("silent", ROW, 1.2), client.submit("held", ROW, 60)
        until = time.monotonic() + 1.6
        while time.monotonic() < until:
            test.assertEqual(outcome(client, client.submit("m", ROW, 20)), "ok")
            time.sleep(0.02)
        test.assertIn("no answer", outcome(client, late))
        gateway.release.set()
        test.assertEqual(outcome(client, held), "ok")
        test.assertEqual(gateway.connections(), 1)


def full_for_a_while(test, connect):
    with Gateway() as gateway, connect(gateway.address) as client:
        gateway.pause = 0.001
        requests = client.submit_many(FILL, "m", CHUNK, 60)
        test.assertEqual({outcome(client, x) for x in requests}, {"ok"})
        test.assertEqual((len(requests), gateway.connections()), (FILL, 1))
        # The last requests waited until some hundred others were read.
        test.assertLess(min(header["left"] for header, _, _ in gateway.requests), 59.8e6)


def full_until_the_deadline(test, connect):
    with Gateway() as gateway, connect(gateway.address) as client:
        gateway.reading.clear()
        begin = time.monotonic()
        last = client.submit_many(FILL, "m", CHUNK, 0.4)[-1]
        test.assertIn("the send buffer", outcome(client, last))
        test.assertGreater(time.monotonic() - begin, 0.35)


def kept_options(test, connect):
    with Gateway() as gateway, connect(gateway.address) as client:
        for option, value in (
            (zmq.TCP_KEEPALIVE, 1),
            (zmq.TCP_KEEPALIVE_IDLE, 1),
            (zmq.TCP_KEEPALIVE_INTVL, 1),
            (zmq.TCP_MAXRT, 5000),
            (zmq.HEARTBEAT_IVL, 0),
        ):
            test.assertEqual(client.socket.getsockopt(option), value, option)


def cut_off_at_first(test, connect):
    with cut_off(0.5) as address:
        connect(address, 20).__exit__()


def nowhere(test, connect):
    with test.assertRaisesRegex(millrace.Unavailable, "no answer from"):
        connect("ipc:///tmp/millrace-no-gateway", 0.2)
    with test.assertRaisesRegex(ValueError, "expected an address like"):
        connect("nowhere")


def cancelled(test, connect):
    with Gateway() as gateway, connect(gateway.address) as client:
        request = client.submit("silent", ROW, 60)
        test.assertTrue(eventually(lambda: gateway.count("infer") == 1))
        client.cancel(request)
        test.assertTrue(eventually(lambda: gateway.count("cancel") == 1))
        (header, _, _), (cancel, _, _) = gateway.requests
        test.assertEqual(header["id"], cancel["id"])


def closed(test, connect):
    with Gateway() as gateway, connect(gateway.address) as client:
        client.close()
        with test.assertRaisesRegex(millrace.Unavailable, "closed"):
            client.models()


def many_at_once(test, connect):
    rows = numpy.arange(4000, dtype=numpy.float32).reshape(1000, 1, 4)
    with connect(test.node.address) as client:
        requests = [client.submit("identity", row) for row in rows]
        for request, row in reversed(list(zip(requests, rows))):
            numpy.testing.assert_array_equal(only_output(client.result(request)), row)


def arrays_in_and_out(test, connect):
    with connect(test.node.address) as client:
        x = numpy.arange(8, dtype=numpy.float32).reshape(2, 4)
        answer = client.infer("affine", x)
        numpy.testing.assert_allclose(answer["y"], [[24, 58], [48, 146]])
        test.assertEqual((answer.model, answer.version), ("affine", 1))
        test.assertGreater(answer.total, 0)
        for inputs in ({"x": ROW}, [ROW], ROW):
            test.assertEqual(client.infer("affine", inputs)["y"].shape, (1, 2))
        large = numpy.random.default_rng(1).random((200_000, 4), numpy.float32)
        numpy.testing.assert_array_equal(only_output(client.infer("identity", large)), large)


def described(test, connect):
    with connect(test.node.address) as client:
        by_name = {m.model: m for m in client.models()}
        test.assertEqual(len(by_name), 3)
        test.assertEqual(by_name["affine"].inputs[0]["extents"], [-1, 4])


def errors_have_types(test, connect):
    five = numpy.ones((1, 5), numpy.float32)
    with connect(test.node.address) as client:
        for kind, text, model, inputs, wishes in (
            (millrace.BadRequest, r"expected x:F32\[-1, 4\]", "affine", five, {}),
            (millrace.UnknownModel, "", "nothing", ROW, {}),
            (millrace.DeadlineExceeded, "", "affine", ROW, {"deadline": 0}),
            (millrace.InternalError, "a number above 100", "picky", 1000 * ROW, {}),
            (millrace.BadRequest, "dtype complex64", "affine", ROW.astype("c8"), {}),
        ):
            with test.subTest(text or kind), test.assertRaisesRegex(kind, text):
                client.infer(model, inputs, **wishes)


def invalid_is_not_sent(test, connect):
    long = numpy.broadcast_to(numpy.float32(0), ((1 << 26) + 1,))
    with Gateway() as gateway, connect(gateway.address) as client:
        for wish in (
            {"priority": 2**31},
            {"deadline": float("nan")},
            {"deadline": -1},
            {"latency": float("inf")},
        ):
            with test.subTest(wish), test.assertRaises(millrace.BadRequest):
                client.infer("m", ROW, **wish)
        with test.assertRaisesRegex(millrace.TooLarge, "268435460 bytes, at most"):
            client.infer("m", long)
        test.assertEqual(outcome(client, client.submit("m", ROW)), "ok")
        test.assertEqual(len(gateway.requests), 1)


def keys_required(test, connect):
    with Node(PROGRAM, BUNDLES, with_keys=True) as node:
        with connect(node.address, 20, node.key("app")) as client:
            test.assertIsInstance(client.models(), list)
        begin = time.monotonic()
        with test.assertRaisesRegex(millrace.Forbidden, "only connections with a key"):
            connect(node.address, 20)  # a close before the refusal causes a retry
        with test.assertRaisesRegex(millrace.Forbidden, "for another role"):
            connect(node.address, 20, node.key("ops"))
        test.assertLess(time.monotonic() - begin, 30)
        with test.assertRaises(ValueError):
            connect(node.address, 0.5, node.key("all"))
        with test.assertRaises(OSError):
            connect(node.address, 0.5, node.key("missing"))


def refused_and_resumed(test, connect):
    def is_answered():
        try:
            return isinstance(client.models(), list)
        except millrace.Unavailable:
            return False

    def is_refused():
        request = client.submit("identity", ROW, 0.2)
        test.assertNotEqual(outcome(client, request), "ok")
        return client.is_refused()

    with Node(PROGRAM, BUNDLES, with_keys=True) as node:
        with connect(node.address, 20, node.key("app")) as client:
            node.keys("suspend", "app")
            node.stop()
            node.start()
            test.assertTrue(eventually(is_refused))
            node.keys("resume", "app")
            test.assertTrue(eventually(is_answered))


@dataclasses.dataclass
class Behaviour:
    name: str
    done: str
    expected: str
    run: typing.Callable
    cpp: str
    """Name of the C++ test of the same behaviour, without "client: "."""


BEHAVIOURS = [
    Behaviour("arrays_in_and_out", "arrays by name, in a list, alone, of 3 MB",
              "the model's outputs, as arrays", arrays_in_and_out,
              "inputs by name and in a list and of 3 MB give the outputs of the model"),
    Behaviour("array_without_axes", "inputs of shape (), and a transposed one",
              "shapes and values are kept, both ways", without_axes,
              "a tensor without axes keeps its shape and value in both directions"),
    Behaviour("many_at_once", "1000 requests open at once",
              "each gets its own answer", many_at_once,
              "P1: each request in a shared frame gets its own answer"),
    Behaviour("models_described", "models() is called",
              "the models with their inputs", described,
              "models are described with their inputs"),
    Behaviour("errors_have_types", "requests that fail at the gateway or in the model",
              "an exception of the status, with its text", errors_have_types,
              "a failed request has a status and a text"),
    Behaviour("invalid_is_not_sent", "arguments out of range, a tensor over 256 MiB",
              "BadRequest, TooLarge; the connection is kept", invalid_is_not_sent,
              "a request with times out of range or a tensor over 256 MiB is not sent"),
    Behaviour("cancelled", "a request is cancelled, or its task",
              "the gateway receives a cancel of its number", cancelled,
              "a gateway receives the cancel of an open request and none of an unsent or"
              " settled request"),
    Behaviour("closed", "a closed client is used",
              "Unavailable: closed", closed,
              "open and later requests on a closed client are unavailable"),
    Behaviour("nowhere", "connect where nothing listens, or to an invalid address",
              "Unavailable in time; ValueError", nowhere,
              "a connect without a listener times out and an invalid address is refused"),
    Behaviour("cut_off_at_first", "connections are closed at once, for 0.5 s",
              "the client connects afterwards", cut_off_at_first,
              "a connection that is closed at once is tried again"),
    Behaviour("lost_while_open", "the gateway ends the connection of open requests",
              "they are Unavailable at once", lost_while_open,
              "requests on a lost connection are unavailable at once and the next"
              " request uses a new connection"),
    Behaviour("made_again", "a request while the gateway is away for 0.5 s",
              "it waits for the new connection, and is answered", made_again,
              "a request waits for the new connection and is answered"),
    Behaviour("back_before_a_request", "the gateway restarts, then a request",
              "the loss does not concern the request", back_before_a_request,
              "a request sent after the gateway returns is not affected by the lost"
              " connection"),
    Behaviour("not_reached", "a request while the gateway is away beyond its deadline",
              "Unavailable at the deadline: not sent, not reached", not_reached,
              "a request without a gateway is unavailable at its deadline because it was"
              " not sent"),
    Behaviour("forgotten", "a proxy drops the connection, and acknowledges its bytes",
              "after one timeout a new connection; later requests are answered", forgotten,
              "a connection that a proxy has forgotten is replaced after one timeout"),
    Behaviour("late_but_alive", "a request times out while others are answered",
              "the connection is kept", late_but_alive,
              "a connection on which one request times out and others are answered is kept"),
    Behaviour("full_for_a_while", "more requests than the send buffer holds",
              "they wait for room, and are answered; the time left is less", full_for_a_while,
              "requests wait for space in the send buffer and are sent with less time"
              " left"),
    Behaviour("full_until_the_deadline", "the send buffer stays full beyond the deadline",
              "Unavailable at the deadline: not sent, buffer full", full_until_the_deadline,
              "a request without space in the send buffer until its deadline is"
              " unavailable because it was not sent"),
    Behaviour("kept_options", "the options of the socket are read",
              "TCP keepalive and TCP_MAXRT, no heartbeat of ZMTP", kept_options,
              "sockets have TCP keepalive and TCP_MAXRT and no ZMTP heartbeat"),
    Behaviour("keys_required", "connect with a right, a wrong and no key",
              "connected; Forbidden; errors of files are ValueError, OSError", keys_required,
              "P13: with keys an endpoint accepts only clients with an allowed key"),
    Behaviour("refused_and_resumed", "the key is suspended, later resumed",
              "Unavailable, later answered by the same client", refused_and_resumed,
              "P13: a client refused for a suspended key is accepted after the key is"
              " resumed"),
]


class Behaviours(unittest.TestCase):
    """Tests each row with each client; see add_tests()."""

    @classmethod
    def setUpClass(cls):
        cls.resources = contextlib.ExitStack()
        cls.node = cls.resources.enter_context(Node(PROGRAM, BUNDLES))
        cls.node.wait_ready()

    @classmethod
    def tearDownClass(cls):
        cls.resources.close()

    def test_the_cpp_tests_of_the_table_exist(self):
        files = ("client", "client_behaviours", "cluster", "keys")
        text = "".join((TESTS / f"e2e/{file}_test.cpp").read_text() for file in files)
        names = re.findall(r'TEST_CASE\(\s*"(?:client: )?([^"]*)"', re.sub(r'"\s+"', "", text))
        for row in BEHAVIOURS:
            with self.subTest(row.name):
                self.assertIn(row.cpp, names)

    def get(self, page):
        with urllib.request.urlopen(f"http://127.0.0.1:{self.node.port}{page}") as answer:
            return answer.read().decode()

    def test_probes_return_the_state_of_the_node(self):
        self.assertEqual(self.get("/livez"), "alive\n")
        self.assertEqual(self.get("/readyz"), "ready\n")
        with self.assertRaisesRegex(urllib.error.HTTPError, "404"):
            self.get("/other")

    def test_metrics_are_valid_for_prometheus(self):
        with millrace.Client(self.node.address) as client:
            client.infer("identity", ROW)
        text = self.get("/metrics")
        self.assertRegex(
            text, r'millrace_request_seconds_count\{model="identity",phase="total",version="1",'
        )
        self.assertIsNotNone(shutil.which("promtool"), "promtool is not installed")
        check = subprocess.run(
            ["promtool", "check", "metrics"], input=text, text=True, capture_output=True
        )
        self.assertEqual((check.returncode, check.stderr), (0, ""))

    def test_an_unknown_number_is_a_key_error(self):
        with millrace.Client(self.node.address) as client:
            with self.assertRaises(KeyError):
                client.result(12345)

    def test_bfloat16_is_returned_as_float32(self):
        data = numpy.array([0x3F80, 0xC000], numpy.uint16)
        numpy.testing.assert_array_equal(
            millrace.wire._array_of(data.tobytes(), "BF16"), [1, -2])


def add_tests():
    for row in BEHAVIOURS:
        for kind, connect in CLIENTS.items():

            def test(self, row=row, connect=connect):
                row.run(self, connect)

            test.__doc__ = f"{row.done}: {row.expected}"
            setattr(Behaviours, f"test_{row.name}_{kind}", test)


add_tests()

if __name__ == "__main__":
    unittest.main(verbosity=2)
