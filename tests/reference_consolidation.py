"""Reference implementations of the consolidations: slow and simple, one sample at a time, in float64.

`n` samples, `C` classes, `V` views of an image; a net is a function from one input to its `C` logits.
Random numbers, permutations and MixUp weights are arguments.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

FloatArray = np.ndarray
Net = Callable[[FloatArray], FloatArray]


def warm_restarts(epoch: int, lr: float, floor: float = 0.01) -> float:
    """SGDR with T0 = 1 and T_mult = 2: cosines from `lr` to `floor * lr` over 1, 2, 4, ... epochs."""
    start, length = 0, 1
    while epoch >= start + length:
        start += length
        length *= 2
    passed = (epoch - start) / length
    return floor * lr + (lr - floor * lr) * (1.0 + math.cos(math.pi * passed)) / 2.0


def softmax(logits: FloatArray) -> FloatArray:
    """Probabilities of one sample, from its `C` logits."""
    top = max(float(logit) for logit in logits)
    powers = [math.exp(float(logit) - top) for logit in logits]
    return np.array([power / sum(powers) for power in powers])


def sharpen(p: FloatArray, temperature: float) -> FloatArray:
    """Sharpening of MixMatch for one sample: `p ** (1 / T)`, divided by its sum."""
    powers = [float(value) ** (1.0 / temperature) for value in p]
    return np.array([power / sum(powers) for power in powers])


def refine(clean: float, onehot: FloatArray, guess: FloatArray) -> FloatArray:
    """y-hat of the paper: the mean of the observed label and the guess, weighted by `clean`."""
    pairs = zip(onehot, guess, strict=True)
    return np.array([clean * float(o) + (1.0 - clean) * float(g) for o, g in pairs])


def greedy_balanced(
    labels: Sequence[int], ids: Sequence[int], capacity: int, uniforms: Sequence[Sequence[float]]
) -> list[int]:
    """GDumb: insert samples of classes below `capacity / classes seen`; evict from a largest class."""
    held: list[tuple[int, int]] = []  # (id, label) of each slot
    seen: set[int] = set()
    slots = []
    for label, sample_id, (_, tie, victim) in zip(labels, ids, uniforms, strict=True):
        seen.add(label)
        count = sum(stored == label for _, stored in held)
        known = sample_id in [stored_id for stored_id, _ in held]
        if known or not count * len(seen) < capacity:
            slots.append(-1)
            continue
        if len(held) < capacity:
            slot = len(held)
            held.append((sample_id, label))
        else:
            slot = slot_of_largest([stored for _, stored in held], tie, victim)
            held[slot] = (sample_id, label)
        slots.append(slot)
    return slots


def slot_of_largest(stored: Sequence[int], tie: float, victim: float) -> int:
    """GDumb: a random slot of one of the largest classes, with ties broken at random."""
    classes = sorted(set(stored))
    counts = [sum(label == c for label in stored) for c in classes]
    largest = [c for c, count in zip(classes, counts, strict=True) if count == max(counts)]
    chosen = largest[int(tie * len(largest))]
    members = [slot for slot, label in enumerate(stored) if label == chosen]
    return members[int(victim * len(members))]


def kept_count(epoch: int, rate: float, batch: int, ramp: int = 10) -> int:
    """Co-teaching: `ceil(R * B)` with `R = 1 - min(rate * epoch / ramp, rate)`, in exact fractions."""
    exact = Fraction(repr(float(rate)))
    remembered = 1 - min(exact * epoch / ramp, exact)
    return math.ceil(remembered * batch)


def smallest(losses: Sequence[float], keep: int) -> list[int]:
    """Indices of the `keep` smallest losses; ties in order."""
    return sorted(range(len(losses)), key=lambda i: losses[i])[:keep]


def coteaching_loss(l1: Sequence[float], l2: Sequence[float], keep: int) -> tuple[float, float]:
    """Co-teaching: the mean loss of each net on the samples with the smallest loss of the other."""
    first = sum(float(l1[i]) for i in smallest(l2, keep)) / keep
    second = sum(float(l2[i]) for i in smallest(l1, keep)) / keep
    return first, second


def minmax(losses: Sequence[float]) -> FloatArray:
    """Losses scaled to [0, 1]; 0 if all are equal."""
    low, high = float(min(losses)), float(max(losses))
    if low == high:
        return np.zeros(len(losses))
    return np.array([(float(loss) - low) / (high - low) for loss in losses])


def two_component_posterior(
    losses: Sequence[float], means: Sequence[float], variances: Sequence[float], weights: Sequence[float]
) -> FloatArray:
    """u(x) of the paper: the posterior of the Gaussian with the smaller mean."""
    low = 0 if means[0] <= means[1] else 1
    posterior = []
    for loss in losses:
        logs = [
            math.log(weights[k])
            - 0.5 * math.log(2.0 * math.pi * variances[k])
            - (float(loss) - means[k]) ** 2 / (2.0 * variances[k])
            for k in range(2)
        ]
        posterior.append(softmax(np.array(logs))[low])
    return np.array(posterior)


def mixup(
    x: FloatArray, target: FloatArray, lam: Sequence[float], permutation: Sequence[int]
) -> tuple[FloatArray, FloatArray]:
    """MixUp of MixMatch: each sample has the larger weight, and its partner the smaller one."""
    x, target = x.astype(np.float64), target.astype(np.float64)
    mixed_x, mixed_target = np.zeros(x.shape), np.zeros(target.shape)
    for i in range(len(x)):
        weight = max(float(lam[i]), 1.0 - float(lam[i]))
        mixed_x[i] = weight * x[i] + (1.0 - weight) * x[permutation[i]]
        mixed_target[i] = weight * target[i] + (1.0 - weight) * target[permutation[i]]
    return mixed_x, mixed_target


def soft_cross_entropy(logits: FloatArray, target: FloatArray) -> float:
    """Supervised term of MixMatch: `-sum target * log softmax`, mean over samples; 0 for none."""
    if len(logits) == 0:
        return 0.0
    total = 0.0
    for sample, label in zip(logits.tolist(), target.tolist(), strict=True):
        top = max(sample)
        log_sum = top + math.log(sum(math.exp(logit - top) for logit in sample))
        total += sum(t * (log_sum - logit) for logit, t in zip(sample, label, strict=True))
    return total / len(logits)


def squared_error(probabilities: FloatArray, target: FloatArray) -> float:
    """Unsupervised term of MixMatch: the mean squared error over samples and classes; 0 for none."""
    if len(probabilities) == 0:
        return 0.0
    total = 0.0
    for sample, label in zip(probabilities.tolist(), target.tolist(), strict=True):
        total += sum((p - t) ** 2 for p, t in zip(sample, label, strict=True)) / len(sample)
    return total / len(probabilities)


def mean_guess(nets: Sequence[Net], views: Sequence[FloatArray]) -> FloatArray:
    """Mean probabilities over the views of one image and all nets."""
    predictions = [softmax(net(view)) for net in nets for view in views]
    return sum(predictions[1:], start=predictions[0]) / len(predictions)


def own_views(views: FloatArray, i: int) -> list[FloatArray]:
    """All views of image `i`, from views `(V, n, ...)`."""
    return [views[v, i].astype(np.float64) for v in range(len(views))]


def mixed_terms(
    net: Net,
    inputs: Sequence[FloatArray],
    targets: Sequence[FloatArray],
    supervised: int,
    lam: Sequence[float],
    permutation: Sequence[int],
) -> tuple[float, float, FloatArray]:
    """After MixUp: cross-entropy of the supervised samples, squared error of the others, predictions."""
    x, target = mixup(np.array(inputs), np.array(targets), lam, permutation)
    logits = np.array([net(sample) for sample in x])
    probabilities = np.array([softmax(sample) for sample in logits])
    labelled = soft_cross_entropy(logits[:supervised], target[:supervised])
    unlabelled = squared_error(probabilities[supervised:], target[supervised:])
    return labelled, unlabelled, probabilities


def mixmatch_loss(
    net: Net,
    trusted_x: FloatArray,
    trusted_onehot: FloatArray,
    untrusted_views: FloatArray,
    untrusted_onehot: FloatArray,
    untrusted_clean: Sequence[float],
    temperature: float,
    lam: Sequence[float],
    permutation: Sequence[int],
    weight: float,
) -> float:
    """The paper's consolidation, L_s + lambda_u * L_u: trusted samples, then each view of the others."""
    pseudo = []
    for i in range(len(untrusted_onehot)):
        guess = sharpen(mean_guess([net], own_views(untrusted_views, i)), temperature)
        pseudo.append(refine(float(untrusted_clean[i]), untrusted_onehot[i], guess))
    inputs, targets = list(trusted_x), list(trusted_onehot)
    for view in untrusted_views:
        inputs += list(view)
        targets += pseudo
    if not inputs:
        return 0.0
    supervised, unsupervised, _ = mixed_terms(net, inputs, targets, len(trusted_x), lam, permutation)
    return supervised + weight * unsupervised


