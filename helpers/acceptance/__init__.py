"""Acceptance: one meaning of the counters, intervals for every rate, and the loads and sweeps that measure them."""

from __future__ import annotations

from helpers.acceptance.bench_result import Bench as Bench
from helpers.acceptance.bench_run import bench as bench
from helpers.acceptance.bench_run import compare_profiles as compare_profiles
from helpers.acceptance.bench_run import running as running
from helpers.acceptance.bench_run import started as started
from helpers.acceptance.bench_text import bench_text as bench_text
from helpers.acceptance.grid import Grid as Grid
from helpers.acceptance.grid import read_grid as read_grid
from helpers.acceptance.load import Load as Load
from helpers.acceptance.load import run_load as run_load
from helpers.acceptance.load_settings import LoadSettings as LoadSettings
from helpers.acceptance.measurement import Measurement as Measurement
from helpers.acceptance.measurement import PairedDifference as PairedDifference
from helpers.acceptance.measurement import compare as compare
from helpers.acceptance.measurement import measurement as measurement
from helpers.acceptance.points import Point as Point
from helpers.acceptance.prompts import Prompt as Prompt
from helpers.acceptance.prompts import dump_prompts as dump_prompts
from helpers.acceptance.prompts import read_prompts as read_prompts
from helpers.acceptance.sweep_results import Sweep as Sweep
from helpers.acceptance.sweep_results import read_rows as read_rows
from helpers.acceptance.sweep_results import sweep_frame as sweep_frame
from helpers.acceptance.sweep_results import sweep_text as sweep_text
from helpers.acceptance.sweep_rounds import pooled_frame as pooled_frame
from helpers.acceptance.sweep_rounds import sweep_rounds as sweep_rounds
from helpers.acceptance.sweep_run import sweep as sweep
from helpers.acceptance.tables import rate_rows as rate_rows
from helpers.acceptance.tables import survival_rows as survival_rows
from helpers.acceptance.versus import Versus as Versus
