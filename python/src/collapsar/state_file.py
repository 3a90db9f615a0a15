"""Files that carry a run over restarts: written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any

from .errors import StateError


def write_state(path: str, state: Mapping[str, Any]) -> None:
    """Replaces the file; after a crash it is the one before or this one.

    Raises:
        OSError: it cannot be written; the one before is as it was.
    """
    text = json.dumps(state, separators=(",", ":"))
    temporary = f"{path}.tmp"
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    # The new name is on the disk when its folder is; some file systems have no way to ask for that.
    with contextlib.suppress(OSError):
        folder = os.open(os.path.dirname(os.path.abspath(path)), os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def read_state(path: str) -> dict[str, Any]:
    """What was written.

    Raises:
        OSError: it cannot be read.
        StateError: it is cut, or no state at all.
    """
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    try:
        found = json.loads(text)
    except ValueError as error:
        raise StateError(f"{path} is cut or damaged: {error}") from error
    if not isinstance(found, dict):
        raise StateError(f"{path} holds {type(found).__name__}, expected an object that was saved")
    return found
