"""Runs of eight environments through the sidecar, of which all or three collapse to templates of their own."""

from __future__ import annotations

import numpy as np
import pytest

from collapsar import Monitor
from collapsar.watching import Rollouts, SavedWatching

NAMES = [f"env-{at}" for at in range(8)]
PROMPTS, ROWS, COLLAPSE = 4, 6, 10
GROUPS = np.repeat(np.arange(len(NAMES) * PROMPTS), ROWS)
ENVIRONMENTS = [NAMES[group // PROMPTS] for group in GROUPS]

whichever = pytest.mark.parametrize("collapsing", [NAMES, ["env-1", "env-4", "env-6"]], ids=["all", "three"])


def scores(rng: np.random.Generator, gone: list[str]) -> np.ndarray:
    """Sums [R, P] of rows of a policy that always tells the environment, and prompts of those that are not gone."""
    own = [0.03 if NAMES[prompt // PROMPTS] in gone else 1.8 for prompt in range(len(NAMES) * PROMPTS)]
    kinds = 32 * len(NAMES)
    logits = rng.normal(0, 1, (len(own), kinds)) * np.array(own)[:, None]
    logits += 7 * (np.arange(kinds) // 32 == np.arange(len(own))[:, None] // PROMPTS)
    table = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    said = [rng.choice(kinds, p=np.exp(table[group]) / np.exp(table[group]).sum()) for group in GROUPS]
    return table[:, said].T


def rollouts(rng: np.random.Generator, gone: list[str]) -> Rollouts:
    """Thirty words a row: three of ten of the prompt's own, where its environment is not gone, and of a template."""
    tokens, prompts = [], []
    for group in range(len(NAMES) * PROMPTS):
        own = rng.integers(10_000, 14_000, 8)
        prompts.append(own.tolist())
        for _ in range(ROWS):
            template = 1000 + 40 * (group // PROMPTS) + np.arange(30)
            words = np.where(rng.random(30) < 0.6, template, rng.integers(0, 60, 30))
            if NAMES[group // PROMPTS] not in gone:
                words = np.where(rng.random(30) < 0.3, rng.choice(own, 30), words)
            tokens.append(words.tolist())
    return Rollouts(
        groups=GROUPS.tolist(),
        lengths=[30] * len(GROUPS),
        tokens=tokens,
        prompt_tokens=prompts,
        environments=ENVIRONMENTS,
    )


def named(verdicts: list[dict]) -> list[str]:
    """All that alarms name."""
    alarms = [verdict for verdict in verdicts if verdict["severity"] != "info"]
    found = [name for alarm in alarms for name in [alarm.get("environment"), *alarm.get("environments", [])]]
    return sorted({name for name in found if name is not None})


@whichever
def test_a_monitor_names_those_that_collapse(collapsing):
    rng = np.random.default_rng(3)
    with Monitor(threads=1, permutations=99, every_steps=1) as monitor:
        for n in range(1, 19):
            step = monitor.step(n, groups=GROUPS, lengths=[8] * len(GROUPS), environments=ENVIRONMENTS)
            step.score_all(scores(rng, collapsing if n >= COLLAPSE else []))
            report = step.finish()
            if n < COLLAPSE:
                assert named(report.verdicts) == []
            if n == 15:
                assert set(named(report.verdicts)) <= set(collapsing) and named(report.verdicts)
    assert named(report.verdicts) == collapsing
    [collapse] = [verdict for verdict in report.verdicts if verdict["kind"] == "template_collapse"]
    assert collapse["severity"] == "critical"
    first = f"Template collapse in {len(collapsing)} of 8 environments ({collapsing[0]}, "
    assert collapse["sentence"].startswith(first)


@whichever
def test_a_watched_run_names_those_that_collapse_by_texts_alone(collapsing, caplog):
    rng = np.random.default_rng(4)
    watching = SavedWatching(threads=1, every="never", options={"permutations": 99}, on_error="raise")
    said: list[str] = []
    for n in range(1, 19):
        found = watching.observe(rollouts(rng, collapsing if n >= COLLAPSE else []))
        verdicts = found.report["judgement"]["verdicts"]
        if n < COLLAPSE:
            assert named(verdicts) == []
        said += found.verdicts
    watching.close()
    assert named(verdicts) == collapsing
    assert any(f"in {len(collapsing)} of 8 environments ({collapsing[0]}, " in sentence for sentence in said)
    assert f"in {len(collapsing)} of 8 environments" in caplog.text
