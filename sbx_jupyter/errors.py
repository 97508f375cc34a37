"""The errors of sbx-jupyter, one per Connect code; the same class on both ends of the wire.

SbxError
├── CanceledError             canceled             the caller went away
├── UnknownError              unknown              an error without a code of its own
├── InvalidArgumentError      invalid_argument     the request is wrong whatever the state
├── DeadlineExceededError     deadline_exceeded    the time limit of the call ran out
├── NotFoundError             not_found            no such sandbox, path, process, ...
├── AlreadyExistsError        already_exists       it is there already
├── PermissionDeniedError     permission_denied    known, but not allowed
├── ResourceExhaustedError    resource_exhausted   a limit of the sandbox or the machine
│   └── NoSpaceError          resource_exhausted   the disk is full
├── FailedPreconditionError   failed_precondition  the state does not allow it
│   └── IsolationError        failed_precondition  this machine cannot isolate as asked
├── AbortedError              aborted              another change of state is in flight
├── OutOfRangeError           out_of_range         past the end
├── UnimplementedError        unimplemented        not offered
├── InternalError             internal             our own fault
├── UnavailableError          unavailable          the sandbox or engine does not answer
├── DataLossError             data_loss            stored state is damaged
└── UnauthenticatedError      unauthenticated      no or a wrong credential
"""

from __future__ import annotations

from typing import ClassVar


def see(page: str) -> str:
    """The end of a message that names a remedy: where the documentation says more."""
    return f" (jupyter sbx help {page})"


class SbxError(Exception):
    """Base of every error that sbx-jupyter raises on purpose."""

    code: ClassVar[str] = "unknown"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class CanceledError(SbxError):
    code = "canceled"


class UnknownError(SbxError):
    code = "unknown"


class InvalidArgumentError(SbxError):
    code = "invalid_argument"


class DeadlineExceededError(SbxError):
    code = "deadline_exceeded"


class NotFoundError(SbxError):
    code = "not_found"


class AlreadyExistsError(SbxError):
    code = "already_exists"


class PermissionDeniedError(SbxError):
    code = "permission_denied"


class ResourceExhaustedError(SbxError):
    code = "resource_exhausted"


class NoSpaceError(ResourceExhaustedError):
    """The disk, a quota or the inodes are used up."""


class FailedPreconditionError(SbxError):
    code = "failed_precondition"


class IsolationError(FailedPreconditionError):
    """This machine cannot isolate as asked; the message says what is missing."""


class AbortedError(SbxError):
    code = "aborted"


class OutOfRangeError(SbxError):
    code = "out_of_range"


class UnimplementedError(SbxError):
    code = "unimplemented"


class InternalError(SbxError):
    code = "internal"


class UnavailableError(SbxError):
    code = "unavailable"


class DataLossError(SbxError):
    code = "data_loss"


class UnauthenticatedError(SbxError):
    code = "unauthenticated"


def _by_code() -> dict[str, type[SbxError]]:
    # Other modules may refine an error; a code alone stands for the general one.
    return {cls.code: cls for cls in SbxError.__subclasses__() if cls.__module__ == __name__}


def error_for(code: str, message: str) -> SbxError:
    """The error that stands for a Connect code; an unknown code gives ``UnknownError``."""
    return _by_code().get(code, UnknownError)(message)
