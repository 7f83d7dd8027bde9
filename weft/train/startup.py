"""The start-up routine of N1 §2.9: is a set-up sound before hours are spent on it? `weft check` prints its verdicts.

Each step measures one thing and says `ok`, `note` or `fault`, what was found, and what to do. Steps whose result would
mean nothing after an earlier fault are skipped, so the faults that are named are causes, not consequences.

    >>> from weft.train import startup
    >>> report = startup.check(task, loader)  # doctest: +SKIP
    >>> report.faults  # doctest: +SKIP
    ['learning rate too high']
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..nn.module import Module
from .startup_rig import (
    Course,
    Part,
    Rig,
    accuracy_of,
    against_chance,
    classes_of,
    limit,
    neighbours,
    pair,
    squared_gradients,
    tensors,
)

__all__ = ["FAULTS", "Finding", "Report", "check"]

FEW = 20  # examples that any sound set-up learns by heart
RATES = (0.001, 0.01, 0.1, 1.0, 10.0, 100.0)  # times the rate as set up
DECAYS = (0.0, 1e-4, 1e-2)
CERTAIN = 4.0  # standard deviations
TRIALS = 20  # runs over rates and decays, about
FAULTS = (
    *("data not finite", "initial loss off", "dead initialisation", "symmetric initialisation", "cannot fit"),
    *("decay without effect", "labels shuffled", "learning rate too high", "learning rate too low"),
)


@dataclass(frozen=True)
class Finding:
    """The result of one step: `verdict` is ok, note, fault or skipped; `fault` names what is wrong (one of FAULTS)."""

    step: str
    verdict: str
    found: str
    advice: str = ""
    fault: str | None = None


@dataclass
class Report:
    """All findings in the order of the routine, and the numbers behind them for plots."""

    watch: Callable[[str], None] = field(default=lambda step: None, repr=False)
    findings: list[Finding] = field(default_factory=list)
    courses: list[Course] = field(default_factory=list, repr=False)  # learning rates, each at the decay as set up
    grid: list[Course] = field(default_factory=list, repr=False)  # rates around the best × decays
    few: list[float] = field(default_factory=list, repr=False)  # losses while a few examples are learned by heart
    units: dict[str, float] = field(default_factory=dict, repr=False)  # share of dead units by weight
    gradients: dict[str, float] = field(default_factory=dict, repr=False)  # root mean square gradient by weight
    ratios: dict[str, float] = field(default_factory=dict, repr=False)  # ‖Δθ‖ / ‖θ‖ by weight

    @property
    def faults(self) -> list[str]:
        """The names of the faults, causes first."""
        return [finding.fault for finding in self.findings if finding.fault]

    @property
    def sound(self) -> bool:
        """Whether no fault was found."""
        return not self.faults

    def add(self, step: str, found: str, note: str = "", fault: str | None = None) -> None:
        """Add a finding: a fault, something to note (`note` says what to do), or ok."""
        verdict = "fault" if fault else "note" if note else "ok"
        self.findings.append(Finding(step, verdict, found, note, fault))

    def skip(self, *steps: str) -> Report:
        """Enter steps that would mean nothing while the last fault is there."""
        self.findings += [
            Finding(step, "skipped", f"means nothing with this fault: {self.faults[-1]}") for step in steps
        ]
        return self


def check(
    task: Module,
    batches: Iterable[Any],
    *,
    steps: int = 50,
    seconds: float = 60.0,
    classes: int | None = None,
    compile: bool = True,
    watch: Callable[[str], None] = lambda step: None,
) -> Report:
    """Go through the routine with a task and its training batches; the task's weights are as before afterwards.

    steps: length of each trial run; seconds: shorter ones (10 steps at least) where all trials would take longer
    classes: number of classes C, found from labels and outputs if None; watch: is told what goes on
    """
    report, part = Report(watch), Part.of(batches, max(32, steps), FEW)
    rest = ["initial loss", "gradient flow", "few examples", "regularisation", "labels"]
    rest += ["learning rate", "weight decay", "update ratio"]
    rig = Rig(task, part, compile)
    try:
        _data(report, rig)
        if report.faults:
            return report.skip(*rest)
        _initial_loss(report, rig, classes)
        if not math.isfinite(rig.first):
            return report.skip(*rest[1:])
        _gradient_flow(report, rig)
        if {"dead initialisation", "symmetric initialisation"} & {*report.faults}:
            return report.skip(*rest[2:])
        factor = _few_examples(report, rig)
        if factor is None:
            return report.skip(*rest[3:])
        _regularisation(report, rig, factor)
        _rates(report, rig, _affordable(rig, steps, seconds), factor)
        return report
    finally:
        rig.reset()


# ---------------------------------------------------------------- data


def _data(report: Report, rig: Rig) -> None:
    """N1 §2.9, 1: finite numbers, of a size that initial weights are made for."""
    whole = [*rig.part.train, *rig.part.held]
    size, x = f"{len(whole)} batches of {len(tensors(whole[0])[0])}", tensors(whole[0])[0]
    missing = {i: count for i, batch in enumerate(whole) if (count := _not_finite(batch))}
    if missing:
        found = f"{size}, {sum(missing.values())} values are NaN or infinite"
        if math.isfinite(rig.mean_loss([whole[i] for i in missing])):
            return report.add("data", found, "the model takes them; see that it does what you mean")
        return report.add("data", found, "fill or drop the missing values before training", "data not finite")
    if not x.is_floating_point():
        return report.add("data", f"{size}, inputs are whole numbers of shape {tuple(x.shape[1:])}")
    mean, spread = float(x.mean()), float(x.std()) if x.numel() > 1 else 1.0
    odd = abs(mean) > 10 or not 1e-3 < spread < 20
    advice = "unless the model does, scale the inputs: subtract their mean, divide by their standard deviation"
    return report.add("data", f"{size}, inputs {mean:.3g} ± {spread:.3g}", advice if odd else "")


def _not_finite(batch: Any) -> int:
    return sum(int((~np.isfinite(t.numpy())).sum()) for t in tensors(batch) if t.is_floating_point())


# ---------------------------------------------------------------- before the first step


def _initial_loss(report: Report, rig: Rig, classes: int | None) -> None:
    """N1 §2.9, 3: before it has learned anything a classifier's loss is log C."""
    loss, batch = rig.first, pair(rig.part.train[0])
    if not math.isfinite(loss):
        advice = "look for a logarithm of 0, a division by 0, or weights that are too large"
        return report.add("initial loss", f"the loss is {loss} before the first step", advice, "initial loss off")
    known = classes or (classes_of(rig, *batch) if batch else None)
    if not known or known < 2:
        return report.add("initial loss", f"{loss:.4g}; no classes, nothing to compare it with")
    expected, size = math.log(known), len(batch[1]) if batch else 1
    found = f"{loss:.4g}, log {known} = {expected:.4g}"
    if 0.5 <= loss / expected <= 2:
        return report.add("initial loss", found)
    if size > 2 and 0.5 <= loss / size / expected <= 2:
        return report.add("initial loss", found, f"the loss is summed over {size} examples: take the mean")
    if loss < expected:
        return report.add(
            "initial loss", found, "too good: does an input give the label away, or is it trained already?"
        )
    advice = "too sure before learning: smaller weights in the last layer, or scaled inputs"
    return report.add("initial loss", found, advice, "initial loss off" if loss > 3 * expected else None)


