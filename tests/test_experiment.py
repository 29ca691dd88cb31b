import pytest
from conftest import tiny_config

from remnant.experiment import make_the_learner, make_the_stream, share_of_wrong_labels


@pytest.mark.parametrize("validation", [0.0, 0.25])
def test_the_share_of_wrong_labels_is_that_of_the_rows_to_learn_from(validation: float) -> None:
    config = tiny_config(method="er+coteaching", noise="symmetric:0.4", validation=validation)
    stream = make_the_stream(config, None)
    learned = [i for task in stream.tasks for i in task.id.tolist()]
    wrong = [i for i in range(len(stream.truth)) if stream.truth[i] != stream.observed[i]]
    expected = len(set(learned) & set(wrong)) / len(learned)
    assert share_of_wrong_labels(stream) == pytest.approx(expected)
    everywhere = len(wrong) / len(stream.truth)
    # What is held out has a share of its own, which must not be told.
    assert (share_of_wrong_labels(stream) == pytest.approx(everywhere)) == (not validation)
    learner = make_the_learner(config, stream)
    assert learner.fit is not None
    assert learner.fit.bench.noise_rate == share_of_wrong_labels(stream)
