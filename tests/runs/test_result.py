"""The result of a run in a notebook."""

from pathlib import Path

from plait.runs.records import Gain
from plait.runs.result import Result


def test_notebooks_show_scores_beside_baselines_and_gains():
    result = Result(
        run=Path("runs/<b>"),
        model=Path("runs/<b>/best"),
        scores={"mood": {"accuracy": 0.75, "macro_f1": 0.5}, "near": {"pearson": 0.25}},
        baselines={"dev": {"frozen encoder": {"mood": 0.625}}, "test": {"other": {"mood": 0.1}}},
        best_step=20,
        steps=1_000,
        seconds=3.0,
        gains={"mood": Gain("dev", 64, "frozen encoder", 0.625, 0.75, 0.01, 0.2)},
    )
    shown = result._repr_html_()
    assert "<b>" not in shown and "runs/&lt;b&gt;: dev scores after step 20 of 1,000" in shown
    assert "<td>mood</td><td>accuracy 0.750, macro_f1 0.500</td><td>0.625</td>" in shown
    assert "<td>+0.125 (+0.010 to +0.200), better</td>" in shown and "other" not in shown
    assert "<td>near</td><td>pearson 0.250</td><td>–</td><td>–</td>" in shown
