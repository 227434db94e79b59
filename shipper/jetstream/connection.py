"""One connection is one session: no automatic reconnect, bounded waits, and one reason when it ends."""

import asyncio
import contextlib
import importlib.util
import json
import random
import re
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Self

import nats
import nats.errors
from nats.aio.msg import Msg

from shipper import control, events
from shipper.errors import (
    CertificateRefused,
    ConfigError,
    Fatal,
    InsecureConnection,
    RightMissing,
    ServerTooOld,
    SessionLost,
    ShipperError,
    StreamMissing,
    Transient,
    Unavailable,
)
from shipper.jetstream import load_websockets
from shipper.jetstream.fast_client import NO_TLS, Message, TolerantClient
from shipper.jetstream.server_version import LACKING, SYNCED, Version, version_in
from shipper.ports import MessageHandler
from shipper.settings import TLS_SCHEMES, NatsSettings
from shipper.subjects import MONITOR_API, control_down, control_up

# -- errors of a connection attempt, as a sentence and a next step -----------------------------------------------------

REFUSED = "the server refuses this user the right to "
GRANT_HINT = (
    "run it with the key of the right host or role (`fshipper hosts list` shows who has one), "
    "or grant the right in the server's configuration"
)
START_HINT = "start it with `nats-server -js` or a jetstream block, or use `fshipper server`"
_VIOLATION = re.compile(r'permissions violation for (publish|subscription) to "([^"]*)"', re.IGNORECASE)
_UPPER = re.compile(r"^(?:\$js\.(?:monitor\.)?(?:api|ack|event)(?:\.(?!collector)[a-z]+)*|\$kv|_inbox(?=_))")
"""What of a subject is in upper case: nats-py changes the server's text to lower case."""
_OWN_INBOX = re.compile(r"^(_INBOX_.*?)\.[^.]{22}(\.\*)?$")
"""Another one in each session, so the right is one to all of them."""


_TLS = (
    ("ALERT_CERTIFICATE_EXPIRED", "our certificate {} has expired", "put a new one there (NATS_CERTIFICATE)"),
    ("ALERT_CERTIFICATE_REVOKED", "our certificate {} is revoked", "put a new one there (NATS_CERTIFICATE)"),
    (
        "ALERT_UNKNOWN_CA",
        "our certificate {} is not signed by an authority that the server knows",
        "set NATS_CERTIFICATE to one of the authority in the server's `ca_file`",
    ),
    (
        "ALERT_BAD_CERTIFICATE",
        "our certificate {} is not what the server wants",
        "set NATS_CERTIFICATE to one of the authority in the server's `ca_file`, made for clients",
    ),
    ("ALERT_CERTIFICATE_REQUIRED", "the server wants a certificate of us", "set NATS_CERTIFICATE and NATS_KEY"),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "we do not trust the server's certificate",
        "set NATS_CA to the authority that signed it, and NATS_URL to a name that it holds",
    ),
)
"""What a trouble holds, why, and the next step; `{}` is the file of NATS_CERTIFICATE."""
_HANDSHAKE, _EOF = "[SSL", "EOF"
"""How Python describes a failed TLS handshake, and one that the other side ended: that may be a server that stops."""
_SILENT = "empty response from server when expecting INFO"


def refused_right(text: str) -> str:
    """The missing right, if `text` is the server's permissions violation; else empty."""
    found = _VIOLATION.search(text)
    if not found:
        return ""
    verb = "publish" if found[1].lower() == "publish" else "subscribe"
    subject = _UPPER.sub(lambda part: part[0].upper(), found[2]).replace(".$kv.", ".$KV.")
    subject = subject.replace("$JS.MONITOR.", "$JS.monitor.")
    shown = _OWN_INBOX.sub(r"\1.>", subject)
    return f'{REFUSED}{verb} to "{shown}"'


