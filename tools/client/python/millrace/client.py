# SPDX-License-Identifier: Apache-2.0
"""The synchronous client."""

import dataclasses
import time
import typing

import msgpack
import numpy
import zmq

from .errors import BadRequest, InternalError, TooLarge, Unavailable, make_error

PROTOCOL_VERSION = 1
INLINE = 1024
"""Tensors of up to so many bytes go into the message's body."""
MAX_BODY = 4 << 20
MAX_FRAME = 256 << 20
"""A gateway takes no more, and closes the connection over a longer frame."""
GRACE = 0.25
"""Seconds after its deadline that an answer is still waited for."""

DTYPES = {
    "BOOL": numpy.bool_,
    "U8": numpy.uint8,
    "I8": numpy.int8,
    "I16": numpy.int16,
    "I32": numpy.int32,
    "I64": numpy.int64,
    "F16": numpy.float16,
    "F32": numpy.float32,
    "F64": numpy.float64,
}
NAMES = {numpy.dtype(kind): name for name, kind in DTYPES.items()}
# NumPy has no bfloat16 of its own: an array of ml_dtypes' goes in, and float32,
# which holds every value of it, comes out.
BFLOAT16 = "bfloat16"


@dataclasses.dataclass
class Answer:
    """The result of one request."""

    outputs: typing.Dict[str, numpy.ndarray]
    model: str
    version: int
    replica: str
    """Which replica computed it."""
    batch: int
    """How many requests were computed together."""
    queue: float
    execute: float
    total: float
    """Seconds in queues, executing, and in the gateway altogether."""

    def __getitem__(self, name):
        return self.outputs[name]


@dataclasses.dataclass
class Model:
    """What a gateway serves."""

    model: str
    version: int
    application: str
    accuracy: typing.Optional[float]
    labels: typing.List[str]
    inputs: typing.List[dict]
    outputs: typing.List[dict]


class Client:
    """Submits requests to one gateway. Not for use by several threads at once."""

    def __init__(self, address="tcp://127.0.0.1:7100", connect_timeout=5.0, *, key=None):
        """Connects, with the key in that file where the cluster has keys
        (`millrace keys new`). Raises Unavailable when nobody listens there in
        time or the key is not let in, and ValueError when it is no address or
        no key."""
        self._socket = zmq.Context.instance().socket(zmq.DEALER)
        self._socket.linger = 200
        self._socket.immediate = True
        self._events = self._socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            if key is not None:
                _use_key(self._socket, key)
            self._socket.connect(address)
        except (zmq.ZMQError, TypeError) as why:
            self.close()
            raise ValueError(
                f"{address!r}: expected an address like tcp://127.0.0.1:7100 ({why})"
            ) from None
        except (OSError, ValueError):
            self.close()
            raise
        self._last = 0
        self._lost = -1  # the last request on a connection that is lost
        self._waiting = {}
        self._ready = {}
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._events, zmq.POLLIN)
        if not self._socket.poll(int(connect_timeout * 1000), zmq.POLLOUT):
            self.close()
            why = "nobody listens there, or a key is needed" if key is None else (
                f"nobody listens there, or the key {key} is not let in"
            )
            raise Unavailable(f"{address}: {why}")

    def close(self):
        """Ends the connection; what is open is not answered any more."""
        if not self._socket.closed:
            self._socket.disable_monitor()
            self._events.close()
        self._socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def infer(self, model, inputs, deadline=30.0, **wishes):
        """One request and its answer; see submit for the arguments."""
        return self.result(self.submit(model, inputs, deadline, **wishes))

    def submit(
        self,
        model,
        inputs,
        deadline=30.0,
        *,
        version="",
        application="",
        accuracy=None,
        latency=None,
        slo=None,
        priority=0,
        idempotent=True,
    ):
        """Sends a request and returns its id.

        inputs is an array, a list of arrays in the model's order, or a dict by
        name. Times are in seconds. Without a model, application (with accuracy
        and latency) chooses one. What is not idempotent is never run twice: it
        raises Unavailable where a replica was lost that may have run it.
        """
        tensors, frames = _pack_inputs(inputs)
        body = {"model": model or "", "inputs": tensors}
        if version:
            body["version"] = str(version)
        if application:
            body["application"] = application
        if accuracy is not None:
            body["accuracy"] = float(accuracy)
        for key, seconds in (("latency", latency), ("slo", slo)):
            if seconds is not None:
                body[key] = _microseconds(key, seconds)
        if not idempotent:
            body["idempotent"] = False
        if not -(2**31) <= priority < 2**31:
            raise BadRequest(f"priority {priority}: expected 32 bits")
        header = {"left": _microseconds("deadline", deadline), "prio": int(priority)}
        number = self._send("infer", header, body, frames)
        self._waiting[number] = time.monotonic() + deadline + GRACE
        return number

    def result(self, number):
        """The answer to a submitted request; raises what became of it else."""
        until = self._waiting.get(number)
        if until is None and number not in self._ready:
            raise KeyError(f"no request {number} is open")
        self._await(number, until)
        kind, body, frames = self._ready.pop(number)
        if kind != "infer_reply":
            raise InternalError(f"an answer of unknown type {kind!r}")
        if body.get("status", "internal") != "ok":
            raise make_error(
                body.get("status", "internal"),
                body.get("error", ""),
                body.get("retry_after", 0),
            )
        return _unpack_answer(body, frames)

    def cancel(self, number):
        """Asks the gateway to stop; result() then raises Cancelled, or gives
        the answer that was on its way already."""
        self._send("cancel", {}, {}, [], number)

    def models(self, timeout=5.0):
        """What the gateway serves, as a list of Model."""
        number = self._send("describe_models", {}, {}, [])
        self._waiting[number] = time.monotonic() + timeout
        self._await(number, self._waiting[number])
        kind, body, _ = self._ready.pop(number)
        if kind != "model_list_reply":
            raise make_error(body.get("status", "internal"), body.get("error", ""))
        return [
            Model(
                model=m.get("model", ""),
                version=m.get("version", 0),
                application=m.get("application", ""),
                accuracy=m.get("accuracy"),
                labels=m.get("labels", []),
                inputs=m.get("signature", {}).get("inputs", []),
                outputs=m.get("signature", {}).get("outputs", []),
            )
            for m in body.get("models", [])
        ]

    def _send(self, kind, header, body, frames, number=None):
        if number is None:
            self._last += 1
            number = self._last
        header = {"v": PROTOCOL_VERSION, "t": kind, "id": number, **header}
        parts = [msgpack.packb(header) + msgpack.packb(body), *frames]
        for size, most in [(len(parts[0]), MAX_BODY), *((x.nbytes, MAX_FRAME) for x in frames)]:
            if size > most:
                raise TooLarge(f"a part of the request has {size} bytes, at most {most} are taken")
        if self._socket.closed:
            raise Unavailable("this client is closed")
        try:
            self._socket.send_multipart(parts, zmq.DONTWAIT, copy=False)
        except zmq.Again:
            raise Unavailable("the gateway is not connected") from None
        return number

    def _await(self, number, until):
        while number not in self._ready:
            lost = number <= self._lost
            if lost or not self._receive(until - time.monotonic()):
                del self._waiting[number]
                raise Unavailable(
                    "the connection to the gateway was lost"
                    if lost
                    else "no answer came from the gateway"
                )

    def _receive(self, seconds):
        """Takes in one message, or that the connection was lost (ZeroMQ makes
        another by itself); False when nothing came in time."""
        if self._socket.closed:
            raise Unavailable("this client is closed")
        ready = dict(self._poller.poll(max(0, int(seconds * 1000))))
        if not ready:
            return False
        if self._socket not in ready:
            self._events.recv_multipart()
            self._lost = self._last
            return True
        first, *frames = self._socket.recv_multipart(copy=False)
        maps = msgpack.Unpacker()
        maps.feed(first.buffer)
        header = maps.unpack()
        number = header.get("id", 0)
        if self._waiting.pop(number, None) is not None:
            self._ready[number] = (header.get("t"), maps.unpack(), frames)
        return True


