import torch

from remnant.transforms.vector import STRONG, VectorTransform, standardised


def test_each_vector_is_standardised_by_its_own_values() -> None:
    x = torch.tensor([[0.0, 2.0, 4.0, 6.0], [10.0, 10.0, 30.0, 30.0]])
    expected = torch.tensor([[-3.0, -1.0, 1.0, 3.0], [-1.0, -1.0, 1.0, 1.0]])
    expected[0] /= 5**0.5
    torch.testing.assert_close(VectorTransform().plain(x), expected)


def test_equal_values_become_zeros() -> None:
    assert standardised(torch.full((1, 5), 3.0)).tolist() == [[0.0] * 5]


def test_the_noise_has_the_strength_of_the_setting_whatever_the_scale_of_the_vectors() -> None:
    for scale in (0.01, 100.0):
        x = scale * torch.randn(20, 5000, generator=torch.Generator().manual_seed(0))
        transform, rng = VectorTransform(noise=0.3), torch.Generator().manual_seed(1)
        weak = transform.augmented(x, rng) - transform.plain(x)
        strong = transform.strong(x, rng) - transform.plain(x)
        torch.testing.assert_close(weak.std(), torch.tensor(0.3), atol=0.005, rtol=0)
        torch.testing.assert_close(strong.std(), torch.tensor(STRONG * 0.3), atol=0.01, rtol=0)


def test_without_noise_nothing_is_drawn() -> None:
    rng, x = torch.Generator().manual_seed(0), torch.randn(2, 8)
    before = rng.get_state()
    assert torch.equal(VectorTransform().augmented(x, rng), VectorTransform().plain(x))
    assert torch.equal(rng.get_state(), before)
