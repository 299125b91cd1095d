"""What the wiring panel shows, without a widget: the comparison, the chosen pair of slots, the chosen ladder view."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from helpers.panels.static import Static, Table
from helpers.tensors.capture import Capture
from helpers.tensors.dumps import Dump
from helpers.wiring.comparison import SlotComparison
from helpers.wiring.features import align_features, compare_features
from helpers.wiring.per_token import TOKENS, Side, TokenView, look_at_tokens
from helpers.wiring.tables import slot_matrix_rows
from helpers.wiring.token_tables import ladder_token_rows, pair_rows, parting_rows, rank_rows

if TYPE_CHECKING:
    import pandas as pd
    import plotly.graph_objects as go

    from helpers.tensors.view import View
    from helpers.wiring.diagnosis import Diagnosis

NO_FEED = "The capture has no feed of whole slots: there are no pairs of slots to compare."


@dataclass(frozen=True)
class Read:
    """What was read of the two sides."""

    compared: SlotComparison
    tokens: TokenView
    view: View


class WiringModel:
    """State of the panel.

    Args:
        diagnosis: of the same two sides, as `diagnose` made it or as it was stored; None shows no findings.
        tokens: how many tokens the views of single tokens hold at most.
    """

    def __init__(
        self,
        capture: Capture,
        dump: Dump,
        diagnosis: Diagnosis | Mapping[str, Any] | None = None,
        *,
        tokens: int = TOKENS,
    ) -> None:
        self.capture, self.dump, self.limit = capture, dump, tokens
        self.diagnosis = diagnosis if diagnosis is None or isinstance(diagnosis, Mapping) else diagnosis.to_json()
        self.pair = (0, 0)
        self.ladder_of = ""
        self.loaded: Read | None = None

    def read(self, check: Callable[[], None] = lambda: None, tell: Callable[[str], None] = lambda _: None) -> Read:
        """Compare the two sides: seconds for a large capture.

        Args:
            check: called now and then; what it raises ends the reading. tell: is told what goes on.
        """
        tell("pairing tokens")
        aligned = align_features(self.capture, self.dump)
        check()
        tell("comparing slots")
        compared = compare_features(self.capture, self.dump, aligned)
        check()
        tell("single tokens")
        tokens = look_at_tokens(self.capture, self.dump, aligned, tokens=self.limit, check=check)
        return Read(compared, tokens, aligned.view)

    def take(self, read: Read) -> None:
        """Show what was read; the first pair is the worst one on the diagonal."""
        self.loaded = read
        matrix = read.compared.served_vs_trained
        diagonal = [float(matrix[i, i]) for i in range(min(matrix.shape))]
        worst = min(range(len(diagonal)), key=lambda i: diagonal[i]) if diagonal else 0
        self.pair = (worst, worst)
        choices = self.ladder_choices
        self.ladder_of = f"served slot {worst}" if f"served slot {worst}" in choices else next(iter(choices), "")

    @property
    def matrix(self) -> list[list[float]]:
        """Mean centred cosine, ``[served][trained]``."""
        found: list[list[float]] = self._loaded.compared.served_vs_trained.tolist()
        return found

    @property
    def ladder_choices(self) -> dict[str, tuple[str, int]]:
        """What can be looked at over layers and tokens: label -> ("served" | "trained" | "rank", number)."""
        if self.loaded is None:
            return {}
        tokens, view = self.loaded.tokens, self.loaded.view
        choices: dict[str, tuple[str, int]] = {}
        if tokens.ladder:
            choices |= {f"served slot {i}": ("served", i) for i in range(tokens.served_slots)}
            choices |= {f"trained slot {i}": ("trained", i) for i in range(tokens.trained_slots)}
        if view.rows_kind == "replicated":
            choices |= {f"rank {r} against rank 0": ("rank", r) for r in range(1, len(view.capture.ranks))}
        return choices

    @property
    def caption(self) -> str:
        """What every figure says below itself."""
        info, loaded = self.capture.info, self._loaded
        return f"run {info.run}, capture rank0 sha256 {info.files[0].sha256[:12]}, {loaded.tokens.rule}"

    @property
    def has_pairs(self) -> bool:
        """Whether there is a slot on both sides to be compared."""
        return self.loaded is not None and min(self._loaded.compared.served_vs_trained.shape) > 0

    def pair_table(self) -> pd.DataFrame:
        return pair_rows(self._loaded.tokens, served=self.pair[0], trained=self.pair[1])

    def pair_summary(self) -> str:
        """The pair in a sentence, for whoever does not see the figure."""
        rows = self.pair_table()
        served, trained = self.pair
        ratio = (rows["served_norm"] / rows["trained_norm"]).median()
        low = rows.sort_values("centred").iloc[0]
        return (
            f"Served slot {served} and trained slot {trained}: median centred cosine {rows['centred'].median():.4f}, "
            f"lowest {low['centred']:.4f} at request {low['request']:.0f}, position {low['position']:.0f}; the served "
            f"norm is {ratio:.3g} times the trained one (median)."
        )

    def pair_figure(self) -> go.Figure:
        from helpers.figures.tokens import token_pair

        title = f"Served slot {self.pair[0]} against trained slot {self.pair[1]}, token by token"
        return token_pair(self.pair_table(), title=title, caption=self.caption)

    def matrix_figure(self) -> go.Figure:
        from helpers.figures.wiring import slot_matrix

        return slot_matrix(slot_matrix_rows(self._loaded.compared), caption=self._matrix_caption)

    def ladder_figure(self) -> go.Figure | None:
        """The chosen view over layers and tokens; None where the capture has neither a ladder nor ranks."""
        from helpers.figures.tokens import layer_tokens

        if self.ladder_of not in self.ladder_choices:
            return None
        kind, number = self.ladder_choices[self.ladder_of]
        loaded = self._loaded
        if kind == "rank":
            rows = rank_rows(loaded.view, loaded.tokens, number)
            return layer_tokens(
                rows,
                title=f"Rank {number} against rank 0, by layer and token",
                value="relative difference",
                caption=self.caption,
                cosine=False,
                mark=self._first_difference(rows),
            )
        side: Side = "served" if kind == "served" else "trained"
        return layer_tokens(
            ladder_token_rows(loaded.tokens, side=side, slot=number),
            title=f"{side.capitalize()} slot {number} against the ladder, by layer and token",
            value="centred cosine",
            caption=self.caption,
            mark=self._first_parting(side, number),
        )

    def findings(self) -> list[dict[str, str]]:
        """The diagnosis, a row a finding; below them what was not decided, and why."""
        if self.diagnosis is None:
            return []
        rows = [
            {
                "severity": found["severity"],
                "code": found["code"],
                "slot": "all" if found["slot"] is None else str(found["slot"]),
                "what": found["summary"],
            }
            for found in self.diagnosis["findings"]
        ]
        return rows + [
            {"severity": "not decided", "code": one["code"], "slot": "all", "what": one["why"]}
            for one in self.diagnosis.get("undecided", ())
        ]

    def verdict(self) -> str:
        if self.diagnosis is None:
            return "No diagnosis was given: diagnose(capture, dump) makes one."
        fix = self.diagnosis["fix"]
        return f"Verdict: {self.diagnosis['verdict']}." + (f" Fix: {fix['note']}." if fix else "")

    def call(self) -> str:
        """The pair's figure, the ladder's, and the findings, as plain calls."""
        kind, number = self.ladder_choices.get(self.ladder_of, ("", 0))
        lines = [
            "from helpers.figures.tokens import layer_tokens, token_pair",
            "from helpers.wiring.per_token import look_at_tokens",
            "from helpers.wiring.token_tables import ladder_token_rows, pair_rows, rank_rows",
            f"tokens = look_at_tokens(capture, dump, tokens={self.limit})",
            f"pair = pair_rows(tokens, served={self.pair[0]}, trained={self.pair[1]})",
            'token_pair(pair, title="one pair of slots", caption=capture.info.run)',
        ]
        if kind == "rank":
            lines += [
                "from helpers.tensors.view import look",
                f"rows = rank_rows(look(capture), tokens, {number})",
                'layer_tokens(rows, title="ranks", value="difference", caption=capture.info.run, cosine=False)',
            ]
        elif kind:
            lines += [
                f"rows = ladder_token_rows(tokens, side={kind!r}, slot={number})",
                'layer_tokens(rows, title="ladder", value="centred cosine", caption=capture.info.run)',
            ]
        return "\n".join(lines)

    def static(self) -> Static:
        """Matrix, chosen pair, ladder and findings, as they are now."""
        title = f"Wiring of run {self.capture.info.run}"
        if self.loaded is None:
            return Static(title, ["Nothing has been compared yet; static() in a later cell shows what was found."])
        served = [
            {"served slot": str(i), **{f"trained slot {j}": f"{value:.4f}" for j, value in enumerate(line)}}
            for i, line in enumerate(self.matrix)
        ]
        tables = [
            Table(f"Slot matrix: mean centred cosine, {self.loaded.compared.tokens} tokens", served),
            Table(f"Where the sides part ({self.loaded.tokens.rule})", parting_rows(self.loaded.tokens)),
        ]
        if self.diagnosis is not None:
            tables.append(Table("Findings", self.findings()))
        ladder = self.ladder_figure()
        figures = [self.matrix_figure(), self.pair_figure()] if self.has_pairs else []
        figures += [ladder] if ladder is not None else []
        words = self.pair_summary() if self.has_pairs else NO_FEED
        return Static(title, [self.verdict(), words], tables, figures=figures)

    @property
    def _loaded(self) -> Read:
        assert self.loaded is not None
        return self.loaded

    @property
    def _matrix_caption(self) -> str:
        return f"run {self.capture.info.run}, {self._loaded.compared.tokens} tokens"

    def _first_parting(self, side: Side, slot: int) -> tuple[int, int, str] | None:
        """Where this slot is first nearest to another boundary than the other side's slot of that number."""
        tokens = self._loaded.tokens
        if slot >= min(tokens.served_slots, tokens.trained_slots):
            return None
        mine, other = tokens.nearest(side, slot), tokens.nearest("trained" if side == "served" else "served", slot)
        at = next((n for n, pair in enumerate(zip(mine, other, strict=True)) if pair[0] != pair[1]), None)
        if at is None:
            return None
        against = "trained on" if side == "served" else "served"
        return at, mine[at], f"first divergence: boundary {mine[at]}, {against} {other[at]}"

    def _first_difference(self, rows: pd.DataFrame) -> tuple[int, int, str] | None:
        """The lowest boundary that differs anywhere, and its first token."""
        apart = rows[rows["value"] > 0]
        if apart.empty:
            return None
        first = apart.sort_values(["boundary", "order"]).iloc[0]
        return int(first["order"]), int(first["boundary"]), f"first divergence: boundary {first['boundary']:.0f}"
