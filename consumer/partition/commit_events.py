"""The log events and metrics of a committed batch. They are reported after the commit only, not for each attempt."""

from collections.abc import Mapping

from consumer.commit.staged_batch import Hole, StagedBatch
from consumer.commit.watermark import REASON_EXCLUDED, REASON_FORKED, REASON_REWRITTEN
from consumer.model import SourceKey
from shipper import events


def report(
    staged: StagedBatch, holes_before: Mapping[SourceKey, Hole], *, partition: int, seconds: float, pending: int
) -> None:
    """Report a batch that took `seconds`; `pending` messages follow it in the stream."""
    _report_losses(staged, partition)
    for source, fork, start in staged.forked:
        events.source_forked(
            partition=partition, host=source.host, file=source.file, source=source.id, fork=fork, start=start
        )
    for known in staged.rewritten:
        events.source_rewritten(partition=partition, host=known.host, file=known.file, offset=known.watermark)
    for found in staged.archived_before:
        known = found.known
        events.source_archived_before(
            partition=partition,
            other=found.partition,
            host=known.host,
            file=known.file,
            source=known.id,
            watermark=known.watermark,
        )
    for dead in staged.dead_letters:
        delivery = dead.delivery
        events.message_dead_lettered(
            partition=partition, sequence=delivery.sequence, subject=delivery.subject, reason=dead.reason
        )
    for host, messages in staged.overflowed.items():
        events.host_crowded(partition=partition, host=host, messages=messages)
    for host, letters in staged.budgets.cut.items():
        events.dead_letter_cut(partition=partition, host=host, letters=letters)
    for (host, budget), messages in staged.budgets.refused.items():
        events.host_over_budget(partition=partition, host=host, budget=budget, messages=messages)
    _report_holes(staged, holes_before, partition)
    events.batch_committed(
        partition=partition,
        outcomes=dict(staged.outcomes),
        octets=staged.written_bytes,
        seconds=seconds,
        pending=pending,
    )


def _report_holes(staged: StagedBatch, before: Mapping[SourceKey, Hole], partition: int) -> None:
    for source, hole in staged.holes.items():
        if source not in before:
            start, end = hole.missing
            events.hole_opened(partition=partition, host=source.host, file=hole.file, start=start, end=end)
    events.holes_open(partition=partition, count=len(staged.holes))


def _report_losses(staged: StagedBatch, partition: int) -> None:
    for loss in staged.changes.losses:
        if loss.reason in {REASON_FORKED, REASON_REWRITTEN}:
            continue  # source_forked and source_rewritten report these
        if loss.reason == REASON_EXCLUDED:
            file = staged.changes.sources[loss.source].file
            events.exclusion_recorded(
                partition=partition, host=loss.source.host, file=file, start=loss.span.start, end=loss.span.end
            )
            continue
        events.gap_recorded(
            partition=partition,
            host=loss.source.host,
            file=staged.changes.sources[loss.source].file,
            start=loss.span.start,
            end=loss.span.end,
            reason=loss.reason,
        )
