"""Where reasoning stands: tags of one token and of several, of the template, cut off, and before tools."""

from __future__ import annotations

import pytest

from collapsar.spans import Span, SpanFinder


class Characters:
    """A tokenizer of single characters (ids: code points), with some tokens of more; 1 ends."""

    eos_token_id = 1

    def __init__(self, *longer: str):
        self.longer = {text: 1_000_000 + at for at, text in enumerate(longer)}
        self.texts = {1: "", **{token: text for text, token in self.longer.items()}}

    def encode(self, text: str, **_) -> list[int]:
        ids = []
        while text:
            found = next(
                (longer for longer in sorted(self.longer, key=len, reverse=True) if text.startswith(longer)), None
            )
            ids.append(self.longer[found] if found else ord(text[0]))
            text = text[len(found) if found else 1 :]
        return ids

    def decode(self, ids, skip_special_tokens: bool = True) -> str:
        assert not skip_special_tokens
        return "".join(self.texts.get(token, chr(token)) for token in ids)


ONE = Characters("<think>", "</think>")
SEVERAL = Characters(">.", "o</")


@pytest.mark.parametrize("tokens", [ONE, SEVERAL], ids=["tags of one token", "tags of several tokens"])
class TestTags:
    def find(self, tokens, completion, prompt=""):
        ids = tokens.encode(completion)
        span = SpanFinder(tokens).find(ids, tokens.encode(prompt))
        return span, tokens.decode(ids[span.start : span.end], skip_special_tokens=False)

    def test_stands_between_them(self, tokens):
        span, text = self.find(tokens, "so <think>go left</think> left")
        assert (text, span.valid, span.truncated) == ("go left", True, False)

    def test_is_opened_by_the_template(self, tokens):
        span, text = self.find(tokens, "go left</think> left", "where?<think>")
        assert (span.start, text, span.valid) == (0, "go left", True)

    def test_is_not_opened_by_one_that_was_closed(self, tokens):
        span, text = self.find(tokens, "left</think>", "<think>x</think>where?")
        assert (text, span.valid) == ("left", False)

    def test_is_cut_off(self, tokens):
        span, text = self.find(tokens, "<think>go le")
        assert (text, span.valid, span.truncated) == ("go le", False, True)

    def test_ends_before_the_end_token(self, tokens):
        ids = [*tokens.encode("<think>go"), 1, 1]
        span = SpanFinder(tokens).find(ids)
        assert (tokens.decode(ids[span.start : span.end], skip_special_tokens=False), span.valid) == ("go", False)

    def test_may_be_empty(self, tokens):
        span, text = self.find(tokens, "<think></think>")
        assert (text, span.length, span.valid) == ("", 0, True)


def test_a_token_of_reasoning_and_tag_is_the_tags():
    # "o</" is one token: the last letter of the reasoning goes with it.
    ids = SEVERAL.encode("<think>go</think>")
    span = SpanFinder(SEVERAL).find(ids)
    assert SEVERAL.decode(ids[span.start : span.end], skip_special_tokens=False) == "g"


def test_a_token_of_opener_and_reasoning_is_context():
    ids = SEVERAL.encode("<think>.go</think>")
    span = SpanFinder(SEVERAL).find(ids)
    assert SEVERAL.decode(ids[span.start : span.end], skip_special_tokens=False) == "g"


def test_the_first_turn_ends_where_a_tool_speaks():
    ids = ONE.encode("<think>abTOOL</think>")
    own = [1, 1, 1, 0, 0, 0, 0, 1]
    assert SpanFinder(ONE).find(ids, own=own) == Span(1, 3, valid=False, truncated=True)
    assert SpanFinder(ONE, None).find(ids, own=own) == Span(0, 3, valid=True, truncated=False)


def test_without_tags_all_is_reasoning():
    assert SpanFinder(ONE, None).find([5, 6, 1, 0]) == Span(0, 2, valid=True, truncated=False)
    assert SpanFinder(ONE, None).find([5, 6]) == Span(0, 2, valid=False, truncated=True)