def unconnected(troubles: Sequence[str], settings: NatsSettings) -> ShipperError:
    """What to raise where no server would have us; `troubles` are theirs, one a server, with its address."""
    answers = "; ".join(troubles)
    for mark, why, hint in _TLS:
        if mark in answers:
            return CertificateRefused(
                f"no secure connection: {why.format(settings.certificate)} ({answers})", hint=hint
            )
    if NO_TLS in answers:
        return InsecureConnection(
            f"no secure connection: the settings require TLS ({_required_by(settings)}), and {NO_TLS};"
            f" neither the user nor any data was sent ({answers})",
            hint="add a `tls` block to the server's configuration; if the server has one, something between it and"
            " this machine removes TLS. Only on a network that you trust: use nats:// and unset NATS_CA and"
            " NATS_CERTIFICATE",
        )
    if any(_HANDSHAKE in trouble and _EOF not in trouble for trouble in troubles):
        return InsecureConnection(
            f"no secure connection: the TLS handshake failed, and nothing was sent in the clear ({answers})",
            hint="unset NATS_TLS_FIRST, or set `handshake_first` in the server's `tls` block"
            if settings.tls_first
            else "check that NATS_URL names the NATS port of the server, and that no proxy between answers for it",
        )
    if "authorization" in answers.lower():
        return Fatal(
            f"the NATS server refuses us: {answers}",
            hint="check NATS_NKEY, NATS_CREDS, NATS_CERTIFICATE, NATS_USER; `fshipper hosts add` gives a host rights",
        )
    hint = "start one (`fshipper server` on this machine) or correct NATS_URL (--url)"
    if _SILENT in answers:
        hint = "where the server begins with TLS (`handshake_first`), set NATS_TLS_FIRST=true with NATS_CA"
    return Unavailable(f"no NATS server answers ({answers})", hint=hint)


def _required_by(settings: NatsSettings) -> str:
    """The settings that require TLS."""
    files = {"NATS_CA": settings.ca, "NATS_CERTIFICATE": settings.certificate, "NATS_KEY": settings.key}
    schemes = {url.partition("://")[0] for url in settings.url}
    named = [f"{scheme}:// in NATS_URL" for scheme in TLS_SCHEMES if scheme in schemes]
    named += ["NATS_TLS_FIRST"] if settings.tls_first else []
    return ", ".join([*named, *(name for name, path in files.items() if path)])


_SEED = re.compile(rb"BEGIN USER NKEY SEED-+\s+(S[A-Z2-7]+)\s")


def check_urls(settings: NatsSettings) -> None:
    """Raise ConfigError if a URL can never give the connection that the settings require."""
    schemes = {url.partition("://")[0] for url in settings.url if "://" in url}
    if "ws" in schemes and settings.wants_tls:
        raise ConfigError(
            "NATS_URL has a ws:// URL, which is never encrypted, and the settings require TLS",
            hint="write wss:// for a WebSocket with TLS, or tls:// for the NATS port",
        )
    if schemes & {"ws", "wss"} and importlib.util.find_spec("aiohttp") is None:
        raise ConfigError(
            "a WebSocket URL (ws://, wss://) needs the Python package aiohttp, which is not installed",
            hint="install it where fshipper is: pip install 'fshipper[websocket]'; or use tls://HOST:4222 in NATS_URL",
        )


def check_secrets(settings: NatsSettings) -> None:
    """Raise ConfigError if a file has not the content that nats-py expects; its own error is only `invalid seed`."""
    if settings.nkey_seed:
        first = next(iter(settings.nkey_seed.read_bytes().split()), b"")
        _check_seed(first, f"NATS_NKEY: {settings.nkey_seed} does not hold the seed of a user's key (SU...)")
    if settings.creds:
        found = _SEED.search(settings.creds.read_bytes())
        _check_seed(
            found[1] if found else b"", f"NATS_CREDS: {settings.creds} does not hold credentials with a user's seed"
        )


def _check_seed(seed: bytes, problem: str) -> None:
    import nkeys  # noqa: PLC0415 - with the whole of libsodium, for those who have a key only

    try:
        nkeys.from_seed(seed)
    except (nkeys.NkeysError, ValueError):
        raise ConfigError(problem, hint="`fshipper hosts add` writes such a file") from None


# -- the connection ----------------------------------------------------------------------------------------------------

API = "$JS.API"
PING_SECONDS = 5  # nats-py's default notices a dead peer after four minutes
SOCKET_BUFFER_BYTES = 16 * 1024 * 1024
CLOSE_SECONDS = 1.0  # nc.close() can hang for a quarter of an hour on a dead peer (nats.py#671)
API_TIMEOUT_SECONDS = 5.0

