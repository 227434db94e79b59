"""Rotations that people know, one row each: every line arrives once, the older generation before the younger one.

A row of `MODELLED` is a program for the driver of `test_model_of_a_file.py`, whose `World` checks each byte. `look` is
the next scan, or a kill and the next start. A row of `STAGED` is played by `staging.py`, which explains its words.
Regressions that need more than these steps are tests of their own: `test_rotation_regressions.py`.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from staging import PACKERS, Stage
from test_model_of_a_file import run

from producer.options import UNBOUNDED

CONFORMANCE = Path(__file__).resolve().parents[1] / "conformance.tsv"
MODELLED = {
    "it is rotated after it was read": "write 40, work, write 30, rotate, write 20, look",
    "it is rotated before it was read": "write 40, rotate, write 20, look",
    "it is rotated while it is half read": "write 300, write 300, read 10, rotate, write 20, look, read 10",
    "its name is free for a while": "write 40, work, write 30, rotate, look, work, write 20, look",
    "the old generation takes many reads": "write 300, write 300, rotate, write 20, look, read 10, read 10, read 10",
    "four generations come and go": "write 40, work, write 9, rotate, write 30, rotate, write 31, rotate, look",
    "it is rotated much faster than it is looked at": ", ".join([*["write 30, rotate"] * 30, "look", "work"] * 2),
    "generations come and go again": "write 40, work, pause 40, look, work, pause 41, look, work, pause 42, look",
    "it goes on after it was renamed": "write 40, work, rotate, write 20, look, write_late 30, look",
    "rotated files get a date": "write 40, work, rotate, write 30, look, redate 0, write 20, rotate, redate 1, look",
    "it has a second name": "write 40, link 1, look, work, write 30, rotate, write 20, look, link 2, rotate, look",
    "it is compressed immediately": "write 300, read 10, write 30, rotate_gz, write 20, look",
    "compressed generations come and go": "write 90, work, rotate_gz, write 80, rotate_gz, write 70, rotate_gz, look",
    "each generation is compressed": "write 90, work, write 9, rotate_gz, write 80, look, work, rotate_gz, look",
    "it is compressed a rotation later": "write 90, work, rotate, write 80, look, work, compress, rotate, look",
    "renamed and compressed in one step": "write 90, rotate, write 300, scan, read 5, compress, rotate, write 9, look",
    "acknowledgements are lost": "write 300, read 10, lose_session 40, rotate, write 30, look, read 2, lose_session 20",
    "the server loses its newest blocks": "write 300, work, rotate, write 30, look, work, lose_power 40, look",
}
STAGED = {
    # -- renamed ------------------------------------------------------------------------------------------------------
    "late lines to a renamed file": "write log old; follow; rotate log; write log new; ship; sit;"
    " add log.1 late; ship; sit; add log.1 later; ship => old new late later; sources 2",
    "late lines to a renamed file that was closed": "write log old; follow log; ship; rotate log;"
    " write log new; wait; add log.1 late; ship; mv log.1 log.2; wait; add log.2 later; restart; wait"
    " => old new late later; sources 2; ends ROTATED",
    "a line is written while the last block is on its way": "write log old; follow log; ship; rotate log;"
    " scan; later 60; scan; read; add log.1 late; take; ship; wait; open 0 => old late",
    "it comes back while its last block is on its way": "write log line; follow log; ship; mv log away; scan;"
    " later 60; scan; read; mv away log; scan; read; take; add log more => line more; sources 1",
    "it comes back after it was closed": "write log line; follow log; ship; mv log away; wait; open 0;"
    " add away more; stop; mv away log; start => line more; sources 1",
    "an unterminated line holds its successor for the wait": "write log torn-; follow; ship; rotate log;"
    " write log new; ship; seen => torn- new",
    "generations come and go between two scans": "write log 0; follow; ship | add log more; rotate log;"
    " write log 1; rotate log; write log 2; rotate log; write log 3 | => 0 more 1 2 3; sources 4",
    "one comes and goes and its name stays free": "write log a; follow log; ship; rotate log;"
    " write log b; rotate log => a b",
    "what is there before the first scan is not shipped": "write log older; rotate log; write log now;"
    " follow log; ship; rotate log; write log next => now next",
    "a late line hides no generation": "write log 0; follow log; ship; rotate log; write log 1;"
    " rotate log; write log 2; add log.2 late; age log.2 -5 => 0 late 1 2",
    "three rotations leave one open file": "write log 0; follow log; ship; rotate log; write log 1; ship;"
    " rotate log; write log 2; ship; rotate log; write log 3; ship; wait; open 1 => 0 1 2 3",
    "an empty source claims no file of another name": "touch first.log; follow *.log; ship; stop;"
    " mv first.log second.log; write second.log text; start => second.log: text",
    "400,000 lines are rotated in the middle": "write log line#400000; follow log block=262144; read 2000000;"
    " rotate log; write log new => line#400000 new",
    "rotated by a hard link": "write log a#500; follow log*; ship; ln log log.1; ship; rm log;"
    " write log new => a#500 new",
    "moved away, and the next one begins alike": "write log a#1000; follow log; ship; mv log old/app.log;"
    " write log a#1000 next; ship; add old/app.log late => a#1000 a#1000 next late",
    "touched": "write log line; follow; ship; age log 1000000; ship; touch log => line",
    **{
        f"renamed to {name} while its reader lags": f"write log a#5000; follow log*; read 10000;"
        f" mv log {name}; write log new; {'scan; read 10000; take; restart; ' * 3} => all: a#5000 new; sources 2"
        for name in ("log.1", "log-20261121", "log.old")
    },
    **{
        f"{text} rests, renamed twice, {options or 'open'}": f"write log older-; follow {options}; rotate log;"
        f" write log {text}; restart; rotate log; write log new => older- {text} new"
        for text in ("unterminated-", "line")
        for options in ("open_files=1", "open_files=2", "", "log* exclude=*.[0-9] open_files=1")
    },
    # -- deleted ------------------------------------------------------------------------------------------------------
    "deleted while half read": "write log a#1000 torn-; follow log; read 5000; rm log; wait; open 0"
    " => a#1000 torn-; ends DELETED",
    "deleted after it was read": "write log line; follow log; ship; rm log; open 1; wait; open 0 => line",
    "deleted while stopped": "write log acknowledged; follow log; ship; add log seen; scan; save; stop;"
    " rm log; start => acknowledged; lost 5; ends DELETED",
    "deleted while stopped, acknowledged": "write log line; follow log; ship; stop; rm log; start => line",
    "moved to another file system and back under another name": "write a.log line#100; follow *.log; ship;"
    " cp a.log old/x; rm a.log; ship; mv old/x b.log; ship; wait => all: line#100",
    # -- truncated ----------------------------------------------------------------------------------------------------
    **{
        f"truncated, then {text or 'nothing'}": f"write log old content; follow log; ship | rewrite log {text} |"
        f" => old content {text}; ends TRUNCATED"
        for text in ("", "new", "other content", "regrown_beyond_the_offset*100")
    },
    "rewritten between the scan and the read": "write log old; follow log; ship; add log more; scan;"
    " rewrite log new*5; read; ship; ship => old new*5; lost 5",
    "truncated with unread bytes": "write log read; follow log; ship; add log never; scan; save |"
    " rewrite log new | => read new; lost 6",
    "truncated before anything is read": "write log never; follow log | rewrite log new | => new; lost 6",
    "it cuts off its own torn line": "write log whole torn-; follow log; ship; cut log 6; ship;"
    " add log next => whole next; sources 1",
    "half a line is not glued": "write log whole half-; follow log; ship; rewrite log new => whole new; lost 4",
    "two truncations before an acknowledgement and a kill": "write log first; follow log;"
    " rewrite log second; scan; read; rewrite log the_third; scan; read; restart => the_third; lost 13",
    "20 truncations with scans between": "write log first; follow log; ship;"
    f" {''.join(f'cut log 0; add log {n}_after; ship; ' for n in range(20))}"
    f" => first {' '.join(f'{n}_after' for n in range(20))}",
    "20 truncations between two scans": "write log first; follow log; ship;"
    f" {''.join(f'cut log 0; add log {n}; ' for n in range(20))} => first 19",
    # -- copied and truncated -----------------------------------------------------------------------------------------
    "copytruncate, three rounds": "write log begin; follow; add log a#200; ship; copytruncate log; ship; wait;"
    " add log b#200; ship; copytruncate log; ship; wait; add log c#200; ship; copytruncate log; ship"
    " => all: begin a#200 b#200 c#200",
    "copytruncate of what is shipped": "write log old*100; follow; ship | copytruncate log; add log new |"
    " => all: old*100 new",
    "a scan between copy and truncation": "write log a#1000; follow log*; ship; cp log log.1;"
    " cut log.1 3000; ship; cp log log.1; ship; rewrite log new => a#1000 new",
    "copytruncate of what is half read": "write log old#500; half | add log late; copytruncate log;"
    " add log new | => old#500 late new; sources 2; ends TRUNCATED",
    "the copy is compressed immediately": "write log old#500; half | copytruncate log; gz log.1;"
    " add log new | => old#500 new",
    "a copy of what was never read": "write log old#500; follow; copytruncate log; add log new => old#500 new",
    "lines that no scan saw are in the copy": "write log shipped; follow log; ship; add log never_seen;"
    " copytruncate log; add log new => shipped never_seen new",
    "two copies between two scans": "write log 1; follow log*; ship; add log rest; copytruncate log;"
    " add log 2; copytruncate log; add log 3 => 1 rest 2 3",
    "new content waits for the rest in many reads": "write log old#500; half; copytruncate log; add log new;"
    " scan; drip 1500; seen old#500 new => old#500 new",
    "an unterminated last line of the copy": "write log whole half-; follow log; ship; copytruncate log;"
    " add log new; ship; ship => whole half- new; sources 2",
    **{
        f"kills within the rest of a copy {packing}": f"write log old#500; half; copytruncate log; {packing};"
        f" add log new; {'scan; read 1; take; restart; ' * 30} => old#500 new; sources 2"
        for packing in ("", "gz log.1")
    },
    "bytes that are not in the rest": "write log old#500; half; copytruncate log; cut log.1 5390;"
    " add log new => old#490 new; lost 110",
    "a rest that vanishes is found where it was compressed": "write log old#500; follow log block=1024; half;"
    " copytruncate log; add log new; scan; read 1500; cp log.1 log.2; gz log.2; write log.1 over => old#500 new",
    "a copy that is shorter than what was shipped": "write log a#500; follow log* block=1024; ship;"
    " cp log copy; add log between; ship; mv copy log.1; cut log 0; add log new"
    " => all: a#500 between new",
    "a file that only begins like the original": "write log banner a#500; follow log*; ship;"
    " write log.1 banner b#20; ship; add log.1 more => banner a#500; log.1: banner b#20 more",
    **{
        f"only the copy has it, {hint or 'no hint'}": f"touch log; follow; add log unseen; copytruncate log;"
        f" add log seen; {hint}; ship => all: unseen seen"
        for hint in ("", "hint log; read")
    },
    **{
        f"only the copy has it, and the file is empty, {hint or 'no hint'}": "touch log; age log 20; follow;"
        f" add log unseen; copytruncate log; age log.1 10; {hint}; ship; add log seen; ship"
        " => all: unseen seen"
        for hint in ("", "hint log")
    },
    **{
        f"a copy is seen before its first byte, {hint or 'no hint'}": "add log one; follow log*; ship;"
        f" touch log.1; ship; cp log log.1; {hint}; write log; add log two; ship => one two"
        for hint in ("", "hint log.1; read")
    },
    # -- copied to any name -------------------------------------------------------------------------------------------
    **{
        f"copied to {name}, {first}, {seen or 'not seen between'}": "write log unique_line#100;"
        f" follow * old/* block=1024; {first} | cp log {name}; {seen}; cut log 0; add log after | wait;"
        " restart; wait => unique_line#100 after"
        for name in ("app-20261128.log", "backup.log", "0.log", "old/x.log", "log.1", "log~copy.log")
        for first in ("ship", "scan; read 1; take")
        for seen in ("", "scan")
    },
    **{
        f"two programs write {text}": f"write one.log {text}; follow *.log; ship; write other.log {text}; wait;"
        f" add other.log more; add one.log else => one.log: {text} else; other.log: {text} more"
        for text in ("started", "unique_line#100")
    },
    **{
        f"{text} in two directories, the first {how or 'stays'}": f"write web1/messages {text}; write web2/x x;"
        f" follow */messages; ship; {how}; wait; write web2/messages {text}; age web2/messages -60"
        f" => web1/messages: {text}; web2/messages: {text}"
        for text in ("started", "unique_line#100")
        for how in ("", "cut web1/messages 0", "mv web1/messages web1/messages.1", "rm web1/messages")
    },
    **{
        f"{text} in two directories, the second {how}": f"write web1/messages {text}; write web2/messages {text};"
        f" follow */messages*; scan; save | {how}; add web1/messages more |"
        f" => web1/messages: {text} more; web2/messages: {text} {'after' if 'after' in how else ''}"
        for text in ("started", "unique_line#100")
        for how in (
            "cp web2/messages web2/messages.1; cut web2/messages 0; add web2/messages after",
            "mv web2/messages web2/messages.1",
            "mv web2/messages web2/messages.1; add web2/messages after",
        )
    },
    "an unseen rotation belongs to the file of its directory": "write web1/messages 1_began;"
    " write web2/messages 2_began; follow */messages*; ship; mv web1/messages web1/messages.1;"
    " write web1/messages unique_line#100; ship; mv web2/messages web2/messages.2;"
    " write web2/messages unique_line#100; mv web2/messages web2/messages.1;"
    " write web2/messages after => web1/messages: 1_began unique_line#100;"
    " web2/messages: 2_began unique_line#100 after",
    "a program that starts after the truncation with the same lines": "write one.log started; follow *.log; ship;"
    " cut one.log 0; wait; write other.log started; age other.log -60 => one.log: started; other.log: started",
    "appended to a copy": "write log unique_line#100; follow *.log; ship; cp log backup.log; cut log 0; wait;"
    " add backup.log to_the_copy => all: unique_line#100 to_the_copy",
    "a copy is renamed while stopped": "write log unique_line#100; follow *.log; ship; cp log backup.log;"
    " cut log 0; wait; stop; mv backup.log backup-2.log; start => unique_line#100",
    "what a kill took back is in the copy": "write log first#9; follow *; scan; read; add log unique_line#100;"
    " cp log log.copy; cut log 0; add log after; scan; restart => any: first#9 unique_line#100 after; lost 117",
    **{
        f"renamed to {name} while closed, {first or 'not read'}, {count} files open": "write one.log 1 text#100;"
        " write two.log 2 text#100; write app.txt 3 text#100; mkdir old;"
        f" follow * old/* open_files={count} block=1024; scan; {first}; add one.log more; mv app.txt {name}"
        " => app.txt: 3 text#100; one.log: 1 text#100 more; two.log: 2 text#100"
        for name in ("old/b.txt", "b.txt", "old/app.log.2", "app.txt.1")
        for first in ("", "read 2048; take")
        for count in (1, 2, 100)
    },
    # -- compressed ---------------------------------------------------------------------------------------------------
    **{
        f"half read, then compressed by {suffix}": f"write log old#500; half | add log late; rotgz log {suffix};"
        " write log new | => old#500 late new; sources 2"
        for suffix in PACKERS
    },
    **{
        f"missed generations, compressed by {suffix} {time}": "write log a#500; half; stop;"
        f" {''.join(f'rotgz log {suffix} {time}; write log {name}#500; ' for name in 'bcd')} start"
        " => a#500 b#500 c#500 d#500; sources 4"
        for suffix in PACKERS
        for time in ("", "now")
    },
    "an empty file was filled and compressed": "touch log; follow log; ship; stop; write log old;"
    " cp log log.1; gz log.1; write log new; start => old new",
    "a dated compressed generation, and other logs": "write log a; follow log; ship; stop; rm log; write x b;"
    " gz x log-20261120.gz; write x another; gz x app-2026.log.gz; write x copy; gz x log.bak.gz;"
    " write log c; start => a b c",
    "kills within a missed compressed generation": "write log a; follow log block=1024; ship; stop; rotgz log;"
    f" write log b#500; rotgz log; write log c#500; start; {'read 1; take; restart; ' * 30}"
    " => a b#500 c#500; sources 3",
    "compressed before the first scan": "write log older; rotgz log; write log now; follow log*; ship;"
    " rotgz log; write log next => now next",
    "equal heads are distinguished by later bytes": "write log banner a#500; half; stop; rotgz log;"
    " write log banner b#500; rotgz log; write log banner c#500; start"
    " => banner a#500 banner b#500 banner c#500; sources 3",
    "two identical generations": "write log started; follow log*; ship; ln log held; stop; rotgz log;"
    " write log started; rotgz log; write log started; start => started*3",
    "compressed while their descriptors rest": "write first.log f#500; write second.log s#500;"
    " follow *.log open_files=1 block=1024; read 3000; rotgz first.log; write first.log new; rotgz second.log;"
    " write second.log new => first.log: f#500 new; second.log: s#500 new",
    "compressed in place": "write catalina.log old#500; follow *.log block=1024; read 3000; take; stop;"
    " gz catalina.log; start => catalina.log: old#500",
    # -- replaced -----------------------------------------------------------------------------------------------------
    "replaced again and again": "write log a#1000; follow log; ship | replace log a#1000 e0 | ship;"
    " replace log a#1000 e0 e1; ship; replace log a#1000 e0 e1 e2; ship; add log more"
    " => a#1000 e0 e1 e2 more; sources 1",
    "a kill after a replacement was seen": "write log a#1000; follow log; ship; replace log a#1000 edit; scan;"
    " restart => a#1000 edit; sources 1",
    "replaced while half read": "write log a#1000; follow log; half | replace log a#1000 edit | => a#1000 edit",
    "unread lines that the new file lacks": "write log a#1000; follow log; ship; add log edited_away;"
    " replace log a#1000 else*9 => a#1000 edited_away a#1000 else*9",
    "the new file has less": "write log a#1000; follow log; ship | replace log a#999 | => a#1000 a#999",
    "another byte in the middle": "write log a#500 line a#500; follow log; ship |"
    " replace log a#500 LINE a#500 | => a#500 line a#500 a#500 LINE a#500",
    "replaced by other content": "write log one; follow log; ship | replace log other | => one other",
    **{
        f"generations begin alike {packing}": f"write log a#1000; follow log; ship | rotate log;"
        f" write log a#1000 next; {packing} | => a#1000 a#1000 next"
        for packing in ("", "gz log.1")
    },
    "deleted, and the same first lines again": "write log started*20; follow log; ship |"
    " replace log started*30 | => started*50",
    "replaced while not open": "write other.log other; write log a#1000; follow log other.log open_files=1; ship;"
    " add other.log more; ship; replace log a#1000 edit => a#1000 edit; other.log: other more",
    # -- where links lead ---------------------------------------------------------------------------------------------
    **{
        f"a link's file becomes {name}": "write pods/0.log a#1000; lead links/c.log pods/0.log; follow links/*.log;"
        f" half | {f'gz pods/0.log pods/{name}' if name.endswith('.gz') else f'mv pods/0.log pods/{name}'};"
        " write pods/0.log new | => links/c.log: a#1000 new"
        for name in ("0.log.20261121-101010", "0.log.1", "0.log.20261121-101010.gz")
    },
    "one comes and goes where a link leads": "write pods/0.log old; age pods/0.log 30; lead links/c.log pods/0.log;"
    " follow links/*.log; ship | mv pods/0.log pods/0.log.20261121-101010; write pods/0.log 0; age pods/0.log 20;"
    " mv pods/0.log pods/0.log.20261121-101011; write pods/0.log 1; age pods/0.log 10;"
    " mv pods/0.log pods/0.log.20261121-101012; write pods/0.log new | => links/c.log: old 0 1 new",
    "a release link leads elsewhere": "write 1/app.log a#1000; age 1/app.log 9; write 2/x x; lead current 1;"
    " follow current/app.log; half | rotate 1/app.log; write 1/app.log between; lead current 2;"
    " write current/app.log new | => current/app.log: a#1000 between new",
    "a link leads to the next file of its directory": "write pods/0.log a#1000; lead links/c.log pods/0.log;"
    " follow links/*.log; half; stop; mv pods/0.log pods/0.log.20261121-101010; write pods/1.log new;"
    " lead links/c.log pods/1.log; start => links/c.log: a#1000 new",
    "a link is exchanged": "write app-1 first; lead log app-1; follow log; ship; add app-1 last;"
    " write app-2 second; lead log app-2 => first last second",
    **{
        f"a link to the file of the day, {name}": f"write {name.format(21)} begin; lead log {name.format(21)}; follow;"
        f" ship | add {name.format(21)} end1; write {name.format(22)} begin; lead log {name.format(22)} | ship; wait;"
        f" add {name.format(22)} end2; write {name.format(23)} begin; lead log {name.format(23)}"
        " => all: begin end1 begin end2 begin"
        for name in ("log.202611{}", "app-202611{}.log")
    },
    "rotations in a directory that a link leads to": "write data/app.log old; age data/app.log 9; lead dir data;"
    " follow dir/app.log*; ship | rotate dir/app.log; write dir/app.log between; rotate dir/app.log;"
    " write dir/app.log new | => any: old between new",
    "copytruncate where a link leads": "write pods/0.log a#1000; lead links/c.log pods/0.log; follow links/*.log;"
    " ship | copytruncate pods/0.log; add pods/0.log new | => links/c.log: a#1000 new",
    "a watched copy where a link leads": "write pods/0.log a#1000; lead links/c.log pods/0.log;"
    " follow links/*.log pods/*.log.*; ship; cp pods/0.log pods/0.log.1 => links/c.log: a#1000",
    "a late line where a link leads": "write pods/0.log one; lead links/c.log pods/0.log; follow links/*.log; ship;"
    " mv pods/0.log pods/0.log.1; write pods/0.log two; ship; wait; add pods/0.log.1 late"
    " => links/c.log: one two late",
    "a link's file is opened again where it is": "write pods/0.log a#10; lead links/c.log pods/0.log;"
    " follow links/*.log other.log open_files=1; ship; add pods/0.log behind; mv pods/0.log pods/0.log.1;"
    " write pods/0.log new; write other.log other => links/c.log: a#10 behind new; other.log: other",
    "an empty file is known by its rotation": "touch pods/0.log; lead links/c.log pods/0.log; follow links/*.log;"
    " ship | add pods/0.log old; mv pods/0.log pods/0.log.1; write pods/0.log new | => links/c.log: old new",
    "a link leads to a new copy of its file": "write 1/app.log a#1000; lead current 1; follow current/app.log; ship |"
    " write 2/app.log a#1000 second; rm 1/app.log; lead current 2 | ship; mv 2/app.log 2/app.log.1;"
    " add 2/app.log.1 behind; restart => current/app.log: a#1000 second behind",
    # -- excluded -----------------------------------------------------------------------------------------------------
    **{
        f"excluded and named again, {first or 'not shipped'}": f"write log before; follow *.log; {first}; stop;"
        f" name *.log exclude=*app*; add log hidden; start; ship; add log more; ship; seen {'before' if first else ''};"
        f" stop; name *.log; start; ship; add log after => before hidden more after; sources 1;"
        f" lost {7 if first else 0}"
        for first in ("ship", "")
    },
    **{
        f"an empty file is not named: {names}": "write log one; touch empty.log; follow *.log; ship; stop;"
        f" name {names}; start; add empty.log two; add log three; ship; stop; name *.log; start; ship;"
        f" add empty.log four"
        " => one three; empty.log: two four"
        for names in ("*.log exclude=empty.log", "log")
    },
    **{
        f"a rotation of a named file is excluded by {names} {packing}": f"write log a#1000;"
        f" follow log* exclude={names};"
        f" half | rotate log; {packing}; write log new | => a#1000 new"
        for names in ("*.1", "*.gz,*.[0-9]*")
        for packing in ("", "gz log.1")
    },
    "another pattern names it under another name": "write log one; lead data .; follow log; ship; stop;"
    " name data/app.log;"
    " add log two; start => all: one two",
    "a second name that a rotation gave excludes nothing": "write log one; ln log log.1; follow log exclude=*.1 => one",
    "an excluded file is no rotation": "write log one; follow log exclude=*secret*,*.[0-9]; ship; stop; rotate log;"
    " write log two; rotate log; write log.1-secret secret; write log.2.secret secret; write log three; start"
    " => one two three",
    # -- padded with NULs ---------------------------------------------------------------------------------------------
    "NULs are content once data follows": "write log before NUL*5000; follow log; ship; seen before; add log after"
    " => before NUL*5000 after",
    "it begins with NULs": "write log NUL*5000; follow log; ship; add log data; ship; restart => NUL*5000 data;"
    " sources 1",
    **{
        f"{count} NULs at the end of a rotated file": f"write log one half- NUL*{count}; follow; ship; rotate log;"
        " write log new; wait => one half- new"
        for count in (2, 2097152)
    },
    "padded, it begins anew with its old size": "write log old*20 NUL*2097072; follow log; ship; cut log 0;"
    " cut log 2097152; fill log 0 new; ship; ship => old*20 new",
    # -- old when it is first seen ------------------------------------------------------------------------------------
    "of an old file only later lines arrive": "write log old; age log 691200; write young.log young;"
    " age young.log 518400; follow *.log ignore_older=604800; ship; add log new => new; young.log: young",
    "where an old file begins is durable": "write log old; age log 691200; follow log ignore_older=604800; stop;"
    " add log new; start => new",
    "a known file is shipped however old it is": "write log one; follow log ignore_older=604800; ship; stop;"
    " add log two;"
    " age log 691200; start => one two",
    **{
        f"a file appears later, {seconds} s old": f"follow *.log ignore_older=604800; write log one; age log {seconds};"
        f" ship; add log two => {'two' if seconds else 'one two'}"
        for seconds in (0, 691200)
    },
    "without a limit the oldest file is read": "write log one; age log 864000000; follow log => one",
    # -- found --------------------------------------------------------------------------------------------------------
    "each file of a glob in its order": "write a.log a#500; write b.log b#500; write c.txt c#500; follow *.log"
    " => a.log: a#500; b.log: b#500",
    "excluded by path and by the last part": "write a.log line; write debug.log line; write deep/x.gz line;"
    " follow **/* exclude=*.gz,debug.* => a.log: line",
    "a file has two names and two patterns": "write log one; ln log link.log; follow *.log log* log; ship; add log two"
    " => all: one two",
    "a hard link that sorts before the name": "write b.log held-; follow *.log; ln b.log a.log; ship; wait;"
    " add b.log back => b.log: held- back",
    "start_at_end is for the first scan only": "write old.log before; follow *.log start_at_end=1; add old.log after;"
    " write new.log first => old.log: after; new.log: first",
    "an empty file sends nothing": "touch log; follow log; ship; restart; read; seen; add log first => first;"
    " sources 1",
    "a file of 2 MiB grows from its first byte": "touch log; follow log; add log x; ship; restart; add log x*300; ship;"
    " restart; add log x*5000; ship; restart; add log x*999999 => x*1005300; sources 1",
    "directories, FIFOs and dangling links are passed over": "mkdir d.log; mkfifo f.log; lead l.log nowhere;"
    " write a.log line; follow *.log => a.log: line",
    "links that lead back up below **": "write logs/deep/deeper/log one; write logs/log two; lead logs/loop1 logs;"
    " lead logs/loop2 logs; follow logs/**/log => logs/deep/deeper/log: one; logs/log: two",
    "a directory of a wildcard appears later and again": "follow pods/*/log; write pods/one/log first; ship;"
    " rm pods/one/log; rmdir pods/one; wait; write pods/one/log second; ship; rm pods/one/log; rmdir pods/one; wait;"
    " open 0 => pods/one/log: first second",
    "one name that cannot be scanned keeps no file open": "lead loop.log loop.log; write log line; follow *.log; ship;"
    " rm log; ship; wait; open 0 => line",
    **{
        f"rotated while it was excluded, then named again {packing}": "write log a#1000; follow *.log; half; stop;"
        f" name *.log exclude=*app*; start; ship; rotate log; {packing}; write log new; ship; stop; name *.log; start"
        " => a#1000 new; lost 4905"
        for packing in ("", "gz log.1")
    },
    # -- last lines without a newline ---------------------------------------------------------------------------------
    "the wait begins anew when the line grows": "write log a-; follow log; ship; later 3; poll; add log b-; later 3;"
    " poll;"
    " ship; seen; add log b-; later 3; poll; ship; seen; later 5; poll; seen a- b- b- => a- b- b-",
    "a kill after half a line was shipped": "write log one hal-; follow log; ship; later 5; hint log; read; stop;"
    " add log f two; start => one hal- f two",
    **{
        f"{how} after half a line was shipped": f"write log one hal-; follow log; ship; later 5; poll; seen one hal-;"
        f" add log f,end-; {how} log; write log new => one hal- f,end- new"
        for how in ("rotate", "copytruncate")
    },
    # -- few descriptors ----------------------------------------------------------------------------------------------
    "two files and one descriptor": "write a.log a#2000; write b.log b#2000; follow *.log open_files=1; ship; open 2"
    " => a.log: a#2000; b.log: b#2000",
    "truncated while it rests": "write a.log a#40; write b.log b#40; write c.log c#40; follow *.log open_files=1; ship;"
    " write a.log new; write b.log new; write c.log new; ship => a.log: a#40 new; b.log: b#40 new; c.log: c#40 new",
    **{
        f"rotated while it rests, {pattern}": f"write appa.log a#40; write appb.log b#40;"
        f" follow {pattern} open_files=1; ship;"
        " add appa.log last; rotate appa.log; write appa.log new; add appb.log last; rotate appb.log;"
        " write appb.log new"
        " => appa.log: a#40 last new; appb.log: b#40 last new"
        for pattern in ("app*.log", "app*")
    },
}
EACH = ("app.log", "app.log*")


@pytest.fixture(autouse=True)
def checkpoint_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("producer.checkpoint.store._SYNC", "OFF")


def rows(scenarios: Mapping[str, Sequence[tuple]]) -> list:
    """Each scenario in each of its ways. One of them is quick, of the next scenario the next one; the rest is slow."""
    return [
        pytest.param(name, *way, marks=[pytest.mark.slow] if way != ways[number % len(ways)] else [])
        for number, (name, ways) in enumerate(scenarios.items())
        for way in ways
    ]


MODELLED_WAYS = list(itertools.product(["scan", "kill"], EACH, [UNBOUNDED, 1]))


@pytest.mark.parametrize(("scenario", "look", "pattern", "open_files"), rows(dict.fromkeys(MODELLED, MODELLED_WAYS)))
def test_every_line_of_every_generation_arrives_once_in_order(
    scenario: str, look: str, pattern: str, open_files: int
) -> None:
    steps = [step.replace("look", look).split() for step in MODELLED[scenario].split(", ")]
    world = run([(verb, int(number[0]) if number else 0) for verb, *number in steps], pattern, open_files)
    assert world.rotations
    assert set(world.host.archive.files.values()) == {str(world.path)}
    assert world.kills == (look == "kill") * MODELLED[scenario].count("look")


def staged_ways(text: str) -> list[tuple[str, bool]]:
    """The patterns of a scenario, and while the producer runs and while it is stopped if it has two bars."""
    names_files = re.search(r"follow [^;|]*[.*][^=; ]*", text) is not None
    return list(itertools.product(EACH[:1] if names_files else EACH, [False, True] if "|" in text else [False]))


def test_every_scenario_that_the_conformance_table_names_exists():
    named = re.findall(r"scenario: ([^;\n]+)", CONFORMANCE.read_text(encoding="utf-8"))
    assert len(named) > 20
    assert set(named) - set(STAGED) == set()


@pytest.mark.parametrize(
    ("scenario", "pattern", "is_stopped"), rows({name: staged_ways(text) for name, text in STAGED.items()})
)
def test_each_line_of_a_scenario_is_archived_once(
    scenario: str, pattern: str, is_stopped: bool, tmp_path: Path
) -> None:
    steps, _, wanted = STAGED[scenario].partition("=>")
    first, _, rest = steps.partition("|")
    turn, _, last = rest.partition("|")
    stage = Stage(tmp_path, pattern)
    stage.play(first)
    if is_stopped:
        stage.stop()
    stage.play(turn)
    if is_stopped:
        stage.start()
    stage.play(last)
    stage.check(wanted)
