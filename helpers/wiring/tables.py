"""A comparison as tidy tables, one row an observation: what the figures of helpers/figures/wiring.py take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    import pandas as pd

    from helpers.tensors.health import Health
    from helpers.wiring.comparison import SlotComparison
    from helpers.wiring.replay import Ablation, Replay


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


def health_rows(health: Health) -> pd.DataFrame:
    """How many rows of each feature are broken: columns ``feature``, ``not_finite``, ``zero``, ``repeated``.

    ``feed[k]`` is served slot k, ``trained[k]`` the dump's; repeated rows are equal for tokens that differ.
    """
    import pandas as pd

    rows = [
        (name, len(health.non_finite.get(name, [])), len(health.zero.get(name, [])), len(health.repeated(name)))
        for name in sorted({*health.hashes, *health.non_finite})
    ]
    return pd.DataFrame(rows, columns=["feature", "not_finite", "zero", "repeated"])


def replay_rows(replays: dict[str, Replay]) -> pd.DataFrame:
    """Replays by name: ``wiring``, ``boundaries``, ``accept_rate``, ``low``, ``high``, ``accept_length`` and ``n``.

    ``n`` is the number of verify steps, low and high the 95% interval of the accept rate.
    """
    import pandas as pd

    rows = [
        (name, ", ".join(map(str, r.taps)), r.accept_rate, *r.ci95, r.accept_length, r.verify_steps)
        for name, r in replays.items()
    ]
    names = ["wiring", "boundaries", "accept_rate", "low", "high", "accept_length", "n"]
    return pd.DataFrame(rows, columns=names)


def agreement_rows(replayed: Replay, counted: Mapping[str, Sequence[int]]) -> pd.DataFrame:
    """A replay held against what the server itself counted, request by request.

    Columns ``request``, ``server`` and ``replay`` (verify steps by accepted drafts, from none to all) and ``equal``.

    Args:
        counted: the server's histogram by request, of as many new tokens as the replay was scored with.
    """
    import pandas as pd

    rows = []
    for request in replayed.requests:
        if request.id in counted:
            told = [*counted[request.id], *[0] * len(request.histogram)][: len(request.histogram)]
            rows.append((request.id, told, request.histogram, told == request.histogram))
    return pd.DataFrame(rows, columns=["request", "server", "replay", "equal"])


def ablation_rows(changes: Sequence[Ablation]) -> pd.DataFrame:
    """One slot changed at a time: columns ``slot``, ``change``, ``boundaries``, ``difference``, ``low``, ``high``.

    ``difference`` is the accept rate after the change minus before, with its paired 95% interval.
    """
    import pandas as pd

    rows = [(one.slot, one.change, ", ".join(map(str, one.taps)), one.difference, *one.ci95) for one in changes]
    return pd.DataFrame(rows, columns=["slot", "change", "boundaries", "difference", "low", "high"])
