# SPDX-License-Identifier: Apache-2.0
"""The asynchronous client."""

import asyncio

import zmq

from . import wire
from .errors import Unavailable


class AsyncClient:
    """Submits requests to one gateway, as many at once as there are tasks.

        async with millrace.AsyncClient() as client:
            answers = await asyncio.gather(*(client.infer("m", x) for x in inputs))

    For one event loop. A task that is cancelled while it waits for an answer has
    the gateway cancel the request."""

    def __init__(self, address="tcp://127.0.0.1:7100", connect_timeout=5.0, *, key=None):
        """Says where to; `async with`, or connect(), goes there. key is a file of
        `millrace keys new`, where the cluster has keys."""
        self._address, self._timeout, self._key = address, connect_timeout, key
        self._socket = self._retry = None
        self._befell = set()
        self._numbered = wire.Numbered()
        self._open = {}  # futures, by number

    async def connect(self):
        """Raises Unavailable when nobody listens there in time, Forbidden when the
        key is not let in or one is needed, and ValueError when it is no address or
        no key."""
        self._loop = asyncio.get_running_loop()
        self._befell = set()
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
        raise wire.unreachable(self._address, self._key, self._befell)

    def _begin(self):
        """Opens the socket, which another one may have been before."""
        fresh = wire.open_socket(zmq.Context.instance(), self._address, self._key)
        self._end()
        self._socket, self._events = fresh
        self._connected = self._loop.create_future()
        for socket, take in self._readers():
            self._loop.add_reader(socket.fd, take)
            self._loop.call_soon(take)  # the descriptor tells what is new only

    def _readers(self):
        return (self._socket, self._take_answers), (self._events, self._take_events)

    def _end(self):
        if self._retry is not None:
            self._retry.cancel()
            self._retry = None
        if self._is_open():
            for socket, _ in self._readers():
                self._loop.remove_reader(socket.fd)
            wire.close_socket(self._socket, self._events)

    def _is_open(self):
        return self._socket is not None and not self._socket.closed

    async def close(self):
        """Ends the connection; what is open raises Unavailable."""
        self._end()
        self._fail_all("this client is closed")

    async def __aenter__(self):
        return await self.connect()

    async def __aexit__(self, *_):
        await self.close()

    async def infer(self, model, inputs, deadline=30.0, **wishes):
        """One request and its answer. The arguments are Client.submit's; raises
        what became of the request, if it has no result."""
        message = self._numbered.infer(model, inputs, deadline, **wishes)
        reply = await self._ask(message, deadline + wire.GRACE, self._cancel)
        return reply.answer()

    async def models(self, timeout=5.0):
        """What the gateway serves, as a list of Model."""
        message = self._numbered.message("describe_models", {}, {})
        return (await self._ask(message, timeout)).models()

    async def _ask(self, message, seconds, on_cancelled=None):
        number, parts = message
        if self._is_open():
            self._take_events()  # who asks on the next connection has lost nothing
        future = self._open[number] = asyncio.get_running_loop().create_future()
        try:
            self._send(parts)
            return await asyncio.wait_for(asyncio.shield(future), seconds)
        except asyncio.TimeoutError:
            raise Unavailable("no answer came from the gateway") from None
        except asyncio.CancelledError:
            if on_cancelled is not None:
                on_cancelled(number)
            raise
        finally:
            del self._open[number]

    def _send(self, parts):
        if not self._is_open():
            raise Unavailable("this client is not connected")
        try:
            self._socket.send_multipart(parts, zmq.DONTWAIT, copy=False)
        except zmq.Again:
            raise Unavailable("the gateway is not connected") from None
        finally:  # sending takes the news from the descriptor, too
            self._take_answers()

    def _cancel(self, number):
        _, parts = self._numbered.message("cancel", {}, {}, number=number)
        try:
            self._send(parts)
        except Unavailable:
            pass  # who has left is cancelled anyway

    def _take_answers(self):
        while self._is_open():
            # Asking takes the news from the descriptor: until there is none.
            ready = self._socket.events
            if ready & zmq.POLLOUT and not self._connected.done():
                self._connected.set_result(True)
            if not ready & zmq.POLLIN:
                return
            reply = wire.Reply(self._socket.recv_multipart(zmq.DONTWAIT, copy=False))
            future = self._open.get(reply.number)
            if future is not None and not future.done():
                future.set_result(reply)

    def _take_events(self):
        """Takes in what befell the connection: what was asked on it is lost. One
        that is lost is made again by ZeroMQ, one that was refused by us."""
        while self._is_open() and self._events.poll(0):
            befell = wire.what_befell(self._events.recv_multipart())
            self._befell.add(befell)
            self._take_answers()  # what came before it was lost
            self._fail_all("the connection to the gateway was lost")
            if befell == wire.REFUSED and self._retry is None:
                self._begin_later()
                if not self._connected.done():
                    self._connected.set_result(False)

    def _begin_later(self):
        self._retry = self._loop.call_later(wire.pause_after_refusal(), self._begin_again)

    def _begin_again(self):
        try:
            self._begin()
        except wire.CANNOT_OPEN:  # its key may be away
            self._begin_later()

    def _fail_all(self, why):
        for future in self._open.values():
            if not future.done():
                future.set_exception(Unavailable(why))
