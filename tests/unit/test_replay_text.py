"""What `workbook replay` prints of slots: each column is explained below the table."""

from __future__ import annotations

import re

from helpers.commands.replay import describe_shares
from helpers.wiring.replay.attribution import SlotShare


def test_every_column_of_the_shares_is_explained() -> None:
    one = SlotShare(slot=0, tap="boundary 2", fc_norm=1, input_norm=2, product=2, contribution=1, share=1)
    head, _, *legend = describe_shares([one]).splitlines()
    columns = re.split(r" {2,}", head)
    assert columns[:2] == ["slot", "tap"]
    assert [column for column in columns[2:] if f"{column}: " not in " ".join(legend)] == []
