"""Which of verl's methods are watched, and how they are wrapped: when their modules are imported."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

from ..watching import logger
from . import legacy, v1
from .options import VARIABLE

#: by module: the class that all trainers of a kind come from, its method, and what takes the method's place
WATCHED: dict[str, tuple[str, str, Callable[[Callable[..., Any]], Callable[..., Any]]]] = {
    "verl.trainer.ppo.v1.trainer_base": ("PPOTrainer", "_compute_advantage", v1.watched),
    "verl.trainer.ppo.ray_trainer": ("RayPPOTrainer", "_update_actor", legacy.watched),
}


def install() -> None:
    """Wraps the trainers, now or when they are imported. Safe to call twice."""
    if os.environ.get(VARIABLE) == "off":
        return
    for name in WATCHED:
        module = sys.modules.get(name)
        if module is not None:
            wrap(name, module)
        elif not any(isinstance(finder, _AfterImport) and finder.name == name for finder in sys.meta_path):
            sys.meta_path.insert(0, _AfterImport(name))


class _AfterImport(importlib.abc.MetaPathFinder):
    """Wraps the trainer of a module as soon as it is there: importing it from a plugin would be a circle."""

    def __init__(self, name: str):
        self.name = name

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return spec
        loader = spec.loader
        execute = loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            wrap(name, module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def wrap(name: str, module: ModuleType) -> None:
    """Wraps the method of the module's trainer."""
    trainer_name, method, watched = WATCHED[name]
    trainer = getattr(module, trainer_name, None)
    original = getattr(trainer, method, None)
    if trainer is None or original is None:
        logger.warning("collapsar: %s has no %s.%s: its trainers are not watched", name, trainer_name, method)
        return
    if hasattr(original, "_collapsar"):
        return
    wrapped = watched(original)
    wrapped._collapsar = True  # type: ignore[attr-defined]
    setattr(trainer, method, wrapped)
