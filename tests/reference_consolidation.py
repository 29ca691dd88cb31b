"""Literal twins of the end-of-task consolidations: slow on purpose, one row after another.

`n` rows, `C` classes, `V` views of an image; a net is a callable from one input row to its `C` logits.
Everything is float64. Nothing random is drawn here: coins, permutations and mixing shares come in.
"""

import math
from collections.abc import Callable, Sequence
from fractions import Fraction

import numpy as np

FloatArray = np.ndarray
Net = Callable[[FloatArray], FloatArray]


def sgdr_rate(epoch: int, lr: float, floor: float = 0.01) -> float:
    """SGDR, T0 = 1, T_mult = 2: a cosine from `lr` towards `floor * lr`, in cycles of 1, 2, 4, ..."""
    start, length = 0, 1
    while epoch >= start + length:
        start += length
        length *= 2
    passed = (epoch - start) / length
    return floor * lr + (lr - floor * lr) * (1.0 + math.cos(math.pi * passed)) / 2.0


def softmax(row: FloatArray) -> FloatArray:
    """Logits of one row to its `C` probabilities."""
    top = max(float(logit) for logit in row)
    powers = [math.exp(float(logit) - top) for logit in row]
    return np.array([power / sum(powers) for power in powers])


def sharpen(p: FloatArray, temperature: float) -> FloatArray:
    """MixMatch's sharpening of one row: `p ** (1 / T)`, divided by its sum."""
    powers = [float(value) ** (1.0 / temperature) for value in p]
    return np.array([power / sum(powers) for power in powers])


def refine(clean: float, onehot: FloatArray, guess: FloatArray) -> FloatArray:
    """The paper, Eq. for y-hat: the given label as far as it is trusted, the guess for the rest."""
    pairs = zip(onehot, guess, strict=True)
    return np.array([clean * float(o) + (1.0 - clean) * float(g) for o, g in pairs])


def greedy_balanced(
    labels: Sequence[int], ids: Sequence[int], capacity: int, uniforms: Sequence[Sequence[float]]
) -> list[int]:
    """GDumb's sampler: a class below `capacity / classes seen` may enter; the largest one pays."""
    held: list[tuple[int, int]] = []  # (id, label) of each slot
    seen: set[int] = set()
    slots = []
    for label, row_id, (_, tie, victim) in zip(labels, ids, uniforms, strict=True):
        seen.add(label)
        count = sum(stored == label for _, stored in held)
        known = row_id in [stored_id for stored_id, _ in held]
        if known or not count * len(seen) < capacity:
            slots.append(-1)
            continue
        if len(held) < capacity:
            slot = len(held)
            held.append((row_id, label))
        else:
            slot = slot_of_largest([stored for _, stored in held], tie, victim)
            held[slot] = (row_id, label)
        slots.append(slot)
    return slots


def slot_of_largest(stored: Sequence[int], tie: float, victim: float) -> int:
    """GDumb's eviction: one of the largest classes, ties by coin, then one slot of it."""
    classes = sorted(set(stored))
    counts = [sum(label == c for label in stored) for c in classes]
    largest = [c for c, count in zip(classes, counts, strict=True) if count == max(counts)]
    chosen = largest[int(tie * len(largest))]
    members = [slot for slot, label in enumerate(stored) if label == chosen]
    return members[int(victim * len(members))]


def keep_count(epoch: int, rate: float, batch: int, ramp: int = 10) -> int:
    """Co-teaching's `ceil(R * B)`, `R = 1 - min(rate * e / ramp, rate)`, in exact decimals."""
    exact = Fraction(repr(float(rate)))
    remembered = 1 - min(exact * epoch / ramp, exact)
    return math.ceil(remembered * batch)


def smallest(losses: Sequence[float], keep: int) -> list[int]:
    """Positions of the `keep` smallest losses; of equal ones the earlier."""
    return sorted(range(len(losses)), key=lambda i: losses[i])[:keep]


