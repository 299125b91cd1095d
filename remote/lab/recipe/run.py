"""The stages in order. Each is skipped where its result lies in the folder, and goes on where it was killed."""

from __future__ import annotations

import json
import os
import platform
import shutil
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from remote.lab.errors import USAGE, LabError
from remote.lab.recipe.budget import BUDGETS, Budget
from remote.lab.recipe.card import write_card
from remote.lab.recipe.corpus import HELD_OUT, LICENCE, SMALLEST, Corpus, library_files, read_corpus
from remote.lab.recipe.dumps import LENGTH, SAMPLES, write_dump, write_prompts
from remote.lab.recipe.export import load_target, save_target
from remote.lab.recipe.generate import continue_texts
from remote.lab.recipe.geometry import DrafterShape, TargetShape
from remote.lab.recipe.measure import TEXTS, drafter_figures, target_figures
from remote.lab.recipe.samples import Samples, draft_tokens, greedy, held_places, held_prompts, make_samples
from remote.lab.recipe.state import Journal, write_text
from remote.lab.recipe.target import Target
from remote.lab.recipe.tokens import TOKENS, Tokens, load_tokens, prepare
from remote.lab.recipe.train_drafter import save_drafter, train_drafter
from remote.lab.recipe.train_target import HELD_TEXTS, train_target
from remote.lab.recipe.unloop import unloop

# What both drafters are served with (SGLang 0.5.9: a boundary less one), and what each was really trained on.
LAYER_IDS = (1, 4, 8)
TRAINED_ON = {"drafter": (2, 5, 9), "mirror": (0, 2, 5)}


def run(out: Path, seed: int, size: str, journal: Journal, text: Path | None = None) -> dict[str, Any]:
    """Everything, into `out`; gives what was measured.

    Args:
        text: a folder of Python files to learn from instead of the standard library.

    Raises:
        LabError: ``WB-RECIPE-OUT`` where the folder holds a run of another seed, budget, text, or of other versions;
            ``WB-RECIPE-TEXT`` where the text is too little for the budget.
    """
    shape, budget = TargetShape(), BUDGETS[size]
    corpus = corpus_of(text, journal)
    asked = {"seed": seed, "budget": size, **asdict(budget), "corpus": corpus.digest, **environment()}
    begun = claim(out, asked)
    tokens = tokens_of(corpus, shape, out / "corpus")
    try:
        check_enough(tokens, budget, source_of(text))
    except LabError:
        if not begun:  # nothing is trained: the folder may be given a larger text
            shutil.rmtree(out / "corpus")
            (out / "run.json").unlink()
        raise
    target = target_of(out, shape, tokens, budget, seed, journal)
    samples = make_samples(target, tokens, budget, seed, out / "state" / "samples.safetensors", journal)
    chosen = draft_tokens(samples, tokens, budget.prompt, DrafterShape().draft_vocab, shape.vocab)
    written = samples.held[:, budget.prompt :]
    figures: dict[str, Any] = {
        "asked": asked,
        "environment": environment(),
        "corpus": corpus_figures(corpus, tokens, text),
        "samples": {"greedy": greedy(budget.samples)},
        "target": target_figures(target, tokens, samples, budget),
        "draft_vocab_covers": float(torch.isin(written, chosen).float().mean()),
        "draft_vocab_tokens": written.numel(),
    }
    for name, boundaries in TRAINED_ON.items():
        model, per_text = train_drafter(
            target,
            samples,
            chosen,
            boundaries,
            budget,
            seed,
            out / "state" / f"{name}.pt",
            journal,
            name,
            *((budget.drafter_steps, budget.finish_steps) if name == "drafter" else (budget.mirror_steps, 0)),
        )
        folder = out / "drafter" if name == "drafter" else out / "mirror" / "drafter"
        folder.parent.mkdir(parents=True, exist_ok=True)
        save_drafter(model, chosen, LAYER_IDS, folder)
        parameters = sum(p.numel() for p in model.parameters())
        figures[name] = {"parameters": parameters, "boundaries": list(boundaries)}
        figures[name] |= drafter_figures(per_text, samples, budget)
    journal.say("prompts and dumps of held-out files")
    held_out(out, target, tokens, samples, budget)
    write_text(out / "measured.json", json.dumps(figures, indent=1))
    write_card(figures, out / "MODEL_CARD.md")
    return figures


def source_of(text: Path | None) -> str:
    return f"Python {platform.python_version()}'s standard library" if text is None else text.resolve().name


def corpus_of(text: Path | None, journal: Journal) -> Corpus:
    """The text, read anew by every call: a folder goes on with the text that it was begun with, or not at all."""
    journal.say(f"corpus: {source_of(text)}" + (f" ({LICENCE})" if text is None else ""))
    corpus = read_corpus(library_files(text))
    if not corpus.train or not corpus.held:
        raise too_little(source_of(text), f"{len(corpus.train)} files to train on and {len(corpus.held)} held out")
    return corpus