MONITOR_INBOX = "_INBOX_monitor"

NOT_FOUND_STREAM = 10059
NOT_FOUND_CONSUMER = 10014
JETSTREAM_OFF = frozenset({10039, 10076})

MOST_WAITING, MOST_WAITING_BYTES = 10_000, 16 * 1024 * 1024
"""Maximum control messages of one subscription that wait, and their bytes; further ones are counted and ignored."""
CONTROL_SUBJECTS = (control_up(""), control_down(""))
CONTENT_ERRORS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What a handler raises when a message's content is not what it should be; trouble of its own is of other types."""


class ApiError(Transient):
    """The JetStream API refused a request."""

    def __init__(self, subject: str, error: Mapping[str, Any]) -> None:
        super().__init__(f"{subject}: {error.get('description')} ({error.get('err_code')})")
        self.code = int(error.get("err_code") or 0)
        self.status = int(error.get("code") or 0)


class Connection:
    """A connection to one server, ended by the first trouble; `on_lost` reports it."""

    def __init__(self, client: TolerantClient) -> None:
        self.client = client
        self.reason = ""  #: why the session ended; empty while it lives
        self._lost = asyncio.Event()
        self._woken: list[Callable[[], None]] = []
        self.dispensable: set[str] = set()  #: subjects whose refusal ends nothing
        self.is_monitor = False  #: what would change something is refused, so it is not tried
        self.refused: set[str] = set()  #: those of them that the server does not let us publish

    @property
    def max_payload(self) -> int:
        """Bytes of headers and payload that the server takes in one message."""
        return int(self.client.max_payload)

    @property
    def has_access_control(self) -> bool:
        """Whether the server requires users, or certificates of clients."""
        return self.client.has_access_control

    def forgive(self) -> None:
        """Connected at the second attempt: the first one's trouble does not count."""
        self.reason = ""
        self._lost.clear()

    @property
    def open(self) -> bool:
        """Whether nothing went wrong so far."""
        return not self.reason and self.client.is_connected

    def fail(self, reason: str) -> None:
        """End the session; the first reason is kept."""
        self.reason = self.reason or reason
        self._lost.set()
        for wake in self._woken:
            wake()

    def refuses(self, error: str) -> bool:
        """Whether `error` is the server's refusal of a subject that can be done without."""
        text = error.lower()
        refused = {
            subject
            for subject in self.dispensable
            if f'publish to "{subject.lower()}"' in text or f'subscription to "{subject.lower()}"' in text
        }
        self.refused |= refused
        return bool(refused)

    def on_lost(self, wake: Callable[[], None]) -> None:
        """Call `wake` when the session ends, so that no task waits for a dead peer."""
        self._woken.append(wake)

    def check(self) -> None:
        """Raise `SessionLost` with the reason if the session has ended; `RightMissing` where a right was."""
        if self.reason.startswith(REFUSED):
            raise RightMissing(self.reason, hint=GRANT_HINT)
        if self.reason:
            raise SessionLost(self.reason)

    async def request(
        self, subject: str, payload: bytes, *, within: float, headers: Mapping[str, str] | None = None
    ) -> Message:
        """The first answer on `subject`; waits no longer than the session lives.

        Raises NoRespondersError: there is no listener. SessionLost: no reply arrived, or the session ended.
        """
        self.check()
        asking = asyncio.ensure_future(
            self.client.request(subject, payload, timeout=within, headers=dict(headers) if headers else None)
        )
        lost = asyncio.ensure_future(self._lost.wait())
        try:
            with self.session_errors(f"{subject}: "):
                await asyncio.wait({asking, lost}, return_when=asyncio.FIRST_COMPLETED)
                if not asking.done():
                    self.check()
                return await asking
        finally:
            asking.cancel()
            lost.cancel()

    @contextlib.contextmanager
    def session_errors(self, doing: str = "") -> Iterator[None]:
        """What nats-py and the network raise in the block becomes what ended the session; `doing` begins the message.

        NoRespondersError stays: only a request raises it.
        """
        try:
            yield
        except nats.errors.NoRespondersError:
            raise
        except (nats.errors.Error, OSError) as error:
            self.check()
            raise SessionLost(f"{doing}{describe(error)}") from None

    async def flush(self) -> None:
        """Return when the server has handled everything that was sent.

        Twice: nats-py writes a PING before its buffered data, so only the second one comes after it.
        """
        await self.client.flush(round(API_TIMEOUT_SECONDS))
        await self.client.flush(round(API_TIMEOUT_SECONDS))

    async def api(
        self, verb: str, body: Mapping[str, Any] | None = None, *, within: float = API_TIMEOUT_SECONDS
    ) -> Any:
        """The answer to a JetStream API request as raw JSON.

        Raises ApiError: the server refused; SessionLost: it did not answer; Unavailable: it has no JetStream.
        """
        api = MONITOR_API if self.is_monitor else API
        try:
            answer = await self.request(f"{api}.{verb}", json.dumps(body).encode() if body else b"", within=within)
        except nats.errors.NoRespondersError:
            raise Unavailable(
                "the NATS server answers, but JetStream is not enabled for this account", hint=START_HINT
            ) from None
        content = json.loads(answer.data)
        if "error" in content:
            raise _refused(verb, content["error"])
        return content

    async def ask(self, subject: str, question: Mapping[str, Any], within: float) -> Mapping[str, Any] | None:
        """The first reply to a JSON request; None: no listener, or no reply in time."""
        try:
            answer = await self.request(subject, control.encode(question), within=within)
        except (nats.errors.NoRespondersError, SessionLost):
            self.check()
            return None
        return control.decode(answer.data)

    async def tell(self, subject: str, message: Mapping[str, Any]) -> None:
        """Send a JSON message to all listeners."""
        self.check()
        with self.session_errors():
            await self.client.publish(subject, control.encode(message))

    async def listen(self, subject: str, handler: MessageHandler) -> None:
        """Call `handler` with subject and content of every JSON message; what it returns is sent as the answer.

        No content ends the session: what cannot be understood is counted and ignored. Answers go only to the inbox
        of the user that has the right to request on this subject.
        """

        async def on_message(message: Msg) -> None:
            reason = unwanted(message)
            content = None if reason else control.decode(message.data)
            if content is None:
                reason = reason or "no JSON object"
            else:
                try:
                    answer = await handler(message.subject, content)
                    if answer is not None and message.reply:
                        with contextlib.suppress(nats.errors.Error):
                            await message.respond(control.encode(answer))
                except CONTENT_ERRORS as error:
                    reason = type(error).__name__
            if reason:  # the subject is from the network
                shown = message.subject.encode("utf-8", "backslashreplace").decode()[:200]
                events.control_ignored(subject=shown, reason=reason)

        self.check()
        with self.session_errors():
            await self.client.subscribe(
                subject, cb=on_message, pending_msgs_limit=MOST_WAITING, pending_bytes_limit=MOST_WAITING_BYTES
            )
            await self.flush()  # else a request from now on may find no responder

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End the session; idempotent, never raises, never hangs."""
        self.fail("closed")
        closing = asyncio.create_task(self.client.close())
        await asyncio.wait({closing}, timeout=CLOSE_SECONDS)  # not `timeout()`: nats-py swallows the cancellation
        # nats-py waits without limit for a peer that reads no more; each such session would keep 16 MB of buffer.
        writer = getattr(self.client._transport, "_io_writer", None)  # noqa: SLF001 - nats-py offers no other way
        if writer is not None:
            with contextlib.suppress(AttributeError):  # its rest was sent, and asyncio forgot the loop
                writer.transport.abort()
        await asyncio.sleep(0)
        if closing.done() and not closing.cancelled():
            closing.exception()


Ask = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Makes an API request and returns the answer, as `Connection.api`."""


