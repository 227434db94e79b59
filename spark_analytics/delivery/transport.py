"""The transports of a message: SMTP, HTTP and Apprise. Each calls `starting` just before the message itself leaves.

An error before that call, or a refusal of the receiver, is `NotSent`: the message did not arrive. Any other error after
it leaves the message in doubt.
"""

import hashlib
import hmac
import http.client
import json
import smtplib
import socket
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from email.message import EmailMessage
from email.utils import formatdate
from typing import Any
from urllib.parse import urlsplit

from shipper.errors import Permanent, Transient
from spark_analytics.delivery import message as content
from spark_analytics.delivery.message import Message
from spark_analytics.delivery.targets import AppriseTarget, MailTarget, Target, WebhookTarget, secret_lines
from spark_analytics.report.number_format import clean

Starting = Callable[[], None]

_OK = 250
_DATA_PATIENCE = 10
"""Factor of `timeout` for the reply to a whole mail: servers check it for viruses before (RFC 5321, 4.5.3.2)."""


class NotSent(Permanent):
    """The receiver did not take the message."""


class InDoubt(Transient):
    """The message may have arrived: the receiver did not answer."""


def send(target: Target, message: Message, identifier: str, starting: Starting) -> None:
    """Sends `message` to `target`.

    Raises:
        NotSent: it did not arrive.
        InDoubt: it may have arrived.
        ConfigError: a file with a secret cannot be used.
    """
    started = False

    def start() -> None:
        nonlocal started
        starting()
        started = True

    try:
        if isinstance(target, MailTarget):
            _mail(target, message, identifier, start)
        elif isinstance(target, WebhookTarget):
            _post(target, message, identifier, start)
        else:
            _apprise(target, message, start)
    except (OSError, smtplib.SMTPException, http.client.HTTPException, ValueError) as error:
        reason = str(error) or type(error).__name__
        if started:
            raise InDoubt(f"{target.name} did not answer: {reason}") from error
        raise NotSent(f"{target.name}: {reason}") from error


# -- mail --------------------------------------------------------------------------------------------------------------


def mail_of(target: MailTarget, message: Message, identifier: str) -> EmailMessage:
    """The mail as text and HTML, with a Message-ID of `identifier`, which is the same in each attempt."""
    mail = EmailMessage()
    mail["Subject"] = message.subject
    mail["From"] = target.sender
    mail["To"] = ", ".join(target.to)
    mail["Date"] = formatdate(localtime=False)
    mail["Message-ID"] = f"<{identifier}@{target.sender.rpartition('@')[2].strip('<> ') or 'fshipper'}>"
    mail["Auto-Submitted"] = "auto-generated"  # no out-of-office reply (RFC 3834)
    mail.set_content(content.as_text(message) + "\n")
    mail.add_alternative(content.as_html(message), subtype="html")
    if message.page is not None:
        mail.add_attachment(message.page, maintype="text", subtype="html", filename=f"report-{message.date}.html")
    return mail


def _mail(target: MailTarget, message: Message, identifier: str, starting: Starting) -> None:
    mail = mail_of(target, message, identifier)
    server: smtplib.SMTP
    if target.tls == "tls":
        context = ssl.create_default_context(cafile=target.ca)
        server = smtplib.SMTP_SSL(target.host, target.port, timeout=target.timeout, context=context)
    else:
        server = smtplib.SMTP(target.host, target.port, timeout=target.timeout)
    try:
        _envelope(server, target)
        starting()
        if server.sock is not None:
            server.sock.settimeout(_DATA_PATIENCE * target.timeout)
        code, reply = server.data(mail.as_bytes(policy=mail.policy.clone(linesep="\r\n", max_line_length=998)))
        if code != _OK:
            raise NotSent(f"{target.name}: {target.host} refused the mail: {code} {_shown(reply)}")
    except smtplib.SMTPDataError as error:
        raise NotSent(f"{target.name}: {target.host} refused the mail: {_shown(error.smtp_error)}") from error
    finally:
        server.close()


