"""What the acceptance panel shows, without a widget: configurations side by side, against one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from helpers.acceptance.measurement import Measurement, PairedDifference
from helpers.acceptance.tables import alike, rate_rows, survival_rows
from helpers.errors import UsageError
from helpers.panels.static import Static, Table
from helpers.serving.argv import masked_profile

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from helpers.serving import Profile


#: Fields of a measurement that say how it was served; the others say what came of it.
SERVED = ("dtype", "aux_layer_ids", "boundaries")
#: Fields of a profile that are shown beside them; its name, its note and what is said already are not.
HIDDEN = frozenset({"name", "note", "dtype", "aux_layer_ids", "host", "port", "python"})
LIMIT = (
    "Deltas are against the pinned configuration. Intervals are 95%, each configuration its own (bootstrap over "
    "requests); "
    "where they overlap a delta may still be real, and a paired comparison over the same prompts decides."
)


class AcceptanceModel:
    """State of the panel.

    Args:
        measurements: in the order in which they are shown; a mapping's values, or a sequence.
        profiles: what was served, by name: their fields are compared as well.
        comparisons: paired differences, shown where the pinned baseline is one of the two.
        pinned: the name of the one that is pinned at first; the first one else.

    Attributes:
        baseline: the name of the pinned one. differences_only: leave out what is the same everywhere.
        shown: names of those that are shown; the baseline always is.

    Raises:
        UsageError: ``WB-BASELINE-MISSING`` where none has the name ``pinned``.
    """

    def __init__(
        self,
        measurements: Mapping[str, Measurement] | Iterable[Measurement],
        *,
        profiles: Mapping[str, Profile] | None = None,
        comparisons: Sequence[PairedDifference] = (),
        pinned: str | None = None,
    ) -> None:
        rows = measurements.values() if isinstance(measurements, Mapping) else measurements
        self.all = {row.name: row for row in rows}
        if not self.all:
            raise ValueError("an acceptance panel needs at least one measurement")
        self.profiles, self.comparisons = dict(profiles or {}), tuple(comparisons)
        self.baseline = next(iter(self.all)) if pinned is None else pinned
        if self.baseline not in self.all:
            raise UsageError(
                "WB-BASELINE-MISSING",
                f"there is no row {pinned!r} to pin",
                expected=f"one of {', '.join(self.all)}",
                next="name one of them as pinned",
            )
        self.differences_only = False
        self.search = ""
        self.shown: tuple[str, ...] = tuple(self.all)

    @property
    def rows(self) -> list[Measurement]:
        """What is shown, the baseline first."""
        others = [row for name, row in self.all.items() if name in self.shown and name != self.baseline]
        return [self.all[self.baseline], *others]

    def fields(self) -> dict[str, list[str]]:
        """Field -> what stands in each column of `rows`, before anything is left out."""
        rows, base = self.rows, self.rows[0]
        found = {name: [plain(getattr(row, name)) for row in rows] for name in SERVED}
        found |= self._profile_fields()
        found |= {
            "accept rate": [rate(row, base) for row in rows],
            "accept length": [signed(row.accept_length, base.accept_length, row is base, "{:.2f}") for row in rows],
            "verify steps (n)": [plain(row.verify_steps) for row in rows],
        }
        depth = max((len(row.survival or ()) for row in rows), default=0)
        found |= {f"survival S({k + 1})": [survived(row, base, k) for row in rows] for k in range(depth)}
        found |= {
            "tokens/s": [speed(row, base) for row in rows],
            "requests": [plain(row.requests) for row in rows],
            "greedy text": [greedy(row) for row in rows],
            "run": [row.run or "-" for row in rows],
        }
        return found

    def table(self) -> list[dict[str, str]]:
        """A row a field: its name, and a column a configuration. Only the rows that are asked for."""
        names = [f"{row.name} (pinned)" if row.name == self.baseline else row.name for row in self.rows]
        return [
            {"": field, **dict(zip(names, values, strict=True))}
            for field, values in self.fields().items()
            if self._wanted(field, values)
        ]

    def hidden_words(self) -> str:
        """How many rows are left out, and why."""
        left = len(self.fields()) - len(self.table())
        return f"{left} rows are left out: the same everywhere, or not what is searched for." if left else ""

    def paired_rows(self) -> list[dict[str, str]]:
        """Paired comparisons with the baseline, as baseline minus other turned round to other minus baseline."""
        rows = []
        for pair in self.comparisons:
            if self.baseline not in (pair.first, pair.second) or pair.first == pair.second:
                continue
            other = pair.second if pair.first == self.baseline else pair.first
            if other not in self.shown:
                continue
            sign = -1 if pair.first == self.baseline else 1
            low, high = sorted(sign * bound for bound in pair.ci95)
            told = "above" if low > 0 else "below" if high < 0 else "cannot be told apart"
            rows.append(
                {
                    "configuration": other,
                    "accept rate minus the pinned one's": f"{sign * pair.difference:+.3f} [{low:+.3f}, {high:+.3f}]",
                    "that is": told,
                    "requests (n)": str(pair.requests),
                }
            )
        return rows

    @property
    def caption(self) -> str:
        counts = sorted({row.requests for row in self.rows})
        runs = ", ".join(f"{row.name} {(row.run or '').rsplit('-', 1)[-1]}" for row in self.rows if row.run)
        return f"{' or '.join(map(str, counts))} requests each, 95% intervals" + (f"; runs {runs}" if runs else "")

    def figures(self) -> list[go.Figure]:
        """Survival curves and accept rates of what is shown; none where nothing speculates."""
        from helpers.figures.acceptance import accept_rates, survival

        curves, rates = survival_rows(self.rows), rate_rows(self.rows)
        found = [survival(curves, caption=self.caption)] if len(curves) else []
        return [*found, accept_rates(rates, caption=self.caption)] if len(rates) else found

    def call(self) -> str:
        """The figures and the table as plain calls."""
        names = [row.name for row in self.rows]
        return "\n".join(
            [
                "import pandas as pd",
                "from helpers.acceptance import survival_rows",
                "from helpers.figures.acceptance import survival",
                f"rows = [row for row in measurements if row.name in {names!r}]",
                "pd.DataFrame([row.model_dump() for row in rows]).set_index('name').T",
                f"survival(survival_rows(rows), caption={self.caption!r})",
            ]
        )

    def static(self) -> Static:
        """The table as it is now, paired comparisons, and the figures."""
        tables = [Table(f"Configurations, pinned {self.baseline}", self.table())]
        if self.paired_rows():
            tables.append(Table(f"Paired with {self.baseline}, prompt by prompt", self.paired_rows()))
        words = [LIMIT, *([self.hidden_words()] if self.hidden_words() else [])]
        return Static("Acceptance side by side", words, tables, figures=self.figures())

    def _profile_fields(self) -> dict[str, list[str]]:
        if not self.profiles:
            return {}
        dumps = [shown_profile(self.profiles[row.name]) if row.name in self.profiles else {} for row in self.rows]
        names = dict.fromkeys(name for dump in dumps for name in dump if name not in HIDDEN)
        return {name: [plain(dump.get(name)) for dump in dumps] for name in names}

    def _wanted(self, field: str, values: Sequence[str]) -> bool:
        if self.search and self.search.lower() not in " ".join([field, *values]).lower():
            return False
        return not self.differences_only or len(set(values)) > 1


def shown_profile(profile: Profile) -> dict[str, Any]:
    """A profile's fields as they may be shown: secrets masked."""
    return masked_profile(profile).model_dump()


