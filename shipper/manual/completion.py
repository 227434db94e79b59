"""Writes completion scripts for bash, zsh and fish from the pages of all commands.

A script knows commands, options and fixed values itself. It runs `fshipper completion --list` for hosts and files of
an archive and for contexts.
"""

from collections.abc import Iterable, Mapping, Sequence

from shipper.help.description import Option, Page, Values

Pages = Mapping[tuple[str, ...], Page]

HELPS = {"--help": "Show examples and the usual options", "--help-all": "Show all options"}

BASH = """\
# Completion of fshipper for bash, written by `fshipper completion bash`.
declare -gA _fshipper_options=(
{options})
declare -gA _fshipper_commands=(
{commands})
# By command and option: the values, or what they are.
declare -gA _fshipper_values=(
{values})
# By command: what each argument is; the last one repeats.
declare -gA _fshipper_arguments=(
{arguments})

_fshipper_list() {{ # what of the archive or the contexts; the archive may be named on the line
	local index archive=()
	for ((index = 1; index < COMP_CWORD; index++)); do
		if [[ ${{COMP_WORDS[index]}} == --archive ]]; then
			archive=(--archive "${{COMP_WORDS[index + 1]/#\\~/$HOME}}")
		fi
	done
	"${{COMP_WORDS[0]/#\\~/$HOME}}" completion --list "$1" "${{archive[@]}}" 2>/dev/null
}}

_fshipper_offer() {{
	local found=() each
	case $1 in
	@file) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -f -- "$2") ;;
	@directory) compopt -o filenames 2>/dev/null; mapfile -t COMPREPLY < <(compgen -d -- "$2") ;;
	@host | @archived | @context)
		mapfile -t found < <(_fshipper_list "${{1#@}}")
		for each in "${{found[@]}}"; do
			[[ $each == "$2"* ]] && COMPREPLY+=("$(printf %q "$each")")
		done ;;
	@*) ;;
	*) mapfile -t COMPREPLY < <(compgen -W "$1" -- "$2") ;;
	esac
}}

_fshipper() {{
	local current=${{COMP_WORDS[COMP_CWORD]}} command=fshipper word index pending="" count=0 only_arguments=""
	COMPREPLY=()
	for ((index = 1; index < COMP_CWORD; index++)); do
		word=${{COMP_WORDS[index]}}
		if [[ -n $pending ]]; then
			[[ $word == = ]] || pending=""
		elif [[ $word == -- ]]; then
			only_arguments=1
		elif [[ -z $only_arguments && $word == -* ]]; then
			[[ -z ${{_fshipper_values[$command $word]+known}} ]] || pending=$word
		elif [[ -n ${{_fshipper_options[$command $word]+known}} ]]; then
			command="$command $word" count=0
		else
			count=$((count + 1))
		fi
	done
	if [[ -n $pending ]]; then
		[[ $current == = ]] && current=""
		_fshipper_offer "${{_fshipper_values[$command $pending]}}" "$current"
	elif [[ -z $only_arguments && $current == -* ]]; then
		_fshipper_offer "${{_fshipper_options[$command]}}" "$current"
	else
		mapfile -t COMPREPLY < <(compgen -W "${{_fshipper_commands[$command]}}" -- "$current")
		local kinds=(${{_fshipper_arguments[$command]}})
		((${{#COMPREPLY[@]}} || ! ${{#kinds[@]}})) && return
		((count < ${{#kinds[@]}})) || count=$((${{#kinds[@]}} - 1))
		_fshipper_offer "${{kinds[count]//,/ }}" "$current"
	fi
}}
complete -F _fshipper fshipper
"""

ZSH = """\
#compdef fshipper
# Completion of fshipper for zsh, written by `fshipper completion zsh`.
typeset -gA _fshipper_options _fshipper_commands _fshipper_values _fshipper_arguments
_fshipper_options=(
{options})
_fshipper_commands=(
{commands})
_fshipper_values=(
{values})
_fshipper_arguments=(
{arguments})

_fshipper_offer() {{
	local -a found archive
	local place=${{words[(i)--archive]}}
	case $1 in
	@file) _files ;;
	@directory) _files -/ ;;
	@host | @archived | @context)
		((place < CURRENT)) && archive=(--archive ${{(Q)words[place + 1]/#\\~/$HOME}})
		found=(${{(f)"$(${{(Q)words[1]/#\\~/$HOME}} completion --list ${{1#@}} $archive 2>/dev/null)"}})
		compadd -a found ;;
	@*) _message 'a value' ;;
	*) found=(${{=1}}); compadd -a found ;;
	esac
}}

_fshipper() {{
	local command=fshipper word pending="" only_arguments="" kinds
	local -i count=1 index
	local -a found
	for ((index = 2; index < CURRENT; index++)); do
		word=${{words[index]}}
		if [[ -n $pending ]]; then
			pending=""
		elif [[ $word == -- ]]; then
			only_arguments=1
		elif [[ -z $only_arguments && $word == -* ]]; then
			((${{+_fshipper_values[$command $word]}})) && pending=$word
		elif ((${{+_fshipper_options[$command $word]}})); then
			command="$command $word" count=1
		else
			((count++))
		fi
	done
	word=${{words[CURRENT]}}
	if [[ -z $pending && -z $only_arguments && $word == --*=* ]]; then
		pending=${{word%%=*}}
		compset -P '*='
	fi
	if [[ -n $pending ]]; then
		_fshipper_offer "${{_fshipper_values[$command $pending]}}"
	elif [[ -z $only_arguments && $word == -* ]]; then
		found=(${{(f)_fshipper_options[$command]}})
		_describe -o option found
	else
		found=(${{(f)_fshipper_commands[$command]}})
		((${{#found}})) && _describe command found
		found=(${{=_fshipper_arguments[$command]}})
		((${{#found}})) || return
		((count <= ${{#found}})) || count=${{#found}}
		_fshipper_offer "${{found[count]//,/ }}"
	fi
}}
if [[ ${{funcstack[1]-}} == _fshipper ]]; then _fshipper "$@"; else compdef _fshipper fshipper; fi
"""

