import os
import posixpath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from shipper import layout
from shipper.errors import Poison
from shipper.layout import FileKey
from shipper.subjects import parse_log_subject

NAME_MAX = 255
DAY = "2026-11-20"
NOON_NS = 1_795_176_000_000_000_123  # 2026-11-20T12:00:00Z

NAMES = st.binary(min_size=1, max_size=80).filter(lambda raw: not {0, ord("/")} & set(raw)).map(os.fsdecode)
PATHS = st.lists(NAMES, min_size=1, max_size=6).map(lambda parts: "/" + "/".join(parts))
ANY_PATH = st.text(max_size=300).map(lambda text: "/" + text.replace("\0", ""))
TOKENS = st.text(st.characters(codec="utf-8", exclude_characters=". \t\r\n\0"), min_size=1, max_size=12)
HOSTS = st.lists(TOKENS, min_size=1, max_size=3).map(".".join)
"""What NATS delivers as the rest of a subject: tokens that are not empty, between dots."""


def key_of(host, file):
    return FileKey(DAY, 3, host, file)


def confined(path, below):
    normal = posixpath.normpath(path)
    return normal == path and normal.startswith(below + "/") and "\0" not in path


@given(HOSTS, PATHS | ANY_PATH)
def test_no_host_and_no_path_leads_out_of_its_directory(host, file):
    key = key_of(host, file)
    directory = f"date={DAY}/partition=3/host={layout.escape(host)}"
    assert layout.directory(key) == directory
    assert directory.count("/") == 2
    for path in (layout.open_path(key), layout.segment_path(key, 1, "gzip")):
        assert confined(path, directory)
        assert path.count("/") == 3


@given(HOSTS, PATHS | ANY_PATH)
@example("web1", "/../../etc/./passwd")
def test_a_live_link_stays_below_live_and_its_host(host, file):
    path = layout.live_path(key_of(host, file))
    assert posixpath.normpath(path) == path
    assert path.split("/")[:2] == ["live", layout.escape(host)]


@given(st.text("abc.-_", min_size=1, max_size=200), PATHS | ANY_PATH)
def test_every_component_fits_the_file_system(host, file):
    for path in (layout.open_path(key_of(host, file)), layout.segment_path(key_of(host, file), 2**63, "zstd")):
        assert max(len(os.fsencode(part)) for part in path.split("/")) <= NAME_MAX


@given(st.lists(PATHS, min_size=2, max_size=2, unique=True))
def test_two_paths_never_share_a_name(paths):
    one, other = paths
    if posixpath.normpath(one) != posixpath.normpath(other):
        assert layout.file_name(one) != layout.file_name(other)


@pytest.mark.parametrize(
    ("one", "other"),
    [("/a/b", "/a~b"), ("/a%2Fb", "/a/b"), ("/a%7Eb", "/a~b"), ("/_a", "/%5Fa"), ("/x" * 150, "/x" * 149 + "/y")],
)
def test_paths_that_are_alike_when_escaped_have_names_of_their_own(one, other):
    assert layout.file_name(one) != layout.file_name(other)


@given(PATHS)
def test_spark_lists_every_sealed_segment_and_no_open_file(file):
    name = layout.segment_path(key_of("h", file), 1, "zstd").rpartition("/")[2]
    assert name[0] not in "_."
    assert layout.open_path(key_of("h", file)).rpartition("/")[2].startswith("_open-")


@given(st.text())
def test_escaping_can_be_undone(text):
    if not any(0xDC80 <= ord(char) <= 0xDCFF for char in text):
        assert layout.unescape(layout.escape(text)) == text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ("web1.example.net", "web1.example.net"),
        ("a/b", "a%2Fb"),
        ("a=b", "a%3Db"),
        ("50%", "50%25"),
        ("a:b*c?", "a%3Ab%2Ac%3F"),
        ("\"#'", "%22%23%27"),
        ("[x]{^\\", "%5Bx%5D%7B%5E%5C"),
        ("\x01\x1f\x7f", "%01%1F%7F"),
        ("é ü", "é ü"),
        (os.fsdecode(b"\xff\x80"), "%FF%80"),
    ],
)
def test_names_are_escaped_as_hive_does(text, escaped):
    assert layout.escape(text) == escaped


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("/var/log/nginx/access.log", "var~log~nginx~access.log"),
        ("messages.log", "messages.log"),
        ("/home/~x/a.log", "home~%7Ex~a.log"),
        ("/.hidden", "%2Ehidden"),
        ("/_x", "%5Fx"),
        ("/", "%00"),
        ("/..", "%2E."),
        ("/../../etc/passwd", "%2E.~..~etc~passwd"),
    ],
)
def test_the_name_of_a_file_is_its_path_on_one_level(file, name):
    assert layout.file_name(file) == name