def coteaching_loss(l1: Sequence[float], l2: Sequence[float], keep: int) -> tuple[float, float]:
    """Co-teaching: each net is trained on what its peer finds easy; the mean loss of either."""
    first = sum(float(l1[i]) for i in smallest(l2, keep)) / keep
    second = sum(float(l2[i]) for i in smallest(l1, keep)) / keep
    return first, second


def minmax(losses: Sequence[float]) -> FloatArray:
    """Losses of the memory to [0, 1], as DivideMix divides them; all equal is all zero."""
    low, high = float(min(losses)), float(max(losses))
    if low == high:
        return np.zeros(len(losses))
    return np.array([(float(loss) - low) / (high - low) for loss in losses])


def two_component_posterior(
    losses: Sequence[float], means: Sequence[float], variances: Sequence[float], weights: Sequence[float]
) -> FloatArray:
    """The paper's u(x): Bayes' rule for the Gaussian with the smaller mean, whichever comes first."""
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
    """MixMatch's MixUp: each row keeps the larger share and takes the rest from its partner."""
    x, target = x.astype(np.float64), target.astype(np.float64)
    mixed_x, mixed_target = np.zeros(x.shape), np.zeros(target.shape)
    for i in range(len(x)):
        share = max(float(lam[i]), 1.0 - float(lam[i]))
        mixed_x[i] = share * x[i] + (1.0 - share) * x[permutation[i]]
        mixed_target[i] = share * target[i] + (1.0 - share) * target[permutation[i]]
    return mixed_x, mixed_target


def soft_cross_entropy(logits: FloatArray, target: FloatArray) -> float:
    """MixMatch's supervised term: `-sum target * log softmax`, mean over rows; 0 for none."""
    if len(logits) == 0:
        return 0.0
    total = 0.0
    for row, wanted in zip(logits.tolist(), target.tolist(), strict=True):
        top = max(row)
        log_sum = top + math.log(sum(math.exp(logit - top) for logit in row))
        total += sum(t * (log_sum - logit) for logit, t in zip(row, wanted, strict=True))
    return total / len(logits)


def squared_error(probabilities: FloatArray, target: FloatArray) -> float:
    """MixMatch's unsupervised term: squared distance, mean over rows and classes; 0 for no rows."""
    if len(probabilities) == 0:
        return 0.0
    total = 0.0
    for row, wanted in zip(probabilities.tolist(), target.tolist(), strict=True):
        total += sum((p - t) ** 2 for p, t in zip(row, wanted, strict=True)) / len(row)
    return total / len(probabilities)


def mean_guess(nets: Sequence[Net], views: Sequence[FloatArray]) -> FloatArray:
    """The paper, Eq. for y-hat: mean probabilities over the views of one image, under each net."""
    answers = [softmax(net(view)) for net in nets for view in views]
    return sum(answers[1:], start=answers[0]) / len(answers)


def own_views(views: FloatArray, i: int) -> list[FloatArray]:
    """All views of image `i`, from `(V, n, ...)`."""
    return [views[v, i].astype(np.float64) for v in range(len(views))]


def mixed_terms(
    net: Net,
    rows: Sequence[FloatArray],
    targets: Sequence[FloatArray],
    supervised: int,
    lam: Sequence[float],
    permutation: Sequence[int],
) -> tuple[float, float, FloatArray]:
    """MixMatch after MixUp: cross-entropy of the first rows, squared error of the rest, predictions."""
    x, target = mixup(np.array(rows), np.array(targets), lam, permutation)
    logits = np.array([net(row) for row in x])
    probabilities = np.array([softmax(row) for row in logits])
    labelled = soft_cross_entropy(logits[:supervised], target[:supervised])
    unlabelled = squared_error(probabilities[supervised:], target[supervised:])
    return labelled, unlabelled, probabilities


