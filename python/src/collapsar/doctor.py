"""Whether this installation works: Node, the engine, and the way between them."""

from __future__ import annotations

import importlib.metadata
import json
import platform
import subprocess
import sys
from typing import Any

import numpy as np

from ._node import find_command, find_node
from .errors import NodeError
from .monitor import Monitor

#: what this package is called where packages are installed from
DISTRIBUTION = "collapsar-rl"


def doctor(node: str | None = None, quiet: bool = False) -> dict[str, Any]:
    """Examines the installation, prints what it finds, and gives it.

    Raises:
        NodeError: something is missing or computes wrong; the message says what to do.
    """
    path, command = find_node(node), find_command()
    ran = subprocess.run([path, command, "doctor", "--json"], capture_output=True, text=True, timeout=300, check=False)
    try:
        found: dict[str, Any] = json.loads(ran.stdout)
    except ValueError:
        raise NodeError(f"{path} {command} doctor said {(ran.stderr or ran.stdout).strip()[-2000:]!r}") from None
    if not found["selfTest"]["passed"]:
        raise NodeError(f"the engine does not work here: {found['selfTest']['problem']}")
    found["python"] = platform.python_version()
    found["command"] = command
    found["bridge"] = _bridge(node)
    found["foreign"] = foreign_packages()
    if not quiet:
        lines = {
            "Python": f"{found['python']}, {sys.executable}",
            "Node": f"{found['node']}, {path}",
            "engine": f"{found['collapsar']}, {command}",
            "addon": found["addon"]["path"],
            "instruction set": found["instructionSets"]["inUse"],
            "CUDA": "usable" if found["cuda"]["available"] else f"not in use: {found['cuda']['reason']}",
            "self-test": "passed",
            "bridge": "passed",
        }
        width = max(map(len, lines))
        for name, value in lines.items():
            print(f"  {name:<{width}}  {value}")
        for problem in found["foreign"]:
            print(f"  warning: {problem}")
    return found


def foreign_packages() -> list[str]:
    """A sentence for each distribution that brings another package of this one's import name."""
    return [
        f"{of.metadata['Name']} {of.version} is installed at {of.locate_file('')}: another package of the same import "
        f"name, and either overwrites files of the other. `pip uninstall {of.metadata['Name']}`, then install "
        f"{DISTRIBUTION} again (pip install --force-reinstall)"
        for of in importlib.metadata.distributions()
        if (of.metadata["Name"] or "").lower() == "collapsar"
    ]


def _bridge(node: str | None) -> str:
    """A step whose information is known: each row fits its own prompt alone, so that I(X;Z) is ln 4."""
    groups = np.repeat(np.arange(4), 4)
    sums = np.where(groups[:, None] == np.arange(4)[None, :], -1.0, -60.0)
    with Monitor(node=node, threads=1, permutations=0, judge=False) as monitor:
        step = monitor.step(1, groups=groups, lengths=np.full(16, 5))
        step.score_all(sums)
        found = step.finish().figures["mi_seq_estimate"]
    if abs(found - np.log(4)) > 1e-12:
        raise NodeError(f"the engine answers wrong over its pipe: I(X;Z) of four prompts is {found}, expected ln 4")
    return "passed"
