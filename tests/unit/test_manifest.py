import json
from dataclasses import replace

import pytest
from test_json_codec import SEGMENT as PLAIN

from shipper import manifest
from shipper.manifest import Gap, SourceSpan

SEGMENT = replace(
    PLAIN,
    spans=(SourceSpan(source="00c0ffee00c0ffee", start=0, end=3456),),
    gaps=(Gap(source="00c0ffee00c0ffee", start=10, end=20, reason="deleted"),),
    duplicates=2,
    joins=1,
)


def test_what_a_line_leaves_out_has_its_default():
    fields = json.loads(manifest.to_line(SEGMENT))
    for name in ("spans", "gaps", "duplicates", "joins"):
        del fields[name]
    found = manifest.from_line(json.dumps(fields).encode())
    assert (found.spans, found.gaps, found.duplicates, found.joins) == ((), (), 0, 0)


def test_labels_that_are_none_are_a_value_error():
    line = manifest.to_line(replace(SEGMENT, labels={"env": "prod"})).replace(b'{"env":"prod"}', b"7")
    with pytest.raises(ValueError, match=r".+"):
        manifest.from_line(line)


@pytest.mark.parametrize("replaces", [b"7", b"[7]", b"[[]]"])
def test_what_it_replaces_is_a_list_of_paths(replaces):
    line = manifest.to_line(replace(SEGMENT, replaces=("a",))).replace(b'["a"]', replaces)
    with pytest.raises(ValueError, match=r".+"):
        manifest.from_line(line)


def test_a_segment_counts_once_and_not_in_addition_to_its_merged_segment():
    one, two, other = (replace(SEGMENT, path=path) for path in "abo")
    both = replace(SEGMENT, path="c", replaces=("a", "b"))
    again = replace(SEGMENT, path="e", replaces=("c", "d"))
    late = replace(two, collector="a sleeper")
    assert manifest.standing([one, two, other, both]) == [other, both]
    assert manifest.standing([both, one, late, other]) == [both, other]
    assert manifest.standing([one, two, both, again, other]) == [again, other]
    assert manifest.standing([one, replace(one, lines=7)]) == [replace(one, lines=7)]


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b'{"v": 2}',
        b'{"v": 1}',
        manifest.to_line(SEGMENT).replace(b'"v":1', b'"v":2'),
        manifest.to_line(SEGMENT)[:-20],
        manifest.to_line(SEGMENT).replace(b'"lines"', b'"lies"'),
    ],
)
def test_a_line_that_is_torn_or_of_another_version_is_a_value_error(line):
    with pytest.raises(ValueError, match=r".+"):
        manifest.from_line(line)


def test_a_span_that_is_none_is_a_value_error():
    line = manifest.to_line(SEGMENT).replace(b'"start":0', b'"begin":0')
    with pytest.raises(ValueError, match="begin"):
        manifest.from_line(line)


def test_a_reader_yields_every_segment_and_reports_what_is_wrong_with_the_other_lines():
    sound = manifest.to_line(SEGMENT)
    typed = json.loads(sound)
    wrong = [
        b"{}\n", b"x\n", b"[" * 10_000 + b"\n", b"[]\n",
        *(json.dumps(typed | change).encode() + b"\n" for change in (
            {"path": 7}, {"lines": "7"}, {"spans": 7}, {"spans": [{"source": 1, "start": 0, "end": 1}]},
            {"labels": [1]}, {"replaces": [7]}, {"newer": 1}, {"removals": [{"kept": 7}]}, {"first_time": None},
        )),
    ]  # fmt: skip
    content = [sound, b"\n", *wrong, sound, sound[:20]]
    found = dict(manifest.read_lines(content))
    assert [number for number, each in found.items() if each == SEGMENT] == [1, len(wrong) + 3]
    damages = [each for each in found.values() if isinstance(each, manifest.Damage)]
    assert [each.is_torn for each in damages] == [False] * len(wrong) + [True]
    assert all(each.reason for each in damages)
    assert list(manifest.segments_in(content)) == [SEGMENT, SEGMENT]


@pytest.mark.parametrize("value", ['"text"', '{"root":"00","signature":["a"]}', "7", "null"])
@pytest.mark.parametrize("name", ["proof", "info_", "info_sealed_by"])
def test_the_fields_of_a_later_version_that_change_nothing_of_what_counts_are_ignored(name: str, value: str):
    line = manifest.to_line(SEGMENT).replace(b'{"', f'{{"{name}":{value},"'.encode(), 1)
    assert manifest.from_line(line) == SEGMENT


@pytest.mark.parametrize("name", ["proofs", "information", "Info_a", "replaced_by"])
def test_any_other_field_that_is_not_known_refuses_the_line(name: str):
    line = manifest.to_line(SEGMENT).replace(b'{"', f'{{"{name}":[],"'.encode(), 1)
    with pytest.raises(ValueError, match=name):
        manifest.from_line(line)


@pytest.mark.parametrize(
    ("text", "ns"),
    [("1970-01-01T00:00:01.5Z", 1_500_000_000), ("soon", 0), ("", 0), ("2026-01-01", 0), ("9999-12-31T23:59:59", 0)],
)
def test_a_time_that_is_none_or_has_no_zone_is_zero(text, ns):
    assert manifest.nanoseconds(text) == ns