def mixmatch_loss(
    net: Net,
    pure_x: FloatArray,
    pure_onehot: FloatArray,
    unsure_views: FloatArray,
    unsure_onehot: FloatArray,
    unsure_clean: Sequence[float],
    temperature: float,
    lam: Sequence[float],
    permutation: Sequence[int],
    weight: float,
) -> float:
    """The paper's consolidation, L_s + lambda_u * L_u: pure rows, then each view of all unsure rows."""
    pseudo = []
    for i in range(len(unsure_onehot)):
        guess = sharpen(mean_guess([net], own_views(unsure_views, i)), temperature)
        pseudo.append(refine(float(unsure_clean[i]), unsure_onehot[i], guess))
    rows, targets = list(pure_x), list(pure_onehot)
    for view in unsure_views:
        rows += list(view)
        targets += pseudo
    if not rows:
        return 0.0
    supervised, unsupervised, _ = mixed_terms(net, rows, targets, len(pure_x), lam, permutation)
    return supervised + weight * unsupervised


def uniform_penalty(mean: Sequence[float], seen: Sequence[bool]) -> float:
    """DivideMix's penalty: KL(uniform over the seen classes || mean prediction), not renormalised."""
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
    """DivideMix for one net: labels refined by it alone, guesses by both, one mixing share."""
    refined, guessed = [], []
    for i in range(len(labelled_onehot)):
        own = mean_guess([net], own_views(labelled_views, i))
        refined.append(sharpen(refine(float(labelled_clean[i]), labelled_onehot[i], own), temperature))
    for i in range(unlabelled_views.shape[1]):
        both = mean_guess([net, peer], own_views(unlabelled_views, i))
        guessed.append(sharpen(both, temperature))
    rows: list[FloatArray] = []
    targets: list[FloatArray] = []
    for views, wanted in ((labelled_views, refined), (unlabelled_views, guessed)):
        for view in views:
            rows += list(view)
            targets += wanted
    if not rows:
        return 0.0
    supervised = len(labelled_views) * len(refined)
    labelled, unlabelled, probabilities = mixed_terms(
        net, rows, targets, supervised, [lam] * len(rows), permutation
    )
    mean = [sum(float(row[c]) for row in probabilities) / len(rows) for c in range(len(seen))]
    return labelled + weight * unlabelled + uniform_penalty(mean, seen)


def steps_of_groups(groups: Sequence[Sequence[int]], size: int) -> list[list[int]]:
    """Rows of each step: no group beyond `size`, parts of a group as equal as can be, longer ones first.

    The first group begins again until each step has one of its rows.
    """
    steps = 1
    while any(len(rows) > steps * size for rows in groups):
        steps += 1
    labelled = list(groups[0])
    while len(labelled) < steps:
        labelled.append(labelled[len(labelled) - len(groups[0])])
    batches: list[list[int]] = [[] for _ in range(steps)]
    for rows in (labelled, *groups[1:]):
        waiting = list(rows)
        for step in range(steps):
            count = len(rows) // steps + (step < len(rows) % steps)
            batches[step] += waiting[:count]
            waiting = waiting[count:]
    return batches


def unlabelled_weight(epoch: int, warmup: int, top: float = 25.0, ramp: int = 16) -> float:
    """DivideMix's lambda_u: nothing until the warm-up ends, then linear to `top` in `ramp` epochs."""
    return top * min(max((epoch - warmup) / ramp, 0.0), 1.0)


def cutmix_box(
    height: int, width: int, lam: float, centre_row_uniform: float, centre_column_uniform: float
) -> tuple[int, int, int, int]:
    """CutMix: sides of share `sqrt(1 - lam)`, clipped at the border; bottom and right are exclusive."""
    edges = []
    for size, u in ((height, centre_row_uniform), (width, centre_column_uniform)):
        half = int(size * math.sqrt(1.0 - lam)) // 2
        centre = int(u * size)
        edges += [max(centre - half, 0), min(centre + half, size)]
    return edges[0], edges[1], edges[2], edges[3]


def cutmix_share(box: tuple[int, int, int, int], height: int, width: int) -> float:
    """CutMix: the share of pixels outside the clipped box, counted one by one."""
    top, bottom, left, right = box
    unchanged = 0
    for row in range(height):
        for column in range(width):
            unchanged += not (top <= row < bottom and left <= column < right)
    return unchanged / (height * width)
