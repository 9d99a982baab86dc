"""Choices adapted to the options of time that are given: fewer epochs, less patience, another learning rate."""

from collections.abc import Sequence, Set

from hetjax.options.config import Config
from hetjax.recipe.compatible import Choice

LOOKS = 10  # at the validation nodes, at least, in the epochs that are given
WARM = 10  # one in so many steps, at most, is one of the warm-up
FEW_STEPS, FAST = 100, 0.01  # so few steps in all need a learning rate as high


def adapted(choices: Sequence[Choice], config: Config, given: Set[str], seeds: int) -> list[Choice]:
    """Return the choices as the given options of time need them.

    Args:
      seeds: training nodes.
    """
    found = {choice.key: choice for choice in choices}  # of equal keys the last
    options = config.train
    if options.weight_decay:
        found.pop("train.l2", None)
    if "train.patience" in given and options.patience:
        _at_most(found, "train.evaluate_every", max(1, options.patience // 4), f"train.patience is {options.patience}")
    if "train.epochs" in given:
        why, steps = f"train.epochs is {options.epochs}", options.epochs * _steps(config, found, seeds)
        _at_most(found, "train.evaluate_every", max(1, options.epochs // LOOKS), why)
        _at_most(found, "train.warmup_steps", steps // WARM, why)
        if steps <= FEW_STEPS and "train.learning_rate" in found and found["train.learning_rate"].value < FAST:
            found["train.learning_rate"] = Choice("train.learning_rate", FAST, f"{why}: {steps} steps in all are few")
    return list(found.values())


def _steps(config: Config, found: dict[str, Choice], seeds: int) -> int:
    """Return the number of steps of an epoch."""
    mode = found["sampling.mode"].value if "sampling.mode" in found else config.sampling.mode
    steps = 1 if mode == "full" else -(-seeds // config.sampling.batch_size)
    return min(steps, config.train.steps_per_epoch or steps)


def _at_most(found: dict[str, Choice], key: str, most: int, why: str) -> None:
    if key in found and found[key].value > most:
        found[key] = Choice(key, most, why)
