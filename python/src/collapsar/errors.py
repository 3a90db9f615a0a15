"""Every error that the package raises on purpose: what came, what was expected, what to do next."""

from __future__ import annotations


class CollapsarError(Exception):
    """Base of all errors of this package.

    ``code`` is stable (``ERR_ARGUMENT``, ``ERR_FILE``, …: docs/reference/sidecar.md); ``argument`` names the part of a
    request that is wrong, or is None.
    """

    def __init__(self, message: str, code: str = "ERR_INTERNAL", argument: str | None = None):
        super().__init__(message if argument is None else f"{argument}: {message}")
        self.code = code
        self.argument = argument


class ArgumentError(CollapsarError, ValueError):
    """An argument of a call: wrong type, shape or range."""

    def __init__(self, message: str, argument: str | None = None):
        super().__init__(message, "ERR_ARGUMENT", argument)


class StateError(CollapsarError):
    """A saved state that is foreign, damaged, or of a run with other options."""

    def __init__(self, message: str):
        super().__init__(message, "ERR_STATE")


class NodeError(CollapsarError):
    """No Node that can run the engine, or the engine is not there."""

    def __init__(self, message: str):
        super().__init__(message, "ERR_NODE")


class SidecarError(CollapsarError):
    """The sidecar ended, does not answer, or says what nobody can read."""

    def __init__(self, message: str):
        super().__init__(message, "ERR_SIDECAR")


def from_answer(error: dict[str, str]) -> CollapsarError:
    """The error of an answer, by its code."""
    code, message, argument = error["code"], error["message"], error.get("argument")
    if code == "ERR_ARGUMENT":
        return ArgumentError(message, argument)
    if code == "ERR_STATE":
        return StateError(message)
    return CollapsarError(message, code, argument)
