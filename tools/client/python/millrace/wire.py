# SPDX-License-Identifier: Apache-2.0
"""The messages of the client protocol, for both clients: no socket, no waiting."""

import dataclasses
import time
import typing

import msgpack
import numpy

from .errors import BadRequest, InternalError, TooLarge, make_error

PROTOCOL_VERSION = 2
INLINE = 1024
"""Bytes. Tensors up to this size go into the message's body."""
MAX_BODY = 4 << 20
MAX_FRAME = 256 << 20
"""A gateway accepts no more, and closes the connection over a longer frame."""
GRACE = 0.25
"""Seconds after its deadline for which a client still waits for an answer."""

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
# NumPy has no bfloat16. Inputs may be arrays of the package ml_dtypes; outputs are
# float32, which holds every bfloat16 value.
BFLOAT16 = "bfloat16"


@dataclasses.dataclass
class Answer:
    """The result of one request."""

    outputs: typing.Dict[str, numpy.ndarray]
    model: str
    version: int
    replica: str
    """The replica that computed the outputs."""
    batch: int
    """Number of requests in the batch."""
    queue: float
    execute: float
    total: float
    """Seconds in queues, executing, and in the gateway altogether."""
    gathered: float = 0.0
    """Seconds in queues while a replica was free: the batch was gathered."""
    interference: float = 0.0
    """Seconds of executing that other batches on the device cost."""

    def __getitem__(self, name):
        return self.outputs[name]


@dataclasses.dataclass
class Model:
    """A model that a gateway serves."""

    model: str
    version: int
    application: str
    accuracy: typing.Optional[float]
    labels: typing.List[str]
    inputs: typing.List[dict]
    outputs: typing.List[dict]


class Message:
    """A message to a gateway, not yet sent."""

    def __init__(self, number, kind, header, body, frames, until):
        self.number, self.kind = number, kind
        """The answer carries the number."""
        self.until = until
        """The deadline, as time.monotonic(): later the message need not be sent."""
        self._header = {"v": PROTOCOL_VERSION, "t": kind, "id": number, **header}
        self._body, self._frames = msgpack.packb(body), frames

    def parts(self):
        """The frames to send now: the header of a request holds the time left."""
        header = self._header
        if self.kind == "infer":
            left = max(0.0, self.until - time.monotonic())
            header = {**header, "left": int(left * 1e6)}
        return [msgpack.packb(header) + self._body, *self._frames]

    def check_size(self):
        """Raises TooLarge: a gateway closes the connection over a frame that is too long."""
        first = len(msgpack.packb(self._header)) + len(self._body)
        for size, most in [(first, MAX_BODY), *((x.nbytes, MAX_FRAME) for x in self._frames)]:
            if size > most:
                raise TooLarge(f"a part of the request has {size} bytes, at most {most} are"
                               " accepted")


class Numbered:
    """Makes a client's messages; each request gets a number of its own."""

    def __init__(self):
        self._last = 0

    def describe_models(self, timeout):
        return self._message("describe_models", {}, {}, (), timeout)

    @staticmethod
    def cancel(number, until):
        """The message that cancels a request; until is the request's deadline."""
        return Message(number, "cancel", {}, {}, (), until)

    def _message(self, kind, header, body, frames, seconds):
        self._last += 1
        out = Message(self._last, kind, header, body, frames, time.monotonic() + seconds)
        out.check_size()
        return out

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
        header = {"prio": int(priority)}
        if trace:
            header["trace"] = str(trace)
        _microseconds("deadline", deadline)  # Message.parts sends the time left
        return self._message("infer", header, body, frames, deadline)


class Reply:
    """A message from a gateway."""

    def __init__(self, parts):
        first, *self._frames = parts
        maps = msgpack.Unpacker()
        maps.feed(first.buffer)
        header = maps.unpack()
        self.number = header.get("id", 0)
        self._kind = header.get("t")
        self._body = maps.unpack()

    def answer(self):
        """The Answer; raises the error of a request without one."""
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
        """The list of Model."""
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


def _pack_inputs(inputs):
    if isinstance(inputs, dict):
        named = list(inputs.items())
    elif isinstance(inputs, (list, tuple)):
        named = [("", x) for x in inputs]
    else:
        named = [("", inputs)]
    tensors, frames = [], []
    for name, x in named:
        array = numpy.asarray(x, order="C")  # ascontiguousarray gives a scalar an axis
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
        gathered=body.get("gathered", 0) / 1e6,
        interference=body.get("interference", 0) / 1e6,
    )
