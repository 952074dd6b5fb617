# SPDX-License-Identifier: Apache-2.0
"""Runs processes and waits for conditions in Python tests."""

import socket
import subprocess
import time


def call(*words, text=None):
    """Runs a program to its end."""
    return subprocess.run([str(x) for x in words], input=text, text=True,
                          capture_output=True, timeout=60)


def eventually(holds, seconds=20):
    """Returns whether the condition held in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if holds():
            return True
        time.sleep(0.1)
    return False


def free_port():
    with socket.socket() as x:
        x.bind(("127.0.0.1", 0))
        return x.getsockname()[1]
