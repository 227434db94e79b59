"""Reconciliation of the counts of Spark's reader with those of `wc`, as pure functions."""

import pytest

from spark_analytics.metrics.segment_audit import (
    BOM_BYTES,
    EMPTY_COUNT,
    ReconciledCount,
    SegmentCount,
    reconcile,
    reconcile_with_content,
)


def count(lines: int, octets: int) -> SegmentCount:
    return SegmentCount(segment=1, lines=lines, bytes=octets, first=(0, 0), last=(0, lines - 1))


def test_a_segment_that_is_only_a_byte_order_mark_has_its_bytes_and_no_line() -> None:
    assert reconcile(None, lines_manifest=0, bytes_there=BOM_BYTES) == ReconciledCount(0, BOM_BYTES)


@pytest.mark.parametrize(("lines", "octets"), [(1, BOM_BYTES), (3, BOM_BYTES), (0, 0), (0, BOM_BYTES + 1), (5, 100)])
def test_a_segment_without_rows_whose_manifest_lists_other_content_counts_as_empty(lines: int, octets: int) -> None:
    assert reconcile(None, lines_manifest=lines, bytes_there=octets) == EMPTY_COUNT


def test_counts_that_agree_with_the_manifest_are_final() -> None:
    assert reconcile(count(3, 30), lines_manifest=3, bytes_there=30) == ReconciledCount(3, 30)


@pytest.mark.parametrize(("lines", "octets"), [(2, 30), (3, 29)])
def test_counts_that_differ_from_the_manifest_require_a_read_of_the_content(lines: int, octets: int) -> None:
    assert reconcile(count(3, 30), lines_manifest=lines, bytes_there=octets) is None


@pytest.mark.parametrize(
    ("has_bom", "is_unterminated", "reconciled"),
    [
        (False, False, ReconciledCount(3, 30)),
        (True, False, ReconciledCount(3, 33, bom_bytes=BOM_BYTES)),
        (False, True, ReconciledCount(2, 29, unterminated=1)),
        (True, True, ReconciledCount(2, 32, unterminated=1, bom_bytes=BOM_BYTES)),
    ],
)
def test_the_content_corrects_the_counts(has_bom: bool, is_unterminated: bool, reconciled: ReconciledCount) -> None:
    assert reconcile_with_content(count(3, 30), has_bom=has_bom, is_unterminated=is_unterminated) == reconciled
