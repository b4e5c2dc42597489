"""Constants of a committed expression that become part of a statement, and are no literals there.

An engine must not write anything else of a plan into its SQL: a plan that was forged could say anything.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING

from tidegauge.errors import StoreCorrupt
from tidegauge.model.expression import Constant

if TYPE_CHECKING:
    from tidegauge.model.expression import Expression


def word(form: re.Pattern[str], expression: Expression) -> str:
    """A constant of this form.  Raises StoreCorrupt for everything else."""
    if not (isinstance(expression, Constant) and form.fullmatch(str(expression.value))):
        raise StoreCorrupt("an expression of the plan is not as it was committed")
    return str(expression.value)


side = partial(word, re.compile("before|after"))
unit = partial(word, re.compile("[a-z]+"))
sql_type = partial(word, re.compile(r"[A-Z0-9]+(\(\d+(, \d+)?\))?"))
instant = partial(word, re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{6})?"))
spans = partial(word, re.compile(r"-?\d+ [a-z]+( -?\d+ [a-z]+)*"))
