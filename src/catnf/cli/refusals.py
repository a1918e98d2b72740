"""What is wrong with a command that cannot be read, in our own words: typer's depend on its version."""

from __future__ import annotations

import re
import sys
from typing import Any

from catnf.cli.numbers import typed_name
from catnf.configuration import nearest

_CHOICES = re.compile(r"(?P<value>'.*') is not one of (?P<choices>.+?)\.?$")
_KINDS = {"integer": "an integer", "float": "a number", "number": "a number"}


def sentence(error: Any, program: Any) -> str:
    """One sentence for an error of typer: what was typed, and what to type instead.

    Args:
        error: has `format_message` and, depending on its kind, `param`, `option_name` and others.
        program: with all its commands.
    """
    command, path = _typed_command(program)
    see_help = f"see {path} --help"
    message = " ".join(str(error.format_message()).split())
    if not message:  # the command's help was printed instead
        return ""
    param, kind = getattr(error, "param", None), type(error).__name__
    if kind == "MissingParameter" and param is not None:
        return f"{_name(param)} is missing{_meaning(param)}; {see_help}."
    if kind == "BadParameter" and param is not None:
        return _bad_value(error, param, see_help)
    if kind == "BadOptionUsage" and (needed := re.search(r"requires (an|\d+) arguments?", message)):
        several = "a value" if needed[1] == "an" else f"{needed[1]} values"
        named = [param for param in command.params if error.option_name in param.opts]
        return f"{error.option_name} needs {several}{_meaning(*named)}."
    if kind == "NoSuchOption":
        close = " or ".join(getattr(error, "possibilities", None) or ())
        return (
            f"There is no option {error.option_name}; {f'did you mean {close}?' if close else f'{see_help}.'}"
        )
    if unknown := re.match(r"No such command '(.*?)'", message):
        hint = nearest(unknown[1], getattr(command, "commands", ())).strip()
        return f"There is no command {unknown[1]!r}. {hint or f'{see_help[0].upper()}{see_help[1:]}.'}"
    if extra := re.match(r"Got unexpected extra arguments? ?(?:\(s\) )?\((.*)\)", message):
        return f"{extra[1]} is more than {path} takes; leave it out, or {see_help}."
    return f"{message.rstrip('.')}; {see_help}."


def _typed_command(program: Any) -> tuple[Any, str]:
    """The command that was typed, as far as there is one, and its name."""
    command, path = program, ["catnf"]
    for word in sys.argv[1:]:
        below = getattr(command, "commands", {}).get(word)
        if below is None:
            break
        command = below
        path.append(word)
    return command, " ".join(path)


def _bad_value(error: Any, param: Any, see_help: str) -> str:
    """What is wrong with the value of an option or an argument."""
    name, message = _name(param), str(error.message).removeprefix("Value error, ")
    if choice := _CHOICES.match(message):
        choices = re.findall(r"'([^']*)'", choice["choices"])
        return f"{name} is {choice['value']}; choose from {', '.join(choices)}."
    value = _value(error, message)
    kind = next((words for kind, words in _KINDS.items() if kind in message), None)
    if value is None or kind is None:
        return f"{name} cannot be taken ({message.rstrip('.')}); {see_help}."
    several = getattr(param, "nargs", 1)
    if several > 1:
        kinds = f"{several} {kind.split()[-1]}s"
        return f"{name} takes {kinds}, of which {value!r} is none{_meaning(param)}."
    return f"{name} is {value!r}; give {kind}."


def _value(error: Any, message: str) -> object | None:
    """What was typed, which newer releases tell beside their message and older ones in it."""
    try:
        return error.__cause__.errors()[0]["input"]  # type: ignore[no-any-return]
    except (AttributeError, LookupError, TypeError):
        quoted = re.match(r"'(.*)' is not", message)
        return quoted[1] if quoted else None


def _name(param: Any) -> str:
    """`--seed` of an option, `FILE` of an argument."""
    if param.opts and not param.opts[0].startswith("-"):
        return str(param.metavar or param.name).strip("[]").upper()
    return typed_name(param)


def _meaning(param: Any = None) -> str:
    """The help of an option, to end a sentence with."""
    text = str(getattr(param, "help", None) or "").rstrip(".")
    first = text[:1] if text[1:2].isupper() else text[:1].lower()  # SMILES stay in capitals
    return f": {first}{text[1:]}" if text else ""
