"""Pydantic's version 1 interface: the package is version 1 in Debian 12; in Debian 13 it is part of version 2 as
pydantic.v1."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel, Extra, Field, ValidationError, create_model, root_validator
    from pydantic.error_wrappers import ErrorWrapper
else:
    try:
        _base = importlib.import_module("pydantic.v1")
        _errors = importlib.import_module("pydantic.v1.error_wrappers")
    except ImportError:
        _base = importlib.import_module("pydantic")
        _errors = importlib.import_module("pydantic.error_wrappers")
    BaseModel, Extra, Field, ValidationError = _base.BaseModel, _base.Extra, _base.Field, _base.ValidationError
    create_model, root_validator = _base.create_model, _base.root_validator
    ErrorWrapper = _errors.ErrorWrapper

__all__ = ["BaseModel", "ErrorWrapper", "Extra", "Field", "ValidationError", "create_model", "root_validator"]
