"""An oracle for `workbook boundaries`: the engine's own setter and forward pass, cut out of a wheel and executed.

The two functions run on stand-ins: a module whose layers count boundaries instead of computing, and tensors that know
which boundary they are. Nothing of it shares code with the reader under test.
"""

from __future__ import annotations

import ast
import types
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from setter_standins import Anything, Module, Names, Tensor, make_layer, names_of_engine

SETTER = "set_eagle3_layers_to_capture"
# Where a served model's inner module, which the ids are set on, is not in the model's own file: (file, class).
INNER = {
    "gemma3_mm": ("gemma3_causal", "Gemma3TextModel"),
    "gemma4_mm": ("gemma4_causal", "Gemma4TextModel"),
    "kimi_k25": ("deepseek_v2", "DeepseekV2Model"),
    "minimax_m3_vl": ("minimax_m3", "MiniMaxM3Model"),
    "mllama4": ("llama4", "Llama4Model"),
    "qwen2_5_vl": ("qwen2", "Qwen2Model"),
    "qwen3_5": ("qwen3_5", "Qwen3_5ForCausalLM"),
    "qwen3_5_text": ("qwen3_5", "Qwen3_5ForCausalLM"),
    "qwen3_moe": ("qwen2_moe", "Qwen2MoeModel"),
}
INNER_BEFORE_0523 = {"qwen3": ("qwen2", "Qwen2Model")}
# Where the served class has its setter from another file: (file, class).
SETTERS = {"qwen3_5": ("qwen3_vl", "Qwen3VLForConditionalGeneration")}
# Wrappers that hand the ids to `language_model`: the file and class of the setter there.
LANGUAGE_MODELS = {
    "gemma3_mm": ("gemma3_causal", "Gemma3ForCausalLM"),
    "kimi_k25": ("deepseek_v2", "DeepseekV2ForCausalLM"),
    "mllama4": ("llama", "LlamaForCausalLM"),
}


@dataclass(frozen=True)
class Expected:
    """What the engine really did: boundaries in tap order, and whether it would have raised."""

    boundaries: tuple[int, ...]
    raised: bool
    partial: bool  # Taps that lack their other term.


class Wheel:
    """A wheel's model files."""

    def __init__(self, path: Path) -> None:
        self._zip = zipfile.ZipFile(path)
        self.modern = path.name.startswith("sglang-0.5.23")
        self._trees: dict[str, ast.Module] = {}

    def tree(self, stem: str) -> ast.Module:
        if stem not in self._trees:
            self._trees[stem] = ast.parse(self.text(stem))
        return self._trees[stem]

    def text(self, stem: str) -> str:
        return self._zip.read(f"sglang/srt/models/{stem}.py").decode("utf-8-sig")

    def stems_with_setter(self) -> list[str]:
        """Model files in which a setter is defined."""
        prefix = "sglang/srt/models/"
        stems = [n.removeprefix(prefix).removesuffix(".py") for n in self._zip.namelist() if n.startswith(prefix)]
        return sorted(s for s in stems if "/" not in s and s and f"def {SETTER}" in self._maybe(s))

    def _maybe(self, stem: str) -> str:
        try:
            return self.text(stem)
        except KeyError:
            return ""

    def function(self, stem: str, cls: str, name: str) -> Callable[..., Any] | None:
        """A method, cut out of the file and compiled by itself."""
        for node in self.tree(stem).body:
            if isinstance(node, ast.ClassDef) and node.name == cls:
                for method in node.body:
                    if isinstance(method, ast.FunctionDef) and method.name == name:
                        method.returns = None
                        method.decorator_list = []  # torch.no_grad()
                        for arg in (*method.args.args, *method.args.kwonlyargs):
                            arg.annotation = None
                        names = Names(names_of_engine())
                        exec(compile(ast.Module([method], []), stem, "exec"), names)
                        return names[name]  # type: ignore[no-any-return]
        return None

    def layer_arity(self, stem: str, cls: str) -> int:
        """How many values the forward pass takes from a layer."""
        for node in ast.walk(self.tree(stem)):
            if isinstance(node, ast.ClassDef) and node.name == cls:
                for found in ast.walk(node):
                    if isinstance(found, ast.Assign) and isinstance(found.value, ast.Call):
                        called = found.value.func
                        if ast.unparse(called) == "layer" or isinstance(called, ast.Subscript):
                            target = found.targets[0]
                            return len(target.elts) if isinstance(target, ast.Tuple) else 1
        raise AssertionError(f"no layer is called in {cls}")

    def classes(self, stem: str, mention: str, method: str) -> list[str]:
        """Classes of a file in which that method mentions something."""
        text = self.text(stem)
        found = []
        for node in self.tree(stem).body:
            methods = {m.name: m for m in getattr(node, "body", []) if isinstance(m, ast.FunctionDef)}
            if isinstance(node, ast.ClassDef) and method in methods:
                segment = ast.get_source_segment(text, methods[method]) or ""
                if mention in segment:
                    found.append(node.name)
        return found


