# SPDX-License-Identifier: Apache-2.0
"""The asynchronous client."""

import asyncio
import collections
import time

import zmq

from . import connection, wire
from .errors import Unavailable


class _OpenRequest:
    """A request without an answer."""

    def __init__(self, future):
        self.future = future
        self.sent = None  # time of sending; None while it waits for room


class AsyncClient:
    """Submits requests to one gateway, from many tasks at once.

        async with millrace.AsyncClient() as client:
            answers = await asyncio.gather(*(client.infer("m", x) for x in inputs))

    For one event loop. When a task is cancelled while it waits for an answer, the
    client cancels the request at the gateway.

    A lost connection is made again without a call: see connection.py. Requests sent on
    the lost connection raise Unavailable and may have been executed; later requests wait
    for the new connection, each until its deadline."""

    def __init__(self, address="tcp://127.0.0.1:7100", connect_timeout=5.0, *, key=None):
        """`async with`, or connect(), connects. key is a key file of `millrace keys new`,
        for a cluster with keys."""
        self._address, self._timeout, self._key = address, connect_timeout, key
        self._socket = self._retry = None
        self._happened = set()  # events since connect()
        self._numbered = wire.Numbered()
        self._open = {}  # by number: _OpenRequest
        self._unsent = collections.deque()  # messages that wait for room, oldest first

    async def connect(self):
        """Raises Unavailable when no gateway answers in time, Forbidden when the gateway
        requires a key or refuses this one, and ValueError for an invalid address or key."""
        self._loop = asyncio.get_running_loop()
        self._happened = set()
        self._begin()
        try:
            if await asyncio.wait_for(self._connected, self._timeout):
                return self
        except asyncio.TimeoutError:
            pass
        except BaseException:
            self._end()
            raise
        self._end()
        raise connection.unreachable(self._address, self._key, self._happened)

    def _begin(self):
        """Opens a socket, in place of the former one if there is one."""
        fresh = connection.open_socket(zmq.Context.instance(), self._address, self._key)
        self._end()
        self._socket, self._events = fresh
        self._is_connected = False
        self._silence = connection.SilenceWatch()
        self._connected = self._loop.create_future()
        for socket, take in self._readers():
            self._loop.add_reader(socket.fd, take)
            self._loop.call_soon(take)  # the descriptor is edge-triggered

    def _readers(self):
        return (self._socket, self._work), (self._events, self._take_events)

    def _end(self):
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._is_open():
            for socket, _ in self._readers():
                self._loop.remove_reader(socket.fd)
            connection.close_socket(self._socket, self._events)

    def _is_open(self):
        return self._socket is not None and not self._socket.closed

    async def close(self):
        """Ends the connection; requests without an answer raise Unavailable."""
        self._end()
        self._unsent.clear()
        for request in self._open.values():
            _fail(request, Unavailable("this client is closed"))

    async def __aenter__(self):
        return await self.connect()

    async def __aexit__(self, *_):
        await self.close()

    async def infer(self, model, inputs, deadline=30.0, **wishes):
        """One request and its answer, or the error of a request without one. The
        arguments are those of Client.submit, as is the wait for the connection and for
        room in the send buffer."""
        message = self._numbered.infer(model, inputs, deadline, **wishes)
        return (await self._ask(message, wire.GRACE)).answer()

    async def models(self, timeout=5.0):
        """The models that the gateway serves, as a list of Model."""
        return (await self._ask(self._numbered.describe_models(timeout), 0)).models()

    async def _ask(self, message, grace):
        self._check_open()
        self._take_events()  # a loss until now does not concern this message
        future = asyncio.get_running_loop().create_future()
        request = self._open[message.number] = _OpenRequest(future)
        self._send(message)
        try:
            left = message.until - time.monotonic()
            await asyncio.wait([future], timeout=left)
            if not future.done() and request.sent is None:
                raise connection.not_sent(self._address, self._is_connected)
            await asyncio.wait([future], timeout=grace)
            if not future.done():
                self._replace_if_dead(request.sent)
                raise connection.no_answer()
            return future.result()
        except asyncio.CancelledError:
            if request.sent is not None and not future.done() and self._is_open():
                self._send(self._numbered.cancel(message.number, message.until))
            raise
        finally:
            del self._open[message.number]
            if future.done():
                future.exception()  # else asyncio reports one that a cancelled task left

    def _check_open(self):
        if self._socket is None:
            raise Unavailable("this client is not connected")
        if self._socket.closed:
            raise Unavailable("this client is closed")

    def _send(self, message):
        self._unsent.append(message)
        self._work()

    def _work(self):
        """Sends and receives as much as ZeroMQ has room for and has received. Reading
        socket.events resets the descriptor, so the loop ends only when both are done."""
        while self._is_open():
            ready = self._socket.events
            if ready & zmq.POLLOUT and not self._connected.done():
                self._connected.set_result(True)
            if ready & zmq.POLLIN:
                self._take_answer()
            elif not (ready & zmq.POLLOUT and self._send_oldest()):
                return

    def _take_answer(self):
        reply = wire.Reply(self._socket.recv_multipart(zmq.DONTWAIT, copy=False))
        self._silence.on_message(time.monotonic())
        request = self._open.get(reply.number)
        if request is not None and not request.future.done():
            request.future.set_result(reply)

    def _send_oldest(self):
        """Sends the oldest message that is still wanted; False when there is none, or
        no room."""
        while self._unsent:
            message = self._unsent[0]
            if self._is_wanted(message):
                try:
                    self._socket.send_multipart(message.parts(), zmq.DONTWAIT, copy=False)
                except zmq.Again:
                    return False
                if message.kind != "cancel":
                    self._open[message.number].sent = time.monotonic()
                self._unsent.popleft()
                return True
            self._unsent.popleft()
        return False

    def _is_wanted(self, message):
        if message.kind == "cancel":
            return time.monotonic() < message.until
        return message.number in self._open

    def _take_events(self):
        """Handles the events of the connection. ZeroMQ makes a lost connection again;
        after a refusal it does not, so the client opens another socket."""
        while self._is_open() and self._events.poll(0):
            event = connection.read_event(self._events)
            self._happened.add(event)
            self._is_connected = event == connection.CONNECTED
            if self._is_connected:
                continue
            self._take_answers()  # those that arrived before the loss
            self._fail_sent()
            if event == connection.REFUSED and self._retry is None:
                self._begin_later()
                if not self._connected.done():
                    self._connected.set_result(False)
        self._work()

    def _take_answers(self):
        while self._socket.events & zmq.POLLIN:
            self._take_answer()

    def _begin_later(self):
        if self._retry is not None:
            self._retry.cancel()
        self._retry = self._loop.call_later(
            connection.pause_after_refusal(), self._begin_again
        )

    def _begin_again(self):
        try:
            self._begin()
            self._fail_sent()
        except connection.CANNOT_OPEN:  # the key file may be missing for a while
            self._begin_later()

    def _replace_if_dead(self, sent):
        """After the timeout of a request: opens another socket if the connection is
        dead. sent is the time when the request was sent."""
        if self._is_open() and self._silence.on_timeout(sent, time.monotonic()):
            self._begin_again()

    def _fail_sent(self):
        """The connection is lost: fails the requests that were sent on it."""
        self._unsent = collections.deque(m for m in self._unsent if m.kind != "cancel")
        for request in self._open.values():
            if request.sent is not None:
                _fail(request, connection.lost())


def _fail(request, error):
    if not request.future.done():
        request.future.set_exception(error)