def _use_key(socket, path):
    """A key file is lines of NAME: "VALUE"."""
    found = {}
    with open(path, encoding="ascii") as lines:
        for line in lines:
            name, colon, value = line.partition(":")
            if colon:
                found[name.strip()] = value.strip().strip("\"'")
    for option, name in (
        ("curve_publickey", "public_key"),
        ("curve_secretkey", "secret_key"),
        ("curve_serverkey", "cluster_key"),
    ):
        value = found.get(name, "")
        if len(value) != 40:
            raise ValueError(f"{path}: expected the key of a client, with a {name}")
        setattr(socket, option, value.encode())


def _pack_inputs(inputs):
    if isinstance(inputs, dict):
        named = list(inputs.items())
    elif isinstance(inputs, (list, tuple)):
        named = [("", x) for x in inputs]
    else:
        named = [("", inputs)]
    tensors, frames = [], []
    for name, x in named:
        array = numpy.ascontiguousarray(x)
        if array.dtype == numpy.float64 and not isinstance(x, numpy.ndarray):
            array = array.astype(numpy.float32)  # a list of Python floats
        dtype = "BF16" if array.dtype.name == BFLOAT16 else NAMES.get(array.dtype)
        if dtype is None:
            raise BadRequest(f"dtype {array.dtype} is not served")
        tensor = {
            "dtype": dtype,
            "shape": list(array.shape),
        }
        if array.nbytes <= INLINE:
            tensor["data"] = array.tobytes()
        else:
            tensor["data"] = len(frames)
            frames.append(array.view(numpy.uint8).data)
        if name:
            tensor["name"] = name
        tensors.append(tensor)
    return tensors, frames


def _microseconds(name, seconds):
    if not 0 <= seconds < 2**43:
        raise BadRequest(f"{name} {seconds}: expected seconds")
    return int(seconds * 1e6)


def _array_of(data, dtype):
    if dtype == "BF16":
        return (numpy.frombuffer(data, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    return numpy.frombuffer(data, DTYPES[dtype])


def _unpack_answer(body, frames):
    outputs = {}
    for i, x in enumerate(body.get("outputs", [])):
        data = x["data"]
        if isinstance(data, int):
            data = frames[data].buffer
        outputs[x.get("name") or str(i)] = _array_of(data, x["dtype"]).reshape(x["shape"])
    return Answer(
        outputs=outputs,
        model=body.get("model", ""),
        version=body.get("version", 0),
        replica=body.get("replica", ""),
        batch=body.get("batch", 0),
        queue=body.get("queue", 0) / 1e6,
        execute=body.get("execute", 0) / 1e6,
        total=body.get("total", 0) / 1e6,
    )
