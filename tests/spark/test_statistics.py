import math
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spark_analytics.metrics import statistics as measures


def test_wilson_gives_the_published_interval():
    """Newcombe 1998, table I: 81 of 263 with 95 %."""
    low, high = measures.wilson(81, 263, z=1.959964)

    assert (round(low, 4), round(high, 4)) == (0.2553, 0.3662)


def test_wilson_ends_at_nothing_and_at_all():
    assert measures.wilson(0, 10).low == 0.0
    assert measures.wilson(10, 10).high == 1.0
    assert measures.wilson(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("hits", "trials", "interval"), [(0, 1, (0, 0.7935)), (1, 1, (0.2065, 1)), (1, 3, (0.0615, 0.7923))]
)
def test_wilson_holds_for_the_fewest_trials(hits, trials, interval):
    """With 95 % and one trial the far end is z * z / (1 + z * z)."""
    assert measures.wilson(hits, trials, z=1.959964) == pytest.approx(interval, abs=0.0001)


def test_intervals_are_those_of_ninety_nine_in_a_hundred():
    assert pytest.approx(statistics.NormalDist().inv_cdf(0.995), abs=0.0005) == measures.WIDE_Z
    assert measures.wilson(5, 20) == measures.wilson(5, 20, z=measures.WIDE_Z)


def test_more_errors_than_lines_count_as_all_of_them():
    """A file that ends with `ERROR x` and no newline has one error more than lines."""
    assert measures.wilson(2, 1) == measures.wilson(1, 1)


def test_one_error_in_three_lines_has_a_wide_interval():
    low, high = measures.wilson(1, 3)

    assert low < 0.05
    assert high > 0.85


@given(st.integers(0, 5000), st.integers(1, 5000))
def test_wilson_holds_the_rate_and_narrows_with_more_lines(hits, trials):
    hits = min(hits, trials)
    low, high = measures.wilson(hits, trials)
    wider = measures.wilson(hits, trials, z=4)

    assert 0 <= wider.low <= low <= hits / trials <= high <= wider.high <= 1
    ten = measures.wilson(hits * 10, trials * 10)
    assert ten.high - ten.low < high - low


def test_one_wild_day_among_seven_does_not_hide_the_next():
    week = [1000, 1010, 990, 1005, 100_000, 995, 1000]

    assert measures.robust_z(100_000, week) > 20
    assert abs(measures.robust_z(1020, week)) < 1


def test_twice_and_half_are_equally_far():
    week = [900, 1000, 1100, 1000, 950, 1050, 1000]

    assert measures.robust_z(2001, week) == pytest.approx(-measures.robust_z(499.5, week), rel=0.01)


def test_a_deviation_is_that_of_a_normal_distribution():
    week = [math.exp(power) - 1 for power in (4, 5, 6, 7, 8)]

    assert measures.robust_z(math.exp(9) - 1, week) == pytest.approx(3 / 1.4826)


def test_a_host_that_always_wrote_the_same_may_write_a_tenth_more():
    assert measures.robust_z(1100, [1000] * 7) == pytest.approx(1.9, abs=0.1)
    assert measures.robust_z(5, []) == 0.0


def test_medians_of_nothing_are_unknown():
    assert measures.median([]) is None
    assert measures.median([3, 1, 2]) == 2.0
    assert measures.median_over_days([], 0) is None
    assert measures.median_over_days([9, 5], 5) == 0.0
    assert measures.median_over_days([9, 5], 3) == 5.0
    assert measures.median_rate([(1, 0)]) is None
    assert measures.median_rate([(1, 0), (1, 2), (1, 4), (1, 10)]) == 0.25
    assert measures.ratio(1, None) is None
    assert measures.ratio(1, 0) is None


def test_gini_and_skew_distinguish_even_from_uneven():
    assert measures.gini([5, 5, 5, 5]) == pytest.approx(0)
    assert measures.gini([0, 0, 0, 9]) == pytest.approx(0.75)
    assert measures.gini([]) == 0
    assert measures.skew([1, 1, 1, 1]) == 1
    assert measures.skew([0, 0, 0, 9]) == 4
    assert math.isclose(measures.skew([0, 0]), 1)
