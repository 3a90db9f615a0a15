"""verl: figures and the filter in the trainer's own step.

verl 0.9 and later loads this module by itself (entry point ``verl.plugins``); 0.7.1 and later with
``VERL_USE_EXTERNAL_MODULES=collapsar.verl``. It runs in every process that imports verl, and does nothing there but
see to it that trainers, once they are imported, are watched: those of V1 (sync, colocate_async, separate_async) and
the RayPPOTrainer, one-step-off and fully asynchronous ones among them. RAGEN's takes ``Watched`` as a base class.
With verl#7894, ``Hook`` is the class for
``trainer.pre_advantage_hooks.collapsar.hook_class``.

Options are a JSON object in the environment variable COLLAPSAR_VERL, or ``off``: those of
``collapsar.watching.Watching``, and of ``VerlOptions``.
"""

from __future__ import annotations

from .hook import Hook
from .legacy import Watched
from .options import VARIABLE, VerlOptions
from .plugin import install

__all__ = ["VARIABLE", "Hook", "VerlOptions", "Watched", "install"]

# The plugin's entry point is loaded and not called.
install()
