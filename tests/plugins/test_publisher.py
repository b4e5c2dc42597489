"""A publisher that is registered from here: declared, checked, opened, delivered to and tried again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import pytest
from pydantic import Field

from tests.publish.ward import Ward
from tidegauge.errors import PublishError, SpecError
from tidegauge.model.declared import PublisherSpec
from tidegauge.model.kinds import PUBLISHERS
from tidegauge.model.publisher import Delivery, Place, PublisherKind
from tidegauge.publish.batch import Batch

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class DiarySpec(PublisherSpec):
    """One line a reading in a text file.  `pages`: no more lines than this go in."""

    kind: Literal["diary"]
    pages: Annotated[int, Field(ge=1)] = 1000


class Diary:
    def __init__(self, path: Path, pages: int) -> None:
        self._path, self._pages = path, pages

    def deliver(self, what: Batch) -> Delivery:
        lines = [f"{one.release} {one.time} {one.cell} {one.value}\n" for one in what.readings]
        if len(lines) > self._pages:
            raise PublishError("the diary is full")
        with self._path.open("a") as file:
            file.writelines(lines)
        return Delivery(len(lines), "the diary")


class DiaryKind(PublisherKind[DiarySpec, Batch]):
    spec = DiarySpec

    def open(self, spec: DiarySpec, place: Place) -> Diary:
        return Diary(place.base / f"{place.name}.txt", spec.pages)


@pytest.fixture(autouse=True)
def registered() -> Iterator[None]:
    PUBLISHERS.register("diary", DiaryKind())
    yield
    PUBLISHERS.unregister("diary")


def test_it_gets_every_reading_once(tmp_path: Path) -> None:
    ward = Ward(tmp_path, {"mine": {"kind": "diary"}})
    for day in (1, 3):
        assert not ward.run(day).undelivered
    found = [line.split() for line in (tmp_path / "mine.txt").read_text().splitlines()]
    published = [(one.release, one.value) for one in ward.gauge().published()]
    assert sorted((one[0], float(one[3])) for one in found) == sorted(published)
    assert len({tuple(one[:3]) for one in found}) == len(found) == 9


def test_what_it_refuses_is_delivered_later(tmp_path: Path) -> None:
    ward = Ward(tmp_path, {"mine": {"kind": "diary", "pages": 1}})
    (failure,) = ward.run(1).undelivered
    assert failure.reason == "the diary is full"
    assert not (tmp_path / "mine.txt").exists()
    ward.publish = {"mine": {"kind": "diary"}}
    assert not ward.run(2).undelivered
    assert len((tmp_path / "mine.txt").read_text().splitlines()) == len(ward.gauge().published())


def test_its_table_of_the_declaration_is_checked(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"publish\.mine\.pages"):
        Ward(tmp_path, {"mine": {"kind": "diary", "pages": 0}}).gauge()
    PUBLISHERS.unregister("diary")
    try:
        with pytest.raises(
            SpecError, match=r"publish\.mine\.kind: there is no such kind; one of public, site, "
        ):
            Ward(tmp_path, {"mine": {"kind": "diary"}}).gauge()
    finally:
        PUBLISHERS.register("diary", DiaryKind())
