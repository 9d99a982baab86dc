"""Options of predicted numbers that nobody gave, chosen by the training values; they know no nodes and no edges."""

from collections.abc import Iterator, Set

import numpy as np

from hetjax.tasks.number_scales import fitted, robust_deviation

FAR, SHARE = (
    4.0,
    0.01,
)  # robust deviations from the median, and the share of the values beyond, from which tails are heavy
OF_SQUARES = ("rmse", "r2")  # metrics that the squared error goes with
OF_LOSS = {"mse": "rmse", "quantile": "pinball"}  # the metric that goes with a loss, if not `mae`

Chosen = tuple[str, str, str]  # the last name of an option, its value, and why


def chosen(values: np.ndarray, given: Set[str], loss: str, metric: str) -> Iterator[Chosen]:
    """Yield the scale, the loss and the metric that go with training values and with what is given.

    The squared error predicts the mean, for which far values are no nuisance: it is kept where it is given, or a metric of it.

    Args:
      values: `[n, numbers]`, NaN where one is not known.
      given: the last names of the options that are given.
      loss, metric: these options, where they are given.
    """
    columns = [column[~np.isnan(column)].astype(np.float64) for column in values.T]
    tails = max(map(far, columns), default=0.0)
    heavy = tails > SHARE
    words = f"{100 * tails:.2g} % of the training values are over {FAR:g} robust deviations from the median"
    if any(len(column) and not robust_deviation(column) for column in columns):
        words = "at least half of the training values are alike, so the others count as they are"
    squares = loss == "mse" if "loss" in given else "metric" in given and metric in OF_SQUARES
    if squares:
        yield "scale", "linear", "squared errors are those of the numbers themselves"
    elif heavy and all(map(skewed, columns)):
        yield "scale", "log", f"{words}, none is below 0, and their logarithms have no such tails"
    else:
        yield "scale", "robust" if heavy else "linear", words
    if "loss" not in given:
        followed = "metric" in given and metric in (*OF_SQUARES, "mae")
        loss = ("mae" if metric == "mae" else "mse") if followed else "huber" if heavy else "mse"
        yield "loss", loss, f"the metric is {metric}" if followed else words
    if "metric" not in given and len(columns) > 1:
        yield (
            "metric",
            "loss",
            f"{len(columns)} numbers a node may differ in unit, and the loss is of standardised ones",
        )
    elif "metric" not in given:
        yield "metric", OF_LOSS.get(loss, "mae"), f"the loss is {loss}"


def far(values: np.ndarray) -> float:
    """Return the share of values that are more than `FAR` robust deviations from their median; 0 where at least half are alike."""
    if not len(values):
        return 0.0
    deviation = robust_deviation(values)
    return float(np.mean(np.abs(values - np.median(values)) > FAR * deviation)) if deviation else 0.0


def skewed(values: np.ndarray) -> bool:
    """Return whether values from 0 on have heavy tails, and the logarithms of `number_scales` have none."""
    if not len(values) or values.min() < 0 or far(values) <= SHARE:
        return False
    return far(fitted(values[:, None], "log").standardised(values[:, None])[:, 0]) <= SHARE
