# SPDX-License-Identifier: Apache-2.0
"""What goes over the wire, for the clients: no socket, no waiting."""

import dataclasses
import random
import typing

import msgpack
import numpy
import zmq
from zmq.utils.monitor import parse_monitor_message

from .errors import (
    BadRequest,
    Forbidden,
    InternalError,
    TooLarge,
    Unavailable,
    make_error,
)

CANNOT_OPEN = OSError, ValueError, zmq.ZMQError
"""What open_socket may raise."""
PROTOCOL_VERSION = 2
INLINE = 1024
"""Tensors of up to so many bytes go into the message's body."""
MAX_BODY = 4 << 20
MAX_FRAME = 256 << 20
"""A gateway takes no more, and closes the connection over a longer frame."""
GRACE = 0.25
"""Seconds after its deadline that an answer is still waited for."""

LOST, CUT_OFF, REFUSED = "lost", "cut off", "refused"
_REFUSALS = zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
"""ZeroMQ gives such a connection up for good; all others it makes again."""
_CUT_OFF = zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
_REFUSED_PAUSES = 0.5, 1.5
"""Seconds until another is made all the same, at least and at most: a key that
was suspended may be resumed, and who was turned away together shall not come
back together."""

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


class Numbered:
    """Messages that a client sends, each under a number of its own."""

    def __init__(self):
        self.last = 0

    def message(self, kind, header, body, frames=(), number=None):
        """The number and the parts of a message. Raises TooLarge."""
        if number is None:
            self.last += 1
            number = self.last
        header = {"v": PROTOCOL_VERSION, "t": kind, "id": number, **header}
        parts = [msgpack.packb(header) + msgpack.packb(body), *frames]
        for size, most in [(len(parts[0]), MAX_BODY), *((x.nbytes, MAX_FRAME) for x in frames)]:
            if size > most:
                raise TooLarge(f"a part of the request has {size} bytes, at most {most} are taken")
        return number, parts

    def infer(
        self,
        model,
        inputs,
        deadline,
        *,
        version="",
        application="",
        accuracy=None,
        latency=None,
        priority=0,
        idempotent=True,
        trace="",
    ):
        """A request; see Client.submit. Raises BadRequest, TooLarge."""
        tensors, frames = _pack_inputs(inputs)
        body = {"model": model or "", "inputs": tensors}
        if version:
            body["version"] = str(version)
        if application:
            body["application"] = application
        if accuracy is not None:
            body["accuracy"] = float(accuracy)
        if latency is not None:
            body["latency"] = _microseconds("latency", latency)
        if not idempotent:
            body["idempotent"] = False
        if not -(2**31) <= priority < 2**31:
            raise BadRequest(f"priority {priority}: expected 32 bits")
        header = {"left": _microseconds("deadline", deadline), "prio": int(priority)}
        if trace:
            header["trace"] = str(trace)
        return self.message("infer", header, body, frames)


class Reply:
    """A message from a gateway, as its frames came."""

    def __init__(self, parts):
        first, *self._frames = parts
        maps = msgpack.Unpacker()
        maps.feed(first.buffer)
        header = maps.unpack()
        self.number = header.get("id", 0)
        self._kind = header.get("t")
        self._body = maps.unpack()

    def answer(self):
        """The Answer it is; raises what became of the request else."""
        if self._kind != "infer_reply":
            raise InternalError(f"an answer of unknown type {self._kind!r}")
        if self._body.get("status", "internal") != "ok":
            raise make_error(
                self._body.get("status", "internal"),
                self._body.get("error", ""),
                self._body.get("retry_after", 0),
            )
        return _unpack_answer(self._body, self._frames)

    def models(self):
        """The list of Model it is."""
        if self._kind != "model_list_reply":
            raise make_error(self._body.get("status", "internal"), self._body.get("error", ""))
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
            for m in self._body.get("models", [])
        ]


def open_socket(context, address, key):
    """A socket on its way to a gateway, and one that tells when a connection of
    it is lost or refused. Raises ValueError for what is no address or no key,
    and OSError for a key that cannot be read."""
    socket = context.socket(zmq.DEALER)
    socket.linger = 200
    socket.immediate = True
    socket.reconnect_ivl = 50  # milliseconds, and some more by chance
    socket.reconnect_ivl_max = 1000
    events = socket.get_monitor_socket(zmq.EVENT_DISCONNECTED | _CUT_OFF | _REFUSALS)
    try:
        if key is not None:
            _use_key(socket, key)
        socket.connect(address)
    except (zmq.ZMQError, TypeError) as why:
        close_socket(socket, events)
        raise ValueError(
            f"{address!r}: expected an address like tcp://127.0.0.1:7100 ({why})"
        ) from None
    except (OSError, ValueError):
        close_socket(socket, events)
        raise
    return socket, events


def close_socket(socket, events):
    if not socket.closed:
        socket.disable_monitor()
        events.close()
    socket.close()


def what_befell(event):
    """Of a connection, by what its monitor said: LOST; CUT_OFF, before it began;
    or REFUSED, for good."""
    kind = parse_monitor_message(event)["event"]
    return REFUSED if kind & _REFUSALS else CUT_OFF if kind == _CUT_OFF else LOST


def pause_after_refusal():
    return random.uniform(*_REFUSED_PAUSES)


def unreachable(address, key, befell):
    """The error of who could not connect, by all that befell its connections."""
    if REFUSED in befell and key is None:
        return Forbidden(f"{address} lets in only who has a key")
    if REFUSED in befell:
        return Forbidden(
            f"{address} does not let in the key of {key}: another role's, unknown,"
            " suspended, or for a minute because it said what it may not"
        )
    if CUT_OFF in befell:  # who has keys may do so before it could say why
        return Unavailable(
            f"{address} takes connections, but nobody speaks: a node that hangs, a"
            " balancer without nodes, or "
            + ("who lets in only who has a key" if key is None else "another cluster's")
        )
    return Unavailable(f"nobody answers at {address}")


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
