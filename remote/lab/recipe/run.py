"""The stages in order. Each is skipped where its result lies in the folder, and goes on where it was killed."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from remote.lab.errors import USAGE, LabError
from remote.lab.recipe.budget import BUDGETS, Budget
from remote.lab.recipe.card import write_card
from remote.lab.recipe.corpus import HELD_OUT, LICENCE, SMALLEST, library_files, read_corpus
from remote.lab.recipe.dumps import LENGTH, SAMPLES, write_dump, write_prompts
from remote.lab.recipe.export import load_target, save_target
from remote.lab.recipe.generate import continue_texts
from remote.lab.recipe.geometry import DrafterShape, TargetShape
from remote.lab.recipe.measure import drafter_figures, target_figures
from remote.lab.recipe.samples import Samples, draft_tokens, held_prompts, make_samples
from remote.lab.recipe.state import Journal
from remote.lab.recipe.target import Target
from remote.lab.recipe.tokens import Tokens, load_tokens, prepare
from remote.lab.recipe.train_drafter import save_drafter, train_drafter
from remote.lab.recipe.train_target import train_target
from remote.lab.recipe.unloop import unloop

# What both drafters are served with (SGLang 0.5.9: a boundary less one), and what each was really trained on.
LAYER_IDS = (1, 4, 8)
TRAINED_ON = {"drafter": (2, 5, 9), "mirror": (0, 2, 5)}


def run(out: Path, seed: int, size: str, journal: Journal, text: Path | None = None) -> dict[str, Any]:
    """Everything, into `out`; gives what was measured.

    Args:
        text: a folder of Python files to learn from instead of the standard library.

    Raises:
        LabError: ``WB-RECIPE-OUT`` where the folder holds a run of another seed, budget, or text.
    """
    shape, budget = TargetShape(), BUDGETS[size]
    tokens = corpus_of(out, shape, journal, text)
    facts = json.loads((out / "corpus" / "files.json").read_text())
    asked = {"seed": seed, "budget": size, **asdict(budget), "corpus": facts["digest"]}
    claim(out, asked)
    target = target_of(out, shape, tokens, budget, seed, journal)
    journal.say("continuations by the target itself")
    samples = make_samples(target, tokens, budget, seed, out / "state" / "samples.safetensors")
    chosen = draft_tokens(samples, tokens, budget.prompt, DrafterShape().draft_vocab, shape.vocab)
    covered = torch.isin(samples.held[:, budget.prompt :], chosen).float().mean()
    figures: dict[str, Any] = {
        "asked": asked,
        "environment": environment(),
        "corpus": corpus_figures(facts, tokens, text),
        "target": target_figures(target, tokens, samples, budget.prompt, budget.length),
        "draft_vocab_covers": float(covered),
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
        figures[name] |= drafter_figures(per_text, samples, budget.prompt)
    held_out(out, target, tokens, samples, budget)
    (out / "measured.json").write_text(json.dumps(figures, indent=1))
    write_card(figures, out / "MODEL_CARD.md")
    return figures


def corpus_of(out: Path, shape: TargetShape, journal: Journal, text: Path | None) -> Tokens:
    """The corpus as tokens, read once."""
    folder = out / "corpus"
    if (folder / "tokens.safetensors").exists():
        return load_tokens(folder)
    name = f"Python {platform.python_version()}'s standard library ({LICENCE})" if text is None else str(text)
    journal.say(f"corpus: {name}")
    corpus = read_corpus(library_files(text))
    if not corpus.train or not corpus.held:
        raise LabError(
            "WB-RECIPE-TEXT",
            f"{name}: {len(corpus.train)} files to train on and {len(corpus.held)} held out",
            expected=f"Python files of {SMALLEST} bytes and more, of which one in {HELD_OUT} is held out by its name",
            next="give a larger folder with --text, or none for the standard library",
            exit_code=USAGE,
        )
    return prepare(corpus, shape.vocab, folder)


def claim(out: Path, asked: dict[str, Any]) -> None:
    """Write what this folder is for, or hold it against what it was for."""
    file = out / "run.json"
    if file.exists():
        before = json.loads(file.read_text())
        different = [name for name in asked if before.get(name) != asked[name]]
        if different:
            told = ", ".join(f"{name} {before.get(name)}, not {asked[name]}" for name in different)
            raise LabError(
                "WB-RECIPE-OUT",
                f"{out} holds a run with {told}",
                expected="a new folder, or the seed and budget that the folder was begun with",
                next="give another --out, or remove that folder",
                exit_code=USAGE,
            )
    file.write_text(json.dumps(asked, indent=1))


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
    # Halfway between those: no choice of the recipe was made on them, so they tell what such choices were worth.
    write_prompts(held_prompts(tokens, 2 * budget.shown, budget.prompt), out / "lab-fresh.jsonl", "fresh")
    count = min(SAMPLES, budget.shown)
    new = min(LENGTH, budget.prompt + budget.new) - budget.prompt
    texts = continue_texts(target, prompts[:count], new)
    write_dump(target, texts, budget.prompt, TRAINED_ON["drafter"], out / "dump")
    write_dump(target, texts, budget.prompt, TRAINED_ON["mirror"], out / "mirror" / "dump")


def corpus_figures(facts: dict[str, Any], tokens: Tokens, text: Path | None) -> dict[str, Any]:
    return {
        "source": f"Python {platform.python_version()}'s standard library" if text is None else text.name,
        "licence": LICENCE if text is None else "whatever its files say",
        "digest": facts["digest"],
        "train_files": len(facts["train"]),
        "held_files": len(facts["held"]),
        "duplicates": facts["duplicates"],
        "train_tokens": len(tokens.train),
        "held_tokens": len(tokens.held),
    }


def environment() -> dict[str, str]:
    """Versions that the result depends on; another processor may round products in another way."""
    names: Sequence[str] = ("torch", "tokenizers", "transformers", "safetensors")
    return {name: metadata.version(name) for name in names} | {
        "processor": torch.backends.cpu.get_cpu_capability(),
        "machine": os.uname().machine,
    }
