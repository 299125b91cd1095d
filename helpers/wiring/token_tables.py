"""Single tokens as tidy tables: what the figures of helpers/figures/tokens.py take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from helpers.wiring.per_token import Side, TokenView, partings, rank_difference

if TYPE_CHECKING:
    import pandas as pd

    from helpers.tensors.view import View


def which(view: TokenView) -> dict[str, Any]:
    """The columns that say which token a row is: ``order`` (0 to N - 1), ``request``, ``position``, ``token_id``."""
    return {
        "order": range(len(view)),
        "request": view.request.numpy(),
        "position": view.position.numpy(),
        "token_id": view.token_ids.numpy(),
    }


def pair_rows(view: TokenView, *, served: int, trained: int) -> pd.DataFrame:
    """One served slot against one trained slot, a row a token.

    Columns: those of `which`, ``served_norm``, ``trained_norm`` (L2), ``cosine``, ``centred``.
    """
    import pandas as pd

    a, b = view.place("served", served), view.place("trained", trained)
    values = {
        "served_norm": view.norms[:, a].numpy(),
        "trained_norm": view.norms[:, b].numpy(),
        "cosine": view.cosine[:, a, b].numpy(),
        "centred": view.centred[:, a, b].numpy(),
    }
    return pd.DataFrame({**which(view), **values})


def ladder_token_rows(view: TokenView, *, side: Side, slot: int) -> pd.DataFrame:
    """One slot against the ladder, a row a token and boundary: columns of `which`, ``boundary``, ``value`` (centred
    cosine)."""
    return _grid(view, view.ladder, view.against_ladder(side, slot))


def rank_rows(view: View, tokens: TokenView, rank: int) -> pd.DataFrame:
    """A rank against rank 0, a row a token and boundary: columns of `which`, ``boundary``, ``value`` (length of the
    difference, in lengths of rank 0's tap)."""
    return _grid(tokens, view.boundaries, rank_difference(view, tokens, rank))


def parting_rows(view: TokenView) -> list[dict[str, str]]:
    """Where each slot's two sides part, in words; a row a slot."""
    rows = []
    for found in partings(view):
        at = found.at
        where = "never" if at is None else f"request {int(view.request[at])}, position {int(view.position[at])}"
        rows.append(
            {
                "slot": str(found.slot),
                "trained (nearest boundary)": str(found.trained),
                "served (nearest boundary)": str(found.served),
                "first token where they part": where,
                "tokens that part": f"{found.tokens} of {found.of}",
            }
        )
    return rows


def _grid(view: TokenView, boundaries: list[int], values: Any) -> pd.DataFrame:
    import pandas as pd

    base = pd.DataFrame(which(view))
    parts = [base.assign(boundary=b, value=values[:, at].numpy()) for at, b in enumerate(boundaries)]
    return pd.concat(parts, ignore_index=True) if parts else base.assign(boundary=0, value=0.0).iloc[:0]
