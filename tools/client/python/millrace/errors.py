# SPDX-License-Identifier: Apache-2.0
"""The errors of requests."""


class MillraceError(Exception):
    """Base of all errors; `status` is that of the client protocol."""

    status = "internal"

    def __init__(self, text, retry_after=0.0):
        super().__init__(text)
        self.retry_after = retry_after
        """Seconds until another attempt makes sense; 0 where that is unknown."""


class BadRequest(MillraceError):
    """The request is invalid; do not send it again unchanged."""

    status = "bad_request"


class UnknownModel(MillraceError):
    status = "unknown_model"


class Forbidden(MillraceError):
    status = "forbidden"


class TooLarge(MillraceError):
    """Over a limit, which the text names."""

    status = "too_large"


class Overloaded(MillraceError):
    """Refused to keep queues bounded; see `retry_after`."""

    status = "overloaded"


class DeadlineExceeded(MillraceError):
    status = "deadline_exceeded"


class Cancelled(MillraceError):
    status = "cancelled"


class Unavailable(MillraceError):
    """No answer can be given now; sending the request again may help."""

    status = "unavailable"


class Poison(MillraceError):
    """This input ends the process that executes it."""

    status = "poison"


class InternalError(MillraceError):
    status = "internal"


BY_STATUS = {
    kind.status: kind
    for kind in (
        BadRequest,
        UnknownModel,
        Forbidden,
        TooLarge,
        Overloaded,
        DeadlineExceeded,
        Cancelled,
        Unavailable,
        Poison,
        InternalError,
    )
}


def make_error(status, text, retry_after_us=0):
    kind = BY_STATUS.get(status, InternalError)
    return kind(text or status, retry_after_us / 1e6)
