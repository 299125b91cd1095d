"""How a load asks: endpoint, sampling, lengths, how many at a time. What two loads must share to be compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from helpers.acceptance.prompts import Kind, Prompt
from helpers.errors import UsageError
from helpers.library_errors import problem_said

Endpoint = Literal["generate", "completions", "chat"]
PATHS: dict[Endpoint, str] = {
    "generate": "/generate",
    "completions": "/v1/completions",
    "chat": "/v1/chat/completions",
}
TAKES: dict[Endpoint, tuple[Kind, ...]] = {
    "generate": ("input_ids", "text"),
    "completions": ("input_ids", "text"),
    "chat": ("messages",),
}
#: No result depends on these: a load may be resumed with others.
PATIENCE = frozenset({"stall_s", "max_failures"})


class LoadSettings(BaseModel):
    """How a load asks.

    Attributes:
        endpoint: SGLang's own ``/generate`` (tokens and counters), or the OpenAI ``completions`` or ``chat``, which in
            SGLang 0.5.9 tell text and token counts but no counters.
        max_new_tokens: per request. natural_end: end at end-of-text; else it is ignored, and all lengths are equal.
        temperature: 0 is greedy. seeds: each prompt is asked once for each; greedy takes one.
        concurrency: requests kept in flight (a tunnel carries 64).
        warmup: requests thrown away before the first pass over a server, which begins slower than it goes on.
        stall_s: seconds without anything new after which a server counts as hung.
        max_failures: how many requests may fail before the load is ended; a server that is gone ends it at once.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    endpoint: Endpoint = "generate"
    max_new_tokens: int = Field(default=64, ge=1)
    natural_end: bool = False
    temperature: float = Field(default=0.0, ge=0)
    top_p: float = Field(default=1.0, gt=0, le=1)
    seeds: tuple[int, ...] = Field(default=(0,), min_length=1)
    concurrency: int = Field(default=1, ge=1, le=64)
    warmup: int = Field(default=1, ge=0)
    stall_s: float = Field(default=300.0, gt=0)
    max_failures: int = Field(default=0, ge=0)

    @model_validator(mode="after")
    def _seeds_are_for_sampling(self) -> LoadSettings:
        if len(set(self.seeds)) < len(self.seeds):
            raise ValueError(f"seeds {list(self.seeds)} has one twice")
        if self.temperature == 0 and len(self.seeds) > 1:
            raise ValueError("at temperature 0 every seed gives the same text: give one")
        return self

    def deciding(self) -> dict[str, Any]:
        """What a result depends on."""
        return self.model_dump(mode="json", exclude=set(PATIENCE))

    @property
    def options(self) -> list[str]:
        """The words of `workbook bench` that ask so: all that a result depends on, where it is not the default.

        >>> LoadSettings(temperature=0.7, seeds=(1, 2), concurrency=4).options[2:]
        ['--temperature', '0.7', '--seed', '1', '--seed', '2', '--concurrency', '4']
        """
        words = ["--new-tokens", str(self.max_new_tokens)]
        words += ["--natural-end"] if self.natural_end else []
        plain = LoadSettings()
        for name in ("temperature", "top_p"):
            value = getattr(self, name)
            words += [f"--{name.replace('_', '-')}", str(value)] if value != getattr(plain, name) else []
        words += [word for seed in self.seeds for word in ("--seed", str(seed))] if self.seeds != plain.seeds else []
        for name in ("concurrency", "warmup", "endpoint"):
            value = getattr(self, name)
            words += [f"--{name}", str(value)] if value != getattr(plain, name) else []
        return words


def load_settings(**given: Any) -> LoadSettings:
    """Settings from what a user gave; those that are None take their default.

    Raises:
        UsageError: WB-LOAD-SETTINGS, with the setting and the value met.
    """
    try:
        return LoadSettings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        raise UsageError(
            "WB-LOAD-SETTINGS",
            "; ".join(problem_words(problem) for problem in error.errors(include_url=False)),
            expected="settings as helpers/acceptance/load_settings.py describes them",
            next="workbook bench --help",
        ) from error


def problem_words(problem: Any) -> str:
    """One problem of pydantic's, for people: where, what, and the value that was met."""
    where = ".".join(map(str, problem["loc"]))
    said = problem_said(problem)
    met = "" if isinstance(problem["input"], dict | BaseModel) else f" (met {problem['input']!r})"
    return f"{where}: {said}{met}" if where else f"{said}{met}"


def check_kinds(prompts: Sequence[Prompt], settings: LoadSettings) -> None:
    """Refuse prompts that the endpoint does not take.

    Raises:
        UsageError: WB-LOAD-SETTINGS, with the first such prompt.
    """
    if not prompts:
        raise UsageError(
            "WB-LOAD-SETTINGS",
            "there are no prompts to send",
            expected="at least one",
            next="give another --limit",
        )
    for prompt in prompts:
        if prompt.kind not in TAKES[settings.endpoint]:
            fits = [name for name, kinds in TAKES.items() if prompt.kind in kinds]
            raise UsageError(
                "WB-LOAD-SETTINGS",
                f"prompt {prompt.id} holds {prompt.kind}, which the endpoint {settings.endpoint!r} does not take",
                expected=" or ".join(TAKES[settings.endpoint]),
                next=f"--endpoint {fits[0]}",
            )


def body_of(prompt: Prompt, seed: int, settings: LoadSettings, *, model: str = "", tokens: int | None = None) -> Any:
    """The JSON body of one request.

    Args:
        model: the served name, which the OpenAI endpoints want.
        tokens: instead of ``max_new_tokens``, for a warm-up.
    """
    new, sampled = tokens or settings.max_new_tokens, settings.temperature > 0
    common = {"temperature": settings.temperature, "top_p": settings.top_p, "ignore_eos": not settings.natural_end}
    if settings.endpoint == "generate":
        content = {"text": prompt.text} if prompt.kind == "text" else {"input_ids": list(prompt.input_ids)}
        sampling = {**common, "max_new_tokens": new, **({"sampling_seed": seed} if sampled else {})}
        return {**content, "stream": True, "sampling_params": sampling}
    said: dict[str, Any] = {"messages": list(prompt.messages or ())}
    if settings.endpoint == "completions":
        said = {"prompt": prompt.text if prompt.kind == "text" else list(prompt.input_ids)}
    return {
        **said,
        **common,
        "model": model,
        "max_tokens": new,
        "stream": True,
        "stream_options": {"include_usage": True, "continuous_usage_stats": True},
        **({"seed": seed} if sampled else {}),
    }
