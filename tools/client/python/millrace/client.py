# SPDX-License-Identifier: Apache-2.0
"""The synchronous client."""

import time

import zmq

from . import wire
from .errors import Unavailable


class Client:
    """Submits requests to one gateway. Not for use by several threads at once."""

    def __init__(self, address="tcp://127.0.0.1:7100", connect_timeout=5.0, *, key=None):
        """Connects, with the key in that file where the cluster has keys
        (`millrace keys new`). Raises Unavailable when nobody listens there in
        time, Forbidden when the key is not let in or one is needed, and
        ValueError when it is no address or no key."""
        self._address, self._key = address, key
        self._socket = self._events = None
        self._open()
        self._numbered = wire.Numbered()
        self._sent = -1  # the last request that went out
        self._lost = -1  # the last one on a connection that is lost
        self._waiting = {}
        self._ready = {}
        self._connect(connect_timeout)

    def _open(self):
        fresh = wire.open_socket(zmq.Context.instance(), self._address, self._key)
        self.close()
        self._socket, self._events = fresh
        self._retry_at = None  # when it is to be opened again
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._events, zmq.POLLIN)

    def _connect(self, seconds):
        """Waits until it is connected; closes it and raises when it is not."""
        poller = zmq.Poller()
        poller.register(self._socket, zmq.POLLOUT)
        poller.register(self._events, zmq.POLLIN)
        until = time.monotonic() + seconds
        befell = set()
        while wire.REFUSED not in befell:
            left = max(0.0, until - time.monotonic())
            ready = dict(poller.poll(int(left * 1000)))
            if self._socket in ready:
                return
            if not ready:
                break
            befell.add(wire.what_befell(self._events.recv_multipart()))
        self.close()
        raise wire.unreachable(self._address, self._key, befell)

    def close(self):
        """Ends the connection; what is open is not answered any more."""
        if self._socket is not None:
            wire.close_socket(self._socket, self._events)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def infer(self, model, inputs, deadline=30.0, **wishes):
        """One request and its answer; see submit for the arguments."""
        return self.result(self.submit(model, inputs, deadline, **wishes))

    def submit(self, model, inputs, deadline=30.0, **wishes):
        """Sends a request and returns its id.

        inputs is an array, a list of arrays in the model's order, or a dict by
        name. Times are in seconds. Further arguments: version; application
        (with accuracy and latency) chooses a model where none is named;
        priority; idempotent=False for what must never be run twice: it raises
        Unavailable where a replica was lost that may have run it; trace, a name
        under which "actor-shell explain" tells later what became of it.
        """
        number = self._send(self._numbered.infer(model, inputs, deadline, **wishes))
        self._waiting[number] = time.monotonic() + deadline + wire.GRACE
        return number

    def result(self, number):
        """The answer to a submitted request; raises what became of it else."""
        until = self._waiting.get(number)
        if until is None and number not in self._ready:
            raise KeyError(f"no request {number} is open")
        self._await(number, until)
        return self._ready.pop(number).answer()

    def cancel(self, number):
        """Asks the gateway to stop; result() then raises Cancelled, or gives
        the answer that was on its way already."""
        self._send(self._numbered.message("cancel", {}, {}, number=number))

    def models(self, timeout=5.0):
        """What the gateway serves, as a list of Model."""
        number = self._send(self._numbered.message("describe_models", {}, {}))
        self._waiting[number] = time.monotonic() + timeout
        self._await(number, self._waiting[number])
        return self._ready.pop(number).models()

    def _send(self, message):
        number, parts = message
        if self._socket.closed:
            raise Unavailable("this client is closed")
        self._take_events()  # who asks on the next connection has lost nothing
        try:
            self._socket.send_multipart(parts, zmq.DONTWAIT, copy=False)
        except zmq.Again:
            raise Unavailable("the gateway is not connected") from None
        self._sent = max(self._sent, number)
        return number

    def _take_events(self):
        """Takes in what befell the connection. One that is lost is made again
        by ZeroMQ, one that was refused by us."""
        while self._events.poll(0):
            befell = wire.what_befell(self._events.recv_multipart())
            self._take_answers()  # what came before it was lost
            self._lost = self._sent
            if befell == wire.REFUSED:
                self._retry_at = time.monotonic() + wire.pause_after_refusal()
        if self._retry_at is not None and time.monotonic() >= self._retry_at:
            try:
                self._open()
            except wire.CANNOT_OPEN:  # its key may be away
                self._retry_at = time.monotonic() + wire.pause_after_refusal()

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
        if self._socket in ready:
            self._take_answers()
        else:
            self._take_events()
        return True

    def _take_answers(self):
        while self._socket.events & zmq.POLLIN:
            reply = wire.Reply(self._socket.recv_multipart(copy=False))
            if self._waiting.pop(reply.number, None) is not None:
                self._ready[reply.number] = reply
