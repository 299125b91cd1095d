"""The acceptance panel in a real JupyterLab; and what is left of it when the page is loaded again."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest
from jupyter_page import NotebookPage
from playwright.sync_api import expect

pytestmark = [pytest.mark.timeout(1200), pytest.mark.full]
ROWS = """\
from helpers.acceptance.measurement import Measurement, PairedDifference
from helpers.panels import acceptance_panel
from helpers.serving import load_profiles
same = dict(dtype="float32", requests=32, greedy_equal=True, first_difference=None)
def row(name, ids, taps, rate, survival, speed):
    near = [(value - 0.04, value + 0.04) for value in survival]
    return Measurement(
        name=name, aux_layer_ids=ids, boundaries=taps, accept_rate=rate, accept_length=1 + 3 * rate,
        ci95=(rate - 0.03, rate + 0.03), survival=survival, survival_ci95=near, verify_steps=700,
        tokens_per_s=speed, run=f"{name}-20261130-101500-3f2a", **same)
rows = [
    Measurement(name="baseline", aux_layer_ids=None, boundaries=None, tokens_per_s=70.0, **same),
    row("right", [1, 4, 8], [2, 5, 9], 0.604, [0.8, 0.6, 0.41], 120.0),
    row("miswired", [-1, 1, 4], [0, 2, 5], 0.217, [0.42, 0.17, 0.06], 66.0),
]
pair = PairedDifference(first="right", second="miswired", difference=0.387, ci95=(0.33, 0.44), requests=32)"""


def test_configurations_are_compared(opened: Callable[..., NotebookPage]) -> None:
    show = "panel = acceptance_panel(rows, profiles=load_profiles(), comparisons=[pair])\npanel"
    notebook = opened("acceptance.ipynb", [ROWS, show])
    notebook.run_all()
    notebook.wait_idle()
    panel = notebook.output(1)
    table = panel.get_by_role("table").first
    expect(panel.locator(".js-plotly-plot")).to_have_count(2)
    panel.get_by_label("Pinned", exact=True).select_option("right")
    expect(table).to_contain_text("0.217 (-0.387)")
    expect(panel).to_contain_text("Paired with right, prompt by prompt")
    expect(panel).to_contain_text("-0.387 [-0.440, -0.330]")
    curves, rates = (panel.get_by_role("figure").nth(place) for place in (0, 1))
    expect(curves).to_have_accessible_name("Acceptance survival S(k), with 95% bands")
    expect(curves).to_have_accessible_description(re.compile(r"S\(1\) is 80\.0% \[76\.0%, 84\.0%\] \(right\)"))
    expect(rates).to_have_accessible_description(re.compile(r"60\.4% \[57\.4%, 63\.4%\] \(right\) and 21\.7%"))
    expect(table).to_contain_text("context_length")
    notebook.screenshot("acceptance-panel", panel)

    panel.get_by_label("Differences only").check()
    expect(table).not_to_contain_text("context_length")
    expect(table).to_contain_text("patches")
    traces = panel.locator(".js-plotly-plot").first.locator(".scatterlayer .trace")
    both = traces.count()
    panel.get_by_label("miswired", exact=True).uncheck()
    expect(table).not_to_contain_text("0.217")
    expect(traces).to_have_count(both // 2)
    expect(rates).to_have_accessible_description("The accept rate is 60.4% [57.4%, 63.4%] (right).")
    panel.get_by_label("miswired", exact=True).check()
    panel.get_by_label("Show the call").check()
    expect(panel).to_contain_text("survival(survival_rows(rows)")
    notebook.screenshot("acceptance-panel-differences", panel)
    assert notebook.unnamed(panel) == []
    assert notebook.errors == []

    notebook.save()
    notebook.reload()
    panel = notebook.output(1)
    expect(panel.get_by_label("Pinned", exact=True)).to_have_value("right")
    expect(panel.locator(".js-plotly-plot")).to_have_count(2)
    panel.get_by_label("Pinned", exact=True).select_option("miswired")
    expect(panel.get_by_role("table").first).to_contain_text("0.604 (+0.387)")
    notebook.screenshot("acceptance-panel-reloaded", panel)
