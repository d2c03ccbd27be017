"""The options of `create` and `update`: one for each setting of an entity, made from the table of settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer

from tandem.arguments import Words
from tandem.cli.shared.commands import made_by
from tandem.durations import duration_text, parse_duration_ms
from tandem.entity_settings import STATUSES, EntityStatus, Form, Setting, setting_of, settings_of
from tandem.management.client import EntityFields
from tandem.management.sizes import parse_size_bytes

__all__ = ["OPTION_WORDS", "with_settings"]

_TYPES: Final[dict[Form, Any]] = {
    Form.DURATION: str,
    Form.NUMBER: int,
    Form.BYTES: str,
    Form.FLAG: bool,
    Form.TEXT: str,
    Form.STATUS: EntityStatus,
    Form.ADDRESS: str,
    Form.NAMES: list[str],
}
_METAVARS: Final = {Form.DURATION: "TIME", Form.BYTES: "SIZE", Form.NAMES: "NAME"}


def with_settings(kind: str, *, is_update: bool = False) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of a kind of entity.

    Its parameter `fields` gets the settings that were given, by the names of the JSON API. An update has no option for
    settings that cannot change, nor for lists of names, which change one by one.
    """
    settings = {
        one.name: one for one in settings_of(kind) if not is_update or not (one.is_fixed or one.form is Form.NAMES)
    }

    def fields(**given: Any) -> EntityFields:
        return {name: _read(settings[name], value) for name, value in given.items() if value is not None}

    return made_by(fields, "fields", [_parameter(one, kind, is_update) for one in settings.values()])


def _parameter(setting: Setting, kind: str, is_update: bool) -> inspect.Parameter:
    # typer names the two options of a flag itself: --requires-session and --no-requires-session.
    names = () if setting.form is Form.FLAG else (setting.option_name,)
    metavar = _METAVARS.get(setting.form)
    if setting.form is Form.STATUS:
        metavar = "|".join(one.value for one in STATUSES[kind])
    option = typer.Option(
        *names,
        metavar=metavar,
        help=setting.help,
        case_sensitive=False,
        show_default=False if is_update else _default_text(setting),
    )
    kept: Any = _TYPES[setting.form]
    annotation = Annotated[kept | None, option]
    return inspect.Parameter(setting.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None, annotation=annotation)


def _default_text(setting: Setting) -> str | bool:
    """Return the default as the help shows it; False for none."""
    if setting.form is Form.DURATION:
        assert setting.default is None or isinstance(setting.default, int)
        return duration_text(setting.default)
    if setting.form is Form.FLAG:
        return "on" if setting.default else False
    return f"{setting.default:,}" if isinstance(setting.default, int) else False


def _option(field: str) -> str:
    setting = setting_of(field)
    return field if setting is None else setting.option_name


# Errors in the words of the command line: `--lock-duration is 10m`.
OPTION_WORDS: Final = Words(_option, duration_text)


def _read(setting: Setting, value: Any) -> object:
    if setting.form is Form.DURATION:
        return parse_duration_ms(value, setting.option_name)
    if setting.form is Form.BYTES:
        return parse_size_bytes(value, setting.option_name)
    return value.value if isinstance(value, EntityStatus) else value