def _gradient_flow(report: Report, rig: Rig, batches: int = 4) -> None:
    """Units whose gradient stays zero over several batches and small steps are dead; units with equal ones are one."""
    report.watch("gradient flow")
    totals = squared_gradients(rig, batches)
    rig.reset()
    if not totals:
        return report.add("gradient flow", "no weight matrices")
    largest = max(float(rows.max(initial=0)) for rows, _ in totals.values())
    for name, (rows, _) in totals.items():
        report.units[name] = float((rows <= largest * 1e-16).mean()) if largest else 1.0
        report.gradients[name] = math.sqrt(float(rows.mean()))
    worst = max(report.units, key=report.units.__getitem__)
    share = report.units[worst]
    found = f"{share:.0%} of the units of {worst} get no gradient"
    if share >= 0.5:
        advice = "draw weights at random (nn.init.kaiming_normal_), set biases to 0, check saturated activations"
        return report.add("gradient flow", found, advice, "dead initialisation")
    equal = [name for name, (rows, same) in totals.items() if same and len(rows) > 1]
    if equal and not rig.matrices()[equal[0]].any():
        advice = "draw the weights at random (nn.init.kaiming_normal_)"
        return report.add("gradient flow", f"all weights of {equal[0]} are zero", advice, "dead initialisation")
    if equal:
        advice = "draw the weights at random: equal units learn the same thing for ever"
        return report.add("gradient flow", f"all units of {equal[0]} are equal", advice, "symmetric initialisation")
    sizes = [size for size in report.gradients.values() if size]
    uneven = max(sizes) / min(sizes) if sizes else 1.0
    if share >= 0.2:
        return report.add("gradient flow", found, "smaller biases, or leaky_relu instead of relu")
    advice = "gradients vanish or explode between layers: normalisation, skip connections, other initial weights"
    found = f"{share:.0%} dead units at most, gradients of layers within a factor {uneven:.3g}"
    return report.add("gradient flow", found, advice if uneven > 1e4 else "")


