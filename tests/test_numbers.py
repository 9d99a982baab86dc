"""Numbers: losses, metrics, scales and ridge regression, against scikit-learn, scipy and optax."""

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest
import scipy.stats
from sklearn import linear_model, metrics, preprocessing

from hetjax.tasks import number_losses, number_rules, number_scales, number_scores
from hetjax.tasks.quality import Metric
from hetjax.tasks.ridge import PENALTIES, ridges

LEVELS = (0.1, 0.5, 0.9)


def entries(seed=0, n=50, numbers=3):
    """Predictions, values with ties and gaps, and weights some of which are 0."""
    rng = np.random.default_rng(seed)
    values = np.round(rng.normal(np.array([0, 100, -5]), 3, (n, numbers)))
    values[rng.uniform(size=values.shape) < 0.2] = np.nan
    predicted = np.round(np.nan_to_num(values) + rng.normal(size=values.shape), 1)
    return predicted, values, np.where(rng.uniform(size=values.shape) < 0.2, 0, rng.uniform(0.1, 2, values.shape))


def mean_over(predicted, values, weights, metric):
    """The mean of a metric over the numbers, each of the entries that are known and weigh something."""
    found = []
    for n in range(values.shape[1]):
        rows = ~np.isnan(values[:, n]) & (weights[:, n] > 0)
        found.append(metric(values[rows, n], predicted[rows, n], sample_weight=weights[rows, n]))
    return pytest.approx(np.mean(found), rel=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_metrics_are_those_of_scikit_learn_and_scipy(weighted):
    predicted, values, weights = entries()
    weights = weights if weighted else np.ones_like(weights)
    found = number_scores.scores(predicted, values, weights if weighted else None)
    assert found["rmse"] == mean_over(predicted, values, weights, metrics.root_mean_squared_error)
    assert found["mae"] == mean_over(predicted, values, weights, metrics.mean_absolute_error)
    assert found["r2"] == mean_over(predicted, values, weights, metrics.r2_score)
    plain = mean_over(predicted, values, weights, lambda y, p, sample_weight: scipy.stats.spearmanr(y, p).statistic)
    assert found["spearman"] == plain
    ordered = np.sort(predicted[:, :, None] + np.random.default_rng(1).normal(size=(*values.shape, 3)), axis=2)
    intervals = number_scores.interval_scores(ordered, values, LEVELS, weights if weighted else None)
    pinballs = [
        mean_over(ordered[:, :, n], values, weights, lambda *a, level=level, **k: metrics.mean_pinball_loss(*a, alpha=level, **k)).expected
        for n, level in enumerate(LEVELS)
    ]  # fmt: skip
    assert intervals["pinball"] == pytest.approx(np.mean(pinballs), rel=1e-12)
    inside = (ordered[:, :, 0] <= values) & (values <= ordered[:, :, 2])
    of_inside = mean_over(inside, values, weights, lambda y, p, sample_weight: np.average(p, weights=sample_weight))
    assert intervals["coverage"] == of_inside


def test_what_is_undefined_is_none():
    nothing = number_scores.scores(np.zeros((0, 2)), np.zeros((0, 2)))
    assert nothing == dict.fromkeys(number_scores.POINTS)
    unknown = number_scores.scores(np.zeros((3, 1)), np.full((3, 1), np.nan))
    assert unknown == nothing
    assert number_scores.interval_scores(np.zeros((0, 1, 3)), np.zeros((0, 1)), LEVELS) == {
        "pinball": None,
        "coverage": None,
    }
    constant = number_scores.scores(np.array([[1.0], [2.0]]), np.array([[0.1], [0.1]]))
    assert constant["r2"] is None and constant["spearman"] is None and constant["mae"] == pytest.approx(1.4)
    one = number_scores.scores(np.array([[1.0], [1.0]]), np.array([[0.0], [2.0]]))
    assert one["r2"] == 0 and one["spearman"] is None
    half = number_scores.scores(np.array([[0.0, 5], [2, 5]]), np.array([[0.0, 7], [2, 7]]))
    assert half["r2"] == 1 and half["rmse"] == 1  # of the second number R2 is undefined, and the RMSE 2


@pytest.mark.parametrize("name", number_losses.LOSSES)
def test_losses_are_their_definitions_on_both_libraries(name):
    predicted, values, weights = entries(2)
    values = np.nan_to_num(values)
    outputs = np.repeat(predicted, 3, axis=1) + np.tile([-1.0, 0, 1], 3) if name == "quantile" else predicted
    error = predicted - values
    expected = {
        "mse": lambda: np.asarray(optax.squared_error(predicted, values)),
        "mae": lambda: np.abs(error),
        "huber": lambda: np.asarray(optax.huber_loss(predicted, values, delta=0.7)),
        "log_cosh": lambda: np.log(np.cosh(error)),
        "quantile": lambda: np.mean(
            [np.where(values > q, level * (values - q), (1 - level) * (q - values))
             for level, q in zip(LEVELS, (predicted - 1, predicted, predicted + 1))], axis=0),
    }  # fmt: skip
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    try:
        want = expected[name]()
        given = LEVELS if name == "quantile" else ()
        for library in (np, jnp):
            found = number_losses.losses(name, library.asarray(outputs), library.asarray(values), given, 0.7)
            np.testing.assert_allclose(np.asarray(found), want, rtol=1e-12, atol=1e-12)
        poisoned = np.where(weights > 0, values, np.nan)
        total, gradient = jax.value_and_grad(
            lambda out: number_losses.total(name, out, jnp.nan_to_num(poisoned), weights, given, 0.7)
        )(jnp.asarray(outputs))
        assert float(total) == pytest.approx(np.sum(weights * want), rel=1e-12)
        assert np.isfinite(gradient).all()
        assert not np.asarray(gradient).reshape(*values.shape, -1)[weights == 0].any()
    finally:
        jax.config.update("jax_enable_x64", before)


def test_log_cosh_of_large_errors_is_finite():
    found = number_losses.losses("log_cosh", np.array([[1e4, -1e4]]), np.zeros((1, 2)))
    np.testing.assert_allclose(found, 1e4 - np.log(2))


def test_scales_standardise_the_training_values_and_give_them_back():
    _, values, _ = entries(3)
    scale = number_scales.fitted(values)
    expected = preprocessing.StandardScaler().fit(values)
    np.testing.assert_allclose(scale.standardised(values), expected.transform(values), rtol=1e-12)
    np.testing.assert_allclose(scale.restored(scale.standardised(values)), values, rtol=1e-12)
    skewed = np.exp(np.random.default_rng(4).normal(size=(80, 1)) * 2)
    for unit in (1, 1000):
        curved = number_scales.fitted(unit * skewed, "log")
        made = curved.standardised(unit * skewed)
        np.testing.assert_allclose([made.mean(), made.std()], [0, 1], atol=1e-12)
        np.testing.assert_allclose(curved.restored(made), unit * skewed, rtol=1e-9)
        np.testing.assert_allclose(made, number_scales.fitted(skewed, "log").standardised(skewed), rtol=1e-9)
        assert (curved.restored(np.array([[-1e9], [1e9]])) >= 0).all() and np.isfinite(
            curved.restored(np.array([[1e9]]))
        )
    far = np.array([[0.0], [1], [2], [3], [1e6]])
    assert number_scales.fitted(far, "robust").mean == 2
    expected = scipy.stats.median_abs_deviation(far[:, 0], scale="normal")
    assert number_scales.fitted(far, "robust").deviation == pytest.approx(expected, rel=1e-5)
    alike = np.array([[1.0], [1], [1], [5]])
    assert number_scales.fitted(alike, "robust").deviation == alike.std()
    constant = number_scales.fitted(np.full((3, 1), 7.0))
    assert constant.deviation == 1 and constant.standardised(np.array([[8.0]])) == 1
    nobody = number_scales.fitted(np.empty((0, 2)))
    assert nobody.mean.tolist() == [0, 0] and nobody.deviation.tolist() == [1, 1]


@pytest.mark.parametrize("width", [5, 60])
def test_ridge_regression_is_scikit_learns(width):
    rng = np.random.default_rng(5)
    features, targets = rng.normal(size=(40, width)) * rng.uniform(1, 9, width), rng.normal(size=40) + 3
    features[:, 1] = 4
    scaled = preprocessing.StandardScaler().fit_transform(features)
    for penalty, found in zip(PENALTIES, ridges(features, targets), strict=True):
        expected = linear_model.Ridge(alpha=penalty * len(features)).fit(scaled, targets).predict(scaled)
        np.testing.assert_allclose(found(features, np.arange(40)), expected, rtol=1e-7)


def samples():
    """Values of several shapes, with the scale, the loss and the metric that go with them."""
    rng = np.random.default_rng(6)
    plain, heavy, skewed = ("linear", "mse", "rmse"), ("robust", "huber", "mae"), ("log", "huber", "mae")
    half_alike = np.where(rng.uniform(size=2000) < 0.6, 0, rng.exponential(size=2000))
    return [
        (rng.normal(size=2000), plain),
        (rng.integers(1990, 2024, 2000), plain),
        (half_alike, plain),
        (rng.standard_t(3, 2000), heavy),
        (-np.exp(rng.normal(size=2000)), heavy),
        (np.exp(rng.normal(size=2000)), skewed),
        (rng.negative_binomial(1, 0.05, 2000), skewed),
        (np.empty(0), plain),
    ]


@pytest.mark.parametrize("values, expected", samples())
def test_options_follow_from_the_values(values, expected):
    found = {
        name: value for name, value, why in number_rules.chosen(values[:, None].astype(float), set(), "mse", "rmse")
    }
    assert tuple(found.values()) == expected


@pytest.mark.parametrize(
    "given, expected",
    [
        ({"loss": "mse"}, {"scale": "linear", "metric": "rmse"}),
        ({"loss": "quantile"}, {"scale": "log", "metric": "pinball"}),
        ({"metric": "r2"}, {"scale": "linear", "loss": "mse"}),
        ({"metric": "mae"}, {"scale": "log", "loss": "mae"}),
        ({"metric": "spearman"}, {"scale": "log", "loss": "huber"}),
        ({"metric": "rmse", "loss": "log_cosh"}, {"scale": "log"}),
    ],
)
def test_options_go_with_those_that_are_given(given, expected):
    values = np.exp(np.random.default_rng(6).normal(size=(2000, 1)))
    options = {"loss": "mse", "metric": "rmse"} | given
    assert {name: value for name, value, _ in number_rules.chosen(values, set(given), **options)} == expected
    several = dict(zip("abc", number_rules.chosen(np.hstack([values, -values]), set(), "mse", "rmse")))
    assert [one[1] for one in several.values()] == ["robust", "huber", "loss"]


def test_a_value_is_shown_with_its_unit():
    metric = Metric("RMSE", "km", higher=False)
    assert [metric.words(one) for one in (None, 0.0, 12.5, 3.21e7, 1.25e-4)] == [
        *("none", "0.0000 km", "12.5000 km", "3.21e+07 km", "0.000125 km"),
    ]  # fmt: skip
