import pytest

from shipper.units import counted, exact_seconds, exact_size, format_bytes, parse_seconds, parse_size


@pytest.mark.parametrize(
    ("text", "size"),
    [
        (512, 512),
        ("512", 512),
        ("256KiB", 262144),
        ("8 MiB", 8388608),
        ("1GB", 10**9),
        ("1.5k", 1500),
        (" 2gib ", 2**31),
        ("3TiB", 3 * 2**40),
        ("7b", 7),
        ("0", 0),
    ],
)
def test_sizes_are_read_as_people_write_them(text, size):
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "much", "1 QiB", "-1", "1,5MB", "KiB", True, None, [], "1e3", "٣KiB x"])
def test_what_is_no_size_is_a_value_error_with_an_example(text):
    with pytest.raises(ValueError, match="256KiB"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (3, 3.0),
        (0.5, 0.5),
        ("10", 10.0),
        ("1.5", 1.5),
        ("500ms", 0.5),
        ("10s", 10.0),
        ("1h30m", 5400.0),
        ("2D", 172800.0),
    ],
)
def test_durations_are_read_as_people_write_them(text, seconds):
    assert parse_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "soon", "1x", "-1s", "1h 30m x", True, None, "s", "1.s"])
def test_what_is_no_duration_is_a_value_error_with_an_example(text):
    with pytest.raises(ValueError, match="1h30m"):
        parse_seconds(text)


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (5 * 2**30, "5.0 GiB"),
        (2**50, "1024.0 TiB"),
        (-2048, "-2.0 KiB"),
    ],
)
def test_bytes_are_shown_in_the_largest_unit_that_fits(count, text):
    assert format_bytes(count) == text


@pytest.mark.parametrize("count", [1, 1000, 1024, 4096, 512 * 1024, 256 * 1024**2, 3 * 1024**4])
def test_an_exact_size_is_read_as_what_it_was(count):
    assert parse_size(exact_size(count)) == count


@pytest.mark.parametrize("seconds", [0.0, 0.01, 0.1, 1, 60, 90, 3600, 86400, 90 * 86400])
def test_exact_seconds_are_read_as_what_they_were(seconds):
    assert parse_seconds(exact_seconds(seconds)) == seconds


def test_a_noun_has_the_number_of_what_is_counted():
    assert [counted(number, "host") for number in (0, 1, 2)] == ["0 hosts", "1 host", "2 hosts"]
