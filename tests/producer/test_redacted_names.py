"""Names of files that hold a secret: they are shipped as they are, so a person is warned before."""

from pathlib import Path

import pytest

from producer.transform.edits import Edits

SECRET = "hunter2x"


@pytest.mark.parametrize(
    "name", [f"/var/log/app-password={SECRET}.log", f"/srv/token={SECRET}/a.log", f"/l/ssn-{SECRET}.log"]
)
def test_a_name_with_a_secret_is_warned_of_without_the_secret(name: str) -> None:
    (shown,) = Edits.of(redact=["token", "ssn-[a-z0-9]+"]).secret_names([name, "/var/log/ok.log"])
    assert SECRET not in shown


def test_usual_names_and_a_producer_that_redacts_nothing_give_no_warning() -> None:
    names = ["/var/log/auth.log", "/var/log/token-service.log", "/var/log/passwords/app.log", str(Path("/tmp/\udcff"))]
    assert Edits.of(redact=["token", "card", "email"]).secret_names(names) == []
    assert Edits().secret_names([f"/l/password={SECRET}"]) == []
