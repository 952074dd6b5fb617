# SPDX-License-Identifier: Apache-2.0
"""A client for Millrace: numpy arrays in, numpy arrays out.

    with millrace.Client("tcp://127.0.0.1:7100") as client:
        answer = client.infer("digits-small", images)
        print(answer.outputs["scores"].argmax(1))

AsyncClient does the same for asyncio. The protocol is described in
tools/client/PROTOCOL.md of the project.
"""

from .aio import AsyncClient
from .client import Client
from .errors import (
    BadRequest,
    Cancelled,
    DeadlineExceeded,
    Forbidden,
    InternalError,
    MillraceError,
    Overloaded,
    Poison,
    TooLarge,
    Unavailable,
    UnknownModel,
)
from .wire import Answer, Model

__all__ = [
    "Answer",
    "AsyncClient",
    "BadRequest",
    "Cancelled",
    "Client",
    "DeadlineExceeded",
    "Forbidden",
    "InternalError",
    "MillraceError",
    "Model",
    "Overloaded",
    "Poison",
    "TooLarge",
    "Unavailable",
    "UnknownModel",
]