def _envelope(server: smtplib.SMTP, target: MailTarget) -> None:
    """Everything before the text of the mail: encryption, sign-in, sender and recipients."""
    server.ehlo_or_helo_if_needed()
    if target.tls == "starttls":
        server.starttls(context=ssl.create_default_context(cafile=target.ca))
        server.ehlo()
    if target.credentials:
        user, password = [*secret_lines(target.credentials), ""][:2]
        server.login(user, password)
    _accepted(server.mail(_address(target.sender)), target, target.sender)
    for recipient in target.to:
        _accepted(server.rcpt(_address(recipient)), target, recipient)


def _accepted(reply: tuple[int, bytes], target: MailTarget, address: str) -> None:
    code, text = reply
    if code // 100 != _OK // 100:
        raise NotSent(f"{target.name}: {target.host} refused {address}: {code} {_shown(text)}")


def _address(text: str) -> str:
    """The bare address of `Name <address>`."""
    return text.rpartition("<")[2].rstrip("> ")


def _shown(reply: bytes | str) -> str:
    text = reply.decode("utf-8", "replace") if isinstance(reply, bytes) else reply
    return clean(text, 200)


# -- webhook -----------------------------------------------------------------------------------------------------------


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect is an error: the content is for the named server only."""

    def redirect_request(self, *_arguments: Any, **_named: Any) -> None:
        """No request follows."""


def _post(target: WebhookTarget, message: Message, identifier: str, starting: Starting) -> None:
    url = secret_lines(target.url_file)[0] if target.url_file else target.url or ""
    if urlsplit(url).scheme not in {"http", "https"}:
        raise NotSent(f"{target.name}: the URL does not begin with http:// or https://")
    if not _is_usable(url):  # an error of the library would quote the URL, which may be a secret
        raise NotSent(f"{target.name}: the URL has a blank, a user name or a port that is no number")
    if target.kind == "slack":
        fields = content.as_slack(message)
    elif target.kind == "teams":
        fields = content.as_teams(message)
    else:
        fields = content.as_json(message, identifier)
    body = json.dumps(fields).encode()
    headers = {"Content-Type": "application/json", "User-Agent": "fshipper", "Idempotency-Key": identifier}
    if target.secret:
        headers |= signature(secret_lines(target.secret)[0], body, int(time.time()))
    request = urllib.request.Request(url, body, headers)  # noqa: S310 - checked above
    handlers = (_NoRedirect(), urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=target.ca)))
    starting()
    try:
        with urllib.request.build_opener(*handlers).open(request, timeout=target.timeout) as reply:
            reply.read(1)
    except urllib.error.HTTPError as error:
        error.close()
        raise NotSent(f"{target.name}: the server answered {error.code} {clean(error.reason, 100)}") from None
    except urllib.error.URLError as error:
        if isinstance(error.reason, ssl.SSLError | ConnectionRefusedError | socket.gaierror):
            raise NotSent(f"{target.name}: {clean(error.reason, 200)}") from None
        raise


def _is_usable(url: str) -> bool:
    """Whether `url` is ASCII without blanks and control characters, names a host, and has no user name."""
    parts = urlsplit(url)
    try:
        parts.port  # noqa: B018 - raises ValueError for a port that is no number
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and " " not in url
    return plain and bool(parts.hostname) and "@" not in parts.netloc


def signature(key: str, body: bytes, seconds: int) -> dict[str, str]:
    """Headers that prove the sender: HMAC-SHA256 of the time, a dot and the body."""
    digest = hmac.new(key.encode(), f"{seconds}.".encode() + body, hashlib.sha256).hexdigest()
    return {"X-Fshipper-Timestamp": str(seconds), "X-Fshipper-Signature": f"sha256={digest}"}


# -- Apprise -----------------------------------------------------------------------------------------------------------


def _apprise(target: AppriseTarget, message: Message, starting: Starting) -> None:
    try:
        import apprise  # noqa: PLC0415 - an extra
    except ImportError:
        raise NotSent(f"{target.name} needs apprise", hint='pip install "fshipper[notify]"') from None
    notifier = apprise.Apprise()
    for url in secret_lines(target.url_file):
        if not notifier.add(url):
            raise NotSent(f"{target.name}: {target.url_file} has a line that is not an Apprise URL")
    starting()
    if not notifier.notify(body=content.as_text(message), title=message.subject):
        raise NotSent(f"{target.name}: a service did not take the message")
