"""The device's cache, filled before training: presample, measure what misses cost, and keep the hottest rows."""

from pathlib import Path

from hetjax.cache.allocate import RowWorth
from hetjax.cache.features import FeatureStore
from hetjax.cache.hotness import hotness
from hetjax.cache.penalty import read_or_measure
from hetjax.options.config import Config
from hetjax.sampling.loader import Batches


def fill(features: FeatureStore, batches: Batches, config: Config, file: Path, quiet: bool = False) -> None:
    """Keep the hottest rows of features that live on the host on the devices, if there is a budget for that.

    The budget of a device is what types that live on it, and were not told to, leave of the bound.

    Args:
      file: where measured penalties are kept.
      quiet: show no progress.
    """
    cache, sampling, hosted = config.cache, config.sampling, features.hosted
    if cache.bytes_per_device < 1 or cache.policy == "none" or set(features.placement.values()) == {"device"}:
        return
    counts = hotness(batches, {key: matrix.nodes for key, matrix in hosted.items()}, cache.presample_epochs, quiet)
    measured_for = {"batch_size": sampling.batch_size, "fanout": list(sampling.fanout)}
    largest = {t: matrix for (t, _), matrix in sorted(hosted.items(), key=lambda item: item[1].nodes)}
    penalties = read_or_measure(file, measured_for, largest, features.learnable)
    kinds = {key: RowWorth(counts[key], matrix.row_bytes, penalties[key[0]]) for key, matrix in hosted.items()}
    devices = {matrix.device for matrix in hosted.values()}
    budgets = {device: cache.bytes_per_device - features.resident(device, cache.given) for device in devices}
    features.fill(kinds, budgets, cache.policy)