async def pages(ask: Ask, verb: str, what: str) -> AsyncIterator[Any]:
    """The entries of a list that the server answers in pages of at most 256, or 1024 names."""
    offset = 0
    while True:
        page = await ask(verb, {"offset": offset})
        entries = page.get(what) or []
        for entry in entries:
            yield entry
        offset += len(entries)
        if not entries or offset >= page["total"]:
            return


async def info_with_subjects(ask: Ask, stream: str, pattern: str) -> tuple[Any, dict[str, int]]:
    """The info of `stream`, and how many messages each subject has in it, of those that `pattern` matches."""
    found: dict[str, int] = {}
    while True:
        info = await ask(f"STREAM.INFO.{stream}", {"subjects_filter": pattern, "offset": len(found)})
        more = info["state"].get("subjects") or {}
        found |= more
        if not more or len(found) >= info.get("total", 0):
            return info, found


class ConnectedSession:
    """A session of a program, which owns its connection: what the ports have in common."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    async def tell(self, subject: str, message: Mapping[str, Any]) -> None:
        """Send a JSON message to all listeners."""
        await self._connection.tell(subject, message)

    async def ask(self, subject: str, question: Mapping[str, Any], within: float) -> Mapping[str, Any] | None:
        """The first reply to a JSON request; None: no listener, or no reply in time."""
        return await self._connection.ask(subject, question, within)

    async def listen(self, subject: str, handler: MessageHandler) -> None:
        """Call `handler` with subject and content of every JSON message; what it returns is sent as the answer."""
        await self._connection.listen(subject, handler)

    async def close(self) -> None:
        """End the session; idempotent, never raises, never hangs."""
        await self._connection.close()


async def connect(settings: NatsSettings, *, name: str, inbox: str, oldest: Version | None = None) -> Connection:
    """A connection to the first of the servers (in random order) that answers, and is `oldest` or later.

    Raises Unavailable: none does. Fatal: the server refuses us. ConfigError: the settings cannot be used.
    InsecureConnection: the settings require TLS, and no server offers it; nothing was sent. ServerTooOld: each
    answers, and is older.
    """
    check_urls(settings)
    load_websockets(settings.url)
    troubles = []
    too_old: list[ServerTooOld] = []
    for url in random.sample(settings.url, len(settings.url)):
        try:
            connection = await _connect_one(url, settings, name, inbox)
            version = version_in(connection.client.server_info.get("version"))
            if oldest is None or version is None or version >= oldest:
                return connection
            await connection.close()
            too_old.append(_too_old(_without_user(url), version, oldest))
            troubles.append(str(too_old[-1]))
        except ShipperError:
            raise
        except (nats.errors.Error, OSError, TimeoutError) as error:
            troubles.append(f"{_without_user(url)}: {describe(error)}")
        except (AttributeError, KeyError, TypeError, ValueError):  # nats-py believes that INFO is what INFO should be
            troubles.append(f"{_without_user(url)}: the answer is not that of a NATS server")
    if too_old and len(too_old) == len(troubles):
        raise too_old[0]
    raise unconnected(troubles, settings)  # one of the others may be new enough, and be back soon


def _too_old(where: str, version: Version, oldest: Version) -> ServerTooOld:
    return ServerTooOld(
        f"nats-server {version} at {where} is older than {oldest}: {LACKING}",
        hint=f"upgrade nats-server to {SYNCED} or later, in a cluster one server after the other",
    )


async def connect_as(
    settings: NatsSettings, *, name: str, inboxes: Sequence[str], oldest: Version | None = None
) -> Connection:
    """A connection with the first of `inboxes` that this user may subscribe to: an operator's, or a monitor's.

    Raises as `connect`, and RightMissing: it may subscribe to none; the first one is named.
    """
    refusals: list[RightMissing] = []
    for inbox in inboxes:
        connection = await connect(settings, name=name, inbox=inbox, oldest=oldest)
        try:
            with connection.session_errors():
                async with connection.client.mailbox():  # only tests the right to subscribe: nothing arrives there
                    await connection.flush()
            connection.check()
        except BaseException as error:
            await connection.close()
            if not isinstance(error, RightMissing):
                raise
            refusals.append(error)
        else:
            connection.is_monitor = inbox == MONITOR_INBOX
            return connection
    raise refusals[0]


async def _connect_one(url: str, settings: NatsSettings, name: str, inbox: str) -> Connection:
    client = TolerantClient()
    if settings.wants_tls:
        client.require_tls()
    connection = Connection(client)

    async def on_error(error: Exception) -> None:
        text = describe(error)
        if isinstance(error, nats.errors.SlowConsumerError):  # any user may fill the queue of a subject
            events.control_ignored(subject=error.subject[:200], reason="too many wait")
        elif not connection.refuses(text):
            connection.fail(refused_right(text) or text)

    async def on_closed() -> None:
        connection.fail("the server closed the connection")

    try:
        async with asyncio.timeout(settings.connect_timeout):
            await client.connect(
                servers=[url],
                name=name,
                allow_reconnect=False,
                connect_timeout=max(1, round(settings.connect_timeout)),
                max_reconnect_attempts=1,  # else nats-py tries a refusing server for ever
                reconnect_time_wait=0,
                ping_interval=PING_SECONDS,
                max_outstanding_pings=2,
                pending_size=SOCKET_BUFFER_BYTES,
                inbox_prefix=inbox,
                error_cb=on_error,
                closed_cb=on_closed,
                disconnected_cb=on_closed,
                **_credentials(settings),
            )
            client.sift()
    except BaseException as error:
        reason = connection.reason
        await connection.close()  # nats-py leaves the socket of a server that refuses us open
        if isinstance(error, nats.errors.NoServersError):
            raise OSError(reason) from None
        raise
    connection.forgive()
    return connection


def _credentials(settings: NatsSettings) -> dict[str, Any]:
    for path in filter(None, (settings.creds, settings.nkey_seed, settings.certificate, settings.key, settings.ca)):
        try:
            path.open("rb").close()
        except OSError as error:
            why = f"cannot read {path}: {error.strerror}"
            raise ConfigError(why, hint="correct the path or its permissions") from None
    check_secrets(settings)
    options: dict[str, Any] = {
        "user": settings.user,
        "password": settings.password.get_secret_value() if settings.password else None,
        "token": settings.token.get_secret_value() if settings.token else None,
        "user_credentials": str(settings.creds) if settings.creds else None,
        "nkeys_seed": str(settings.nkey_seed) if settings.nkey_seed else None,
    }
    if settings.wants_tls:
        options |= {"tls": tls_context(settings), "tls_handshake_first": settings.tls_first}
    return {key: value for key, value in options.items() if value is not None}


def tls_context(settings: NatsSettings) -> ssl.SSLContext:
    """The certificates that the settings name. Raises ConfigError: they cannot be used."""
    if settings.key and not settings.certificate:
        raise ConfigError(
            "NATS_KEY is set, and NATS_CERTIFICATE is not", hint="set NATS_CERTIFICATE to the certificate of this key"
        )
    try:
        context = ssl.create_default_context(cafile=str(settings.ca) if settings.ca else None)
        if settings.certificate:
            context.load_cert_chain(str(settings.certificate), str(settings.key) if settings.key else None)
    except (ssl.SSLError, OSError) as error:
        raise ConfigError(f"TLS files of NATS_CERTIFICATE, NATS_KEY, NATS_CA cannot be used: {error}") from None
    return context


def describe(error: BaseException) -> str:
    """One line for a foreign error, never empty."""
    return str(error).strip() or type(error).__name__


def _refused(verb: str, error: Mapping[str, Any]) -> ShipperError:
    code = error.get("err_code")
    if code in JETSTREAM_OFF:
        return Unavailable("JetStream is not enabled on this server or for this account", hint=START_HINT)
    if code == NOT_FOUND_STREAM:
        tokens = verb.split(".")  # STREAM.INFO.<name>, STREAM.MSG.GET.<name>
        name = tokens[3] if tokens[1] in {"LEADER", "MSG", "PEER"} else tokens[2]
        return StreamMissing(f"stream {name} does not exist", hint="create it: fshipper partition apply --partitions N")
    return ApiError(verb, error)


def unwanted(message: Msg) -> str:
    """Why a message to a listener is neither read nor answered; empty: it is."""
    is_control = message.subject.startswith(CONTROL_SUBJECTS)
    if is_control and control.is_republished(message.headers):
        return "copy of a stored message"
    if is_control and message.reply and not control.may_answer(message.subject, message.reply):
        return "reply subject of another"
    if len(message.data) > control.most_bytes(message.subject):
        return "too large"
    return ""


def _without_user(url: str) -> str:
    scheme, _, rest = url.rpartition("//")
    return f"{scheme}//{rest.rpartition('@')[2]}" if scheme else rest.rpartition("@")[2]
