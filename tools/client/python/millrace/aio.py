# SPDX-License-Identifier: Apache-2.0
"""The asynchronous client."""

import asyncio

import zmq
import zmq.asyncio

from .errors import Unavailable
from .wire import GRACE, Numbered, Reply, close_socket, is_refusal, open_socket, unreachable


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
        self._socket = None
        self._numbered = Numbered()
        self._open = {}  # futures, by number
        self._tasks = []

    async def connect(self):
        """Raises Unavailable when nobody listens there in time, Forbidden when the
        key is not let in or one is needed, and ValueError when it is no address or
        no key."""
        self._socket, self._events = open_socket(
            zmq.asyncio.Context.instance(), self._address, self._key
        )
        refusal = asyncio.ensure_future(self._refusal())
        connection = asyncio.ensure_future(
            self._socket.poll(int(self._timeout * 1000), zmq.POLLOUT)
        )
        await asyncio.wait([refusal, connection], return_when=asyncio.FIRST_COMPLETED)
        connected = connection.done() and connection.result()
        refused = refusal.done()
        for task in (refusal, connection):
            task.cancel()
        if not connected:
            await self.close()
            raise unreachable(self._address, self._key, refused)
        self._tasks = [
            asyncio.ensure_future(self._receive()),
            asyncio.ensure_future(self._notice_losses()),
        ]
        return self

    async def _refusal(self):
        while not is_refusal(await self._events.recv_multipart()):
            pass

    async def close(self):
        """Ends the connection; what is open raises Unavailable."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        if self._socket is not None:
            close_socket(self._socket, self._events)
        self._fail_all("this client is closed")

    async def __aenter__(self):
        return await self.connect()

    async def __aexit__(self, *_):
        await self.close()

    async def infer(self, model, inputs, deadline=30.0, **wishes):
        """One request and its answer. The arguments are Client.submit's; raises
        what became of the request, if it has no result."""
        message = self._numbered.infer(model, inputs, deadline, **wishes)
        reply = await self._ask(message, deadline + GRACE, self._cancel)
        return reply.answer()

    async def models(self, timeout=5.0):
        """What the gateway serves, as a list of Model."""
        message = self._numbered.message("describe_models", {}, {})
        return (await self._ask(message, timeout)).models()

    async def _ask(self, message, seconds, on_cancelled=None):
        number, parts = message
        future = asyncio.get_running_loop().create_future()
        self._open[number] = future
        try:
            await self._send(parts)
            return await asyncio.wait_for(asyncio.shield(future), seconds)
        except asyncio.TimeoutError:
            raise Unavailable("no answer came from the gateway") from None
        except asyncio.CancelledError:
            if on_cancelled is not None:
                await on_cancelled(number)
            raise
        finally:
            del self._open[number]

    async def _send(self, parts):
        if self._socket is None or self._socket.closed:
            raise Unavailable("this client is not connected")
        try:
            await self._socket.send_multipart(parts, zmq.DONTWAIT, copy=False)
        except zmq.Again:
            raise Unavailable("the gateway is not connected") from None

    async def _cancel(self, number):
        _, parts = self._numbered.message("cancel", {}, {}, number=number)
        try:
            await self._send(parts)
        except Unavailable:
            pass  # who has left is cancelled anyway

    async def _receive(self):
        while True:
            reply = Reply(await self._socket.recv_multipart(copy=False))
            future = self._open.get(reply.number)
            if future is not None and not future.done():
                future.set_result(reply)

    async def _notice_losses(self):
        """ZeroMQ connects again by itself; what was asked before is lost."""
        while True:
            await self._events.recv_multipart()
            self._fail_all("the connection to the gateway was lost")

    def _fail_all(self, why):
        for future in self._open.values():
            if not future.done():
                future.set_exception(Unavailable(why))