def uniform_penalty(mean: Sequence[float], seen: Sequence[bool]) -> float:
    """Penalty of DivideMix: KL(uniform over the seen classes || mean prediction), not renormalised."""
    prior = 1.0 / sum(bool(s) for s in seen)
    return sum(prior * math.log(prior / float(m)) for m, s in zip(mean, seen, strict=True) if s)


def dividemix_loss(
    net: Net,
    peer: Net,
    labelled_views: FloatArray,
    labelled_onehot: FloatArray,
    labelled_clean: Sequence[float],
    unlabelled_views: FloatArray,
    temperature: float,
    lam: float,
    permutation: Sequence[int],
    weight: float,
    seen: Sequence[bool],
) -> float:
    """DivideMix for one net: it refines labels alone, both nets guess labels, one MixUp weight."""
    refined, guessed = [], []
    for i in range(len(labelled_onehot)):
        own = mean_guess([net], own_views(labelled_views, i))
        refined.append(sharpen(refine(float(labelled_clean[i]), labelled_onehot[i], own), temperature))
    for i in range(unlabelled_views.shape[1]):
        both = mean_guess([net, peer], own_views(unlabelled_views, i))
        guessed.append(sharpen(both, temperature))
    inputs: list[FloatArray] = []
    targets: list[FloatArray] = []
    for views, labels in ((labelled_views, refined), (unlabelled_views, guessed)):
        for view in views:
            inputs += list(view)
            targets += labels
    if not inputs:
        return 0.0
    supervised = len(labelled_views) * len(refined)
    labelled, unlabelled, probabilities = mixed_terms(
        net, inputs, targets, supervised, [lam] * len(inputs), permutation
    )
    mean = [sum(float(p[c]) for p in probabilities) / len(inputs) for c in range(len(seen))]
    return labelled + weight * unlabelled + uniform_penalty(mean, seen)


