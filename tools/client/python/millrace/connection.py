# SPDX-License-Identifier: Apache-2.0
"""The connection to a gateway, for both clients: options, events, detection of loss.

The rules are those of the C++ client (tools/client/client.cpp, connection.cpp and
silence_watch.hpp) and of its sockets (transport/zmq/socket.cpp).
"""

import random

import zmq
from zmq.utils.monitor import parse_monitor_message

from .errors import Forbidden, Unavailable
from .wire import MAX_FRAME

CANNOT_OPEN = OSError, ValueError, zmq.ZMQError
"""The exceptions of open_socket."""

CONNECTED, LOST, CUT_OFF, REFUSED = "connected", "lost", "cut off", "refused"
_REFUSALS = zmq.EVENT_HANDSHAKE_FAILED_PROTOCOL | zmq.EVENT_HANDSHAKE_FAILED_AUTH
"""ZeroMQ gives such a connection up for good; all others it makes again."""
_REFUSED_PAUSES = 0.5, 1.5
"""Seconds until the client connects again after a refusal, at least and at most: a
suspended key may be resumed. The spread keeps clients that were refused together from
coming back together."""

_UNACKNOWLEDGED_MAX = 5000
"""Milliseconds. A connection is lost when its other host acknowledges nothing for longer,
or the other process reads nothing while all buffers are full."""
_KEEPALIVE = 1
"""Seconds. Without traffic the other host is probed this often."""
SILENCE_MAX = 1.0
"""Seconds; see SilenceWatch."""

# Heartbeats of ZMTP are not set: libzmq 4.3 aborts the process when a heartbeat is due
# after an error on a connection with stopped input (issues 3937 and 4364 of libzmq).
SOCKET_OPTIONS = {
    zmq.LINGER: 200,
    zmq.SNDHWM: 1000,  # messages; further ones wait for room (see Client.submit)
    zmq.RCVHWM: 100_000,
    zmq.MAXMSGSIZE: MAX_FRAME,
    zmq.TCP_MAXRT: _UNACKNOWLEDGED_MAX,
    zmq.TCP_KEEPALIVE: 1,
    zmq.TCP_KEEPALIVE_IDLE: _KEEPALIVE,
    zmq.TCP_KEEPALIVE_INTVL: _KEEPALIVE,
    zmq.CONNECT_TIMEOUT: 1000,
    zmq.HANDSHAKE_IVL: 1000,
    zmq.IMMEDIATE: 1,
    zmq.RECONNECT_IVL: 50,  # milliseconds; ZeroMQ adds a random part
    zmq.RECONNECT_IVL_MAX: 1000,
}


def open_socket(context, address, key):
    """Starts to connect to a gateway. Returns the socket, and its monitor socket, which
    receives the events of read_event. Raises ValueError for an invalid address or key,
    and OSError for a key file that cannot be read."""
    socket = context.socket(zmq.DEALER)
    for option, value in SOCKET_OPTIONS.items():
        socket.setsockopt(option, value)
    events = socket.get_monitor_socket(
        zmq.EVENT_HANDSHAKE_SUCCEEDED
        | zmq.EVENT_DISCONNECTED
        | zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL
        | _REFUSALS
    )
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


def read_event(events):
    """Takes the next event of a connection from its monitor socket: CONNECTED; LOST;
    CUT_OFF, closed by the other side before the handshake ended; REFUSED, for good."""
    kind = parse_monitor_message(events.recv_multipart())["event"]
    if kind & _REFUSALS:
        return REFUSED
    if kind == zmq.EVENT_HANDSHAKE_FAILED_NO_DETAIL:
        return CUT_OFF
    return CONNECTED if kind == zmq.EVENT_HANDSHAKE_SUCCEEDED else LOST


def pause_after_refusal():
    return random.uniform(*_REFUSED_PAUSES)


class SilenceWatch:
    """Decides when a connection is dead although TCP reports no error.

    A host between client and gateway (NAT, load balancer) may forget a connection and
    still acknowledge its bytes: TCP keepalive then finds nothing. But a gateway answers
    each request by its deadline. So a connection is dead when a request on it has timed
    out and no message arrived for SILENCE_MAX since that request was sent. A connection
    that carries answers to other requests is kept. One watch per connection; times are
    those of time.monotonic()."""

    def __init__(self):
        self._received = float("-inf")  # time of the last message
        self._silent_since = None  # of the first request that timed out after it

    def on_message(self, now):
        self._received = now
        self._silent_since = None

    def on_timeout(self, sent, now):
        """After the timeout of a request: True when the connection is dead. sent is the
        time when the request was sent."""
        since = max(sent, self._received)
        if self._silent_since is None or since < self._silent_since:
            self._silent_since = since
        return now - self._silent_since >= SILENCE_MAX


def lost():
    """The error of a request on a connection that was lost."""
    return Unavailable("the connection to the gateway was lost")


def no_answer():
    """The error of a request without an answer."""
    return Unavailable("no answer came from the gateway")


def not_sent(address, is_connected):
    """The error of a request that could not be sent in time."""
    if is_connected:
        return Unavailable(
            f"the request was not sent in time: the send buffer for {address} stayed full"
        )
    return Unavailable(
        f"the request was not sent in time: no gateway could be reached at {address}"
    )


def unreachable(address, key, events):
    """The error of a client that could not connect, by the events of its attempts."""
    if REFUSED in events and key is None:
        return Forbidden(f"{address} accepts only connections with a key")
    if REFUSED in events:
        return Forbidden(
            f"{address} refuses the key of {key}: for another role, unknown,"
            " suspended, or blocked for a minute after forbidden messages"
        )
    if CUT_OFF in events:  # a gateway with keys may close before it has refused
        return Unavailable(
            f"{address} accepts connections, but does not answer: a node that hangs, a"
            " balancer without nodes, or "
            + ("a node that accepts only connections with a key" if key is None
               else "another cluster's")
        )
    return Unavailable(f"no answer from {address}")


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
