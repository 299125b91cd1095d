"""An EAGLE-3 drafter in plain torch: configuration, weights, its one layer, and what it borrows of its target."""

from __future__ import annotations

from helpers.wiring.drafter.checkpoint import load_drafter as load_drafter
from helpers.wiring.drafter.config import DrafterConfig as DrafterConfig
from helpers.wiring.drafter.drafting import Step as Step
from helpers.wiring.drafter.drafting import chain as chain
from helpers.wiring.drafter.model import Drafter as Drafter
from helpers.wiring.drafter.target import Target as Target
from helpers.wiring.drafter.target import load_target as load_target
