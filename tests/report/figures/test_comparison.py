import pytest
from report_runs import measured, variants

from remnant.report.figures.comparison import _by_alpha, alpha_sensitivity, cost, logit_replay
from remnant.report.figures.figure import svg

pytest.importorskip("matplotlib")


def with_alpha(alpha: float, seed: int, faa: float):  # noqa: ANN201
    method = "aer-abs" if alpha == 0.75 else "aer-abs-custom"
    return measured(method, seed, {"insertion": {"alpha": alpha}}, faa=faa)


def test_der_is_compared_with_its_variants_only() -> None:
    runs = variants(measured("er"), measured("der++"), measured("der++-aer-abs"))
    figure = logit_replay(runs)
    assert figure is not None
    text = svg(figure.panels[0], "x")
    assert "der++-aer-abs<" in text
    assert ">er<" not in text
    assert logit_replay(variants(measured("der++"), measured("er"))) is None


def test_alpha_is_drawn_where_runs_differ_in_it() -> None:
    runs = variants(
        with_alpha(0.5, 0, 40.0), with_alpha(0.5, 1, 44.0), with_alpha(0.75, 0, 60.0), measured("er")
    )
    figure = alpha_sensitivity(runs)
    assert figure is not None
    assert [style.label for style in figure.legend] == ["aer-abs"]
    values = _by_alpha([variant for variant in runs if variant.label.startswith("aer-abs")])
    assert values.x == (0.5, 0.75)
    assert values.mean == (42.0, 60.0)
    assert values.error[0] == 2.0
    assert alpha_sensitivity(variants(with_alpha(0.5, 0, 40.0), with_alpha(0.5, 1, 44.0))) is None


def test_time_and_memory_are_compared_between_methods() -> None:
    figure = cost(variants(measured("er"), measured("aer-abs"), measured("aer-abs", 1)))
    assert figure is not None
    assert [panel.title for panel in figure.panels] == ["time", "memory"]
    assert all("aer-abs" in svg(panel, "x") for panel in figure.panels)
    assert cost(variants(measured("er"))) is None