def batches_of_groups(groups: Sequence[Sequence[int]], size: int) -> list[list[int]]:
    """Batches with at most `size` samples of each group, as equal as possible, larger ones first.

    The first group is repeated until each batch has one of its samples.
    """
    steps = 1
    while any(len(group) > steps * size for group in groups):
        steps += 1
    labelled = list(groups[0])
    while len(labelled) < steps:
        labelled.append(labelled[len(labelled) - len(groups[0])])
    batches: list[list[int]] = [[] for _ in range(steps)]
    for group in (labelled, *groups[1:]):
        rest = list(group)
        for step in range(steps):
            count = len(group) // steps + (step < len(group) % steps)
            batches[step] += rest[:count]
            rest = rest[count:]
    return batches


def unlabelled_weight(epoch: int, warmup: int, top: float = 25.0, ramp: int = 16) -> float:
    """lambda_u of DivideMix: 0 until the warm-up ends, then linear to `top` in `ramp` epochs."""
    return top * min(max((epoch - warmup) / ramp, 0.0), 1.0)


def cutmix_box(
    height: int, width: int, lam: float, centre_row_uniform: float, centre_column_uniform: float
) -> tuple[int, int, int, int]:
    """CutMix: sides of relative length `sqrt(1 - lam)`, clipped at the border, ends exclusive."""
    edges = []
    for size, u in ((height, centre_row_uniform), (width, centre_column_uniform)):
        half = int(size * math.sqrt(1.0 - lam)) // 2
        centre = int(u * size)
        edges += [max(centre - half, 0), min(centre + half, size)]
    return edges[0], edges[1], edges[2], edges[3]


def cutmix_own_fraction(box: tuple[int, int, int, int], height: int, width: int) -> float:
    """CutMix: the fraction of pixels outside the clipped box."""
    top, bottom, left, right = box
    unchanged = 0
    for row in range(height):
        for column in range(width):
            unchanged += not (top <= row < bottom and left <= column < right)
    return unchanged / (height * width)
