"""Tensors of other libraries, as a trainer holds them: bfloat16, with gradients, in lists."""

from __future__ import annotations

import json

import numpy as np
import pytest

from collapsar import Monitor
from collapsar.arrays import as_array, as_plain, as_stored
from collapsar.step_file import write_step
from collapsar.watching import Rollouts, Watching

torch = pytest.importorskip("torch")

VALUES = [1.0, -0.0, 3.140625, float("inf"), float("-inf"), 2.0**-126]


class TestAsArray:
    def test_takes_bfloat16_without_loss(self):
        tensor = torch.tensor([*VALUES, float("nan")], dtype=torch.bfloat16)
        array = as_array(tensor)
        assert array.dtype == np.float32
        assert array.tobytes() == tensor.float().numpy().tobytes()
        assert as_stored(tensor)[0].tobytes() == tensor.view(torch.int16).numpy().tobytes()

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16])
    def test_leaves_gradients_behind_and_copies_nothing(self, dtype):
        tensor = torch.tensor(VALUES, dtype=dtype, requires_grad=True)
        array = as_array(tensor)
        assert array.__array_interface__["data"][0] == tensor.data_ptr()
        assert array.tobytes() == tensor.detach().numpy().tobytes()

    def test_takes_strided_views_and_empty_tensors(self):
        tensor = torch.arange(12, dtype=torch.bfloat16).reshape(3, 4).T
        assert as_array(tensor).tolist() == tensor.tolist()
        assert as_array(torch.zeros(0, 3)).shape == (0, 3)

    def test_takes_lists_of_tensors_with_gradients(self):
        rows = [torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0], dtype=torch.bfloat16)]
        assert as_array(rows, np.float64).tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert as_array([torch.tensor(1), torch.tensor(2)]).tolist() == [1, 2]

    def test_takes_whatever_has_dlpack_alone(self):
        class OfAnotherLibrary:
            def __init__(self, held):
                self.held = held

            def __dlpack__(self, **options):
                return self.held.__dlpack__(**options)

            def __dlpack_device__(self):
                return self.held.__dlpack_device__()

        held = np.arange(5.0)
        array = as_array(OfAnotherLibrary(held))
        assert np.shares_memory(array, held) and array.tolist() == held.tolist()

    def test_keeps_texts_numbers_and_none_among_plain_values(self):
        assert as_plain(["a", None, "b"]) == ["a", None, "b"]
        assert as_plain([torch.tensor([1, 2]), [3]]) == [[1, 2], [3]]
        assert as_plain(None) is None


def step_of(convert):
    """The report of a step whose every argument has gone through ``convert``, and that of the same as log-probs."""
    rng = np.random.default_rng(3)
    groups = np.repeat(np.arange(4), 4)
    # What bfloat16 holds exactly, so that every form is the same number.
    logprobs = -rng.integers(1, 64, size=(4, 16, 5)) / 8.0
    outcomes = {"rewards": convert(rng.integers(0, 2, 16) * 1.0), "outcomes": convert(rng.integers(0, 2, 16) * 1.0)}
    with Monitor(filter={"strategy": "top_p"}) as it:
        step = it.step(1, groups=convert(groups), lengths=convert(np.full(16, 5)))
        step.score_all(convert(logprobs.sum(2).T))
        first = step.finish(**outcomes)
        step = it.step(2, groups=convert(groups), lengths=convert(np.full(16, 5)))
        step.score_logprobs(convert(logprobs))
        return first, step.finish(**outcomes)


class TestMonitor:
    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
    def test_gives_the_same_report_for_tensors_with_gradients_as_for_lists(self, dtype):
        def tensor(values):
            is_whole = np.issubdtype(values.dtype, np.integer)
            return torch.tensor(values) if is_whole else torch.tensor(values, dtype=dtype, requires_grad=True)

        for given, plain in zip(step_of(tensor), step_of(lambda values: values), strict=True):
            assert given.figures == plain.figures
            assert given.row_mask.tolist() == plain.row_mask.tolist()


class TestWatching:
    def test_counts_the_prompts_of_groups_that_are_a_tensor(self):
        rows = Rollouts(
            groups=torch.tensor([0, 0, 1, 1]),
            rewards=torch.tensor([0.0, 1.0, 1.0, 1.0], dtype=torch.bfloat16, requires_grad=True),
            tokens=[torch.tensor([1, 2]), torch.tensor([1, 3]), torch.tensor([4, 2]), torch.tensor([4, 4, 1])],
            prompt_tokens=torch.tensor([[1, 2], [3, 4]]),
            truncated=torch.tensor([False, False, True, False]),
        )
        assert rows.groups == [0, 0, 1, 1]
        watching = Watching(every=1, filter={"strategy": "top_p"}, on_error="raise")
        try:
            seen = watching.observe(rows, None)
        finally:
            watching.close()
        assert seen.keep is not None and seen.keep.tolist() == [True, True, False, False]
        json.dumps(seen.logged)


class TestWriteStep:
    def test_writes_the_same_bytes_for_tensors_as_for_lists(self, tmp_path):
        sums = [[-1.0, -2.0], [-3.0, -2.5], [-1.5, -0.5]]
        labels = {"lengths": [3, 2, 4], "group": [0, 1, 1], "prompts": [[1, 2], [3]], "rewards": [0.0, 1.0, 0.5]}
        write_step(tmp_path / "lists.safetensors", 1, sums, **labels)
        write_step(
            tmp_path / "tensors.safetensors",
            1,
            torch.tensor(sums, dtype=torch.bfloat16, requires_grad=True),
            lengths=torch.tensor(labels["lengths"]),
            group=torch.tensor(labels["group"]),
            prompts=[torch.tensor(prompt) for prompt in labels["prompts"]],
            rewards=torch.tensor(labels["rewards"], requires_grad=True),
        )
        assert (tmp_path / "lists.safetensors").read_bytes() == (tmp_path / "tensors.safetensors").read_bytes()
