# SPDX-License-Identifier: Apache-2.0
"""The synchronous client."""

import math
import time

import zmq

from . import connection, wire
from .errors import Unavailable


class Client:
    """Submits requests to one gateway. Not for use by several threads at once.

    A lost connection is made again without a call: see connection.py. Requests sent on
    the lost connection raise Unavailable and may have been executed; later requests wait
    for the new connection, each until its deadline."""

    def __init__(self, address="tcp://127.0.0.1:7100", connect_timeout=5.0, *, key=None):
        """Connects. key is a key file of `millrace keys new`, for a cluster with keys.
        Raises Unavailable when no gateway answers in time, Forbidden when the gateway
        requires a key or refuses this one, and ValueError for an invalid address or key."""
        self._address, self._key = address, key
        self._socket = self._events = None
        self._open()
        self._numbered = wire.Numbered()
        self._last_sent = -1  # number of the last request that was sent
        self._last_lost = -1  # number of the last request sent on a connection now lost
        self._waiting = {}  # by number: times of sending and of giving up
        self._ready = {}  # replies, by number
        self._connect(connect_timeout)

    def _open(self):
        fresh = connection.open_socket(zmq.Context.instance(), self._address, self._key)
        self.close()
        self._socket, self._events = fresh
        self._is_connected = False
        self._silence = connection.SilenceWatch()
        self._retry_at = None  # time of the next _open, after a refusal

    def _connect(self, seconds):
        """Waits for the connection; without one, closes the client and raises."""
        until = time.monotonic() + seconds
        events = set()
        while connection.REFUSED not in events:
            ready = self._poll(zmq.POLLOUT, until)
            if ready.get(self._socket, 0) & zmq.POLLOUT:
                return
            if not ready:
                break
            while self._events.poll(0):
                events.add(self._read_event())
        self.close()
        raise connection.unreachable(self._address, self._key, events)

    def close(self):
        """Ends the connection; requests without an answer raise Unavailable."""
        if self._socket is not None:
            connection.close_socket(self._socket, self._events)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def infer(self, model, inputs, deadline=30.0, **wishes):
        """One request and its answer; see submit for the arguments."""
        return self.result(self.submit(model, inputs, deadline, **wishes))

    def submit(self, model, inputs, deadline=30.0, **wishes):
        """Sends a request and returns its number.

        inputs is an array, a list of arrays in the model's order, or a dict by
        name. Times are in seconds. Further arguments: version; application
        (with accuracy and latency) chooses a model where none is named;
        priority; idempotent=False for a request that must not be executed twice: it
        raises Unavailable where a replica was lost that may have executed it; trace, a
        name under which "actor-shell explain" shows the request's path.

        While the send buffer is full or the client is not connected, submit waits for
        at most the deadline, then raises Unavailable: that request was not sent.
        """
        message = self._numbered.infer(model, inputs, deadline, **wishes)
        return self._send(message, wire.GRACE)

    def result(self, number):
        """The answer to a submitted request; raises the error of one without answer."""
        if number not in self._waiting and number not in self._ready:
            raise KeyError(f"no request {number} is open")
        self._await(number)
        return self._ready.pop(number).answer()

    def cancel(self, number):
        """Asks the gateway to stop; result() then raises Cancelled, or returns
        the answer if that was already on its way."""
        if number not in self._waiting or number <= self._last_lost:
            return
        _, until = self._waiting[number]
        message = self._numbered.cancel(number, until)
        self._send_in_time(message, lambda: number <= self._last_lost)

    def models(self, timeout=5.0):
        """The models that the gateway serves, as a list of Model."""
        number = self._send(self._numbered.describe_models(timeout), 0)
        self._await(number)
        return self._ready.pop(number).models()

    def _send(self, message, grace):
        """Sends a request, and waits for the connection or for room as long as the
        request's deadline allows."""
        if not self._send_in_time(message, lambda: False):
            self._replace_if_dead(self._overdue())
            raise connection.not_sent(self._address, self._is_connected)
        self._last_sent = message.number
        self._waiting[message.number] = time.monotonic(), message.until + grace
        return message.number

    def _send_in_time(self, message, is_void):
        """False when the message was not sent by its deadline, or became void before."""
        while True:
            self._check_open()
            self._take_events()  # a loss until now does not concern this message
            if is_void():
                return False
            try:
                self._socket.send_multipart(message.parts(), zmq.DONTWAIT, copy=False)
                return True
            except zmq.Again:
                if time.monotonic() >= message.until:
                    return False
            self._poll(zmq.POLLIN | zmq.POLLOUT, message.until)
            self._take_answers()  # a gateway may read no more before its answers are read

    def _check_open(self):
        if self._socket.closed:
            raise Unavailable("this client is closed")

    def _poll(self, flags, until):
        """Waits for the socket or an event, at most until that time or the next _open.
        Returns the sockets that are ready."""
        if self._retry_at is not None:
            until = min(until, self._retry_at)
        poller = zmq.Poller()
        poller.register(self._socket, flags)
        poller.register(self._events, zmq.POLLIN)
        return dict(poller.poll(max(0, math.ceil((until - time.monotonic()) * 1000))))

    def _read_event(self):
        event = connection.read_event(self._events)
        self._is_connected = event == connection.CONNECTED
        return event

    def _take_events(self):
        """Handles the events of the connection. ZeroMQ makes a lost connection again;
        after a refusal it does not, so the client opens another socket."""
        while self._events.poll(0):
            event = self._read_event()
            if event == connection.CONNECTED:
                continue
            self._take_answers()  # those that arrived before the loss
            self._last_lost = self._last_sent
            if event == connection.REFUSED:
                self._retry_at = time.monotonic() + connection.pause_after_refusal()
        if self._retry_at is not None and time.monotonic() >= self._retry_at:
            self._open_again()

    def _open_again(self):
        try:
            self._open()
            self._last_lost = self._last_sent
        except connection.CANNOT_OPEN:  # the key file may be missing for a while
            self._retry_at = time.monotonic() + connection.pause_after_refusal()

    def _await(self, number):
        """Returns once the answer is ready; raises Unavailable when none will come."""
        while number not in self._ready:
            sent, until = self._waiting[number]
            if number <= self._last_lost:
                del self._waiting[number]
                raise connection.lost()
            self._check_open()
            ready = self._poll(zmq.POLLIN, until)
            if self._socket in ready:
                self._take_answers()
                continue
            self._take_events()
            if not ready and time.monotonic() >= until:
                del self._waiting[number]
                self._replace_if_dead(sent)
                raise connection.no_answer()

    def _replace_if_dead(self, sent):
        """After the timeout of a request: opens another socket if the connection is
        dead. sent is the time when the request was sent."""
        if sent is not None and self._silence.on_timeout(sent, time.monotonic()):
            self._open_again()

    def _overdue(self):
        """When the oldest request that has timed out was sent, None without one."""
        now = time.monotonic()
        return min((sent for sent, until in self._waiting.values() if until <= now), default=None)

    def _take_answers(self):
        while self._socket.events & zmq.POLLIN:
            reply = wire.Reply(self._socket.recv_multipart(copy=False))
            self._silence.on_message(time.monotonic())
            if self._waiting.pop(reply.number, None) is not None:
                self._ready[reply.number] = reply
