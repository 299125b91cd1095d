"""Facts about a box: one read-only command each, and a pure parser. `gather` asks for all of them at once."""

from __future__ import annotations

from helpers.box.facts.comparison import Comparison as Comparison
from helpers.box.facts.comparison import compare as compare
from helpers.box.facts.gathering import FACTS as FACTS
from helpers.box.facts.gathering import BoxFacts as BoxFacts
from helpers.box.facts.gathering import gather as gather
