# SPDX-License-Identifier: Apache-2.0
"""For python_client_test.py: one interface to both clients, and gateways for them."""

import asyncio
import contextlib
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading
import time

import millrace
import msgpack
import zmq
from processes import eventually, free_port

CONFIG = """
cluster: python
nodes:
  all:
    roles: [gateway, controller, worker]
    peers: ipc://{folder}/peers
    clients: ipc://{folder}/clients
    operators: ipc://{folder}/operators
    http: 127.0.0.1:0
    models: {bundles}
models:
  - {{model: affine}}
  - {{model: identity}}
  - {{model: picky}}
"""


class SynchronousClient:
    """millrace.Client with the interface of the table of behaviours."""

    def __init__(self, address, timeout=5.0, key=None):
        self.client = millrace.Client(address, timeout, key=key)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.close()

    def submit(self, *args, **wishes):
        """Returns a request for result(), even if it cannot be sent."""
        try:
            return self.client.submit(*args, **wishes)
        except millrace.MillraceError as error:
            return error

    def submit_many(self, count, *args, **wishes):
        """Submits until a request cannot be sent, but at most this often."""
        out = []
        while len(out) < count and not (out and isinstance(out[-1], Exception)):
            out.append(self.submit(*args, **wishes))
        return out

    def result(self, request):
        if isinstance(request, Exception):
            raise request
        return self.client.result(request)

    def infer(self, *args, **wishes):
        return self.client.infer(*args, **wishes)

    def models(self):
        return self.client.models()

    def cancel(self, request):
        self.client.cancel(request)

    def close(self):
        self.client.close()

    def while_it_does_nothing(self, action):
        """Runs an action before the client handles events during the action."""
        return action()

    @property
    def socket(self):
        return self.client._socket

    def is_refused(self):
        return self.client._retry_at is not None


class AsynchronousClient:
    """millrace.AsyncClient in an event loop in a separate thread."""

    def __init__(self, address, timeout=5.0, key=None):
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.client = millrace.AsyncClient(address, timeout, key=key)
        try:
            self._run(self.client.connect())
        except BaseException:
            self._stop()
            raise

    def _run(self, coroutine):
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result(120)

    def _stop(self):
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        async def end():
            await self.client.close()
            rest = asyncio.all_tasks() - {asyncio.current_task()}
            if rest:
                await asyncio.wait(rest, timeout=10)

        self._run(end())
        self._stop()

    def submit(self, *args, **wishes):
        return self.submit_many(1, *args, **wishes)[0]

    def submit_many(self, count, *args, **wishes):
        async def start():
            out = [asyncio.ensure_future(self.client.infer(*args, **wishes)) for _ in range(count)]
            for task in out:  # asyncio reports exceptions that are not retrieved
                task.add_done_callback(lambda x: x.cancelled() or x.exception())
            await asyncio.sleep(0)  # lets each task begin
            return out

        return self._run(start())

    def result(self, request):
        async def wait():
            return await request

        return self._run(wait())

    def infer(self, *args, **wishes):
        return self._run(self.client.infer(*args, **wishes))

    def models(self):
        return self._run(self.client.models())

    def cancel(self, request):
        self._loop.call_soon_threadsafe(request.cancel)

    def close(self):
        self._run(self.client.close())

    def while_it_does_nothing(self, action):
        async def block():
            return action()

        return self._run(block())

    @property
    def socket(self):
        return self.client._socket

    def is_refused(self):
        return self.client._retry is not None


CLIENTS = {"synchronous": SynchronousClient, "asynchronous": AsynchronousClient}


