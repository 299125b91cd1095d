"""Acceptance: one meaning of the counters, intervals for every rate, and the load that measures them."""

from __future__ import annotations

from helpers.acceptance.load import Load as Load
from helpers.acceptance.load import run_load as run_load
from helpers.acceptance.measurement import Measurement as Measurement
from helpers.acceptance.measurement import PairedDifference as PairedDifference
from helpers.acceptance.measurement import compare as compare
from helpers.acceptance.measurement import measurement as measurement
from helpers.acceptance.prompts import Prompt as Prompt
from helpers.acceptance.prompts import read_prompts as read_prompts
from helpers.acceptance.tables import rate_rows as rate_rows
from helpers.acceptance.tables import survival_rows as survival_rows
