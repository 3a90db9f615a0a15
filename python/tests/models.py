"""Tiny models and tokenizers, made from a configuration: nothing is downloaded."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

VOCABULARY = 48


def qwen(hidden: int = 32, layers: int = 2, vocabulary: int = VOCABULARY, seed: int = 0):
    """A model with rotary positions."""
    torch.manual_seed(seed)
    config = transformers.Qwen2Config(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        pad_token_id=0,
        eos_token_id=1,
        bos_token_id=None,
    )
    return transformers.Qwen2ForCausalLM(config)


def gpt2(seed: int = 0):
    """A model with absolute positions, and dropout."""
    torch.manual_seed(seed)
    config = transformers.GPT2Config(
        vocab_size=VOCABULARY, n_positions=256, n_embd=32, n_layer=2, n_head=4, pad_token_id=0, eos_token_id=1
    )
    return transformers.GPT2LMHeadModel(config)


def tokenizer(words: list[str], specials: list[str] = ()):
    """A tokenizer of whole words: [PAD] 0, [EOS] 1, [UNK] 2, then the words."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    vocabulary = {token: at for at, token in enumerate(["[PAD]", "[EOS]", "[UNK]", *words])}
    made = Tokenizer(models.WordLevel(vocabulary, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(
        tokenizer_object=made, pad_token="[PAD]", eos_token="[EOS]", unk_token="[UNK]", padding_side="left"
    )
