"""Which lines become one pattern, and that its id depends on nothing else."""

import itertools
import random
import time

import pytest

from spark_analytics.patterns import cluster
from spark_analytics.patterns import cluster as varying
from spark_analytics.patterns.cluster import REST, Matcher, Pattern, cluster_texts, pattern_of, tokenize
from spark_analytics.patterns.mask import masked


def templates(*texts: str, known=()) -> list[str]:
    return [template for _, template in cluster_texts([(text, 1) for text in texts], known)]


USERS = ("root", "git", "mysql", "alice")


def test_a_place_with_many_names_is_a_parameter():
    said = templates(*(f"session opened for user {user} by (uid=0)" for user in USERS))
    assert set(said) == {"session opened for user <*> by (uid=<*>)"}


def test_two_names_at_one_place_are_two_patterns():
    assert len(set(templates("task done by client org.a.First ok", "task done by client org.a.Second ok"))) == 2


def test_states_are_no_parameters():
    states = ("NEW_TASK", "RUN_TASK", "FAIL_TASK", "KILL_TASK", "LOST", "DONE")
    assert len(set(templates(*(f"the task has moved to state {state} again" for state in states)))) == len(states)


HIVES = ("SYSTEM", "SAM", "DEFAULT", "COMPONENTS", "ntuser.dat", "schema.dat")


def test_tokens_at_a_place_of_names_are_parameters_if_much_else_is_equal():
    made = templates(*(f"Loading offline registry hive: {hive}, into registry key from its path" for hive in HIVES))
    assert set(made) == {"Loading offline registry hive: <*>, into registry key from its path"}


def test_without_a_name_or_with_little_context_they_stay_apart():
    states = (*HIVES[:4], "SECURITY", "SOFTWARE")
    made = templates(*(f"Loading offline registry hive: {hive}, into registry key from its path" for hive in states))
    assert len(set(made)) == len(states)
    assert len(set(templates(*(f"the hive is {hive} now" for hive in HIVES)))) > 1


def test_a_word_after_one_other_is_a_parameter_if_it_has_many_values():
    names = ("time", "ftp", "rsync", "echo", "daytime", "printer", "telnet", "klogin", "kshell", "ntalk")
    assert set(templates(*(f"removing {name}" for name in names))) == {"removing <*>"}
    assert len(set(templates(*(f"removing {name}" for name in names[1:])))) == len(names) - 1


@pytest.mark.parametrize("role", ["Leader", "follower", "pre-candidate", "db1.example", "10.0.0.7:8300"])
def test_values_of_any_form_with_their_names_in_parentheses_are_parameters(role):
    """As consensus protocols, databases and routers of any make list them."""
    assert templates(masked(f"raft status: 17 (term), {role} (role), node-a (peer)", "none")) == [
        "raft status: <*> (term), <*> (role), <*> (peer)"
    ]
    assert templates("moved follower (old), leader (new)") == ["moved follower (old), leader (new)"]


def test_values_with_their_names_in_parentheses_are_parameters():
    states = ("LOOKING", "LEADING", "FOLLOWING")
    made = templates(*(f"Vote: 0 (n.leader), 0 (n.round), {state} (n.state), 0 (n.sid)" for state in states))
    assert len(set(made)) == 1
    assert len(set(templates(*(f"the vote is {state} (my state)" for state in states)))) == len(states)


def test_words_that_say_what_happened_stay_apart():
    said = ("link error on port 0", "link ok on port 0", "link reset on port 0", "fan ok on port 0")
    assert len(set(templates(*said))) == len(said)


def test_many_plain_words_at_one_place_are_a_parameter():
    names = ("alpha", "bravo", "charlie", "delta", "echo")
    said = templates(*(f"accepted the public key for {name} from 0.0.0.0" for name in names))
    assert set(said) == {"accepted the public key for <*> from <*>"}


def test_a_few_plain_words_at_one_place_stay_apart():
    states = ("paused", "resumed", "started", "stopped")
    assert len(set(templates(*(f"the machine has {state} at the end of its day" for state in states)))) == len(states)


def test_what_is_a_parameter_in_one_line_is_one_in_all():
    said = templates("clock is synchronized to 0.0.0.0, stratum 0", "clock is synchronized to LOCAL(0), stratum 0")
    assert set(said) == {"clock is synchronized to <*>, stratum <*>"}


