"""A step of the real verl: its trainers, TransferQueue on Ray, GRPO's advantages; only the actor is a small model here.

    python tests/verl_real.py       in an environment of python/verl.txt, after `npm ci`

What stops a whole training run on a CPU: verl's rollout workers are vLLM's or SGLang's servers on an accelerator, and
its worker groups ask Ray for one. Prints what it has seen; exit status 1 where something is not as it must be.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("COLLAPSAR_VERL", json.dumps({"threads": 1, "on_error": "raise", "filter": {"value": 0.9}}))
sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent / "src")]

import collapsar.verl  # noqa: E402, F401  isort: skip
import ray  # noqa: E402
import test_verl as given  # noqa: E402
import torch  # noqa: E402
import transfer_queue as tq  # noqa: E402
import verl  # noqa: E402
from omegaconf import OmegaConf  # noqa: E402
from verl.utils.tensordict_utils import list_of_dict_to_tensordict  # noqa: E402

from collapsar.watching import Rollouts, SavedWatching  # noqa: E402

CONFIG = {
    "algorithm": {"use_kl_in_reward": False, "adv_estimator": "grpo", "gamma": 1.0, "lam": 1.0},
    "actor_rollout_ref": {
        "rollout": {"n": given.EACH, "temperature": given.TEMPERATURE},
        "actor": {"loss_agg_mode": "token-mean"},
    },
}


def rows() -> tuple[list[dict], list[str]]:
    """Two outputs a session; the reward stands with the last."""
    made, keys = [], []
    for row in range(given.ROWS):
        group = row // given.EACH
        for output in (0, 1):
            said = torch.tensor(given.response_of(row) if output == 0 else [7, given.END])
            reward = torch.zeros(len(said))
            reward[-1] = given.reward_of(row) if output == 1 else 0.0
            mask = torch.ones_like(said)
            columns = {"prompts": torch.tensor(given.prompt_of(group) + [9] * output), "responses": said}
            columns |= {"response_mask": mask, "loss_mask": mask.clone(), "rm_scores": reward}
            columns |= {"old_log_probs": -torch.ones(len(said)), "rollout_log_probs": -torch.ones(len(said))}
            made.append({"uid": f"uid{group}", **columns})
            keys.append(f"uid{group}_{row % given.EACH}_{output}")
    return made, keys


def step(module: str, name: str) -> dict[str, float]:
    """One `_compute_advantage` of the mode's own class; raises where the batch is not as it must be afterwards."""
    trainer_class = getattr(importlib.import_module(f"verl.trainer.ppo.v1.{module}"), name)
    trainer = object.__new__(trainer_class)
    trainer.config, trainer.tokenizer = OmegaConf.create(CONFIG), given.tokenizer(given.WORDS)
    made, keys = rows()
    partition = f"train-{name}"
    tags = [{"is_padding": False, "seq_len": 10} for _ in keys]
    meta = tq.kv_batch_put(keys=keys, partition_id=partition, fields=list_of_dict_to_tensordict(made), tags=tags)
    metrics: dict[str, float] = {}
    trainer_class._compute_advantage(trainer, meta, metrics=metrics)
    after = tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=["advantages", "response_mask"])
    kept = [bool(mask.any()) for mask in after["response_mask"].unbind()]
    assert kept == [row // (2 * given.EACH) < 2 for row in range(len(keys))], kept
    advantages = [float(row.abs().max()) for row in after["advantages"].unbind()]
    assert all(value > 0 for value in advantages[: 4 * given.EACH]), advantages
    trainer._collapsar.close()
    return metrics


def recomputed() -> dict[str, float]:
    """Of the first outputs' reasoning and the last ones' rewards, without the hook."""
    responses = [given.response_of(row) for row in range(given.ROWS)]
    tokens = [response[1 : response.index(given.CLOSE)] for response in responses]
    watching = SavedWatching(threads=1, filter={"value": 0.9})
    observation = watching.observe(
        Rollouts(
            groups=[row // given.EACH for row in range(given.ROWS)],
            rewards=[given.reward_of(row) for row in range(given.ROWS)],
            lengths=[len(row) for row in tokens],
            tokens=tokens,
        )
    )
    watching.close()
    return observation.logged


if __name__ == "__main__":
    # The queue asks for more processors than most laptops have, and uses few.
    ray.init(num_cpus=16, include_dashboard=False, log_to_driver=False)
    tq.init()
    failed = 0
    found = {}
    for module, name in (
        ("trainer_sync", "PPOTrainerSync"),
        ("trainer_colocate_async", "PPOTrainerColocateAsync"),
        ("trainer_separate_async", "PPOTrainerSeparateAsync"),
    ):
        found[name] = step(module, name)
        print(f"verl {verl.__version__} {name}: {json.dumps(found[name])}")
    for module, name in (
        ("verl.trainer.ppo.ray_trainer", "RayPPOTrainer"),
        ("verl.experimental.one_step_off_policy.ray_trainer", "OneStepOffRayTrainer"),
        ("verl.experimental.fully_async_policy.fully_async_trainer", "FullyAsyncTrainer"),
    ):
        trainer = getattr(importlib.import_module(module), name)
        trainer = getattr(getattr(trainer, "__ray_metadata__", None), "modified_class", trainer)
        is_watched = hasattr(trainer._update_actor, "_collapsar")
        failed += not is_watched
        print(f"verl {verl.__version__} {name}: {'watched' if is_watched else 'NOT watched'}")
    expected = recomputed()
    for name, figures in found.items():
        for key in ("collapsar/text_mi", "collapsar/kept_share"):
            if abs(figures[key] - expected[key]) > 1e-6:
                failed += 1
                print(f"{name}: {key} is {figures[key]}, recomputed {expected[key]}")
    sys.exit(1 if failed else 0)
