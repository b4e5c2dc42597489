"""What counts as a change of a committed declaration, and what does not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import Discriminator, Field, Tag

from tests.stores.keep import opened, unpack
from tests.stores.worlds import DAYS_BEFORE
from tidegauge.errors import PlanChanged
from tidegauge.model.declared import Table
from tidegauge.plan.spec import declaration
from tidegauge.plan.spec.change import changed
from tidegauge.plan.spec.declaration import DerivedSpec, GaugeSpec, ReleaseSpec

if TYPE_CHECKING:
    from pathlib import Path

DECLARED: dict[str, Any] = {
    "source": {"kind": "files", "path": "x.csv", "table": "t", "entry": "id", "time": "at"},
    "constraint": {"at_most": 3},
    "budget": {"rho": 1},
    "release": {
        "n": {"sql": "SELECT COUNT(*) FROM t WHERE a = 'X y'", "every": "1 day", "start": "2026-01-01"}
    },
}


class NewTable(Table):
    """A table that did not exist when the store was written."""

    kind: str = "duckdb"


class NewRelease(ReleaseSpec):
    """A release with a key that did not exist."""

    rounding: int = 0


class NewSpec(GaugeSpec):
    """A declaration of a later version."""

    release: Annotated[  # type: ignore[assignment]
        dict[
            str,
            Annotated[
                Annotated[NewRelease, Tag("measured")] | Annotated[DerivedSpec, Tag("derived")],
                Discriminator(declaration._way),
            ],
        ],
        Field(min_length=1),
    ]
    weather: NewTable = NewTable()


def declared(**release: Any) -> dict[str, Any]:
    return {**DECLARED, "release": {"n": {**DECLARED["release"]["n"], **release}}}


def found(data: dict[str, Any], kind: type[GaugeSpec] = GaugeSpec) -> list[str]:
    return changed(GaugeSpec.parse(DECLARED).canonical(), kind.parse(data))


def test_a_new_key_with_its_default_is_no_change_whether_it_is_written_or_not() -> None:
    assert found(DECLARED, NewSpec) == []
    assert found(declared(rounding=0) | {"weather": {"kind": "duckdb"}}, NewSpec) == []
    assert found(declared(rounding=2), NewSpec) == ["release.n.rounding: was added"]
    assert found({**DECLARED, "weather": {"kind": "spark"}}, NewSpec) == ["weather: was added"]


def test_a_default_that_is_written_out_is_no_change() -> None:
    assert found(declared(weight=1, minimise="worst", **{"for": "ever"})) == []
    assert found(declared(minimise="mean")) == ["release.n.minimise: was changed from worst to mean"]


def test_a_line_that_was_deleted_means_the_default() -> None:
    committed = GaugeSpec.parse(declared(minimise="mean", clip=2)).canonical()
    spec = GaugeSpec.parse(DECLARED)
    assert changed(committed, spec) == [
        "release.n.clip: was removed",
        "release.n.minimise: was changed from mean to worst",
    ]


@pytest.mark.parametrize(
    ("sql", "same"),
    [
        ("select  count( * )\nfrom t -- all of it\nwhere a='X y';", True),
        ("SELECT COUNT(*) FROM t WHERE a = 'X Y'", False),
        ("SELECT COUNT(*) FROM t WHERE a = 'X  y'", False),
        ("SELECT COUNT(*) FROM t WHERE a <> 'X y'", False),
        ("SELECT 'unfinished", False),
    ],
)
def test_how_a_select_is_spaced_is_no_change(sql: str, same: bool) -> None:
    changes = found(declared(sql=sql))
    assert len(changes) == (not same)
    assert all(one.startswith("release.n.sql: was changed") for one in changes)


def test_a_change_names_both_values_as_they_were_written() -> None:
    changes = found(declared(every="2 hours", start="2026-01-02T06:00"))
    assert changes == [
        "release.n.every: was changed from 1 day to 2 hours",
        "release.n.start: was changed from 2026-01-01T00:00:00Z to 2026-01-02T06:00:00Z",
    ]


def test_a_kept_store_opens_and_runs_on_under_a_later_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGAUGE_KEPT_KEY", "")  # put back as it was at the end
    unpack("count", tmp_path)
    monkeypatch.setattr(declaration, "GaugeSpec", NewSpec)
    file = tmp_path / "real" / "tidegauge.toml"
    gauge = opened(tmp_path / "real", DAYS_BEFORE)
    assert isinstance(gauge.spec, NewSpec)
    before = len(gauge.published())
    assert before == gauge.verify().readings > 0
    list(gauge.run())
    assert len(gauge.published()) == gauge.verify().readings > before
    file.write_text(file.read_text() + '\n[weather]\nkind = "spark"\n')
    with pytest.raises(PlanChanged, match="weather: was added"):
        opened(tmp_path / "real", DAYS_BEFORE).plan()