def test_a_name_too_long_keeps_its_end_and_a_hash_of_the_whole():
    name = layout.file_name("/" + "deep/" * 100 + "access.log")
    assert name.endswith("deep~access.log")
    assert len(name.encode()) <= layout.MAX_NAME_BYTES


def test_the_paths_of_the_archive():
    key = key_of("web1.example.net", "/var/log/nginx/access.log")
    where = "date=2026-11-20/partition=3/host=web1.example.net"
    assert layout.open_path(key) == f"{where}/_open-var~log~nginx~access.log"
    sealed = f"{where}/var~log~nginx~access.log-00000000000001840213"
    assert layout.segment_path(key, 1840213, "zstd") == f"{sealed}.zst"
    assert layout.segment_path(key, 1840213, "gzip") == f"{sealed}.gz"
    assert layout.segment_path(key, 1840213, "none") == sealed
    assert layout.live_path(key) == "live/web1.example.net/var/log/nginx/access.log"
    assert layout.manifest_path(DAY, "c1") == "_manifest/date=2026-11-20/c1.jsonl"
    assert layout.done_path(DAY, "../c1") == "_manifest/date=2026-11-20/..%2Fc1.done"


def test_the_days_are_those_of_utc():
    assert layout.day_of(NOON_NS) == "2026-11-20"
    midnight = 1_795_132_800 * 10**9
    assert (layout.day_of(midnight - 1), layout.day_of(midnight)) == ("2026-11-19", "2026-11-20")


@pytest.mark.parametrize(
    ("template", "path"),
    [
        ("{host}.log", "web1.log"),
        ("%Y/%m/%d/{host}/{file}", "2026/11/20/web1/var~log~app.log"),
        ("p{partition}-%H%M", "p3-1200"),
    ],
)
def test_a_template_is_filled_in(template, path):
    assert layout.template_path(template, key_of("web1", "/var/log/app.log"), NOON_NS) == path


@pytest.mark.parametrize(
    "template", ["{hots}.log", "{0}", "/{host}", "../{host}", "a//{host}", "{host}/./x", "{host}/"]
)
def test_a_template_that_is_wrong_or_leads_elsewhere_is_refused(template):
    with pytest.raises(ValueError, match=r"field|no path below"):
        layout.template_path(template, key_of("web1", "/var/log/app.log"), NOON_NS)


@given(HOSTS, PATHS | ANY_PATH)
def test_no_host_and_no_path_leads_out_of_a_template(host, file):
    path = layout.template_path("%Y/{host}/x-{file}", key_of(host, file), NOON_NS)
    assert confined(path, f"2026/{layout.escape(host)}")
    assert path.count("/") == 2


@pytest.mark.parametrize(("output", "is_one"), [("messages.log", False), ("%Y.log", True), ("{host}", True)])
def test_a_template_is_known_by_its_signs(output, is_one):
    assert layout.is_template(output) is is_one


def test_a_host_of_characters_that_are_escaped_fits_the_file_system_or_is_poison():
    try:
        host = parse_log_subject("logs.p0." + "#" * 200).host
    except Poison:
        return
    assert len(layout.directory(key_of(host, "/a")).rpartition("/")[2]) <= NAME_MAX


@given(PATHS | ANY_PATH | st.text("😀é/", min_size=1).map("/".__add__))
def test_every_component_of_a_live_link_fits_the_file_system(file):
    path = layout.live_path(key_of("web1", file))
    assert max(len(os.fsencode(part)) for part in path.split("/")) <= NAME_MAX


@pytest.mark.parametrize("file", ["/a.log", "/a.zst", "/a.gz", "/a-00000000000000000007.zst"])
@pytest.mark.parametrize("codec", layout.CODEC_SUFFIXES)
def test_the_name_of_a_segment_contains_its_codec_whatever_the_log_is_called(file, codec):
    assert layout.codec_of(layout.segment_path(FileKey(DAY, 0, "web1", file), 5, codec)) == codec
