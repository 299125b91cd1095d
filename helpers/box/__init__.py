"""The box: the machine reached over SSH. Commands, files, tunnels and facts, over one connection that heals itself.

>>> from helpers.box import connect
>>> with connect("lab") as box:                       # doctest: +SKIP
...     print(box.run(["uname", "-r"]).stdout)
"""

from __future__ import annotations

from helpers.box.box import Box as Box
from helpers.box.box import connect as connect
from helpers.box.quoting import Raw as Raw
from helpers.box.result import CommandResult as CommandResult
from helpers.box.transfer import Transfer as Transfer
from helpers.box.tunnel import Tunnel as Tunnel
