"""What is wrong with a launch, found before it is made: source, models and arguments held against each other."""

from __future__ import annotations

from helpers.serving.preflight.facts import Facts as Facts
from helpers.serving.preflight.facts import gathered_here as gathered_here
from helpers.serving.preflight.facts import gathered_there as gathered_there
from helpers.serving.preflight.finding import Finding as Finding
from helpers.serving.preflight.report import Preflight as Preflight
from helpers.serving.preflight.report import examine as examine
