"""As much of JSON Schema as the schema of records uses; any other word is an error."""

from __future__ import annotations

import re

_TYPES = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "integer": int,
    "number": (int, float),
}
_LIMITS = {
    "minimum": lambda value, limit: value >= limit,
    "maximum": lambda value, limit: value <= limit,
    "exclusiveMinimum": lambda value, limit: value > limit,
    "exclusiveMaximum": lambda value, limit: value < limit,
}
_SILENT = {"$schema", "$id", "$defs", "title", "description", "then", "else"}


def is_valid(value, schema, whole=None):
    """Whether a JSON value is of a schema; `whole` is the one with the definitions."""
    whole = schema if whole is None else whole
    return all(
        _holds(word, value, schema, whole) for word in schema if word not in _SILENT
    )


def _holds(word, value, schema, whole):
    given = schema[word]
    if word == "$ref":
        return is_valid(value, whole["$defs"][given.removeprefix("#/$defs/")], whole)
    if word == "anyOf":
        return any(is_valid(value, one, whole) for one in given)
    if word == "if":
        branch = "then" if is_valid(value, given, whole) else "else"
        return is_valid(value, schema[branch], whole)
    if word == "const":
        return type(value) is type(given) and value == given
    if word == "enum":
        return value in given
    if word == "type":
        is_bool = isinstance(value, bool)
        return isinstance(value, _TYPES[given]) and is_bool == (given == "boolean")
    if word in _LIMITS:
        return _LIMITS[word](value, given)
    if word == "minLength":
        return len(value) >= given
    if word == "minItems":
        return len(value) >= given
    if word == "pattern":
        return re.search(given, value) is not None
    return _holds_of_parts(word, value, schema, whole)


def _holds_of_parts(word, value, schema, whole):
    given = schema[word]
    if word == "items":
        return all(is_valid(item, given, whole) for item in value)
    if word == "required":
        return set(given) <= set(value)
    if word == "properties":
        return all(
            is_valid(value[name], one, whole)
            for name, one in given.items()
            if name in value
        )
    if word == "additionalProperties":
        assert given is False
        return set(value) <= set(schema["properties"])
    raise ValueError(f"The schema has a word that is not read here: {word!r}.")
