import copy

import pytest
import torch
import torch.nn.functional as F
from conftest import same, tiny_net, tiny_stream
from torch import Tensor, nn

from remnant.engine.inference import CHUNK, chunks, cross_entropy, embed, finite, predict, predict_stored
from remnant.errors import Diverged, RemnantError

STREAM = tiny_stream()
PLAIN = STREAM.spec.transform.plain


def images(count: int) -> Tensor:
    rng = torch.Generator().manual_seed(0)
    return torch.randint(256, (count, *STREAM.spec.shape), generator=rng, dtype=torch.uint8)


def new_net() -> nn.Module:
    return tiny_net(STREAM)("net")


def test_predictions_do_not_depend_on_how_samples_are_grouped() -> None:
    net, x = new_net(), images(2 * CHUNK + 7)
    apart = torch.cat([predict(net, part, PLAIN) for part in x.split(5)])
    assert predict(net, x, PLAIN).shape == (len(x), 6)
    assert torch.allclose(predict(net, x, PLAIN), apart, atol=1e-5)


def test_prediction_does_not_change_the_statistics_of_batchnorm() -> None:
    net = new_net().train()
    before = copy.deepcopy(dict(net.state_dict()))
    logits = predict(net, images(10), PLAIN)
    assert same(before, dict(net.state_dict()))
    assert not logits.requires_grad
    assert not net.training


def test_predictions_for_stored_samples_are_those_of_the_selected_inputs() -> None:
    net, x = new_net(), images(3 * CHUNK)
    index = torch.randperm(len(x), generator=torch.Generator().manual_seed(0))[: CHUNK + 9]
    assert torch.allclose(predict_stored(net, x, index, PLAIN), predict(net, x[index], PLAIN), atol=1e-6)


def test_large_inputs_are_forwarded_in_smaller_chunks() -> None:
    assert [len(chunk) for chunk in chunks(torch.empty(130, 1, 6, 6))] == [64, 64, 2]
    assert [len(chunk) for chunk in chunks(torch.empty(7, 3, 224, 224))] == [6, 1]
    assert [len(chunk) for chunk in chunks(torch.empty(2, 1 << 21))] == [1, 1]


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_logits_that_are_not_finite_raise_diverged(value: float) -> None:
    with pytest.raises(Diverged, match="not finite"):
        finite(torch.tensor([[0.0, value]]))
    net = new_net()
    nn.init.constant_(net.head.bias, value)
    with pytest.raises(Diverged):
        predict(net, images(3), PLAIN)
    with pytest.raises(Diverged):
        embed(net, images(3), torch.zeros(3, dtype=torch.long), PLAIN)


def test_the_loss_is_that_of_each_sample_in_double_precision() -> None:
    logits, y = torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])
    loss = cross_entropy(logits, y)
    assert loss.dtype == torch.float64
    assert loss.tolist() == pytest.approx(
        [-float(F.log_softmax(v, 0)[k]) for v, k in zip(logits, y, strict=True)]
    )


def test_an_embedding_has_the_inputs_and_the_weights_of_the_head() -> None:
    net, x = new_net(), images(CHUNK + 5)
    y = torch.arange(len(x)) % 6
    found = embed(net, x, y, PLAIN)
    with torch.no_grad():
        assert torch.allclose(found.features, net.features(PLAIN(x)), atol=1e-5)
    logits = predict(net, x, PLAIN)
    assert torch.allclose(found.loss, cross_entropy(logits, y), atol=1e-5)
    assert torch.equal(found.weight, net.head.weight)
    assert torch.equal(found.y, y)


def test_a_network_without_features_cannot_be_embedded() -> None:
    net = nn.Sequential(nn.Flatten(), nn.Linear(36, 6))
    with pytest.raises(RemnantError, match=r"features\(x\) and a linear head.* got Sequential"):
        embed(net, images(3), torch.zeros(3, dtype=torch.long), PLAIN)


def test_a_network_without_a_head_cannot_be_embedded() -> None:
    net = nn.Flatten()
    net.features = nn.Identity()
    with pytest.raises(RemnantError, match=r"features\(x\) and a linear head.* got Flatten"):
        embed(net, images(3), torch.zeros(3, dtype=torch.long), PLAIN)
