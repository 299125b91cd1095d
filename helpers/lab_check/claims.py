"""What must hold of a pair that is worth studying. Where two arms are compared, their paired interval decides.

One claim is decided on the point estimate, that right is accepted at .5 or more: that is the bar a pair was trained to
pass. Its text says where the interval reaches across.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

BAR = 0.5  # accept rate of right
LOOPING = 0.1  # share of greedy texts
#: Arms that are accepted at most so often as right, and that share in words.
SHARES = {"miswired": (1 / 2, "half"), "permuted": (1 / 3, "a third")}


@dataclass(frozen=True)
class Claim:
    """What a pair must show, and whether it did."""

    text: str
    holds: bool


def claims(found: Mapping[str, Any]) -> list[Claim]:
    """The claims whose arms were served and whose texts are long enough.

    Args:
        found: as `report` of helpers/lab_check/measured.py has it.
    """
    return [*_equal_texts(found), *_right(found), *_shares(found), *_off_by_one(found), *_mirror(found), *_loops(found)]


def _equal_texts(found: Mapping[str, Any]) -> Iterator[Claim]:
    rows = {name: row for name, row in found["rows"].items() if name != "baseline"}
    if rows:
        prompts = found["rows"]["baseline"]["requests"]
        text = f"greedy text equals the baseline's on every prompt, {prompts} of them ({'; '.join(rows)})"
        yield Claim(text, all(row["greedy_equal"] for row in rows.values()))


def _right(found: Mapping[str, Any]) -> Iterator[Claim]:
    row = found["rows"].get("right")
    if row is None or row["accept_rate"] is None:
        return
    holds, (low, high) = row["accept_rate"] >= BAR, row["ci95"]
    across = (holds and low < BAR) or (not holds and high >= BAR)
    beyond = f" (as measured; the interval reaches {'below' if holds else 'above'})" if across else ""
    text = f"right is accepted at .5 or more: {row['accept_rate']:.3f} {_interval(row['ci95'])}{beyond}"
    yield Claim(text, holds)


def _shares(found: Mapping[str, Any]) -> Iterator[Claim]:
    rate = {name: row["accept_rate"] for name, row in found["rows"].items()}
    for name, held in found["shares"].items():
        words = SHARES[name][1]
        text = (
            f"{name} is accepted at most {words} as often as right: {rate[name]:.3f} of {rate['right']:.3f}; less "
            f"{words} of right's rate: {held['excess']:+.3f} {_interval(held['ci95'], '+')}, paired over "
            f"{held['requests']} prompts"
        )
        yield Claim(text, held["ci95"][1] <= 0)


def _off_by_one(found: Mapping[str, Any]) -> Iterator[Claim]:
    if "off by one" in found["against_right"]:
        text, low = _paired(found["against_right"]["off by one"])
        yield Claim(f"off by one is below right {text}", low > 0)


def _mirror(found: Mapping[str, Any]) -> Iterator[Claim]:
    if found["mirror"] is not None:
        text, low = _paired(found["mirror"])
        config, trained = (found["rows"][f"mirror, {how}"]["accept_rate"] for how in ("by its config", "as trained"))
        words = "the mirror is accepted less often by its config than as it was trained"
        yield Claim(f"{words}: {config:.3f} and {trained:.3f}, apart {text}", low > 0)


def _loops(found: Mapping[str, Any]) -> Iterator[Claim]:
    if found["texts"]:
        low, high = share_interval(found["loops"], found["texts"])
        text = f"not shown to loop in more than a tenth of its greedy texts: {found['loops']} of {found['texts']}"
        yield Claim(f"{text} {_interval((low, high))}", low <= LOOPING)


def _paired(pair: Mapping[str, Any]) -> tuple[str, float]:
    """A paired difference in words, and the lower end of its interval."""
    text = f"by {pair['difference']:.3f} {_interval(pair['ci95'])}, paired over {pair['requests']} prompts"
    return text, pair["ci95"][0]


def _interval(ci95: tuple[float, float], sign: str = "") -> str:
    low, high = ci95
    return f"[{low:{sign}.3f}, {high:{sign}.3f}]"


def share_interval(count: int, n: int) -> tuple[float, float]:
    """Wilson's 95% interval of a share: 32 texts say little of loops, and the claim must not say more.

    >>> [round(x, 3) for x in share_interval(5, 32)]
    [0.069, 0.318]
    """
    z, share = 1.96, count / n
    middle, half = share + z * z / (2 * n), z * (share * (1 - share) / n + z * z / (4 * n * n)) ** 0.5
    return (middle - half) / (1 + z * z / n), (middle + half) / (1 + z * z / n)
