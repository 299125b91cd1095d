"""The tokenizer, a byte-level BPE over 1024 tokens, and the corpus as token ids."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from remote.lab.recipe.corpus import Corpus
from remote.lab.recipe.geometry import BOS

TOKENS = "tokens.safetensors"  # written last: it says that all of the folder is there
SPECIAL = ["<bos>", "<eos>", "<pad>"]


@dataclass(frozen=True)
class Tokens:
    """Ids of both sides, one file behind the other, each after a ``<bos>``.

    Attributes:
        train, held: [N] int64. held_starts: where each held-out file starts.
    """

    train: Tensor
    held: Tensor
    held_starts: tuple[int, ...]


def train_tokenizer(texts: list[str], vocab: int) -> Tokenizer:
    """A BPE over bytes; the same texts give the same one."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab,
        special_tokens=SPECIAL,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def prepare(corpus: Corpus, vocab: int, out: Path) -> Tokens:
    """Tokenizer (``tokenizer/``), ids (``tokens.safetensors``) and names of files (``files.json``) in `out`."""
    out.mkdir(parents=True, exist_ok=True)
    tokenizer = train_tokenizer([file.text for file in corpus.train], vocab)
    PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, bos_token=SPECIAL[0], eos_token=SPECIAL[1], pad_token=SPECIAL[2]
    ).save_pretrained(out / "tokenizer")
    sides: dict[str, Tensor] = {}
    for side, files in (("train", corpus.train), ("held", corpus.held)):
        encoded = [[BOS, *one.ids] for one in tokenizer.encode_batch([file.text for file in files])]
        sides[side] = torch.tensor([i for ids in encoded for i in ids], dtype=torch.int16)
        lengths = torch.tensor([0, *(len(ids) for ids in encoded)])
        sides[f"{side}_starts"] = lengths.cumsum(0)[:-1]
    names = {"train": [f.name for f in corpus.train], "held": [f.name for f in corpus.held]}
    facts = {"digest": corpus.digest, "duplicates": corpus.duplicates}
    (out / "files.json").write_text(json.dumps({**facts, **names}, indent=1))
    save_file(sides, out / "tokens.part")
    os.replace(out / "tokens.part", out / TOKENS)
    return load_tokens(out)


def load_tokens(folder: Path) -> Tokens:
    stored = load_file(folder / TOKENS)
    return Tokens(stored["train"].long(), stored["held"].long(), tuple(stored["held_starts"].tolist()))
