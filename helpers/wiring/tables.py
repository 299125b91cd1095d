"""A comparison as tidy tables, one row an observation: what the figures of helpers/figures/wiring.py take."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import pandas as pd

    from helpers.wiring.comparison import SlotComparison


def norm_rows(compared: SlotComparison) -> pd.DataFrame:
    """Columns ``side`` ("trained", "served"), ``slot``, ``token`` (position in its text), ``norm``."""
    import pandas as pd

    parts = []
    for side, norms in (("trained", compared.trained_norms), ("served", compared.served_norms)):
        for slot in range(norms.shape[1]):
            column = {"side": side, "slot": slot, "token": compared.positions.numpy(), "norm": norms[:, slot].numpy()}
            parts.append(pd.DataFrame(column))
    return pd.concat(parts, ignore_index=True)


def slot_matrix_rows(compared: SlotComparison) -> pd.DataFrame:
    """Columns ``served``, ``trained`` (slots) and ``cosine`` (mean centred cosine)."""
    import pandas as pd

    served, trained = torch.meshgrid(
        torch.arange(compared.served_slots), torch.arange(compared.trained_slots), indexing="ij"
    )
    cosine = compared.served_vs_trained
    return pd.DataFrame({"served": served.flatten(), "trained": trained.flatten(), "cosine": cosine.flatten()})


def ladder_rows(compared: SlotComparison) -> pd.DataFrame:
    """Columns ``side``, ``slot``, ``boundary`` and ``cosine`` (mean centred cosine)."""
    import pandas as pd

    rows = [
        {"side": side, "slot": slot, "boundary": boundary, "cosine": float(matrix[slot, at])}
        for side, matrix in (("trained", compared.trained_vs_ladder), ("served", compared.served_vs_ladder))
        for slot in range(len(matrix))
        for at, boundary in enumerate(compared.ladder)
    ]
    return pd.DataFrame(rows, columns=["side", "slot", "boundary", "cosine"])