# ---------------------------------------------------------------- a few examples, and the decay


def _few_examples(report: Report, rig: Rig) -> float | None:
    """N1 §2.9, 5: a handful of examples is learned by heart, at some learning rate, without decay or dropout.

    Gives the factor of the learning rate that did it, None if none did and the model should have been able to.
    """
    report.watch("a few examples")
    count = len(tensors(rig.part.few)[0])
    best = (math.inf, 1.0)
    for factor in (1.0, 0.1, 10.0, 0.01, 100.0, 1e-3, 1e3, 1e-4, 1e4, 1e5, 1e6, 1e7):
        losses, learned = _by_heart(rig, factor)
        if learned or (math.isfinite(losses[-1]) and losses[-1] < best[0]):
            best, report.few = (losses[-1], factor), losses
        if learned:
            rate = f"at learning rate {rig.rate * factor:.3g}"
            report.add("few examples", f"{count} examples learned by heart in {len(losses)} steps {rate}")
            return factor
    return _not_by_heart(report, rig, best, count)


def _by_heart(rig: Rig, factor: float, steps: int = 200) -> tuple[list[float], bool]:
    """The losses over the few examples, and whether they were learned; given up where nothing moves in 50 steps."""
    rig.reset(factor, 0.0, dropout=False)
    losses: list[float] = []
    while len(losses) < steps and (not losses or math.isfinite(losses[-1])):
        losses.append(rig.step(rig.part.few))
        if len(losses) % 10 == 0 and _learned(rig, losses):
            return losses, True
        if len(losses) == 50 and losses[-1] > 0.9 * losses[0]:
            break
    return losses, False


def _learned(rig: Rig, losses: list[float]) -> bool:
    """Whether every example is right (of sequences 19 in 20); for other tasks, a hundredth of the loss is left."""
    batch = pair(rig.part.few)
    right = accuracy_of(rig, *batch) if batch else None
    if right is not None:
        return right >= (1.0 if batch[1].ndim == 1 else 0.95)
    if batch and not batch[1].is_floating_point():
        return losses[-1] * batch[1].numel() < math.log(2)  # then each has a probability above ½
    return losses[-1] < 0.01 * losses[0]