def run(wheel: Wheel, stem: str, ids: Sequence[int] | None, layers: int) -> Expected:
    """Executes the setter with the ids, then the forward pass; ids at which either raises are left out and retried."""
    raised = False
    given = list(ids) if ids is not None else None
    while True:
        try:
            taps, promised = once(wheel, stem, given, layers)
            break
        except (IndexError, TypeError):
            raised = True
            if not given:
                raise
            bad = [i for i in given if fails(wheel, stem, i, layers)]
            assert bad
            given = [i for i in given if i not in bad]
            if not given:
                return Expected((), True, False)
    raised |= promised is not None and bool(taps) and promised != len(taps)
    return Expected(tuple(t.boundary for t in taps), raised, any(t.part == "output" for t in taps))


def fails(wheel: Wheel, stem: str, one: int, layers: int) -> bool:
    try:
        once(wheel, stem, [one], layers)
    except (IndexError, TypeError):
        return True
    return False


def once(wheel: Wheel, stem: str, ids: list[int] | None, layers: int) -> tuple[list[Tensor], int | None]:
    table = INNER if wheel.modern else INNER | INNER_BEFORE_0523
    where, cls = table.get(stem) or (stem, inner_class(wheel, stem))
    config = SimpleNamespace(num_hidden_layers=layers, mhc=False)
    config.text_config = config
    last = SimpleNamespace(is_last_rank=True, is_first_rank=True, world_size=1)
    gemma3 = cls == "Gemma3TextModel"  # Its layers still pass the residual on, in 0.5.23 too.
    arity = wheel.layer_arity(where, cls)
    made = [make_layer(i, wheel.modern and not gemma3, arity) for i in range(layers)]
    embed = lambda *_: Tensor(0)  # noqa: E731
    norm = lambda *given: (Anything(), Anything()) if len(given) > 1 else Anything()  # noqa: E731
    inner = Module(
        layers=made,
        layers_to_capture=[],
        start_layer=0,
        end_layer=layers,
        config=config,
        pp_group=last,
        norm=norm,
        embed_tokens=embed,
        word_embeddings=embed,
        get_input_embeddings=lambda *given: embed() if given else embed,
        capture_embedding_for_eagle3=False,
        first_k_dense_replace=1,
        next_full_attention_layer_id={},
        llama_4_scaling_config=None,
        flashinfer_mnnvl_cutedsl_fusion=None,
        _dsa_forward_uses_topk=lambda: False,
        _prepare_aux_hidden_state=lambda tensor: tensor,
    )
    nested = wheel.function(where, cls, SETTER)
    if nested is not None:
        setattr(inner, SETTER, types.MethodType(nested, inner))
    outer = Module(model=inner, config=config, pp_group=last)
    if stem in LANGUAGE_MODELS:
        outer = Module(language_model=with_setter(wheel, *LANGUAGE_MODELS[stem], outer), pp_group=last, config=config)
    elif stem == "gemma4_mm":
        outer = Module(language_model=inner, config=config, pp_group=last)
    file, served = SETTERS.get(stem) or (stem, setter_class(wheel, stem, cls if where == stem else ""))
    setter = wheel.function(file, served, SETTER)
    assert setter is not None
    setter(outer, ids)
    batch = Module(can_run_tbo=False, forward_mode=SimpleNamespace(is_idle=lambda: False))
    forward = wheel.function(where, cls, "forward")
    assert forward is not None
    result = forward(inner, Anything(), Anything(), batch)
    taps = result[1] if isinstance(result, tuple) else []
    return list(taps), getattr(taps, "promised", None)


def with_setter(wheel: Wheel, stem: str, cls: str, module: Module) -> Module:
    setter = wheel.function(stem, cls, SETTER)
    assert setter is not None
    setattr(module, SETTER, types.MethodType(setter, module))
    return module


def inner_class(wheel: Wheel, stem: str) -> str:
    found = wheel.classes(stem, "layer_to_capture", "forward") + wheel.classes(stem, "layers_to_capture", "forward")
    assert len(set(found)) == 1, (stem, found)
    return found[0]


def setter_class(wheel: Wheel, stem: str, inner: str) -> str:
    found = [c for c in wheel.classes(stem, SETTER, SETTER) if c != inner]
    assert len(found) == 1, (stem, found)
    return found[0]
