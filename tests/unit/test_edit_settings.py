import pytest

from shipper.config import load
from shipper.errors import ConfigError


def problem(**flags):
    with pytest.raises(ConfigError) as told:
        load({f"producer.{name}": value for name, value in flags.items()}, environment={})
    return str(told.value)


@pytest.mark.parametrize("key", ["keep_lines", "drop_lines", "redact"])
@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("fo(o", "missing ): fo(o"),
        ("[a", "missing ]: [a"),
        ("*", "no argument for repetition operator: *"),
        ("a{99999999999}", "repeats too much"),
    ],
)
def test_an_invalid_expression_is_reported_with_its_key_its_place_and_the_next_step(key, pattern, why):
    told = problem(**{key: ("fine", pattern)})
    assert f"--{key.replace('_', '-')}: producer.{key}" in told
    assert repr(pattern) in told
    assert why in told
    assert "RE2" in told or r"write \ before" in told


@pytest.mark.parametrize("key", ["keep_lines", "drop_lines", "redact"])
def test_an_empty_expression_is_no_rule(key):
    assert "matches every line" in problem(**{key: ("",)})


@pytest.mark.parametrize("key", ["keep_lines", "drop_lines", "redact"])
@pytest.mark.parametrize("value", ["a", {"a": 1}])
def test_an_expression_of_another_type_is_reported_with_its_key(key, value):
    told = problem(**{key: ([value],)})
    assert f"producer.{key}" in told
    assert "should be a valid string" in told


def test_ready_patterns_are_names_and_one_expression_needs_no_list():
    producer = load({"producer.redact": ("card", "token", "email", "x+")}, environment={}).producer
    assert producer.redact == ("card", "token", "email", "x+")
    assert load({"producer.drop_lines": "DEBUG"}, environment={}).producer.drop_lines == ("DEBUG",)


def test_a_list_in_a_file_is_read(tmp_path):
    path = tmp_path / "shipper.toml"
    path.write_text(
        '[producer]\nkeep_lines = ["a", \'b\\d\']\nredact = "card"\nlabels = { env = "prod" }\n', encoding="utf-8"
    )
    producer = load({}, config=path, environment={}).producer
    assert (producer.keep_lines, producer.redact, producer.labels) == (
        ("a", r"b\d"),
        ("card",),
        {"env": "prod"},
    )


@pytest.mark.parametrize("labels", [{"x": "y" * 1100}, {"x": "é" * 200}, {str(n): "value" for n in range(200)}])
def test_labels_that_are_too_long_for_a_header_are_reported(labels):
    assert "at most 1024 travel with each block" in problem(labels=labels)


@pytest.mark.parametrize("labels", [("=x",), ("novalue",), {"": "x"}])
def test_a_label_without_a_name_is_reported(labels):
    assert "write NAME=VALUE" in problem(labels=labels)
