"""Names of files that hold a secret: they are shipped as they are, so a person is warned before."""

from pathlib import Path

import pytest

from producer.preflight.dry_run import named_secrets
from producer.transform.edits import Edits

SECRET = "hunter2x"


@pytest.mark.parametrize(
    "name", [f"/var/log/app-password={SECRET}.log", f"/srv/token={SECRET}/a.log", f"/l/ssn-{SECRET}.log"]
)
def test_a_name_with_a_secret_is_warned_of_without_the_secret(name: str) -> None:
    (warning,) = named_secrets(Edits.of(redact=["token", "ssn-[a-z0-9]+"]), [name, "/var/log/ok.log"])
    assert "holds a secret" in warning
    assert SECRET not in warning


def test_usual_names_and_a_producer_that_redacts_nothing_give_no_warning() -> None:
    names = ["/var/log/auth.log", "/var/log/token-service.log", "/var/log/passwords/app.log", str(Path("/tmp/\udcff"))]
    assert list(named_secrets(Edits.of(redact=["token", "card", "email"]), names)) == []
    assert list(named_secrets(Edits(), [f"/l/password={SECRET}"])) == []
