"""Acceptance without a server: the drafter over captured tokens, following the rounds that the server would make."""

from __future__ import annotations

from helpers.wiring.replay.ablation import Ablation as Ablation
from helpers.wiring.replay.ablation import ablate as ablate
from helpers.wiring.replay.attribution import attribute as attribute
from helpers.wiring.replay.ranking import Search as Search
from helpers.wiring.replay.ranking import search as search
from helpers.wiring.replay.result import Replay as Replay
from helpers.wiring.replay.result import Versus as Versus
from helpers.wiring.replay.run import replay as replay
from helpers.wiring.replay.run import versus as versus
from helpers.wiring.replay.taps import Tap as Tap
from helpers.wiring.replay.taps import boundaries as boundaries
