# SPDX-License-Identifier: Apache-2.0
"""File servers for Python tests: HTTP with selectable faults, and the S3 of moto with
access control."""

import asyncio
import contextlib
import os
import pathlib
import threading

import boto3
import requests
from aiohttp import web
from moto.server import ThreadedMotoServer


class HttpServer:
    """A folder by HTTP with ranges. `failures` lists by path the methods of this class
    that handle the first requests, one per request."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.failures = {}
        self.asked = []  # paths
        self.ready = threading.Event()
        self.loop = asyncio.new_event_loop()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        self.ready.wait(10)

    def run(self):
        asyncio.set_event_loop(self.loop)
        self.loop.run_until_complete(self.open())
        self.loop.run_forever()
        self.loop.run_until_complete(self.runner.cleanup())
        self.loop.close()

    async def open(self):
        app = web.Application()
        app.router.add_get("/files/{path:.*}", self.give)
        app.router.add_get("/whole/{path:.*}", self.give_whole)
        app.router.add_get("/moved/{path:.*}", self.send_elsewhere)
        self.runner = web.AppRunner(app)
        await self.runner.setup()
        site = web.TCPSite(self.runner, "127.0.0.1", 0)
        await site.start()
        port = site._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        self.ready.set()

    async def give(self, request):
        path = request.match_info["path"]
        self.asked.append(path)
        if self.failures.get(path):
            return await getattr(self, self.failures[path].pop(0))(request)
        if not (self.folder / path).is_file():
            raise web.HTTPNotFound
        return web.FileResponse(self.folder / path)

    async def refuse(self, request):
        raise web.HTTPServiceUnavailable

    async def refuse_for_ever(self, request):
        """Answers an error with an endless body."""
        answer = web.StreamResponse(status=500)
        await answer.prepare(request)
        with contextlib.suppress(ConnectionError):
            while True:
                await answer.write(bytes(4096))
        return answer

    async def cut(self, request):
        """Sends less than announced, then closes the connection."""
        answer = web.StreamResponse(status=206, headers={"Content-Length": "1000000"})
        await answer.prepare(request)
        await answer.write(bytes(1000))
        request.transport.abort()
        return answer

    async def hang(self, request):
        """Begins an answer and never continues."""
        answer = web.StreamResponse(status=206, headers={"Content-Length": "1000000"})
        await answer.prepare(request)
        await answer.write(bytes(1000))
        await asyncio.sleep(3600)

    async def give_whole(self, request):
        """Sends the whole file for any range."""
        return web.Response(body=(self.folder / request.match_info["path"]).read_bytes())

    async def send_elsewhere(self, request):
        raise web.HTTPFound("/files/" + request.match_info["path"])

    def stop(self):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join()


class S3Server:
    """A bucket 'models' with the files of a folder under 'team/', for one user."""

    def __init__(self, folder):
        self.server = ThreadedMotoServer(port=0, verbose=False)
        self.server.start()
        host, port = self.server.get_host_and_port()
        self.url = f"http://127.0.0.1:{port}"
        iam = self.client("iam", "none", "none")
        iam.create_user(UserName="node")
        self.key = iam.create_access_key(UserName="node")["AccessKey"]
        iam.put_user_policy(
            UserName="node", PolicyName="all",
            PolicyDocument='{"Version": "2012-10-17", "Statement":'
                           ' [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}')
        s3 = self.client("s3", self.key["AccessKeyId"], self.key["SecretAccessKey"])
        s3.create_bucket(Bucket="models")
        for place, _, files in os.walk(folder):
            for file in files:
                path = os.path.join(place, file)
                s3.upload_file(path, "models", "team/" + os.path.relpath(path, folder))
        # From now on requests need credentials.
        requests.post(self.url + "/moto-api/reset-auth", data=b"0", timeout=10)

    def client(self, service, key, secret):
        return boto3.client(service, endpoint_url=self.url, region_name="us-east-1",
                            aws_access_key_id=key, aws_secret_access_key=secret)

    def stop(self):
        self.server.stop()