def tokens_of(corpus: Corpus, shape: TargetShape, folder: Path) -> Tokens:
    """The corpus as tokens, made once."""
    return load_tokens(folder) if (folder / TOKENS).exists() else prepare(corpus, shape.vocab, folder)


def check_enough(tokens: Tokens, budget: Budget, source: str) -> None:
    """Refuse a text that the budget cannot be drawn from, before anything is trained on it."""
    batch = (budget.target_batch + 1) * budget.length
    held = max(TEXTS, HELD_TEXTS) + budget.length
    places = held_places(tokens, budget.prompt)
    wanted = 4 * budget.shown
    if len(tokens.train) < batch or len(tokens.held) <= held or places < wanted:
        raise too_little(
            source,
            f"{len(tokens.train)} tokens to train on ({batch} wanted), {len(tokens.held)} held out ({held + 1}), in "
            f"whose files a prompt of {budget.prompt} tokens can start at {places} places ({wanted})",
        )


def too_little(source: str, found: str) -> LabError:
    return LabError(
        "WB-RECIPE-TEXT",
        f"{source}: {found}",
        expected=f"Python files of {SMALLEST} bytes and more, of which one in {HELD_OUT} is held out by its name",
        next="give a larger folder with --text, or none for the standard library",
        exit_code=USAGE,
    )


def claim(out: Path, asked: dict[str, Any]) -> bool:
    """Write what this folder is for, or hold it against what it was for; whether it was begun before."""
    file = out / "run.json"
    if file.exists():
        before = json.loads(file.read_text())
        different = [name for name in asked if before.get(name) != asked[name]]
        if different:
            told = ", ".join(f"{name} {before.get(name)}, not {asked[name]}" for name in different)
            raise LabError(
                "WB-RECIPE-OUT",
                f"{out} holds a run with {told}",
                expected="a new folder, or the seed, budget, text and versions that the folder was begun with",
                next="give another --out, or remove that folder",
                exit_code=USAGE,
            )
        return True
    write_text(file, json.dumps(asked, indent=1))
    return False


def target_of(out: Path, shape: TargetShape, tokens: Tokens, budget: Budget, seed: int, journal: Journal) -> Target:
    """The target as it will be served: trained, rounded to bfloat16, read back in float32."""
    folder = out / "target"
    if not folder.exists():
        state = out / "state"
        model = train_target(shape, tokens.train, tokens.held, budget, seed, state / "target.pt", journal)
        model = unloop(model, tokens.train, budget, seed, state / "unloop.pt", journal)
        save_target(model, out / "corpus" / "tokenizer", folder)
    return load_target(folder, shape)


def held_out(out: Path, target: Target, tokens: Tokens, samples: Samples, budget: Budget) -> None:
    """Prompts of held-out files, and dumps of the first of them at each drafter's boundaries."""
    prompts = held_prompts(tokens, budget.shown, budget.prompt)
    write_prompts(prompts, out / "lab-heldout.jsonl")
    # None of those: no choice of the recipe was made on these, so they tell what such choices were worth.
    write_prompts(held_prompts(tokens, 2 * budget.shown, budget.prompt), out / "lab-fresh.jsonl", "fresh")
    count = min(SAMPLES, budget.shown)
    new = min(LENGTH, budget.prompt + budget.new) - budget.prompt
    texts = continue_texts(target, prompts[:count], new)
    write_dump(target, texts, budget.prompt, TRAINED_ON["drafter"], out / "dump")
    write_dump(target, texts, budget.prompt, TRAINED_ON["mirror"], out / "mirror" / "dump")


def corpus_figures(corpus: Corpus, tokens: Tokens, text: Path | None) -> dict[str, Any]:
    return {
        "source": source_of(text),
        "licence": LICENCE if text is None else "whatever its files say",
        "digest": corpus.digest,
        "train_files": len(corpus.train),
        "held_files": len(corpus.held),
        "duplicates": corpus.duplicates,
        "train_tokens": len(tokens.train),
        "held_tokens": len(tokens.held),
    }


def environment() -> dict[str, str]:
    """Versions that the result depends on, and what the processor multiplies by: another one rounds in another way."""
    names: Sequence[str] = ("torch", "tokenizers", "transformers", "safetensors")
    return {name: metadata.version(name) for name in names} | {
        "processor": " ".join([torch.backends.cpu.get_cpu_capability(), *bf16_units()]),
        "machine": os.uname().machine,
    }


def bf16_units() -> list[str]:
    """The processor's own instructions for products in bfloat16, by the names of /proc/cpuinfo; none where it has none.

    torch calls a processor "AVX512" with or without them, and its products differ in the last bits.
    """
    try:
        flags = set(Path("/proc/cpuinfo").read_text().split())
    except OSError:
        return []
    return sorted(flags & {"avx512_bf16", "amx_bf16", "avx_ne_convert"})
