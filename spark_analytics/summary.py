"""The report without a page: `report.json` for programs, some 20 lines of text for a terminal or a mail."""

import dataclasses
from typing import Any

from spark_analytics.report import Report
from spark_analytics.wording import size

JSON_VERSION = 1


def as_json(report: Report) -> dict[str, Any]:
    """The report for programs: the same numbers, `v` says in which shape."""
    fields = dataclasses.asdict(report)
    fields["verdict"]["state"] = report.verdict.state.value
    for finding, shaped in zip(report.verdict.findings, fields["verdict"]["findings"], strict=True):
        shaped["state"] = finding.state.value
    return {"v": JSON_VERSION, **fields}


def as_text(report: Report) -> str:
    """The report for a terminal or a mail: some 20 lines."""
    whole, run = report.totals, report.run
    lines = [
        f"fshipper report for {report.date}: {report.verdict.state.value}",
        f"  {report.verdict.headline}",
        *(f"  - {finding.text}" for finding in report.verdict.findings),
        "",
        f"  {'lines':<11}{whole.lines:>16,}",
        f"  {'bytes':<11}{whole.bytes:>16,}  ({size(whole.bytes)}, stored in {size(whole.bytes_stored)})",
        f"  {'partitions':<11}{whole.partitions:>16,}",
        f"  {'hosts':<11}{whole.hosts:>16,}",
        f"  {'log files':<11}{whole.files:>16,}",
        f"  {'errors':<11}{whole.errors:>16,}",
        f"  {'warnings':<11}{whole.warnings:>16,}",
        "",
        *(f"  {file.lines:>14,} lines  {size(file.bytes):>10}  {file.host} {file.file}" for file in report.files[:5]),
        "",
        f"  page    {run.out}/{report.date}/report.html",
        f"  tables  {run.out}/tables, {run.out}/csv/{report.date}",
        f"  took    {run.seconds:.1f} s with Spark {run.spark_version} on {run.master}",
    ]
    return "\n".join(lines)