def _not_by_heart(report: Report, rig: Rig, best: tuple[float, float], count: int) -> float | None:
    found = f"{count} examples are not learned by heart: loss {report.few[0] if report.few else math.nan:.3g} → {best[0]:.3g}"
    numbers = sum(p.numel() for p in rig.task.parameters() if p.requires_grad)
    if math.isfinite(best[0]) and (numbers < 10 * count or best[0] < 0.5 * report.few[0]):
        report.add("few examples", found, f"expected only of a small model ({numbers} weights) or noisy labels")
        return best[1]
    advice = "does the loss compare outputs with their labels? equal inputs with different labels? a detached part?"
    report.add("few examples", found, advice, "cannot fit")
    return None


def _regularisation(report: Report, rig: Rig, factor: float, steps: int = 10) -> None:
    """N1 §2.9, 4: with the regularisation turned up the loss L + λ/2 ‖θ‖² rises, and the optimiser's decay acts."""
    rig.reset()
    size = sum(float((p.detach() ** 2).sum()) for p in rig.matrices().values())
    raised = f"loss {rig.first:.4g}, with a penalty of 0.1/2 ‖θ‖² {rig.first + 0.05 * size:.4g}"
    if rig.decay is None:
        return report.add("regularisation", f"{raised}; the optimiser has no weight decay")
    norms = []
    for decay in (0.0, 0.2 / (rig.rate * factor)):  # none; the weights lose a fifth in each step
        rig.train(steps, factor, decay)
        norms.append(sum(float((p.detach() ** 2).sum()) for p in rig.matrices().values()) ** 0.5)
    found = f"{raised}; strong decay takes ‖θ‖ from {norms[0]:.4g} to {norms[1]:.4g}"
    if not norms[1] >= norms[0]:
        return report.add("regularisation", found)
    advice = "decay must make weights smaller: does weight_decay reach the optimiser's parameter groups?"
    return report.add("regularisation", found, advice, "decay without effect")


# ---------------------------------------------------------------- rates, decays, labels


def _affordable(rig: Rig, steps: int, seconds: float) -> int:
    """How long each trial may be: `steps`, or fewer where all of them would take more than so many seconds."""
    rig.train(2)  # compiles
    begin = time.perf_counter()
    rig.train(3)
    each = (time.perf_counter() - begin) / 3
    return min(steps, max(10, int(seconds / TRIALS / each)))


def _rates(report: Report, rig: Rig, steps: int, learned: float) -> None:
    """N1 §2.9, 6 and 8: rates and decays in log space, labels against chance, the size of updates.

    learned: the factor of the rate at which a few examples were learned; the grid goes a decade further.
    """
    for factor in sorted({*RATES, *(learned * near for near in (0.1, 1.0, 10.0))}):
        report.watch(f"learning rate {rig.rate * factor:.1e}")
        report.courses.append(rig.train(steps, factor))
    best = max(report.courses, key=lambda course: course.progress)
    factor = best.rate / rig.rate
    shuffled = _labels(report, rig, factor, steps)
    _learning_rate(report, rig, best, shuffled)
    _weight_decay(report, rig, factor, steps, shuffled)
    if "learning rate too high" in report.faults:
        report.skip("update ratio")
    else:
        _update_ratio(report, rig, steps=min(20, steps))


