"""The whole chain unattended: facts, preflight, capture of a dump's tokens, diagnosis, replay of the fix, report.

>>> from helpers.investigate import investigate                       # doctest: +SKIP
>>> investigate(box, "miswired", train=Path("data/lab/dump")).diagnosis.verdict       # doctest: +SKIP
'mismatch'
"""

from __future__ import annotations

from helpers.investigate.chain import Investigation as Investigation
from helpers.investigate.chain import investigate as investigate
from helpers.investigate.suspects import SUSPECTS as SUSPECTS
from helpers.investigate.suspects import Suspect as Suspect
from helpers.investigate.suspects import state_suspects as state_suspects
from helpers.investigate.suspects import weigh as weigh
