"""The examples for Python, run as a reader would: what they are to show does not hang on a seed."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")
EXAMPLES = Path(__file__).parents[2] / "examples"


def example(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("example", EXAMPLES / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestTrlExample:
    @pytest.mark.parametrize("seed", [1, 2, 3])
    def test_reports_template_collapse_where_a_judge_pays_for_careful_words(self, seed):
        pytest.importorskip("trl")
        first = example("trl/grpo.py").run(weight=1.0, steps=15, seed=seed)
        assert first is not None and 4 <= first <= 12

    def test_reports_no_template_collapse_where_right_moves_alone_are_rewarded(self):
        pytest.importorskip("trl")
        assert example("trl/grpo.py").run(weight=0.0, steps=15, seed=1) is None


class TestPytorchExample:
    @pytest.mark.parametrize("seed", [1, 2])
    def test_reports_template_collapse_where_one_word_is_paid_for(self, seed):
        said = example("pytorch/loop.py").train(steps=25, seed=seed, pay=1.0)
        assert any(sentence.startswith("Template collapse") for sentence in said)

    def test_reports_no_template_collapse_where_it_is_not(self):
        said = example("pytorch/loop.py").train(steps=20, seed=1, pay=0.0)
        assert not any(sentence.startswith("Template collapse") for sentence in said)
