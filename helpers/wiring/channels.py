"""Constants added to some channels of a slot: a difference too small for any cosine, and the same at every token.

What rounding does to a channel grows with what the channel holds, and mostly changes from token to token. So a channel
is named where the mean difference is beyond rounding and far beyond its own spread over tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from helpers.tensors.dumps import Dump
from helpers.wiring.explaining import MAX_SCALE_OFF, Bench, Reading, finite
from helpers.wiring.features import Aligned
from helpers.wiring.findings import Finding, error

# Fewer tokens than this can agree on a constant by chance, in one of thousands of channels.
TOKENS = 16
# In units of the coarser dtype's rounding: other kernels, and sums in another order, stay within a few.
ROUNDINGS = 8
OTHER_ENGINE = (
    4  # times that between two engines: fp8 weights move a large channel by some percent, at every token alike
)
FINEST = 2.0**-13  # float32 sums in another order differ by more than their last bit
STEADY = 4  # the mean against the spread over tokens
SHOWN = 8
SCALED = ("scaled", True)  # large channels make a constant look like a factor


def with_channels(
    findings: list[Finding], aligned: Aligned, dump: Dump, served: list[Reading], trained: list[Reading]
) -> list[Finding]:
    """The findings about slots, and what a look at single channels adds: it takes the place of a mere factor."""
    off = channels_off(aligned, dump, served, trained)
    told = {finding.slot for finding in off}
    kept = [f for f in findings if not off or (f.code != "features-match" and (f.code, f.slot in told) != SCALED)]
    return kept + off


def channels_off(aligned: Aligned, dump: Dump, served: list[Reading], trained: list[Reading]) -> list[Finding]:
    """Slots that are their trained tap on both sides, but for constants on some channels."""
    bench = Bench(aligned, dump)
    findings: list[Finding] = []
    if bench.tokens < TOKENS or aligned.view.kinds:  # ranks that differ are told as such
        return findings
    for slot, (s, t) in enumerate(zip(served, trained, strict=True)):
        if s.label is None or s.label != t.label or (s.kind, t.kind, s.shift, t.shift) != ("plain", "plain", 0, 0):
            continue
        for side, found in against(bench, slot, s):
            evidence: dict[str, Any] = {"side": side, **found}
            first = found["channels"][0]
            more = f" and {found['count'] - 1} more channels" if found["count"] > 1 else ""
            summary = (
                f"slot {slot}, as it was {side}, is {found['against']} but for a constant {first['size']:+.4g} on "
                f"channel {first['channel']}{more}"
            )
            findings.append(error("slot-unmatched", slot, summary, **evidence))
            break
    return findings


def against(bench: Bench, slot: int, reading: Reading) -> list[tuple[str, dict[str, Any]]]:
    """What each side of a slot has on it: held against the server's own tap where it is there, else side by side.

    The tap is of the engine's own dtype and of the same passes, so there every bit counts.
    """
    taps = bench.aligned.taps
    served, trained = bench.served(slot), bench.trained(slot)
    held = bench.aligned.view.capture.ranks[0].entries["feed"].dtype
    across = OTHER_ENGINE * max(rounding(held), rounding(bench.aligned.pairings[0].sample.dtype))
    found: list[tuple[str, dict[str, Any]]] = []
    if isinstance(reading.label, int) and reading.label in taps.view.boundaries:
        tap = bench.tap(reading.label, true=False)
        name = f"boundary {reading.label}"
        pairs = [("served", served(0), tap(0), rounding(held)), ("trained", trained(0), tap(0), across)]
    else:
        name = f"what it was trained on (slot {slot})"
        pairs = [("served", served(0), trained(0), across)]
    for side, x, t, step in pairs:
        off = constants(x, t, step)
        if off:
            shown = [{"channel": channel, "size": round(size, 6)} for channel, size in off[:SHOWN]]
            figures = {"against": name, "channels": shown, "count": len(off), "tokens": len(x)}
            found.append((side, {**figures, "equal_rows": int((x == t).all(dim=1).sum())}))
    return found


def rounding(dtype: torch.dtype) -> float:
    """The relative step of a dtype; of what is narrower than 16 bits, 1/8."""
    return max(torch.finfo(dtype).eps, FINEST) if dtype.itemsize > 1 else 0.125


def constants(x: Float[Tensor, "N H"], t: Float[Tensor, "N H"], step: float) -> list[tuple[int, float]]:
    """(channel, constant) of the channels on which x is t plus one constant, the largest first.

    A factor on the whole is no such thing, and is taken out: that of most channels, which a constant on a few does
    not change, however large those are.
    """
    x, t = finite(x, t)
    if len(x) < TOKENS:
        return []
    x, t = x.double(), t.double()
    squares = t.square().sum(dim=0)
    factor = ((x * t).sum(dim=0) / squares.clamp(min=1e-300))[squares > 0].median()
    if not bool((factor - 1).abs() <= MAX_SCALE_OFF):
        return []
    apart = x - factor * t
    mean, spread = apart.mean(dim=0), apart.std(dim=0)
    size = t.square().mean(dim=0).sqrt()
    off = (mean.abs() > ROUNDINGS * step * size) & (mean.abs() > STEADY * spread)
    # A channel that is zero in the tap has no rounding of its own: it is held against the others.
    off &= mean.abs() > step * size.median()
    channels = off.nonzero().flatten().tolist()
    return sorted(((c, float(mean[c])) for c in channels), key=lambda one: -abs(one[1]))