def _labels(report: Report, rig: Rig, factor: float, steps: int) -> bool:
    """Whether labels have nothing to do with inputs: held-back data is no better predicted than with labels permuted.

    z = (mean − loss) / deviation, over losses of the same outputs against permuted labels.
    """
    if any(pair(batch) is None for batch in rig.part.held):
        report.add("labels", "batches are not pairs of inputs and labels")
        return False
    report.watch("labels")
    rig.train(steps, factor)
    z, near = against_chance(rig), neighbours(rig.part)
    certain = min(CERTAIN, sum(len(pair(batch)[1]) for batch in rig.part.held) ** 0.5 / 2)
    if z < certain and near is None:
        rig.train(max(200, 4 * steps), factor)  # nothing else tells whether labels are sound
        z = against_chance(rig)
    found = f"held-back data predicted {z:.1f} deviations better than chance"
    if near is not None:
        found += f", nearest neighbours agree {near:.1f} above it"
    if z < certain and (near is None or near < CERTAIN):
        advice = "inputs and labels do not belong together: were they shuffled or sorted apart?"
        report.add("labels", found, advice, "labels shuffled")
        return True
    report.add("labels", found, "labels are sound, but nothing general is learned yet" if z < certain else "")
    return False


def _learning_rate(report: Report, rig: Rig, best: Course, shuffled: bool) -> None:
    """The rate as set up against the best of the grid: exploded, too high, too low, or right."""
    own = next(course for course in report.courses if course.rate == rig.rate)
    better = f"{best.rate:.3g} is best of {report.courses[0].rate:.1g} … {report.courses[-1].rate:.1g}"
    fell = f"at {own.rate:.3g} the loss went from {own.first:.4g} to {own.final:.4g}"
    if own.exploded:
        peak = max((v for v in own.losses if math.isfinite(v)), default=math.inf)
        found = f"at {own.rate:.3g} the loss exploded: {own.first:.4g} → {peak:.4g}, above {limit(own.first):.4g}"
        return report.add("learning rate", found, f"lower it to about {best.rate:.3g}", "learning rate too high")
    if shuffled:
        return report.skip("learning rate")
    if best.rate < own.rate and own.progress < 0.5 * best.progress:
        return report.add("learning rate", fell, f"lower it: {better}", "learning rate too high")
    if best.rate > own.rate and own.progress < 0.02 * best.progress:
        return report.add("learning rate", fell, f"raise it: {better}", "learning rate too low")
    slow = best.rate > own.rate and own.progress < 0.1 * best.progress
    return report.add("learning rate", f"{fell}; {better}", "slow: try a higher rate" if slow else "")


def _weight_decay(report: Report, rig: Rig, factor: float, steps: int, shuffled: bool) -> None:
    """Rates around the best times decays, which makes the most progress."""
    if rig.decay is None:
        return report.add("weight decay", "the optimiser has none")
    if shuffled:
        return report.skip("weight decay")
    report.watch("weight decay")
    report.grid = [rig.train(steps, factor * near, decay) for near in (0.1, 1.0, 10.0) for decay in DECAYS]
    best = max(report.grid, key=lambda course: course.progress)
    own = f"set up with {rig.decay:.3g}"
    return report.add("weight decay", f"{own}; most progress with rate {best.rate:.3g}, decay {best.decay:.3g}")


def _update_ratio(report: Report, rig: Rig, steps: int) -> None:
    """N1 §2.9, 8: the ratio ‖Δθ‖ / ‖θ‖ of each weight matrix should lie near 1e-3 to 1e-2."""
    rig.reset()
    weights, seen = rig.matrices(), {}
    for i in range(steps):
        before = {name: p.detach().clone() for name, p in weights.items()}
        rig.step(rig.part.train[i % len(rig.part.train)])
        for name, p in weights.items():
            size = float(before[name].norm())
            seen.setdefault(name, []).append(float((p.detach() - before[name]).norm()) / size if size else math.nan)
    report.ratios = {name: float(np.nanmedian(values)) for name, values in seen.items() if not np.isnan(values).all()}
    if not report.ratios:
        return report.add("update ratio", "no weights to compare")
    low, high = min(report.ratios.values()), max(report.ratios.values())
    advice = "large: a lower learning rate" if high > 0.1 else "small: a higher learning rate" if high < 1e-5 else ""
    return report.add("update ratio", f"{low:.1e} … {high:.1e}, 1e-3 to 1e-2 is usual", advice)