def plain(value: Any) -> str:
    """A value as it stands in a cell."""
    if value is None:
        return "-"
    if isinstance(value, dict):
        return ", ".join(f"{key} {item}" for key, item in value.items()) or "none"
    if isinstance(value, list | tuple):
        return " ".join(map(str, value)) or "none"
    return str(value)


def delta(value: float, base: float, form: str) -> str:
    return "(" + form.replace("{:", "{:+").format(value - base) + ")"


def signed(value: float | None, base: float | None, is_base: bool, form: str) -> str:
    """A value, and its difference to the pinned one's where there is one."""
    if value is None:
        return "-"
    shown = form.format(value)
    return shown if is_base or base is None or value == base else f"{shown} {delta(value, base, form)}"


def rate(row: Measurement, base: Measurement) -> str:
    shown = signed(row.accept_rate, base.accept_rate if alike(row, base) else None, row is base, "{:.3f}")
    return shown if row.ci95 is None else f"{shown} [{row.ci95[0]:.3f}, {row.ci95[1]:.3f}]"


def survived(row: Measurement, base: Measurement, k: int) -> str:
    own, other = (side.survival[k] if side.survival and k < len(side.survival) else None for side in (row, base))
    return signed(own, other, row is base, "{:.3f}")


def speed(row: Measurement, base: Measurement) -> str:
    shown = f"{row.tokens_per_s:.1f}"
    same = row is base or row.tokens_per_s == base.tokens_per_s or not base.tokens_per_s
    return shown if same else f"{shown} ({row.tokens_per_s / base.tokens_per_s:.2f} x)"


def greedy(row: Measurement) -> str:
    if row.greedy_equal or row.first_difference is None:
        return {True: "as without speculation", False: "not as without speculation", None: "-"}[row.greedy_equal]
    request, token = row.first_difference
    return f"not as without speculation, from {request}, token {token}"
