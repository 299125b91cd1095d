"""`make lab-check`: serves a pair on the lab, wired right and wrong, and says whether it is worth studying.

Seven servers, one after another: no speculation; the drafter fed what it was trained on, miswired, one boundary early,
and with the blocks of its fc in reverse; then the mirror, a drafter that was trained on the miswired taps, fed by its
config and as it was trained. Exit 1 where a claim does not hold.
"""

from __future__ import annotations

from helpers.lab_check.arms import arm_profile as arm_profile
from helpers.lab_check.command import main as main
from helpers.lab_check.measured import loops as loops
from helpers.lab_check.measured import report as report
from helpers.lab_check.text import table as table
