"""What the table formats of `loch calibrate --rows` share: rows, their checks, and why a row cannot run."""

from __future__ import annotations

from typing import Mapping, TypeVar

from loch.runner.compat import BaseModel, Extra, Field, ValidationError

__all__ = ["CannotRun", "Extra", "Field", "Row", "RowModel", "SMART_HARDWARE", "checked"]

SMART_HARDWARE = "connectx6-200g-ib"
Row = Mapping[str, str]
RowModel = BaseModel
Model = TypeVar("Model", bound=BaseModel)


class CannotRun(Exception):
    """The row describes no run of this simulator; the message says why, in one line."""


def checked(model: type[Model], row: Row) -> Model:
    """The row as `model`; CannotRun names the first column that is wrong."""
    given = {name: value.strip() for name, value in row.items() if value and value.strip()}
    try:
        return model(**given)
    except ValidationError as error:
        first = error.errors()[0]
        name = ".".join(str(part) for part in first["loc"])
        raise CannotRun(f"{name}: {first['msg']}" + (f", not '{given[name]}'" if name in given else "")) from None
