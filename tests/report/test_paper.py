import math

import pytest
from config_helpers import config_of

from remnant.config import recipe
from remnant.report.paper import paper_figures


@pytest.mark.parametrize("name", recipe.papers())
def test_every_experiment_of_the_paper_resolves_and_has_its_figure(name: str) -> None:
    table = recipe.papers()[name]
    for method, row in table["faa"].items():
        for noise, expected in zip(table["noise"], row, strict=True):
            config = config_of(name, f"method={method}", f"noise={noise}")
            found = paper_figures(config)
            if math.isnan(expected):
                assert found is None
            else:
                assert found is not None
                assert (config.label, found.faa, found.differences) == (method, expected, ())


def test_a_run_with_other_settings_lists_the_differences() -> None:
    found = paper_figures(config_of("paper/cifar100", "noise=block:0.2", "epochs=5", "net.width=8"))
    assert found is not None
    assert found.differences == ("net.width = 64", "epochs = 50")
    assert found.faa == 41.24


def test_a_setting_that_configs_leave_out_by_default_is_a_difference() -> None:
    found = paper_figures(config_of("paper/cifar100", "noise=block:0.2", "batchnorm=buffer"))
    assert found is not None
    assert found.differences == ("batchnorm = stream",)


def test_a_run_from_another_recipe_has_figures_only_if_no_setting_differs() -> None:
    assert paper_figures(config_of("cifar10-small")) is None
    same = config_of("paper/cifar100", "noise=block:0.2", "seed=3", "threads=1", "name=mine")
    assert paper_figures(same) is not None
    assert paper_figures(config_of("paper/cifar100", "noise=block:0.3")) is None


def test_the_closest_experiment_of_the_paper_is_quoted() -> None:
    # Made from one recipe, with all the settings of another.
    config = config_of("paper/cifar10-cnll", "method=aer-abs", "buffer_size=1000", "epochs=25")
    found = paper_figures(config)
    assert found is not None
    assert (found.faa, found.differences) == (63.65, ())
    other_split = paper_figures(config_of("paper/ntu60", "data=ntu60-xview"))
    assert other_split is not None
    assert other_split.differences == ("data = ntu60",)