class Gateway:
    """A gateway that answers each request with its own inputs. Model "silent" gets no
    answer, model "held" is answered after `release` is set."""

    def __init__(self):
        self.requests = []  # header, body and connection of each message
        self.release = threading.Event()
        self.reading = threading.Event()
        self.reading.set()
        self.pause = 0.0  # seconds between two messages
        self._context = zmq.Context()
        self.address = "tcp://127.0.0.1:*"
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self._context.term()

    def start(self):
        """Listens on the same address as before."""
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.rcvhwm = 1
        self._socket.linger = 0
        assert eventually(self._is_bound)
        self.address = self._socket.last_endpoint.decode()
        self._going, self._held = True, []
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def _is_bound(self):
        """Retries, because a closed socket may still hold the address."""
        try:
            return self._socket.bind(self.address) or True
        except zmq.ZMQError:
            return False

    def stop(self):
        """Ends all connections."""
        self._going = False
        self._thread.join()
        self._socket.close()

    def count(self, kind):
        return sum(header["t"] == kind for header, _, _ in self.requests)

    def connections(self):
        return len({connection for _, _, connection in self.requests})

    def _serve(self):
        while self._going:
            if self.release.is_set():
                for answer in self._held:
                    self._socket.send_multipart(answer)
                self._held = []
            if not self.reading.is_set() or not self._socket.poll(20):
                self.reading.wait(0.02)
                continue
            self._handle(self._socket.recv_multipart())
            time.sleep(self.pause)

    def _handle(self, parts):
        connection, first, *frames = parts
        maps = msgpack.Unpacker()
        maps.feed(first)
        header, body = maps
        self.requests.append((header, body, connection))
        answer = {"t": "infer_reply", "id": header["id"]}, {"status": "ok"}
        if header["t"] == "describe_models":
            answer = {"t": "model_list_reply", "id": header["id"]}, {"models": []}
        elif header["t"] == "cancel":
            answer[1]["status"] = "cancelled"
        else:
            answer[1]["outputs"] = body["inputs"]
        out = [connection, b"".join(map(msgpack.packb, answer)), *frames]
        model = body.get("model")
        if model == "held":
            self._held.append(out)
        elif model != "silent":
            self._socket.send_multipart(out)


class ForgetfulProxy:
    """A TCP proxy in front of a gateway, like a NAT or load balancer. forget() drops
    its connections without closing them and keeps acknowledging their bytes."""

    def __init__(self, gateway):
        self.made = 0
        self._forgotten = set()
        self._port = int(gateway.address.rpartition(":")[2])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._listener.getsockname()[1]}"
        self._sockets = [self._listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for x in self._sockets:
            with contextlib.suppress(OSError):
                x.shutdown(socket.SHUT_RDWR)
            x.close()

    def forget(self):
        self._forgotten.update(range(1, self.made + 1))

    def _accept(self):
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self._listener.accept()
                gateway = socket.create_connection(("127.0.0.1", self._port))
                self._sockets += client, gateway
                self.made += 1
                for pair in ((client, gateway), (gateway, client)):
                    threading.Thread(
                        target=self._forward, args=(*pair, self.made), daemon=True
                    ).start()

    def _forward(self, source, target, number):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if number not in self._forgotten:
                    target.sendall(data)


@contextlib.contextmanager
def cut_off(seconds):
    """An address that closes connections at once until a gateway listens."""
    with zmq.Context() as context, context.socket(zmq.ROUTER) as gateway:
        port = free_port()

        def run():
            with socket.create_server(("127.0.0.1", port)) as listener:
                listener.settimeout(seconds)
                until = time.monotonic() + seconds
                while time.monotonic() < until:
                    with contextlib.suppress(TimeoutError):
                        listener.accept()[0].close()
            gateway.bind(f"tcp://127.0.0.1:{port}")

        thread = threading.Thread(target=run)
        thread.start()
        yield f"tcp://127.0.0.1:{port}"
        thread.join()


class Node:
    """A node with all roles, with or without keys."""

    def __init__(self, program, bundles, with_keys=False):
        self._program = program
        self._scratch = tempfile.TemporaryDirectory()
        folder = pathlib.Path(self._scratch.name)
        self.address = f"ipc://{folder}/clients"
        self._keys = folder / "keys"
        if with_keys:
            for name, role in (("all", "controller"), ("app", "client"), ("ops", "operator")):
                self.keys("new", name, "--role", role)
        self._config = folder / "cluster.yaml"
        text = CONFIG.format(folder=folder, bundles=bundles)
        self._config.write_text(("keys: keys" if with_keys else "") + text)
        self.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()
        self._scratch.cleanup()

    def keys(self, verb, *words):
        subprocess.run(
            [self._program, "keys", verb, self._keys, *words],
            check=True,
            stdout=subprocess.DEVNULL,
        )

    def key(self, name):
        return self._keys / f"{name}.key"

    def start(self):
        self._process = subprocess.Popen(
            [self._program, "node", "--config", str(self._config)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.port = re.search(r"http port (\d+)", self._process.stdout.readline()).group(1)

    def stop(self):
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(30)
        self._process.stdout.close()

    def wait_ready(self):
        """Waits until its three models are ready."""

        def is_ready():
            try:
                return len(client.models()) == 3
            except millrace.Unavailable:
                return False

        with millrace.Client(self.address, 20) as client:
            if not eventually(is_ready, 30):
                raise RuntimeError("the models were not ready in time")