FISH = """\
# Completion of fshipper for fish, written by `fshipper completion fish`.
set -g __fshipper_groups {groups}

function __fshipper_is # whether the command so far is the one that is named
    set -l words
    for word in (commandline -opc)[2..]
        string match -q -- '-*' $word; and continue
        if test (count $words) -eq 0
            set words $word
        else if test (count $words) -eq 1; and contains -- "$words[1] $word" $__fshipper_groups
            set -a words $word
        end
    end
    test "$words" = "$argv[1]"
end

function __fshipper_list # what of the archive or the contexts; the archive may be named on the line
    set -l line (commandline -opc)
    set -l archive
    if set -l place (contains -i -- --archive $line); and test $place -lt (count $line)
        set archive --archive $line[(math $place + 1)]
    end
    $line[1] completion --list $argv[1] $archive 2>/dev/null
end

complete -c fshipper -f
{lines}"""


def bash(pages: Pages) -> str:
    """The script for bash."""
    return BASH.format(
        options=_table({name: " ".join([*_names(page.options), *HELPS]) for name, page in _by_name(pages).items()}),
        commands=_table({name: " ".join(page.commands) for name, page in _by_name(pages).items()}),
        **_values_and_arguments(pages),
    )


def zsh(pages: Pages) -> str:
    """The script for zsh: options and commands have descriptions."""
    described = {
        name: "\n".join(
            [
                *(_described(each, option.help) for option in page.options for each in _all_names(option)),
                *(_described(each, text) for each, text in HELPS.items()),
            ]
        )
        for name, page in _by_name(pages).items()
    }
    commands = {
        name: "\n".join(_described(each, text) for each, text in page.commands.items())
        for name, page in _by_name(pages).items()
    }
    return ZSH.format(
        options=_table(described, "", " "), commands=_table(commands, "", " "), **_values_and_arguments(pages, "", " ")
    )


def fish(pages: Pages) -> str:
    """The script for fish: a line for each command, option and argument."""
    lines: list[str] = []
    groups = []
    for words, page in pages.items():
        name = " ".join(words[1:])
        here = f"complete -c fshipper -n {_fish_quoted(f'__fshipper_is {_fish_quoted(name)}')}"
        for command, text in page.commands.items():
            lines.append(f"{here} -a {command} -d {_fish_quoted(text)}")
            groups.append(f"{name} {command}".strip())
        for option in page.options:
            for each in _all_names(option):
                form = f"-l {each[2:]}" if each.startswith("--") else f"-s {each[1:]}"
                value = f" -r {_fish_values(option.values, option.choices)}" if option.shown else ""
                lines.append(f"{here} {form}{value} -d {_fish_quoted(option.help)}")
        lines += [f"{here} -l {each[2:]} -d {_fish_quoted(text)}" for each, text in HELPS.items()]
        lines += [f"{here} {_fish_values(each.values, each.choices)}" for each in page.arguments[-1:]]
    return FISH.format(
        groups=" ".join(_fish_quoted(each) for each in groups if " " in each), lines="\n".join(lines) + "\n"
    )


def _fish_values(values: Values, choices: Sequence[str]) -> str:
    if values is Values.CHOICE:
        return f"-f -a {_fish_quoted(' '.join(choices))}"
    if values is Values.FILE:
        return "-F"
    if values is Values.DIRECTORY:
        return "-f -a '(__fish_complete_directories)'"
    return "-f" if values is Values.TEXT else f"-f -a '(__fshipper_list {values.value})'"


def _fish_quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def _by_name(pages: Pages) -> Mapping[str, Page]:
    return {" ".join(words): page for words, page in pages.items()}


def _values_and_arguments(pages: Pages, before: str = "[", after: str = "]=") -> dict[str, str]:
    values = {
        f"{name} {each}": _kind(option.values, option.choices)
        for name, page in _by_name(pages).items()
        for option in page.options
        if option.shown
        for each in option.names
    }
    arguments = {
        name: " ".join(_kind(each.values, each.choices, ",") for each in page.arguments)
        for name, page in _by_name(pages).items()
    }
    return {"values": _table(values, before, after), "arguments": _table(arguments, before, after)}


def _kind(values: Values, choices: Sequence[str], separator: str = " ") -> str:
    """`@host`, or the fixed values themselves."""
    return separator.join(choices) if values is Values.CHOICE else f"@{values.value}"


def _table(rows: Mapping[str, str], before: str = "[", after: str = "]=") -> str:
    """The elements of an associative array; zsh takes a key and a value, bash an assignment."""
    return "".join(f"\t{before}{_quoted(key)}{after}{_quoted(text)}\n" for key, text in rows.items())


def _quoted(text: str) -> str:
    """`text` as one word of bash and zsh."""
    return "'" + text.replace("'", "'\\''") + "'"


def _described(name: str, text: str) -> str:
    """`name:text` as _describe of zsh takes it."""
    return f"{name}:{' '.join(text.split())}"


def _names(options: Iterable[Option]) -> list[str]:
    return [name for option in options for name in _all_names(option)]


def _all_names(option: Option) -> tuple[str, ...]:
    return (*option.names, option.negative) if option.negative else option.names


SCRIPTS = {"bash": bash, "zsh": zsh, "fish": fish}
