"""Measured acceptance and speed as evidence."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.ledger.results.base import Summary, reader

if TYPE_CHECKING:
    from helpers.acceptance.measurement import Measurement, PairedDifference


@reader("helpers.acceptance.measurement.Measurement")
def measurement(result: Measurement) -> Summary:
    """One configuration under load."""
    if result.accept_rate is None or result.ci95 is None:
        said = f"{result.tokens_per_s:.1f} tokens/s without speculation"
    else:
        low, high = result.ci95
        said = f"accept rate {result.accept_rate:.3f} [{low:.3f}, {high:.3f}], accept length {result.accept_length:.2f}"
        said += f", {result.tokens_per_s:.1f} tokens/s"
    said += "" if result.greedy_equal else "; greedy text DIFFERS from the baseline's"
    ids = {"aux_layer_ids": result.aux_layer_ids, "boundaries": result.boundaries, "dtype": result.dtype}
    return Summary(
        source="measurement",
        title=f"acceptance of {result.name}",
        summary=said,
        values=result.model_dump(mode="json"),
        run=result.run,
        profile=result.name,
        seed=0,
        n=result.verify_steps if result.verify_steps is not None else result.requests,
        unit="verify steps" if result.verify_steps is not None else "requests",
        config={result.name: ids},
    )


@reader("helpers.acceptance.measurement.PairedDifference")
def difference(result: PairedDifference) -> Summary:
    """Two configurations, prompt by prompt."""
    low, high = result.ci95
    return Summary(
        source="difference",
        title=f"acceptance of {result.first} minus {result.second}",
        summary=f"{result.difference:+.3f} [{low:+.3f}, {high:+.3f}] in accept rate, over the same prompts",
        values=result.model_dump(mode="json"),
        seed=0,
        n=result.requests,
        unit="requests",
    )
