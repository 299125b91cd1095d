"""A ledger with a whole story in it, hostile strings among them, for the tests of its report."""

from __future__ import annotations

import numpy as np
import pandas as pd

from helpers.figures.wiring import feature_norms, ladder
from helpers.ledger import Ledger, open_ledger
from helpers.serving import get_profile

SECRET = "hf_AbCdEfGhIjKl"
HOSTILE = (
    "</script><script>window.hacked = 1</script>",
    "<img src=x onerror=window.hacked=1>",
    "<!-- <script> -->",
    "<a href='http://evil.example/page'>a prompt</a>",
)
LOG = (
    f"[10:00] POST http://ann:pw@10.1.2.3/v1 HF_TOKEN={SECRET} from /home/ann/models on gpu-17.example "
    "--api-key s3cretvalue"
)


def rungs(seed: int) -> pd.DataFrame:
    """A ladder of 3 slots and 13 boundaries, each slot at its peak."""
    drawn = np.random.default_rng(seed)
    return pd.DataFrame(
        {"side": side, "slot": slot, "boundary": b, "cosine": 1.0 if b == 4 * slot + 1 else drawn.uniform(0.2, 0.7)}
        for side in ("served", "trained")
        for slot in range(3)
        for b in range(13)
    )


def norms(seed: int) -> pd.DataFrame:
    """Token norms of 3 slots, 600 tokens each."""
    drawn = np.random.default_rng(seed)
    return pd.concat(
        pd.DataFrame({"side": side, "slot": slot, "token": range(600), "norm": drawn.lognormal(slot, 0.2, 600)})
        for side in ("trained", "served")
        for slot in range(3)
    )


def told_story(name: str, *, figures: int) -> Ledger:
    """Three hypotheses: one confirmed, one refuted, one open; so many figures; hostile strings everywhere."""
    ledger = open_ledger(name, title=f"Why is the drafter accepted so rarely? {HOSTILE[1]}")
    ids = ledger.hypothesis(
        "the ids feed other layers than training captured",
        prediction="a served slot is another boundary than its trained one",
        threshold="any slot finding of severity error",
    )
    order = ledger.hypothesis(
        f"the slots are in another order {HOSTILE[0]}", prediction="slot-permuted | [x](y)", threshold="that finding"
    )
    ledger.hypothesis("a cache is stale @everyone", prediction="rows repeat", threshold="one row")
    for profile in ("right", "miswired"):
        ledger.evidence(get_profile(profile).model_copy(update={"patches": ()}), title=f"profile {profile}")
    for number in range(figures):
        draw = ladder(rungs(number), caption="c") if number % 2 == 0 else feature_norms(norms(number), caption="c")
        draw.update_layout(title_text=f"{'Ladder' if number % 2 == 0 else 'Norms'} {number} {HOSTILE[number % 4]}")
        draw.add_layout_image(source="http://evil.example/picture.png")
        ledger.evidence(
            draw, on=ids, supports=True, title=f"figure {number}", run="miswired-1", n=640, unit="aligned tokens"
        )
    table = pd.DataFrame({"prompt": [*HOSTILE, "plain"], "accept rate": [0.21, 0.2, 0.19, 0.22, 0.6]})
    e = ledger.evidence(table, on=[ids, order], supports=False, title="acceptance by prompt")
    f = ledger.evidence(LOG, on=ids, supports=True, title=f"a log line {HOSTILE[3]}")
    ledger.verdict(ids, "confirmed", because=[f], reason=f"slot 0 is boundary 0, trained was 2 {HOSTILE[0]}")
    ledger.verdict(order, "refuted", because=[e], reason="no slot is another trained slot")
    ledger.amend(order, threshold="slot-permuted or fc-order", reason="two codes say it")
    ledger.note("somebody changed the ids on Monday", about="trigger")
    ledger.note("a small model on a CPU", about="limit")
    return ledger
