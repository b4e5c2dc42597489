"""Metadata: one value, many writers; the structure always,
and by each format's own tool where it is installed."""

from __future__ import annotations

import csv
import importlib.util
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.publish.ward import RELEASES, Ward
from tidegauge.publish.formats import to_csv
from tidegauge.publish.metadata import FORMATS, Dataset, dataset
from tidegauge.publish.metadata.linked import digest
from tidegauge.publish.metadata.tabular import sdmx_csv, sdmx_name
from tidegauge.publish.public.reader import PublicFile

ABOUT = {
    "kind": "public",
    "title": "Patients of the region",
    "creator": "Office of Health",
    "contact": "statistics@example.org",
    "license": "CC-BY-4.0",
    "url": "https://example.org/gauge/",
    "keywords": ["health"],
}


def needs(*modules: str) -> Callable[[Any], Any]:
    """Slow, and only where the format's own tool is installed."""
    missing = [name for name in modules if importlib.util.find_spec(name) is None]
    reason = f"pip install {' '.join(modules)} to check by the format's own tool"
    return lambda test: pytest.mark.slow(pytest.mark.skipif(bool(missing), reason=reason)(test))


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the CSV files of a gauge beside its public file."""
    folder = tmp_path_factory.mktemp("described")
    more = {
        "odd": {
            "sql": "SELECT COUNT(*) FROM t WHERE ward = 'a'",
            "start": "2026-01-01",
            "every": "1 day",
            "for": "60 days",
        }
    }
    Ward(folder, {"page": ABOUT}, releases=RELEASES | more).run(20)
    with PublicFile(folder / "public.db") as public:
        for one in public.releases:
            (folder / f"{one.name}.csv").write_bytes(to_csv(public.readings(one.name)))
    return folder


@pytest.fixture(scope="module")
def data(home: Path) -> Dataset:
    with PublicFile(home / "public.db") as public:
        return dataset(public, lambda name, form: f"{name}.{form}")


@pytest.fixture(scope="module")
def remote(home: Path) -> Dataset:
    with PublicFile(home / "public.db") as public:
        return dataset(public, lambda name, form: f"https://example.org/gauge/data/{name}.{form}")


def test_every_format_says_who_what_when_and_the_noise_interval(remote: Dataset) -> None:
    for name, one in FORMATS.items():
        text = one.text(remote)
        assert json.loads(text)
        assert "Patients of the region" in text, name
        assert "by_ward" in text, name
        assert "noise interval" in text, name
        assert "confidence" not in text, name
        assert "The noise of these readings was simulated" in text, name
    assert remote.span == ("2026-01-01T00:00:00Z", "2026-01-21T00:00:00Z")
    assert remote.modified == "2026-01-21T00:00:00Z"


def test_columns_are_those_of_the_csv_files(home: Path, data: Dataset) -> None:
    for one in data.series:
        with (home / f"{one.info.name}.csv").open(encoding="utf-8", newline="") as file:
            header = next(csv.reader(file))
        assert header == [column.name for column in one.columns]
    tables = FORMATS["csvw"].write(data)["tables"]
    resources = FORMATS["frictionless"].write(data)["resources"]
    for one, table, resource in zip(data.series, tables, resources, strict=True):
        names = [column.name for column in one.columns]
        assert [column["titles"] for column in table["tableSchema"]["columns"]] == names
        assert [field["name"] for field in resource["schema"]["fields"]] == names
        assert table["url"] == resource["path"] == f"{one.info.name}.csv"


def test_without_a_description_nothing_empty_is_written(tmp_path: Path) -> None:
    Ward(tmp_path, {"page": {"kind": "public"}}).run(-1)
    with PublicFile(tmp_path / "public.db") as public:
        bare = dataset(public, lambda name, form: f"{name}.{form}")
    assert bare.span is None
    assert bare.license is None
    found = FORMATS["schema.org"].write(bare)
    assert not {"license", "creator", "url", "temporalCoverage"} & set(found)
    assert found["name"] == "Statistics of t"
    assert found["@id"].startswith("urn:sha256:")
    for one in FORMATS.values():
        assert one.text(bare)


def test_sdmx_csv_has_the_columns_of_the_standard(home: Path) -> None:
    with PublicFile(home / "public.db") as public:
        info = public.release("by_ward")
        assert info is not None
        readings = public.readings("by_ward")
        rows = list(csv.DictReader(io.StringIO(sdmx_csv(info, readings).decode())))
    assert list(rows[0])[:4] == ["STRUCTURE", "STRUCTURE_ID", "ACTION", "WARD"]
    assert {row["STRUCTURE_ID"] for row in rows} == {"TIDEGAUGE:BY_WARD(1.0.0)"}
    assert [float(row["OBS_VALUE"]) for row in rows] == [one.value for one in readings]
    assert rows[0]["TIME_PERIOD"] == "2026-01-01T00:00:00"
    names = ["time_period", "ä", "1a", "a b", "a-b", "noise_interval_low", "ward"]
    assert len({sdmx_name(name) for name in names}) == len(names)


def test_the_entry_of_a_deployment_is_whole(data: Dataset) -> None:
    """What a registry asks for: whom it protects, how much, by which mechanism, and what is left out."""
    entry = FORMATS["deployment"].write(data)
    promise = entry["privacy_guarantee"]
    assert (promise["epsilon"], promise["delta"], promise["unit"]) == (2, 1e-6, "row")
    assert promise["flavor"] == "approximate differential privacy"
    assert promise["contribution_bound"]["at_most"] == 2
    assert entry["accounting"]["reserved"] <= entry["accounting"]["total"]
    assert {one["name"] for one in entry["data_product"]["releases"]} == {"by_ward", "week", "weekly", "odd"}
    assert sum(one["privacy_loss"] for one in entry["data_product"]["releases"]) == pytest.approx(
        entry["accounting"]["reserved"]
    )
    assert entry["deployment"]["status"] == "simulated"
    assert entry["not_protected"]


# -- by the tools of the formats -----------------------------------------------------------------------------


@needs("frictionless")
def test_frictionless_accepts_package_and_data(home: Path, data: Dataset) -> None:
    from frictionless import Package

    (home / "datapackage.json").write_text(FORMATS["frictionless"].text(data))
    report = Package(str(home / "datapackage.json")).validate()
    assert report.valid, report.flatten(["type", "message"])
    broken = FORMATS["frictionless"].write(data)
    broken["resources"][0]["schema"]["fields"][-1]["type"] = "integer"
    (home / "broken.json").write_text(json.dumps(broken))
    assert not Package(str(home / "broken.json")).validate().valid


@needs("csvw")
def test_csvw_accepts_tables_and_data(home: Path, data: Dataset) -> None:
    from csvw import CSVW

    path = home / "csv-metadata.json"
    path.write_text(FORMATS["csvw"].text(data))
    checked = CSVW(str(path), validate=True)
    assert checked.is_valid, checked.warnings
    assert len(checked.tables) == len(data.series)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@needs("rdflib", "pyshacl")
@pytest.mark.parametrize("name", ["dcat"])
def test_dcat_keeps_the_shapes_of_its_application_profile(remote: Dataset, name: str) -> None:
    """The mandatory properties of DCAT-AP 3, as SHACL shapes; and a twin that lacks one."""
    import pyshacl
    import rdflib

    shapes = rdflib.Graph().parse(data=SHAPES, format="turtle")
    text = FORMATS[name].text(remote)
    graph = rdflib.Graph().parse(data=text, format="json-ld")
    good, _, said = pyshacl.validate(graph, shacl_graph=shapes)
    assert good, said
    broken = rdflib.Graph().parse(data=text.replace('"dct:title"', '"dct:subject"'), format="json-ld")
    assert not pyshacl.validate(broken, shacl_graph=shapes)[0]
    counted = graph.query("SELECT ?d WHERE { ?d a <http://www.w3.org/ns/dcat#Distribution> }")
    assert len(counted) == 3 * len(remote.series)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@needs("rdflib")
def test_schema_org_has_what_dataset_search_requires(remote: Dataset) -> None:
    import rdflib

    text = (
        FORMATS["schema.org"]
        .text(remote)
        .replace('"https://schema.org/"', '{"@vocab": "https://schema.org/"}')
    )  # the same words, without a request
    graph = rdflib.Graph().parse(data=text, format="json-ld")
    schema = rdflib.Namespace("https://schema.org/")
    (subject,) = graph.subjects(rdflib.RDF.type, schema.Dataset)
    for word in ("name", "description", "license", "creator", "distribution", "variableMeasured"):
        assert list(graph.objects(subject, schema[word])), word
    (described,) = graph.objects(subject, schema.description)
    assert 50 <= len(str(described)) <= 5000


@needs("mlcroissant")
@pytest.mark.filterwarnings("ignore")
def test_croissant_is_accepted_and_reads_the_data(home: Path, remote: Dataset, data: Dataset) -> None:
    import mlcroissant

    checked = mlcroissant.Dataset(jsonld=FORMATS["croissant"].write(remote))
    assert not checked.metadata.ctx.issues.errors
    (home / "croissant.json").write_text(FORMATS["croissant"].text(data))
    local = mlcroissant.Dataset(jsonld=str(home / "croissant.json"))
    rows = list(local.records(f"readings-{digest('by_ward')}"))
    assert len(rows) == 42


@needs("pysdmx")
def test_sdmx_csv_is_read_by_an_sdmx_library(home: Path) -> None:
    from pysdmx.io import read_sdmx

    with PublicFile(home / "public.db") as public:
        info = public.release("by_ward")
        assert info is not None
        path = home / "sdmx.csv"
        path.write_bytes(sdmx_csv(info, public.readings("by_ward")))
    message = read_sdmx(str(path), validate=False)
    (found,) = message.data
    assert len(found.data) == 42
    assert set(found.data.columns) >= {"WARD", "TIME_PERIOD", "OBS_VALUE"}


SHAPES = """
@prefix sh: <http://www.w3.org/ns/shacl#> .
@prefix dcat: <http://www.w3.org/ns/dcat#> .
@prefix dct: <http://purl.org/dc/terms/> .
@prefix foaf: <http://xmlns.com/foaf/0.1/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
[] a sh:NodeShape ; sh:targetClass dcat:Catalog ;
   sh:property [ sh:path dct:title ; sh:minCount 1 ; sh:nodeKind sh:Literal ] ,
     [ sh:path dct:description ; sh:minCount 1 ; sh:nodeKind sh:Literal ] ,
     [ sh:path dct:publisher ; sh:minCount 1 ; sh:maxCount 1 ; sh:class foaf:Agent ] ,
     [ sh:path dcat:dataset ; sh:class dcat:Dataset ] .
