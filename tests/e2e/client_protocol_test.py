# SPDX-License-Identifier: Apache-2.0
"""The answers of a gateway to frames that the project clients never send and to failing
requests, read from the wire. Run by CTest."""

import pathlib
import sys
import unittest

import millrace
import msgpack
import numpy
import zmq

TESTS = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(TESTS / "support"))
from python_client_fixtures import Node

PROGRAM, BUNDLES = sys.argv.pop(1), sys.argv.pop(1)
ROW = numpy.ones((1, 4), numpy.float32)
TENSOR = {"dtype": "F32", "shape": [1, 4], "data": ROW.tobytes()}
LONGEST_FRAME = 256 << 20
ESCAPE = "m\x1b[2J"


class Wire(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.node = Node(PROGRAM, BUNDLES)
        cls.node.wait_ready()

    @classmethod
    def tearDownClass(cls):
        cls.node.__exit__()

    def setUp(self):
        self.context = zmq.Context()
        self.socket = self.context.socket(zmq.DEALER)
        self.socket.linger = 0
        self.socket.connect(self.node.address)

    def tearDown(self):
        self.socket.close()
        self.context.term()

    def ask(self, body, frames=(), **header):
        """Returns header and body of the answer; None if no answer arrives."""
        header = {"v": 2, "t": "infer", "id": 7, **header}
        self.socket.send_multipart([msgpack.packb(header) + msgpack.packb(body), *frames])
        if not self.socket.poll(20_000):
            return None
        maps = msgpack.Unpacker()
        maps.feed(self.socket.recv_multipart()[0])
        return tuple(maps)

    def check_refused(self, answer, status, text):
        header, body = answer
        self.assertEqual((header["t"], header["id"]), ("infer_reply", 7))
        self.assertEqual(body["status"], status)
        self.assertIn(text, body["error"])

    def test_a_version_is_a_number_or_a_text(self):
        for version in (1, "1", "default"):
            with self.subTest(version):
                _, body = self.ask({"model": "affine", "version": version, "inputs": [TENSOR]})
                self.assertEqual((body["status"], body["version"]), ("ok", 1))
        answer = self.ask({"model": "affine", "version": 2, "inputs": [TENSOR]})
        self.check_refused(answer, "unknown_model", "version '2'")
        with millrace.Client(self.node.address) as client:
            self.assertEqual(client.infer("affine", ROW, version=1).version, 1)

    def test_another_protocol_version_is_refused_under_the_requests_id(self):
        answer = self.ask({"model": "affine", "inputs": [TENSOR]}, v=3)
        self.check_refused(answer, "bad_request", "protocol version 3 is not supported")
        self.check_refused(answer, "bad_request", "expected 2")

    def test_an_error_of_a_model_has_its_status_on_the_wire(self):
        large = {**TENSOR, "data": (1000 * ROW).tobytes()}
        answer = self.ask({"model": "picky", "inputs": [large]})
        self.check_refused(answer, "internal", "a number above 100")

    def test_a_raw_frame_over_the_limit_is_answered_too_large(self):
        n = LONGEST_FRAME + 4096
        body = {"model": "identity", "inputs": [
            {"dtype": "U8", "shape": [n], "data": 0}]}
        self.check_refused(self.ask(body, [bytes(n)]), "too_large", "256 MiB")
        _, again = self.ask({"model": "affine", "inputs": [TENSOR]})
        self.assertEqual(again["status"], "ok")

    def test_too_many_raw_frames_are_answered_under_the_requests_id(self):
        answer = self.ask({"model": "affine"}, [b""] * 4097)
        self.check_refused(answer, "too_large", "more than 4096 raw frames")

    def test_a_first_frame_over_the_limit_is_answered_too_large(self):
        data = bytes(5 << 20)
        body = {"model": "identity", "inputs": [
            {"dtype": "U8", "shape": [len(data)], "data": data}]}
        self.check_refused(self.ask(body), "too_large", "4 MiB")

    def test_names_and_trace_ids_with_escape_bytes_are_refused(self):
        for body, header in (
            ({"model": ESCAPE}, {}),
            ({"application": "\x9b31m"}, {}),
            ({"model": "affine", "version": ESCAPE}, {}),
            ({"model": "affine", "inputs": [{**TENSOR, "name": ESCAPE}]}, {}),
            ({"model": "affine"}, {"trace": ESCAPE}),
        ):
            with self.subTest(body):
                answer = self.ask(body, **header)
                self.check_refused(answer, "bad_request", "control characters")
                self.check_refused(answer, "bad_request", "\\x")
                self.assertTrue(answer[1]["error"].isprintable())


if __name__ == "__main__":
    unittest.main(verbosity=2)
