"""The targets of `fshipper report send`, from a TOML file. Secrets are in other files, which only the user may read."""

import tomllib
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, ValidationError

from shipper.errors import ConfigError

When = Literal["changed", "attention", "always"]

_OTHERS = 0o007
_Text = Annotated[str, StringConstraints(min_length=1, max_length=998, pattern=r"^[^\x00-\x1f\x7f]+$")]
"""Text without control characters: no value can begin another header."""


class _Target(BaseModel):
    """What every kind of target has."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: _Text  #: its name in the ledger; another name is another target
    when: When = "changed"
    lines: bool = False  #: include examples of log lines
    timeout: float = Field(default=30.0, gt=0, le=600)  #: seconds for each step of the conversation
    ca: Path | None = None  #: certificates that are trusted instead of those of the system


class MailTarget(_Target):
    """A mail to several addresses through one SMTP server."""

    kind: Literal["mail"]
    host: _Text
    port: int = Field(default=587, ge=1, le=65535)
    tls: Literal["starttls", "tls", "none"] = "starttls"
    sender: _Text
    to: tuple[_Text, ...] = Field(min_length=1)
    credentials: Path | None = None  #: a file with the user on the first line and the password on the second


class WebhookTarget(_Target):
    """A POST request. `slack` and `teams` have their own JSON, `webhook` the generic one."""

    kind: Literal["webhook", "slack", "teams"]
    url: _Text | None = None
    url_file: Path | None = None  #: a file with the URL, if the URL is a secret
    secret: Path | None = None  #: a file with the key of the HMAC signature
    idempotent: bool = False  #: the receiver ignores a second request with the same `Idempotency-Key`


class AppriseTarget(_Target):
    """Any service of Apprise, which is the extra `notify`."""

    kind: Literal["apprise"]
    url_file: Path  #: a file with Apprise URLs, one a line


Target = MailTarget | WebhookTarget | AppriseTarget


class Delivery(BaseModel):
    """The whole file."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    page: _Text | None = None  #: URL of the directory of reports, for links
    target: tuple[Annotated[Target, Field(discriminator="kind")], ...] = ()


def read(path: Path) -> Delivery:
    """The targets in the file `path`.

    Raises:
        ConfigError: it cannot be read, or a value is wrong.
    """
    try:
        found = Delivery.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}", hint="see docs/guides/delivery.md") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}", hint="correct the TOML") from None
    except ValidationError as error:
        first = error.errors(include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise ConfigError(f"{path}: {where}: {first['msg']}", hint="see docs/guides/delivery.md") from None
    names = [target.name for target in found.target]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ConfigError(f"{path}: two targets have the name {repeated[0]}", hint="give each target its own name")
    for target in found.target:
        where = f"{path}: {target.name}"
        if isinstance(target, MailTarget) and target.credentials and target.tls == "none":
            hint = 'set tls = "starttls" or "tls"'
            raise ConfigError(f"{where}: a password would be sent without encryption", hint=hint)
        if isinstance(target, WebhookTarget) and (target.url is None) == (target.url_file is None):
            raise ConfigError(f"{where}: set url or url_file", hint="exactly one of them")
    return found


def secret_lines(path: Path) -> list[str]:
    """The lines of a file with secrets.

    Raises:
        ConfigError: it cannot be read, it is empty, or other users may read it.
    """
    try:
        if path.stat().st_mode & _OTHERS:
            raise ConfigError(f"{path} can be read by other users", hint=f"chmod o= {path}")
        lines = [line.strip() for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"cannot read {path}: {error}", hint="create it for the user of the report") from None
    if not any(lines):
        raise ConfigError(f"{path} is empty", hint="write the secret into it")
    return [line for line in lines if line]
