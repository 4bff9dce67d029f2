"""Scripts that complete the command line in bash, zsh and fish, from what can be completed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from shlex import quote
from typing import Final

from legato.cli._completion import ANY, Argument, Values, Verb

__all__ = ["SHELLS"]

_BASH: Final = """\
# Completion of legato in bash: source <(legato completion bash)
_legato_words() {
  mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -W "$1" -- "$cur")
}
_legato_files() {
  local end
  compopt -o filenames 2>/dev/null
  mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -d -- "$cur")
  for end in "$@"; do
    mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(
      compgen -f -X "!*$end" -- "$cur" | while IFS= read -r file; do [ -d "$file" ] || printf '%s\\n' "$file"; done
    )
  done
}
_legato() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} verb=${COMP_WORDS[1]}
  COMPREPLY=()
  if [ "$cur" = = ]; then
    cur=
  elif [ "$prev" = = ]; then
    prev=${COMP_WORDS[COMP_CWORD-2]}
  fi
  if [ "$COMP_CWORD" -eq 1 ]; then
    _legato_words @VERBS@
    return
  fi
  case "$verb $prev" in
@VALUES@
  esac
  case "$verb $cur" in
@FLAGS@
@PLACES@
  esac
}
complete -F _legato legato
"""

_ZSH: Final = """\
#compdef legato
# Completion of legato in zsh: source <(legato completion zsh), or this text as _legato in a folder of $fpath
_legato() {
  if (( CURRENT == 2 )); then
    local -a verbs=(
@VERBS@
    )
    _describe verb verbs
    return
  fi
  local verb=$words[2]
  shift words
  (( CURRENT-- ))
  case $verb in
@CASES@
  esac
}
if [ "$funcstack[1]" = _legato ]; then
  _legato "$@"
else
  compdef _legato legato
fi
"""

_FISH: Final = """\
# Completion of legato in fish: legato completion fish | source
function _legato_files
  set -l typed (commandline -ct | string replace -r -- '^--[a-z-]+=' '')
  for end in $argv
    for file in $typed*$end
      test -d $file; or echo $file
    end
  end
  for folder in $typed*/
    echo $folder
  end
end
complete -c legato -f"""


def _filled(text: str, parts: Mapping[str, str]) -> str:
    for name, part in parts.items():
        text = text.replace(f"@{name}@", part)
    return text


# ---------------------------------------------------------------------------------------------------- bash


def _bash(verbs: Sequence[Verb]) -> str:
    words = " ".join([*(verb.name for verb in verbs), "--help", "--version"])
    values = (line for verb in verbs for line in _bash_values(verb))
    flags = (f'    "{v.name} -"*) _legato_words {quote(" ".join(_names(v)))} ;;' for v in verbs)
    places = (line for verb in verbs for line in _bash_places(verb))
    parts = {"VERBS": quote(words), "VALUES": "\n".join(values), "FLAGS": "\n".join(flags), "PLACES": "\n".join(places)}
    return _filled(_BASH, parts)


def _names(verb: Verb) -> list[str]:
    return [name for flag in verb.flags for name in flag.names]


def _bash_values(verb: Verb) -> Iterator[str]:
    for flag in verb.flags:
        if flag.values is not None:
            cases = " | ".join(f'"{verb.name} {name}"' for name in flag.names)
            yield f"    {cases}) {_bash_of(flag.values)}return ;;"


def _bash_places(verb: Verb) -> Iterator[str]:
    for place in verb.places[:1]:
        if place.values is not None:
            yield f'    "{verb.name} "*) {_bash_of(place.values)};;'


def _bash_of(values: Values) -> str:
    """Statements that complete one value; empty where the user makes it up."""
    found = [f"_legato_words {quote(' '.join(values.words))}"] if values.words else []
    if values.is_folder or values.ends:
        found.append(" ".join(["_legato_files", *(quote("" if end in ANY else f".{end}") for end in values.ends)]))
    return "".join(f"{statement}; " for statement in found)


# ---------------------------------------------------------------------------------------------------- zsh


def _zsh(verbs: Sequence[Verb]) -> str:
    told = (f"      {quote(f'{verb.name}:{verb.what}')}" for verb in verbs)
    return _filled(_ZSH, {"VERBS": "\n".join(told), "CASES": "\n".join(map(_zsh_case, verbs))})


def _zsh_case(verb: Verb) -> str:
    specs = [quote(spec) for argument in verb.arguments for spec in _zsh_specs(argument)]
    return "\n".join(
        [f"    {verb.name})", "      _arguments \\", *(f"        {spec} \\" for spec in specs), "      ;;"]
    )


def _zsh_specs(argument: Argument) -> Iterator[str]:
    """The specifications of `_arguments` for one argument: one for each of its names."""
    if not argument.names:
        yield f"1:{_zsh_text(argument.what)}:{_zsh_action(argument.values or Values())}"
        return
    what = f"[{_zsh_text(argument.what)}]"
    value = "" if argument.values is None else f": :{_zsh_action(argument.values)}"
    others = "" if argument.is_repeated else f"({' '.join(argument.names)})"
    for name in argument.names:
        is_long = name.startswith("--") and argument.values is not None
        yield f"{'*' if argument.is_repeated else others}{name}{'=' if is_long else ''}{what}{value}"


def _zsh_text(text: str) -> str:
    """Help as it stands inside of a specification."""
    return "".join(f"\\{c}" if c in "[]:\\" else c for c in text)


def _zsh_action(values: Values) -> str:
    if values.is_folder:
        return "_files -/"
    if not values.ends:
        return f"({' '.join(values.words)})" if values.words else " "
    files = "_files" if values.ends == ANY else f'_files -g "*.({"|".join(values.ends)})(-.)"'
    if not values.words:
        return files
    files = files.replace('"', '\\"')  # inside of quotes
    return f' _alternative "words\\:word\\:({" ".join(values.words)})" "files\\:file\\:{files}"'


# ---------------------------------------------------------------------------------------------------- fish


def _fish(verbs: Sequence[Verb]) -> str:
    lines = [_FISH]
    for verb in verbs:
        lines.append(f"complete -c legato -n __fish_use_subcommand -a {verb.name} -d {_fish_quote(verb.what)}")
    for verb in verbs:
        lines += _fish_lines(verb)
    return "\n".join(lines) + "\n"


def _fish_lines(verb: Verb) -> Iterator[str]:
    when = f"complete -c legato -n '__fish_seen_subcommand_from {verb.name}'"
    for flag in verb.flags:
        names = " ".join(f"-l {n[2:]}" if n.startswith("--") else f"-s {n[1:]}" for n in flag.names)
        value = "" if flag.values is None else f" -r{_fish_of(flag.values)}"
        yield f"{when} {names}{value} -d {_fish_quote(flag.what)}"
    for place in verb.places[:1]:
        if place.values is not None:
            yield f"{when}{_fish_of(place.values)}"


def _fish_of(values: Values) -> str:
    """The options of `complete` for one value."""
    found = [*values.words]
    if values.is_folder:
        found.append("(__fish_complete_directories)")
    elif values.ends == ANY:
        return " -F"
    elif values.ends:
        found.append(f"(_legato_files {' '.join(f'.{end}' for end in values.ends)})")
    return f" -f -a {_fish_quote(' '.join(found))}" if found else " -f"


def _fish_quote(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


SHELLS: Final[Mapping[str, Callable[[Sequence[Verb]], str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
