"""The zone of times without one: that of the system, or of the settings, for single files another one."""

import pytest

from producer.host_zone import HostZones
from shipper.config import load
from shipper.errors import ConfigError


def test_the_first_glob_that_fits_gives_the_zone_of_a_file() -> None:
    zones = HostZones.of("Europe/Berlin", {"/var/log/app/*": "UTC", "*.us.log": "America/New_York"})
    assert zones.of_file("/var/log/syslog") == "Europe/Berlin"
    assert zones.of_file("/var/log/app/a.us.log") == ""
    assert zones.of_file("/srv/a.us.log") == "America/New_York"


def test_a_zone_that_does_not_exist_is_refused() -> None:
    assert load({"producer.timezone": "Europe/Berlin"}).producer.timezone == "Europe/Berlin"
    with pytest.raises(ConfigError, match="no zone that this machine knows"):
        load({"producer.timezone": "Europe/Berlim"})
