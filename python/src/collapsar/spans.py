"""Where in a completion its reasoning stands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from .errors import ArgumentError


class Tokenizer(Protocol):
    """What is needed of a tokenizer of transformers."""

    eos_token_id: Any

    def encode(self, text: str, **options: Any) -> list[int]:
        """Token ids of a text."""

    def decode(self, ids: Any, **options: Any) -> str:
        """Text of token ids."""


TAGS = ("<think>", "</think>")

#: what opens and closes the reasoning; ``"auto"``: ``TAGS`` where the tokenizer knows them; None: all is reasoning
Tags: TypeAlias = "tuple[str, str] | Literal['auto'] | None"


def tags_of(tokenizer: Any) -> tuple[str, str] | None:
    """``<think>`` and ``</think>`` where the tokenizer or its chat template has them; else None."""
    template = getattr(tokenizer, "chat_template", None)
    vocabulary = tokenizer.get_vocab() if hasattr(tokenizer, "get_vocab") else {}
    known = all(tag in vocabulary for tag in TAGS)
    return TAGS if known or (isinstance(template, str) and TAGS[1] in template) else None


@dataclass(frozen=True)
class Span:
    """``completion[start:end]`` is the reasoning; what stands before is context, as the prompt is."""

    start: int
    end: int
    #: the reasoning is well formed: opened where tags are used, and closed
    valid: bool
    #: it was not closed before the completion ended
    truncated: bool

    @property
    def length(self) -> int:
        """Reasoning tokens."""
        return self.end - self.start


class SpanFinder:
    """Finds the reasoning between two tags, such as ``<think>`` and ``</think>``.

    A tag that is one token is found by its id. A tag of several tokens is found in the decoded text, special tokens
    included, and its place among the tokens by bisection over the decoded prefixes: how its characters were cut into
    tokens does not matter.

    Args:
        tokenizer: of transformers, or what looks like one.
        tags: opener and closer; None: the whole completion is the reasoning, up to its end token.
    """

    def __init__(self, tokenizer: Tokenizer, tags: tuple[str, str] | None = TAGS):
        self._tokenizer = tokenizer
        #: opener and closer; None: there are none
        self.tags = tags
        self._ids = [None, None] if tags is None else [self._one_id(tag) for tag in tags]
        ends = tokenizer.eos_token_id
        self._ends = set(ends) if isinstance(ends, (list, tuple)) else {ends}

    def find(self, completion: Sequence[int], prompt: Sequence[int] = (), own: Sequence[int] | None = None) -> Span:
        """Finds the reasoning of one completion.

        Args:
            completion: token ids without padding.
            prompt: token ids of the prompt, which may have opened the reasoning (chat templates do).
            own: 1 for tokens of the policy, 0 for those of tools: the first turn ends at the first 0.
        """
        ids = list(completion)
        if own is not None:
            ids = ids[: next((at for at, is_own in enumerate(own) if not is_own), len(ids))]
        last = next((at for at, token in enumerate(ids) if token in self._ends), len(ids))
        ended = last < len(ids)
        if self.tags is None:
            closed = ended or len(ids) < len(completion)
            return Span(0, last, valid=closed, truncated=not closed)
        opened = self._after_opener(ids[:last])
        start = opened if opened is not None else 0
        is_open = opened is not None or self._opens(list(prompt))
        close = self._before_closer(ids[start:last])
        if close is None:
            # Without either tag nothing was cut: a model that does not reason in them has answered.
            return Span(start, last, valid=False, truncated=is_open or (not ended and len(ids) == len(completion)))
        return Span(start, start + close, valid=is_open, truncated=False)

    def _one_id(self, tag: str) -> int | None:
        ids = self._tokenizer.encode(tag, add_special_tokens=False)
        return ids[0] if len(ids) == 1 else None

    def _text(self, ids: Sequence[int]) -> str:
        return self._tokenizer.decode(list(ids), skip_special_tokens=False)

    def _after_opener(self, ids: list[int]) -> int | None:
        """Tokens up to the end of the first opener; None without one."""
        if self._ids[0] is not None:
            return ids.index(self._ids[0]) + 1 if self._ids[0] in ids else None
        tag = self.tags[0]  # type: ignore[index]
        if tag not in self._text(ids):
            return None
        return self._least(ids, lambda text: tag in text)

    def _before_closer(self, ids: list[int]) -> int | None:
        """Tokens before the first one of the first closer; None without one."""
        if self._ids[1] is not None:
            return ids.index(self._ids[1]) if self._ids[1] in ids else None
        tag = self.tags[1]  # type: ignore[index]
        place = self._text(ids).find(tag)
        if place < 0:
            return None
        # A token that has the last of the reasoning and the first of the tag is the tag's.
        return self._least(ids, lambda text: len(text) > place) - 1

    def _least(self, ids: list[int], holds: Any) -> int:
        """Fewest tokens whose text has what more tokens keep."""
        low, high = 0, len(ids)
        while low < high:
            middle = (low + high) // 2
            if holds(self._text(ids[:middle])):
                high = middle
            else:
                low = middle + 1
        return low

    def _opens(self, prompt: list[int]) -> bool:
        """Whether the prompt ends within a reasoning that it has opened."""
        opener, closer = self._ids
        if opener is not None and closer is not None:
            reverse = prompt[::-1]
            return opener in reverse and (closer not in reverse or reverse.index(opener) < reverse.index(closer))
        text = self._text(prompt)
        opened = text.rfind(self.tags[0])  # type: ignore[index]
        return opened >= 0 and text.find(self.tags[1], opened) < 0  # type: ignore[index]


def checked_tags(tags: Any) -> Tags:
    """Tags as they are given, also as a list of JSON.

    Raises:
        ArgumentError: they are neither two texts, nor ``"auto"``, nor None.
    """
    if tags is None or tags == "auto":
        return tags  # type: ignore[no-any-return]
    pair = tuple(tags) if isinstance(tags, (list, tuple)) else ()
    if len(pair) != 2 or not all(isinstance(tag, str) and tag for tag in pair):
        raise ArgumentError(f"got {tags!r}, expected two tags, 'auto' or None", "tags")
    return pair


class Reasoning:
    """Where the reasoning stands in a trainer's responses, found with its own tokenizer: the same for all hooks."""

    def __init__(self, tags: Any = "auto"):
        self.tags = checked_tags(tags)
        self._tokenizer: Any = None
        self._finder: SpanFinder | None = None

    def spans(
        self,
        tokenizer: Any,
        responses: Sequence[Sequence[int]],
        prompts: Sequence[Sequence[int]] | None = None,
        masks: Sequence[Sequence[float] | None] | None = None,
    ) -> list[Span]:
        """The reasoning of each response, in the first turn that the policy wrote.

        Args:
            tokenizer: of the trainer, or None: then all of the turn is the reasoning.
            responses: R lists of token ids, without padding.
            prompts: [R] token ids of what stands before, which may have opened the reasoning.
            masks: [R] 1 for tokens of the policy, 0 for those of tools. Without any 1 it is none.

        Raises:
            ArgumentError: tags were asked for by name, and there is no tokenizer to find them with.
        """
        finder = self.finder(tokenizer)
        spans = []
        for at, response in enumerate(responses):
            mask = None if masks is None else masks[at]
            own = None if mask is None or not any(mask) else list(mask)
            # What a tool or a template wrote first is context.
            first = 0 if own is None else next(place for place, is_own in enumerate(own) if is_own)
            before = [*(prompts[at] if prompts is not None else ()), *response[:first]]
            if finder is None:
                end = (
                    len(response) if own is None else next((i for i in range(first, len(own)) if not own[i]), len(own))
                )
                spans.append(Span(first, min(end, len(response)), valid=True, truncated=False))
                continue
            span = finder.find(response[first:], before, None if own is None else own[first:])
            spans.append(Span(first + span.start, first + span.end, span.valid, span.truncated))
        return spans

    def finder(self, tokenizer: Any) -> SpanFinder | None:
        """What finds it; None without a tokenizer."""
        if tokenizer is None:
            if isinstance(self.tags, tuple):
                raise ArgumentError("need the trainer's tokenizer, which could not be had", "tags")
            return None
        if self._finder is None or tokenizer is not self._tokenizer:
            tags = tags_of(tokenizer) if self.tags == "auto" else self.tags
            self._tokenizer, self._finder = tokenizer, SpanFinder(tokenizer, tags)  # type: ignore[arg-type]
        return self._finder

    def has_tags(self, tokenizer: Any) -> bool:
        """Whether the reasoning is told from the answer."""
        finder = self.finder(tokenizer)
        return finder is not None and finder.tags is not None
