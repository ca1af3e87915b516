"""Curves of a sweep: the most, the mean and the least over all other settings."""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np


class Curve(NamedTuple):
    """Scores by one setting, in its order: [settings] each."""

    setting: np.ndarray
    most: np.ndarray
    mean: np.ndarray
    least: np.ndarray
    runs: np.ndarray


def curve(points: Iterable[tuple[float, float]]) -> Curve:
    """Makes the curve of pairs of setting and score, as HyperGrid's Figures 3 to 8.

    >>> curve([(8, 70.0), (4, 60.0), (8, 74.0)]).mean.tolist()
    [60.0, 72.0]
    """
    by_setting: dict[float, list[float]] = {}
    for setting, score in points:
        by_setting.setdefault(setting, []).append(score)
    settings = sorted(by_setting)
    scores = [by_setting[setting] for setting in settings]
    return Curve(
        np.array(settings),
        np.array([max(each) for each in scores]),
        np.array([float(np.mean(each)) for each in scores]),
        np.array([min(each) for each in scores]),
        np.array([len(each) for each in scores]),
    )