def test_a_key_is_not_taken_for_its_neighbours_value():
    assert len(set(templates("got the data: phone=0", "got the data: value=0"))) == 2


def test_a_message_of_parameters_alone_has_the_rests_id():
    for known in ((), [("another", "<*>")]):
        assert cluster_texts([("0 0.0.0.0", 1), ("", 1)], known) == [(REST.id, "<*>"), (REST.id, "<*>")]


def test_ids_are_the_same_in_every_order_and_every_run():
    texts = [(f"job {name} of queue q{n} failed with code 0", n) for n in range(9) for name in USERS]
    found = dict(zip(texts, cluster_texts(texts), strict=True))
    for seed in range(5):
        mixed = random.Random(seed).sample(texts, len(texts))
        assert dict(zip(mixed, cluster_texts(mixed), strict=True)) == found
    assert pattern_of("a <*>").id == "d062582fcbf3f9ee"


def test_a_known_pattern_keeps_its_id_when_other_lines_come():
    monday = [("session opened for user root by (uid=0)", 3), ("disk sda0 is full", 1)]
    known = cluster_texts(monday)
    tuesday = [*monday, *((f"session opened for user {user} by (uid=0)", 1) for user in USERS[1:])]
    after = cluster_texts(tuesday, known)
    assert after[:2] == known
    assert {template for _, template in after[2:]} == {"session opened for user <*> by (uid=<*>)"}
    assert after[2][0] != known[0][0]


def test_names_of_the_days_before_count_as_evidence():
    known = [pair for user in USERS[:2] for pair in cluster_texts([(f"session opened for user {user} by (uid=0)", 1)])]
    assert templates("session opened for user bob by (uid=0)", known=known) == [
        "session opened for user <*> by (uid=<*>)"
    ]


def test_the_id_that_the_registry_has_is_given_back():
    known = [("00000000000000aa", "session opened for user <*> by (uid=<*>)")]
    assert cluster_texts([("session opened for user zoe by (uid=0)", 1)], known) == known


def test_the_same_day_again_gives_the_same_ids_whatever_else_comes():
    words = ("disk", "link", "user", "node", "task", "failed", "opened", "org.a.B", "org.a.C", "org.a.D", "0", "x=0")
    rng = random.Random(6)
    lines = [(" ".join(rng.choices(words, k=rng.randint(2, 7))), 1) for _ in range(3000)]
    first = cluster_texts(lines[:1500])
    assert cluster_texts(lines, set(first))[:1500] == first


def test_the_most_specific_known_pattern_wins():
    known = [
        Pattern("1", "user <*> logged in"),
        Pattern("0", "user root logged in"),
        Pattern("2", "user <*> logged <*>"),
    ]
    assert Matcher(known).match(("user", "root", "logged", "in")) == known[1]
    assert Matcher(known).match(("user", "zoe", "logged", "in")) == known[0]
    assert Matcher(known).match(("user", "zoe", "logged", "out")) == known[2]


def test_a_pattern_with_hardly_a_word_takes_no_other_line():
    assert Matcher([Pattern("0", "<*> failed")]).match(("login", "failed")) is None


def test_more_texts_than_the_most_leave_the_rarest_to_the_rest(monkeypatch):
    monkeypatch.setattr(cluster, "MAX_DISTINCT", 2)
    found = cluster_texts([("rare thing", 1), ("common thing", 9), ("usual thing", 5)])
    assert [template for _, template in found] == ["<*>", "common thing", "usual thing"]


def test_hostile_templates_are_matched_in_bounded_steps():
    """Each token fits two branches; what only the last of 4,096 paths finds is not worth searching."""
    paths = [" ".join(path) for path in itertools.product(("<*>", "<*>a"), repeat=12)]
    found = f"{paths[-1]} at last"
    matcher = Matcher(pattern_of(text) for text in [found, *(f"{path} or not" for path in paths[:-1])])
    assert matcher.match(("xa",) * 12 + ("at", "last")) is None
    assert Matcher([pattern_of(found)]).match(("xa",) * 12 + ("at", "last")) == pattern_of(found)


# -- grouping accuracy on lines whose template is known ---------------------------------------------------------------

