"""The message about a report: verdict, findings and totals, as text, HTML and JSON. No log line, unless requested."""

import hashlib
import html
import json
import re
from dataclasses import dataclass
from typing import Any

from spark_analytics.report.model import Facts, Finding, State
from spark_analytics.report.number_format import clean, size

MAX_FINDINGS = 30
MAX_SENTENCE = 400
"""Maximum characters of a sentence."""
_NO_ATTENTION = {State.OPEN, State.COMPLETE}


@dataclass(frozen=True, slots=True)
class Message:
    """What is sent, in texts without control characters."""

    date: str
    state: str
    word: str  #: the state for people
    headline: str
    findings: tuple[tuple[str, str, str], ...]  #: kind, state, sentence
    more: int  #: findings that are not in the message
    totals: tuple[tuple[str, str], ...]
    numbers: dict[str, int]
    timezone: str  #: of the times in the sentences
    link: str
    page: bytes | None  #: report.html, only for a target with `lines`
    needs_attention: bool
    about: tuple[tuple[str, ...], ...]  #: kind, state and names of the findings, without numbers of lines

    @property
    def subject(self) -> str:
        """One line."""
        return clean(f"fshipper report {self.date}: {self.word}", 200)

    @property
    def verdict(self) -> str:
        """A digest of the state and what the findings are about: equal if there is nothing new to send."""
        return hashlib.sha256(json.dumps([self.state, self.about]).encode()).hexdigest()[:16]


def made(facts: Facts, *, base: str | None, page: bytes | None) -> Message:
    """Returns the message about `facts`.

    `base` is the URL of the reports, `page` the HTML page to attach.
    """
    whole, found = facts.totals, facts.verdict.findings
    shown = found[:MAX_FINDINGS]
    with_lines = page is not None
    verdicts = [judgement.text for judgement in (facts.verdict.complete, facts.verdict.attention) if judgement]
    return Message(
        date=facts.date,
        state=facts.verdict.state.value,
        word=facts.verdict.word,
        headline=clean(". ".join(verdicts) or facts.verdict.headline, MAX_SENTENCE),
        findings=tuple((f.kind, f.state.value, _sentence(f, with_lines=with_lines)) for f in shown),
        more=len(found) - len(shown),
        totals=(
            ("Lines", f"{whole.lines:,}"),
            ("Text", size(whole.bytes)),
            ("Hosts", f"{whole.hosts:,}"),
            ("Errors", f"{whole.errors:,}"),
            ("Times", facts.clock.sentence.removeprefix("times are ")),
        ),
        numbers={"lines": whole.lines, "bytes": whole.bytes, "hosts": whole.hosts, "errors": whole.errors},
        timezone=facts.run.timezone,
        link=f"{base.rstrip('/')}/{facts.date}/report.html" if base else "",
        page=page,
        about=tuple((f.kind, f.state.value, *f.names) for f in found if f.state is not State.COMPLETE),
        needs_attention=any(f.state not in _NO_ATTENTION for f in found) or facts.verdict.state not in _NO_ATTENTION,
    )


def _sentence(finding: Finding, *, with_lines: bool) -> str:
    """The sentence of a finding, which has no text of log lines without `with_lines`."""
    return clean(finding.text if with_lines else finding.plain or finding.text, MAX_SENTENCE)


def as_text(message: Message) -> str:
    """For mail and chat."""
    lines = [f"{message.date}: {message.word}", message.headline, ""]
    lines += [f"- {text}" for _, _, text in message.findings]
    if message.more:
        lines.append(f"- and {message.more} more, on the page")
    lines += ["", *(f"{name}: {value}" for name, value in message.totals)]
    lines += ["", message.link] if message.link else []
    return "\n".join(lines)


def as_html(message: Message) -> str:
    """For mail: no style sheet, no picture, no script."""
    findings = "".join(f"<li>{html.escape(text)}</li>" for _, _, text in message.findings)
    more = f"<p>and {message.more} more, on the page</p>" if message.more else ""
    totals = "".join(
        f'<tr><th scope="row" align="left">{name}</th><td align="right">{html.escape(value)}</td></tr>'
        for name, value in message.totals
    )
    link = f'<p><a href="{html.escape(message.link)}">Open the report</a></p>' if message.link else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f"<title>{html.escape(message.subject)}</title></head>"
        f"<body><h1>{html.escape(message.date)}: {html.escape(message.word)}</h1>"
        f"<p>{html.escape(message.headline)}</p><ul>{findings}</ul>{more}<table>{totals}</table>{link}</body></html>"
    )


def as_json(message: Message, identifier: str) -> dict[str, Any]:
    """For a generic webhook, with stable names, to which new ones may be added."""
    return {
        "v": 1,
        "id": identifier,
        "date": message.date,
        "state": message.state,
        "needs_attention": message.needs_attention,
        "headline": message.headline,
        "findings": [{"kind": kind, "state": state, "text": text} for kind, state, text in message.findings],
        "totals": message.numbers,
        "timezone": message.timezone,
        "page": message.link or None,
    }


def as_slack(message: Message) -> dict[str, Any]:
    """For an incoming webhook of Slack, which needs three characters escaped: plain text, and no previews of links."""
    plain = {"mrkdwn": False, "unfurl_links": False, "unfurl_media": False}
    return {"text": html.escape(as_text(message), quote=False), **plain}


def as_teams(message: Message) -> dict[str, Any]:
    """For a workflow of Teams: an adaptive card."""
    texts = [_without_markdown(text) for text in (message.headline, *(text for _, _, text in message.findings))]
    body: list[dict[str, Any]] = [
        {
            "type": "TextBlock",
            "size": "Large",
            "weight": "Bolder",
            "text": _without_markdown(message.subject),
            "wrap": True,
        },
        *({"type": "TextBlock", "text": text, "wrap": True} for text in texts),
        {"type": "FactSet", "facts": [{"title": name, "value": value} for name, value in message.totals]},
    ]
    schema = "http://adaptivecards.io/schemas/adaptive-card.json"
    card: dict[str, Any] = {"$schema": schema, "type": "AdaptiveCard", "version": "1.4", "body": body}
    if message.link:
        card["actions"] = [{"type": "Action.OpenUrl", "title": "Open the report", "url": message.link}]
    attachment = {"contentType": "application/vnd.microsoft.card.adaptive", "content": card}
    return {"type": "message", "attachments": [attachment]}


_MARKDOWN = re.compile(r"[\\`*_\[\]]")
_LINK = re.compile(r"(?i)\b(https?|ftp|mailto|www)([:.])")


def _without_markdown(text: str) -> str:
    """`text` so that a reader of Markdown shows it as it is: host and file names come from other machines."""
    return _LINK.sub("\\g<1>\N{ZERO WIDTH NON-JOINER}\\g<2>", _MARKDOWN.sub(r"\\\g<0>", text))