[] a sh:NodeShape ; sh:targetClass dcat:Dataset ;
   sh:property [ sh:path dct:title ; sh:minCount 1 ; sh:nodeKind sh:Literal ] ,
     [ sh:path dct:description ; sh:minCount 1 ; sh:nodeKind sh:Literal ] ,
     [ sh:path dct:publisher ; sh:maxCount 1 ; sh:class foaf:Agent ] ,
     [ sh:path dct:modified ; sh:maxCount 1 ; sh:datatype xsd:dateTime ] ,
     [ sh:path dct:temporal ; sh:class dct:PeriodOfTime ] ,
     [ sh:path dcat:keyword ; sh:nodeKind sh:Literal ] ,
     [ sh:path dcat:distribution ; sh:minCount 1 ; sh:class dcat:Distribution ] .
[] a sh:NodeShape ; sh:targetClass dcat:Distribution ;
   sh:property [ sh:path dcat:accessURL ; sh:minCount 1 ; sh:nodeKind sh:IRI ] ,
     [ sh:path dcat:mediaType ; sh:maxCount 1 ; sh:nodeKind sh:IRI ] ,
     [ sh:path dct:license ; sh:maxCount 1 ; sh:nodeKind sh:IRI ] .
[] a sh:NodeShape ; sh:targetClass foaf:Agent ;
   sh:property [ sh:path foaf:name ; sh:minCount 1 ; sh:nodeKind sh:Literal ] .
"""
