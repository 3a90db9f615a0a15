"""What the hooks of verl are told, and the watching that they share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import ArgumentError
from ..watching import SavedWatching, hook_options

VARIABLE = "COLLAPSAR_VERL"


#: names of ``VerlOptions``
OWN = ("scores", "max_tokens")


@dataclass(frozen=True)
class VerlOptions:
    """What is verl's own among the options."""

    #: cross-scores by the actor, every ``every`` steps; False: texts and rewards alone
    scores: bool = False
    #: most tokens that the actor is given at once; it cuts them into its own micro-batches
    max_tokens: int = 2**20

    def __post_init__(self) -> None:
        if not isinstance(self.scores, bool):
            raise ArgumentError(f"got {self.scores!r}, expected true or false", "scores")
        if not (isinstance(self.max_tokens, int) and self.max_tokens >= 1):
            raise ArgumentError(f"got {self.max_tokens!r}, expected 1 or more", "max_tokens")


class VerlWatching(SavedWatching):
    """A watching with the options of verl beside it."""

    def __init__(self, given: Mapping[str, Any], state: str | None = None):
        options = dict(given)
        own = {name: options.pop(name) for name in OWN if name in options}
        self.verl = VerlOptions(**own)
        super().__init__(**{"state": state} | options)


def watching_of(trainer: Any) -> VerlWatching:
    """The watching of a trainer, by the environment variable."""
    watching: VerlWatching | None = getattr(trainer, "_collapsar", None)
    if watching is None:
        watching = trainer._collapsar = VerlWatching(*hook_options(VARIABLE, OWN))
    return watching
