from conftest import tiny_config

from remnant.estimate import estimate
from remnant.experiment import make_the_stream


def seconds(**changes: object) -> float:
    config = tiny_config(**changes)
    return estimate(config, make_the_stream(config, None)).seconds


def test_consolidation_is_part_of_the_time() -> None:
    # 5 tasks of 4 epochs, 3 steps each; then 5 x 1000 epochs of 3 steps on the memory: 250 times that.
    fit = {"name": "buffer-fit", "epochs": 1000, "batch": 8}
    assert seconds(consolidation=fit) > 20 * seconds(consolidation="none") > 0