MADE = (
    "Accepted password for {user} from {ip} port {n} ssh2",
    "Failed password for {user} from {ip} port {n} ssh2",
    "Connection closed by {ip}",
    "worker {n} started",
    "worker {n} stopped",
    "request took {n} ms",
    "cache is cold",
    "Deleting file {path} of {user}",
    "GET {path} {n}",
    "queue depth {n}, {n} consumers",
    "lease {hex} expired",
)


def lines_of(rng: random.Random) -> list[tuple[str, str]]:
    def value(kind: str) -> str:
        return {
            "user": rng.choice(("alice", "bob", "carol", "dave", "erin", "frank", "web_app", "u17")),
            "ip": ".".join(str(rng.randrange(256)) for _ in range(4)),
            "n": str(rng.randrange(10**6)),
            "path": "/" + "/".join(rng.choices(("var", "srv", "data-7", "x.log"), k=rng.randint(1, 4))),
            "hex": f"{rng.getrandbits(48):#x}",
        }[kind]

    made = []
    for _ in range(4000):
        template = rng.choice(MADE)
        parts = template.replace("{", "\0{").replace("}", "}\0").split("\0")
        made.append((template, "".join(value(part[1:-1]) if part.startswith("{") else part for part in parts)))
    return made


@pytest.mark.parametrize("seed", range(3))
def test_generated_lines_are_grouped_as_they_were_made(seed):
    made = lines_of(random.Random(seed))
    found = cluster_texts([(masked(line, "none"), 1) for _, line in made])
    assert len({(template, pattern) for (template, _), pattern in zip(made, found, strict=True)}) == len(MADE)
    assert len(set(found)) == len(MADE)


# -- shapes -----------------------------------------------------------------------------------------------------------

SHAPES = {
    "took 0 ms (0.0 KB) at 0x0f": "took <*> at <*>",
    "open /var/log/a.log: no such file": "open <*>: no such file",
    "sent 0 bytes (0.0 KB), lifetime <0 sec": "sent <*> bytes, lifetime <*>",
    "host www.example.org:0 and fe0::0:0": "host <*> and <*>",
    "seen at Fri Jun 0 0:0:0 0 by us": "seen at <*> by us",
    "ok=true, name = bob; mode=a b": "ok=<*>, name = <*>; mode=<*> b",
    "intent {act=x {flg=0} y} done": "intent {<*>} done",
    'level=info msg="job 0 done" took=0': "job <*> done",
    '{"level":"info","n":0}': '{"level":<*>,"n":<*>}',
    "value \"one\" and 'two' and it's three": "value \"<*>\" and '<*>' and it's three",
    "a\tb\x1b\x00c\r": "a b c",
    "list 0 0 0, 0 of <*>": "list <*> of <*>",
    "AABFBA: to=<a>, status=sent": "<*>: to=<a>, status=<*>",
    "BdTRNXHZjqzJJd: removed": "<*>: removed",
    "warning: CAFEBE: queue file": "warning: <*>: queue file",
    "Ok: queued as AABFBA)": "Ok: queued as <*>)",
    "ABACUS: to the left, FADED and Rhythms: old": "ABACUS: to the left, FADED and Rhythms: old",
}


@pytest.mark.parametrize("text", SHAPES)
def test_parameters_are_known_by_their_shape(text):
    assert " ".join(tokenize(text)) == SHAPES[text]


BOMBS = (
    "a",
    "a.",
    "a-",
    "/",
    "\\a\\",
    '"',
    "'",
    "=",
    "a=",
    "(",
    "{",
    "{}",
    "<*>",
    "0.",
    "a:",
    "f",
    "Jan ",
    "a@",
    '":',
    "..",
)


@pytest.mark.parametrize("one", BOMBS)
def test_no_text_makes_a_shape_slow(one):
    for text in ((one + other) * 300 for other in ("", *BOMBS)):
        started = time.process_time()
        tokenize(text[:513])
        assert time.process_time() - started < 0.05


def test_a_template_has_no_more_than_its_tokens():
    assert len(tokenize("word " * 1000)) <= 64


def test_steps_do_not_change_what_stands_alone():
    alone = {("the", "disk", "is", "full"), ("a", "b.c.d", "e")}
    assert varying.generalize_templates(alone) == {template: template for template in alone}
