"""Every error that the package raises on purpose: what came, what was expected, what to do next."""

from __future__ import annotations

import re


def snake_case(text: str) -> str:
    """The engine's names within a text, as Python spells them: ``topPMode`` is ``top_p_mode``."""
    return re.sub(
        r"\b[a-z][a-z0-9]*(?:[A-Z][a-z0-9]*)*[A-Z][a-z0-9]+\b",
        lambda name: re.sub(r"[A-Z]", lambda letter: f"_{letter[0].lower()}", name[0]),
        text,
    )


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
    """The sidecar ended, does not answer, or says what nobody can read.

    ``status`` is what it ended with, negative for a signal, and ``said`` the end of what it wrote to stderr; None and
    "" where that is not known.
    """

    def __init__(self, message: str, status: int | None = None, said: str = ""):
        super().__init__(message, "ERR_SIDECAR")
        self.status = status
        self.said = said


def from_answer(error: dict[str, str]) -> CollapsarError:
    """The error of an answer, by its code, in Python's spelling."""
    code, message, argument = error["code"], error["message"], error.get("argument")
    if code == "ERR_ARGUMENT":
        # Options and outcomes are keyword arguments here.
        name = None if argument is None else re.sub(r"^(options|outcomes)\.", "", snake_case(argument))
        return ArgumentError(re.sub(r"\b(engine|sinks), ", "", snake_case(message)), name)
    if code == "ERR_STATE":
        return StateError(message)
    return CollapsarError(message, code, argument)
