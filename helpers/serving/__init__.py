"""Serving: profiles, the life of a server on a box, its log, and why it died.

>>> from helpers.serving import get_profile, launch           # doctest: +SKIP
>>> run = launch(box, get_profile("right")).wait_ready()      # doctest: +SKIP
>>> run.stop()                                                # doctest: +SKIP
"""

from __future__ import annotations

from helpers.serving.argv import server_environment as server_environment
from helpers.serving.checkout import checkout_of as checkout_of
from helpers.serving.crash import Crash as Crash
from helpers.serving.crash import recognise as recognise
from helpers.serving.launch import Plan as Plan
from helpers.serving.launch import launch as launch
from helpers.serving.launch import plan as plan
from helpers.serving.launch import start as start
from helpers.serving.model import check_prompts as check_prompts
from helpers.serving.model import model_facts as model_facts
from helpers.serving.profile import Profile as Profile
from helpers.serving.profile import Speculation as Speculation
from helpers.serving.profile import get_profile as get_profile
from helpers.serving.profile import load_profiles as load_profiles
from helpers.serving.records import RunRecord as RunRecord
from helpers.serving.records import StopReport as StopReport
from helpers.serving.registry import find_runs as find_runs
from helpers.serving.registry import get_run as get_run
from helpers.serving.run import Run as Run
from helpers.serving.session import Served as Served
from helpers.serving.session import serving as serving
