"""A measurement is written down once: a second value for it is refused, and the first one stays."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.run.gauge_life import COLUMNS, gauge, life
from tidegauge.errors import TidegaugeError
from tidegauge.model.tick import Measurement
from tidegauge.store.store import Store
from tidegauge.testing import Script

if TYPE_CHECKING:
    from pathlib import Path


def test_a_second_value_is_refused_and_the_first_one_stays(tmp_path: Path) -> None:
    one = gauge(tmp_path, Script(COLUMNS, life()))
    list(one.run())
    with closing(sqlite3.connect(one.path)) as db:
        rows = db.execute("SELECT release, component, number, cell, bin, value FROM journal").fetchall()
    assert rows
    with Store(one.path, write=True) as store:
        for release, component, number, cell, bin_, value in rows:
            again = Measurement(release, component, number, cell, bin_, int(value) + 1, time=2**61)
            with pytest.raises((sqlite3.IntegrityError, TidegaugeError)), store.transaction():
                store.public.record([again], [])
    with closing(sqlite3.connect(one.path)) as db:
        assert (
            db.execute("SELECT release, component, number, cell, bin, value FROM journal").fetchall() == rows
        )
    assert one.verify().measurements == len(rows)
