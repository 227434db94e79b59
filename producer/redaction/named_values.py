r"""Values of secrets by the name next to them, to their end, at any depth of quoting.

    password=x   "password":"x"   \\\"password\\\":\\\"x\\\"   :password=>"x"   [password] => x   --password 'x y'
    ["--password","x"]   {"name":"DB_PASSWORD","value":"x"}   <password type="t">x</password>   IDENTIFIED BY 'x'

A candidate is a name with what follows one; the linear engine finds them in a block, and the scanner reads the value.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

from producer.redaction.quoting import QUOTE, LineQuotes, Open, end_of_quoted
from producer.redaction.secret_names import MAX_NAME_BYTES, NamedRule, NameTable, NameWords, SecretName, ValueKind
from shipper.linear_regex import SHIPPED_MEMORY, Linear

MAX_CONTEXT_BYTES = 512
"""How far around a name its value may be, where they are fields of one record."""
MAX_LIST_BYTES = 128
"""How far around a value the next semicolon of a connection string is searched."""
MAX_HEADER_BYTES = 8192
"""Longest header whose end is searched."""
MAX_TEXT_BYTES = 16 * 1024
"""Maximum length of the text of an XML element that is searched for its end."""

_NAME_BYTES = (
    bytes(byte for byte in range(256) if chr(byte).isascii() and chr(byte).isalnum())
    + b"_-.$"
    + bytes(range(0x80, 0x100))
)
_NAME = re.compile(rb"[A-Za-z0-9_$.\x80-\xff-]*")
_ASSIGNED = re.compile(
    rb"(?:\[[^\]\s=]{0,24}\])?(?:\\*[\"'`])?[\])]?(?:[ \t]|\\t)*+"
    rb"(?:[:=]{1,3}[>~]?|-?->|%(?:25)*3[aAdD])(?:[ \t]|\+(?=[%'\"]))*"
)
_ARGUMENT = re.compile(rb"(?:\\*[\"'`])?(?:[ \t]*,[ \t]*|[ \t]+|\+(?=[%'\"]))(?=\S)")
_BEFORE_QUOTED = re.compile(rb"(?:[ \t+]|%20){1,4}(?=\\*[\"'])|[ \t]*\([ \t]*(?=\\*[\"'])")
_ELEMENT = re.compile(rb"(?:\\*[\"'])?(?:\s[^<>\n]{0,256})?>(?:<!\[CDATA\[)?")
_NEXT_ELEMENT = re.compile(rb"</[\w:.-]{1,64}>\s{0,64}<[\w:.-]{1,64}>")
_PROSE = re.compile(rb"[ \t]+(?:is|was|to|set to|changed to|of)[ \t]+(?=\\*[\"']|\S*[0-9])", re.IGNORECASE)
_SAID = re.compile(rb"[ \t]{1,2}([^\s\"'`=:<>(){}\[\],/]{6,64})(?=[\s,;.)\"'`]|$)")
"""A value in the middle of a sentence: `with password hunter2 for bob`."""
_ROLE_OF_NAME = re.compile(
    rb"(?:^|[^A-Za-z])(?:name|key|k|variable|var|env|header|field|param|parameter|property|type|id|label|n)"
    rb"\\*[\"'`]?[ \t]*(?:[:=]>?|=>|,|>)[ \t]*\\*[\"'`]?$",
    re.IGNORECASE,
)
_ROLE_OF_VALUE = re.compile(
    rb"[^A-Za-z](?:value|val|v|data|content|string_?value)\\*[\"'`]?[ \t]*(?:[:=]>?|=>)[ \t]*", re.IGNORECASE
)
_TUPLE = re.compile(rb"\\*[\"'`],[ \t]*(?=b?\\*[\"'`])")
_WRAPPED = re.compile(rb"(?:[A-Za-z_&.]{0,24}\(|(?:string|unicode)\([0-9]{1,9}\)[ \t]*|[bBuUrR]{1,2})(?=\\*[\"'])")
_STOP = re.compile(rb"[\s,;&\"'`\\<>)\]}|]")
_FIELD = re.compile(rb"[ \t]*(?:\\*[\"'`])?[A-Za-z_][\w.\- ]{0,40}(?:\\*[\"'`])?[=:]")
_AMPERSAND = re.compile(rb"&(?:amp;)*")
_LINE_ESCAPE = re.compile(rb"\\+[nrt](?=[\"'\\]|\Z|[\s{\[]|[A-Za-z_][\w.-]{0,40}[=:])")
_QUOTED_NEXT = re.compile(rb"[ \t]*,[ \t]*(?=\\*[\"'`])")
_CHANGED_TO = re.compile(rb"\\*[\"'`][ \t]*->[ \t]*\\*[\"'`]")
_PAIR_AFTER_SEMICOLON = re.compile(rb";[ \t]*(?:[A-Za-z][\w ]{0,30}=|$|[\"'`])")
_LINE_START = re.compile(rb"[ \t]*(?:-[ \t]+|set[ \t]+)?(?:\\*[\"'])?")
_LATER_FIELD = re.compile(rb"[ \t][A-Za-z_][\w.\-]{0,40}=|[ \t][\"']?[A-Za-z_][\w.\-]{0,40}[\"']?:[ \t]|[\"'{}<>]")
_CLOSERS = {ord(")"): b"(", ord("]"): b"[", ord("}"): b"{", ord(">"): b"<"}
_NOTHING = re.compile(
    rb"(?:null|none|nil|undefined|true|false|yes|no|on|off|n/?a|empty|unset|not[_ ]?set|\*{2,}|[xX]{4,}|-+|\.{3}"
    rb"|[\[<({](?:redacted|filtered|hidden|masked|token|removed|secret|protected|sensitive|none|empty|null|password)[^\s]{0,24}"
    rb"|redacted|filtered|\$\{?\{?[A-Za-z_][\w. ]*\}?\}|\{\{[^}]{1,64}\}\}|%\([a-z_]+\)s|%s|<[a-z_ -]{1,24}>"
    rb"|Token\{[0-9a-f]*\}?|[a-z][\w.$]*\.[A-Z][\w$]*@[0-9a-f]{5,8})",
    re.IGNORECASE,
)
_PROSE_WORDS = frozenset(
    b"expired expires invalid expected missing required failed failure failing success successful incorrect "
    b"successfully "
    b"wrong not is are was were the a an for from to of in on at by with and or authentication authenticated unknown "
    b"denied ok okay accepted rejected valid verified bearer unexpected unable cannot could no none error refused "
    b"revoked "
    b"created deleted updated changed reset sent received generated please must should too user basic ldap pam "
    b"password "
    b"publickey token key keys enabled disabled session opened closed loading loaded using checking server client "
    b"this your new old has have will would found set unset absent present optional mismatch matches match "
    b"default string int integer object".split()
)
_HEADER_SCHEME = re.compile(
    rb"(?:bearer|basic|digest|negotiate|ntlm|token|apikey|api-key|aws4-[a-z0-9-]+|aws|oauth|hoba|mutual|scram-[a-z0-9-]+"
    rb"|splunk|dpop|key|bot|hawk|ssws|sso-key|genieKey|gpg|sharedkey|sharedkeylite|[a-z][a-z-]{2,20}(?=[ \t]\S*[0-9=]))"
    rb"(?:[ \t]+|%20|\+)(?=\S)",
    re.IGNORECASE,
)
_PARAMETERS = re.compile(
    rb"[\w-]+=(?:\\*\"[^\"\\\n]*\\*\"|[^\s,\"'\\]+)(?:,?[ \t]*[\w-]+=(?:\\*\"[^\"\\\n]*\\*\"|[^\s,\"'\\]+))+"
)
_LINE_END = re.compile(rb"\\+[nr]")
_TEXT = re.compile(rb"[A-Za-z0-9\x80-\xff]")
_SMALL_NUMBER_DIGITS = 3
_PIN_DIGITS = 4
_RANDOM_BYTES = 6
_LONG_BYTES = 16


class Hit(NamedTuple):
    """Bytes that a rule wants redacted."""

    begin: int
    end: int
    rule: str


class _Found(NamedTuple):
    """Where a value begins, and whether it is given like a prose sentence."""

    begin: int
    is_prose: bool = False
    is_element: bool = False
    is_argument: bool = False


class NamedValues:
    """The scanner for the named rules of the file."""

    def __init__(self, rules: tuple[NamedRule, ...], near: NameWords) -> None:
        self.names = NameTable(rules, near)
        words = sorted({word.replace("_", "[_. -]?") for rule in rules for word in rule.words}, key=len, reverse=True)
        escaped = "|".join(_escaped(word) for word in words)
        tail = r"[0-9a-z_.\x80-\xff-]*"
        after = r"(?:\\*[\"'`\]>])*(?:[ \t+]|%20)*(?:[:=(,>\\\"'`]|->|%3|%2|\[|</)"
        prose = r"[ \t]+(?:is|was|to|set to|changed to)[ \t]|[ \t][^\s]*[0-9]"
        name = rf"(?:{escaped}){tail}"
        assigned = rf"{name}(?:{after}|{prose}|[ \t]+[a-z]*(?:value|val)\b)"
        expression = rf"{assigned}|--?[a-z0-9_.-]*{name}[ \t]|<[a-z0-9_:.-]*{name}[ \t]"
        self._candidates = Linear(expression.encode("latin-1"), max_memory=SHIPPED_MEMORY)
        self._spaced = re.compile(rf"(?:{escaped})(?=[^a-z])".encode("latin-1"))

    def find(self, text: bytes) -> Iterator[Hit]:
        """The values in `text`, by ascending names."""
        lower = text.lower()
        quotes = LineQuotes(text)
        done = 0
        for begin, end in self._candidates.finditer(lower, 0, len(lower)):
            if end <= done:
                continue
            first = max(begin, done)
            if text[first : first + 1] == b"<":
                first = max(first, text.rfind(b":", first, end)) + 1  # after the prefix of an element
            hits = list(self._at(text, lower, first, quotes, done))
            while not hits and (blank := text.find(b" ", first, end - 1)) >= 0:  # `user password=`: two words, one name
                first = blank + 1
                hits = list(self._at(text, lower, first, quotes, done))
            for hit in hits:
                done = max(done, hit.end)
                yield hit

    def _at(self, text: bytes, lower: bytes, begin: int, quotes: LineQuotes, done: int) -> Iterator[Hit]:
        """The value of the name that `begin` is in."""
        before = text[max(done, begin - MAX_NAME_BYTES) : begin]
        left = before.rstrip(_NAME_BYTES)
        start = begin - (len(before) - len(left))
        whole = _NAME.match(text, start)
        end = min(whole.end() if whole else start, begin + MAX_NAME_BYTES)
        raw = text[start:end]
        name = raw.strip(b"-.$")
        start, end = start + (len(raw) - len(raw.lstrip(b"-.$"))), end - (len(raw) - len(raw.rstrip(b"-.$")))
        spaced = self._spaced.match(lower, begin)
        if spaced and b" " in spaced[0]:
            start, end = begin, spaced.end()
            name = text[start:end]
        known = self.names.rule_of(name)
        if known is None or start >= end or text.startswith(b"/etc/", max(0, start - 5)):
            return
        rule, is_plural = known
        scan = _Scan(text, quotes, start, end, rule, is_plural=is_plural, dashes=raw[:1] == b"-")
        for first, last in scan.values():
            if first < last and first >= 0:
                yield Hit(first, last, rule.rule)


class _Scan:
    """The value of one name."""

    def __init__(
        self, text: bytes, quotes: LineQuotes, start: int, end: int, rule: SecretName, *, is_plural: bool, dashes: bool
    ) -> None:
        self.text = text
        self.quotes = quotes
        self.start, self.end = start, end  # of the name
        self.rule = rule
        self.is_plural = is_plural
        self.dashes = dashes
        self.line_begin, self.line_end = quotes.line(start)

    def values(self) -> Iterator[tuple[int, int]]:
        """Begin and end of the value, if it is a secret."""
        found = self._begin()
        if found is None:
            yield from self._of_record()
            return
        if found.is_element:
            yield from self._element(found.begin)
            return
        if self.rule.value in (ValueKind.HEADER, ValueKind.COOKIE):
            yield from self._header(found.begin)
            return
        yield from self._value(found)

    def argument(self, begin: int, quote: Open | None) -> Iterator[tuple[int, int]]:
        """The value at `begin`, whose `quote` may have begun earlier."""
        if quote is None:
            return self._value(_Found(begin, is_argument=True))
        around = [each for each in self._open(begin) if each != quote]
        return self._quoted(begin, quote, around, self.line_end)

    # -- where the value begins ---------------------------------------------------------------------------------

    def _begin(self) -> _Found | None:  # noqa: PLR0911 - a return for each form
        text, end, limit = self.text, self.end, self.line_end
        before = text[self.start - 1 : self.start] if self.start else b""
        if found := _ASSIGNED.match(text, end, limit):
            colon = text[end : found.end()].rstrip()[-1:] == b":" and text[found.end() - 1 : found.end()] in b" \t"
            return _Found(found.end(), is_prose=colon)
        is_tag = self._is_tag(before) or (text.startswith(b">", end) and before not in (b"/", b">"))
        if is_tag and (found := _ELEMENT.match(text, end, limit)):
            return _Found(found.end(), is_element=True)
        if before == b">" and (found := _NEXT_ELEMENT.match(text, end)):
            return _Found(found.end(), is_element=True)
        if self.dashes and (found := _ARGUMENT.match(text, end, limit)):
            value = found.end()
            quote = QUOTE.match(text, value)
            is_option = text.startswith(b"-", quote.end() if quote else value)
            return None if is_option else _Found(value, is_argument=True)
        strong = self.rule.value is ValueKind.ANY and text[self.start : end].lower() not in (b"secret", b"secrets")
        if strong and not QUOTE.match(before) and (found := _BEFORE_QUOTED.match(text, end, limit)):
            return _Found(found.end())
        if self.rule.value in (ValueKind.ANY, ValueKind.WORD) and (found := _PROSE.match(text, end, limit)):
            quoted = QUOTE.match(text, found.end())
            word = text[found.end() : limit].split(None, 1)[:1]
            return _Found(found.end()) if quoted or (word and _looks_random(word[0].rstrip(b".,;"))) else None
        if strong and (found := _SAID.match(text, end, limit)) and _looks_said(found[1]):
            return _Found(found.start(1))
        return None

    def _is_tag(self, before: bytes) -> bool:
        if before == b"<":
            return True
        return before == b":" and self.text.rfind(b"<", max(0, self.start - 32), self.start) >= 0

    # -- names and values as fields of one record ---------------------------------------------------------------

    def _of_record(self) -> Iterator[tuple[int, int]]:
        text, start, end = self.text, self.start, self.end
        if _ROLE_OF_NAME.search(text[max(0, start - 24) : start]):
            window = text[end : end + MAX_CONTEXT_BYTES]
            quote = QUOTE.match(window)
            tagged = _ELEMENT.match(text, end, self.line_end) if quote else None
            later = _ROLE_OF_VALUE.search(window)
            if later and not set(window[: later.start()]) & set(b"{}"):
                yield from self._value(_Found(end + later.end()))
                return
            if tagged:
                yield from self._element(tagged.end())
                return
            yield from self._before()
        elif text[start - 1 : start] in (b'"', b"'") and (pair := _TUPLE.match(text, end, self.line_end)):
            opens = text[max(0, start - 8) : start].rstrip(b"b\"'\\ \t")[-1:]
            if opens in (b"[", b"("):
                hits = list(
                    self._header(pair.end())
                    if self.rule.value in (ValueKind.HEADER, ValueKind.COOKIE)
                    else self._value(_Found(pair.end()))
                )
                for first, last in hits:
                    if text[last : last + 16].lstrip(b"\\\"'` ")[:1] in (b"]", b")"):
                        yield first, last

    def _before(self) -> Iterator[tuple[int, int]]:
        """The value that is before its name in the same record."""
        begin = max(0, self.start - MAX_CONTEXT_BYTES)
        window = self.text[begin : self.start]
        later = next(iter(list(_ROLE_OF_VALUE.finditer(window))[-1:]), None)
        if later and not set(window[later.end() :].partition(b",")[2]) & set(b"{}"):
            yield from self._value(_Found(begin + later.end()))

    # -- where the value ends -----------------------------------------------------------------------------------

    def _value(self, found: _Found) -> Iterator[tuple[int, int]]:
        text, begin = self.text, found.begin
        if wrapped := _WRAPPED.match(text, begin, self.line_end):
            begin = wrapped.end()
        line_end = self.line_end if begin <= self.line_end else self._line_end(begin)
        if text[begin : begin + 1] == b"[" and not _NOTHING.match(text, begin):
            inner = begin + 1 + (text[begin + 1 : begin + 2] == b" ")
            if QUOTE.match(text, inner):
                yield from self._list(inner, line_end)
                return
            close = text.find(b"]", inner, line_end)
            if close > inner:
                yield from self._checked(inner, close, found)
                return
        if quote := QUOTE.match(text, begin, line_end):
            open_before = self._open(begin)
            escapes, mark = len(quote[1]), quote[2]
            if any(each.is_closed_by(escapes, mark) for each in open_before):
                return  # nothing: it closes what is around the name
            for first, last in self._quoted(quote.end(), Open(escapes, mark), open_before, line_end):
                yield first, last
                if changed := _CHANGED_TO.match(text, last, line_end):
                    yield from self._quoted(changed.end(), Open(escapes, mark), open_before, line_end)
            return
        end = self._end_of_word(begin, line_end)
        if self._is_nothing(text[begin:end], is_quoted=False):
            return
        end = self._extended(begin, end, line_end, found)
        yield from self._checked(begin, end, found)

    def _line_end(self, place: int) -> int:
        end = self.text.find(b"\n", place)
        return len(self.text) if end < 0 else end

    def _open(self, place: int) -> list[Open]:
        return self.quotes.open_at(place) if place <= self.line_end else []

    def _quoted(self, begin: int, quote: Open, around: list[Open], line_end: int) -> Iterator[tuple[int, int]]:
        text = self.text
        triple = text.startswith(quote.mark * 2, begin) and not quote.escapes
        if triple:
            begin += 2
        end = end_of_quoted(text, begin, quote, line_end)
        value_end, escapes = end, quote.escapes
        while end < line_end and not triple:  # a shell joins 'a'\''b'; CSV doubles a quote
            behind = end + escapes + 1
            following = text[behind : behind + 1]
            after = QUOTE.match(text, behind, line_end)
            if after and not any(each.is_closed_by(len(after[1]), after[2]) for each in around):
                if (
                    text[after.end() : after.end() + 1] in (b"", b",", b"}", b"]", b")", b" ", b"\n")
                    and after[2] != quote.mark
                ):
                    break
                if len(after[1]) % 2 and not quote.escapes and not after[1].startswith(b"\\\\"):
                    behind = after.end()
                    reopened = QUOTE.match(text, behind, line_end)
                    if not reopened:
                        value_end = end = self._end_of_word(behind, line_end)
                        break
                    after = reopened
                if begin == end and after[2] == quote.mark and text[after.end() : after.end() + 1] in b",}]) \t;":
                    break
                escapes = len(after[1])
                end = value_end = end_of_quoted(text, after.end(), Open(escapes, after[2]), line_end)
            elif following.isalnum() or (following and following in b"!@#$%^*_+.~-"):
                end = value_end = self._end_of_word(behind, line_end)
                break
            else:
                break
        if begin < value_end and not self._is_nothing(text[begin:value_end], is_quoted=True):
            yield begin, value_end

    def _list(self, begin: int, line_end: int) -> Iterator[tuple[int, int]]:
        text, first, last, at = self.text, -1, -1, begin
        while quote := QUOTE.match(text, at, line_end):
            content = quote.end()
            last = end_of_quoted(text, content, Open(len(quote[1]), quote[2]), line_end)
            first = content if first < 0 else first
            following = _QUOTED_NEXT.match(text, min(line_end, last + len(quote[1]) + 1), line_end)
            if following is None:
                break
            at = following.end()
        if not self._is_nothing(text[first:last], is_quoted=True):
            yield first, last

    def _end_of_word(self, begin: int, line_end: int) -> int:  # noqa: C901, PLR0911 - a branch for each separator
        """The end of a value without quotes: a blank, or what separates it from another field."""
        text, at = self.text, begin
        around = self._open(begin)
        while stop := _STOP.search(text, at, line_end):
            place, byte = stop.start(), text[stop.start()]
            at = place + 1
            if byte in b" \t\r\n\f\v":
                return place
            if byte in b"\"'`\\":
                quote = QUOTE.match(text, place, line_end)
                if quote:
                    if any(each.is_closed_by(len(quote[1]), quote[2]) for each in around):
                        return place
                    at = quote.end()
                    if text[place - 1 : place] in (b"=", b":") and place > begin:  # `psk="a b"` within a value
                        closed = end_of_quoted(text, at, Open(len(quote[1]), quote[2]), line_end)
                        at = closed + len(quote[0]) if closed < line_end else at
                elif _LINE_ESCAPE.match(text, place, line_end) or text.startswith(b"\\u0026", place):
                    return place
            elif byte in b",;|&":
                sign = _AMPERSAND.match(text, place)
                behind = sign.end() if sign else place + 1
                if behind >= line_end or text[behind] in b" \t\r\"'" or _FIELD.match(text, behind, line_end):
                    return place
                at = behind
            elif byte in b"<":
                if text[place + 1 : place + 2] == b"/" or text[place + 1 : place + 3].lower() == b"br":
                    return place
            elif self._closes(place, begin):
                return place
        return line_end

    def _closes(self, place: int, begin: int) -> bool:
        """Whether the bracket at `place` closes one that is before the value."""
        bracket, opening = self.text[place : place + 1], _CLOSERS.get(self.text[place])
        if opening is None:
            return False
        first = max(self.line_begin, begin - 4 * MAX_CONTEXT_BYTES)
        if around := self._open(begin):  # brackets before the quote are closed after it
            first = max(first, self.text.rfind(around[-1].mark, first, begin))
        before = self.text[first:begin]
        inside = self.text[begin:place]
        return before.count(opening) + inside.count(opening) > before.count(bracket) + inside.count(bracket)

    def _extended(self, begin: int, end: int, line_end: int, found: _Found) -> int:
        """The end of a value that may have blanks: in a connection string, and alone on its line."""
        text = self.text
        if end >= line_end or text[end] not in b" \t":
            return end
        if self._open(begin):
            line_end = end_of_quoted(text, end, self._open(begin)[-1], min(line_end, end + MAX_CONTEXT_BYTES))
        semicolon = text.find(b";", end, min(line_end, end + MAX_LIST_BYTES))
        is_in_list = b";" in text[max(self.line_begin, self.start - MAX_LIST_BYTES) : self.start]
        if (
            semicolon >= 0
            and _PAIR_AFTER_SEMICOLON.match(text, semicolon, line_end)
            and b"=" not in text[end:semicolon]
        ):
            return semicolon
        if is_in_list and semicolon >= 0 and b"=" not in text[end:semicolon]:
            return semicolon
        prefix = _LINE_START.match(text, self.line_begin, self.start)
        if prefix and prefix.end() == self.start and not found.is_argument and not self._open(begin):
            rest = text[end:line_end]
            if not _LATER_FIELD.search(rest) and not (found.is_prose and self._is_prose(text[begin:end])):
                comment = rest.find(b" #")
                return end + comment if comment >= 0 else line_end - (len(rest) - len(rest.rstrip()))
        return end

    # -- headers of HTTP, elements of XML -----------------------------------------------------------------------

    def _header(self, begin: int) -> Iterator[tuple[int, int]]:
        text, line_end = self.text, self.line_end
        while text[begin : begin + 1] in (b"[", b"(", b" ", b"{") and begin < line_end:
            begin += 1
        if wrapped := _WRAPPED.match(text, begin, line_end):
            begin = wrapped.end()
        around = self._open(begin)
        quote = QUOTE.match(text, begin, line_end)
        if quote is None:
            yield from self._cookie(begin, around) if self.rule.value is ValueKind.COOKIE else self._credentials(begin)
            return
        if any(each.is_closed_by(len(quote[1]), quote[2]) for each in around):
            return
        end = end_of_quoted(text, quote.end(), Open(len(quote[1]), quote[2]), line_end)
        scheme = _HEADER_SCHEME.match(text, quote.end(), end) if self.rule.value is ValueKind.HEADER else None
        begin = scheme.end() if scheme else quote.end()
        if not self._is_nothing(text[begin:end], is_quoted=True):
            yield begin, end

    def _cookie(self, begin: int, around: list[Open]) -> Iterator[tuple[int, int]]:
        """All cookies of a header without quotes, to the end of what is around it, or of the line."""
        text = self.text
        limit = min(self.line_end, begin + MAX_HEADER_BYTES)
        if text.find(b"=", begin, min(limit, begin + MAX_CONTEXT_BYTES)) < 0:
            return
        end = end_of_quoted(text, begin, around[-1], limit) if around else limit
        if line := _LINE_END.search(text, begin, end):
            end = line.start()
        if not around and (close := self._header_end(begin, end)):
            end = close
        end = begin + len(text[begin:end].rstrip())
        if end > begin:
            yield begin, end if end < begin + MAX_HEADER_BYTES else self.line_end

    def _credentials(self, begin: int) -> Iterator[tuple[int, int]]:
        """The credentials of a header without quotes, after their scheme."""
        text, line_end = self.text, self.line_end
        scheme = _HEADER_SCHEME.match(text, begin, line_end)
        value = scheme.end() if scheme else begin
        parameters = _PARAMETERS.match(text, value, line_end)
        end = parameters.end() if parameters else self._end_of_word(value, line_end)
        is_prose = scheme is None and self._is_prose(text[value:end])
        if not is_prose and not self._is_nothing(text[value:end], is_quoted=False):
            yield value, end

    def _header_end(self, begin: int, end: int) -> int:
        """The end of a cookie in a list of headers that is printed on one line."""
        place = self.text.find(b"]", begin, end)
        return place if place >= 0 and self.text.rfind(b"[", self.line_begin, begin) >= 0 else 0

    def _element(self, begin: int) -> Iterator[tuple[int, int]]:
        text = self.text
        limit = min(len(text), begin + MAX_TEXT_BYTES)
        end = text.find(b"<", begin, min(limit, self._line_end(begin)))
        if text[begin - 9 : begin] == b"<![CDATA[":
            end = text.find(b"]]>", begin, limit)
        elif not (end >= 0 and text.startswith(b"</", end)):
            closing = re.compile(
                rb"</[\w.-]{0,32}:?" + re.escape(text[self.start : self.end]) + rb">|</string>|</property>",
                re.IGNORECASE,
            )
            closed = closing.search(text, begin, min(limit, self._line_end(begin)))
            end = closed.start() if closed and not re.search(rb"<[a-zA-Z]", text[begin : closed.start()]) else -1
        value = text[begin : max(begin, end)]
        if value.strip() and not self._is_nothing(value.strip(), is_quoted=True):
            yield begin, end

    # -- what is no secret --------------------------------------------------------------------------------------

    def _checked(self, begin: int, end: int, found: _Found) -> Iterator[tuple[int, int]]:
        value = self.text[begin:end]
        if not value or self._is_nothing(value, is_quoted=False) or (found.is_prose and self._is_prose(value)):
            return
        if value in (b"{", b"[", b"(", b"|", b">", b"<") or (value[:1] in b"{<" and not value[1:2].isalnum()):
            return
        if not _TEXT.search(value) and len(value) < _PIN_DIGITS:
            return
        yield begin, end

    def _is_prose(self, value: bytes) -> bool:
        word = value.split(None, 1)[0].rstrip(b".,;:!)").lower() if value.split() else b""
        return word in _PROSE_WORDS

    def _is_nothing(self, value: bytes, *, is_quoted: bool) -> bool:  # noqa: PLR0911 - a return for each kind
        if not value.strip() or _NOTHING.fullmatch(value.rstrip(b",;.")):
            return True
        kind = self.rule.value
        digits = value.translate(None, b" -_")
        if self.is_plural and digits.isdigit():
            return True
        if value[:1] == b"/" and self.text[self.start : self.end] in (b"PWD", b"OLDPWD"):
            return True
        if kind is ValueKind.ANY:
            return False
        if kind is ValueKind.WORD:
            if value.isdigit() and not is_quoted:
                line = self.text[self.line_begin : self.line_end].lower()
                is_count = any(word in line for word in (b"fail", b"skip", b"error=", b"warn"))
                return len(value) <= _SMALL_NUMBER_DIGITS or (is_count and self.rule.rule != "token-name")
            return False
        if kind is ValueKind.DIGITS:
            return len(re.sub(rb"[^0-9]", b"", value)) < _PIN_DIGITS and not (is_quoted and _looks_random(value))
        if kind is ValueKind.RANDOM:
            return not _looks_random(value)
        return False


def _looks_random(value: bytes) -> bool:
    """Letters with digits or signs, or in mixed case, long enough; no word, number, path or time."""
    if len(value) < _RANDOM_BYTES or value.isdigit():
        return False
    letters = re.sub(rb"[^A-Za-z]", b"", value)
    has_digit = any(0x30 <= byte <= 0x39 for byte in value)  # noqa: PLR2004
    has_sign = any(byte in b"!@#$%^&*+=~?/" for byte in value[1:])
    is_mixed = letters[1:].lower() != letters[1:] and letters.upper() != letters
    return bool(letters) and (has_digit or is_mixed or has_sign or len(value) >= 2 * _LONG_BYTES)


def _looks_said(word: bytes) -> bool:
    """Letters and digits that are no number of something, no address and no version."""
    is_word_and_number = re.fullmatch(rb"[A-Za-z]+[-_.#][0-9.]+|v?[0-9][0-9.]*[a-z]{0,3}|[0-9-]+[TZ].*", word)
    return is_word_and_number is None and _looks_random(word) and any(0x30 <= byte <= 0x39 for byte in word)  # noqa: PLR2004


def _escaped(word: str) -> str:
    if word.isascii():
        return word
    return "".join(
        character if character.isascii() else "".join(f"\\x{byte:02x}" for byte in character.encode())
        for character in word
    )


def value_at(text: bytes, quotes: LineQuotes, begin: int, rule: str, quote: Open | None = None) -> Iterator[Hit]:
    """The value that begins at `begin`, as of an argument; `quote`: it is within this one, which is before it."""
    name = SecretName(rule, ValueKind.ANY, may_be_glued=False)
    scan = _Scan(text, quotes, begin, begin, name, is_plural=False, dashes=True)
    for first, last in scan.argument(begin, quote):
        yield Hit(first, last, rule)
