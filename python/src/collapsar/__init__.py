"""collapsar: find template collapse in RL-trained LLM agents before the reward curve does.

The engine is a Node process beside the trainer; this package asks it. Hooks of trainers are modules of their own, and
load what they need only then: ``collapsar.trl``, ``collapsar.verl``, ``collapsar.slime``, ``collapsar.skyrl``,
``collapsar.tinker``; ``collapsar.hf`` scores with a model of transformers.
"""

from .doctor import doctor
from .errors import ArgumentError, CollapsarError, NodeError, SidecarError, StateError
from .monitor import Monitor, Report, Step

__version__ = "0.1.0"

__all__ = [
    "ArgumentError",
    "CollapsarError",
    "Monitor",
    "NodeError",
    "Report",
    "SidecarError",
    "StateError",
    "Step",
    "__version__",
    "doctor",
]
