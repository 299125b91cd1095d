"""Facts of a box: a module each, with one read-only command and a pure parser.

>>> from helpers.box import connect
>>> with connect("lab") as box:                       # doctest: +SKIP
...     print(box.facts().memory)
"""

from __future__ import annotations

from helpers.box.facts.answer import Absent as Absent
from helpers.box.facts.answer import Answer as Answer
from helpers.box.facts.answer import Question as Question
from helpers.box.facts.gather import Facts as Facts
from helpers.box.facts.gather import Problem as Problem
from helpers.box.facts.gather import gather as gather
