"""JSON-LD: schema.org Dataset, DCAT and Croissant."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidegauge.model.json import Json
    from tidegauge.publish.metadata.dataset import Dataset, File, Series

_TECHNIQUE: Final = "differential privacy (continual release)"


def _given(**fields: Json) -> dict[str, Json]:
    """Only what has a value."""
    return {name.rstrip("_"): value for name, value in fields.items() if value not in (None, "", (), [], {})}


def schema_org(data: Dataset) -> dict[str, Json]:
    """A schema.org Dataset, for search engines."""
    creator = _given(**{"@type": "Organization"}, name=data.about.creator, email=_mail(data), url=_site(data))
    return {
        "@context": "https://schema.org/",
        "@type": "Dataset",
        "@id": data.address,
        **_given(
            name=data.about.title,
            description=data.description,
            url=data.about.url,
            license=data.license,
            keywords=list(data.keywords),
            creator=creator if data.about.creator else None,
            dateModified=data.modified,
            version=data.seal,
            isAccessibleForFree=True,
            temporalCoverage="/".join(data.span) if data.span else None,
            measurementTechnique=_TECHNIQUE,
        ),
        "variableMeasured": [
            _given(
                **{"@type": "PropertyValue"},
                name=one.info.name,
                description=f"{one.what}. {one.info.sql}",
                unitText=one.info.unit,
            )
            for one in data.series
        ],
        "distribution": [
            {
                "@type": "DataDownload",
                "name": f"{file.release}.{file.form}",
                "encodingFormat": file.media_type,
                "contentUrl": file.url,
            }
            for one in data.series
            for file in one.files
        ],
    }


def _mail(data: Dataset) -> str | None:
    return data.about.contact if "@" in data.about.contact else None


def _site(data: Dataset) -> str | None:
    return data.about.contact if "://" in data.about.contact else None


_DCAT: Final = {
    "dcat": "http://www.w3.org/ns/dcat#",
    "dct": "http://purl.org/dc/terms/",
    "foaf": "http://xmlns.com/foaf/0.1/",
    "vcard": "http://www.w3.org/2006/vcard/ns#",
    "xsd": "http://www.w3.org/2001/XMLSchema#",
}


def dcat(data: Dataset) -> dict[str, Json]:
    """A DCAT 3 catalogue with one dataset for each release, as JSON-LD."""
    return {
        "@context": _DCAT,
        "@id": f"{data.address}#catalog",
        "@type": "dcat:Catalog",
        "dct:title": data.about.title,
        "dct:description": data.description,
        "dct:modified": _time(data.modified),
        **({"dct:publisher": _publisher(data)} if data.about.creator else {}),
        "dcat:dataset": [_dcat_dataset(data, one) for one in data.series],
    }


def _publisher(data: Dataset) -> dict[str, Json]:
    return {"@id": f"{data.address}#publisher", "@type": "foaf:Agent", "foaf:name": data.about.creator}


def _time(text: str) -> dict[str, str]:
    return {"@type": "xsd:dateTime", "@value": text}


def _dcat_dataset(data: Dataset, one: Series) -> dict[str, Json]:
    base = f"{data.address}#{digest(one.info.name)}"
    found: dict[str, Json] = {
        "@id": base,
        "@type": "dcat:Dataset",
        "dct:title": one.info.name,
        "dct:identifier": one.info.name,
        "dct:description": f"{one.what}. {data.description}",
        "dct:modified": _time(data.modified),
        "dcat:keyword": list(data.keywords),
        "dcat:distribution": [_distribution(data, base, file) for file in one.files],
    }
    if data.about.creator:
        found["dct:publisher"] = {"@id": f"{data.address}#publisher"}
    if mail := _mail(data):
        found["dcat:contactPoint"] = {
            "@id": f"{data.address}#contact",
            "@type": "vcard:Organization",
            "vcard:fn": data.about.creator or data.about.title,
            "vcard:hasEmail": {"@id": f"mailto:{mail}"},
        }
    if one.first and one.last:
        found["dct:temporal"] = {
            "@id": f"{base}-time",
            "@type": "dct:PeriodOfTime",
            "dcat:startDate": _time(one.first),
            "dcat:endDate": _time(one.last),
        }
    return found


def _distribution(data: Dataset, base: str, file: File) -> dict[str, Json]:
    media = f"https://www.iana.org/assignments/media-types/{file.media_type}"
    return {
        "@id": f"{base}-{file.form}",
        "@type": "dcat:Distribution",
        "dct:title": f"{file.release}.{file.form}",
        "dcat:accessURL": {"@id": file.url},
        "dcat:downloadURL": {"@id": file.url},
        "dcat:mediaType": {"@id": media},
        **({"dct:license": {"@id": data.license}} if data.license else {}),
    }


_CROISSANT: Final[dict[str, Json]] = {
    "@language": "en",
    "@vocab": "https://schema.org/",
    "citeAs": "cr:citeAs",
    "column": "cr:column",
    "conformsTo": "dct:conformsTo",
    "cr": "http://mlcommons.org/croissant/",
    "rai": "http://mlcommons.org/croissant/RAI/",
    "data": {"@id": "cr:data", "@type": "@json"},
    "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
    "dct": "http://purl.org/dc/terms/",
    "examples": {"@id": "cr:examples", "@type": "@json"},
    "extract": "cr:extract",
    "field": "cr:field",
    "fileProperty": "cr:fileProperty",
    "fileObject": "cr:fileObject",
    "fileSet": "cr:fileSet",
    "format": "cr:format",
    "includes": "cr:includes",
    "isLiveDataset": "cr:isLiveDataset",
    "jsonPath": "cr:jsonPath",
    "key": "cr:key",
    "md5": "cr:md5",
    "parentField": "cr:parentField",
    "path": "cr:path",
    "recordSet": "cr:recordSet",
    "references": "cr:references",
    "regex": "cr:regex",
    "repeated": "cr:repeated",
    "replace": "cr:replace",
    "sc": "https://schema.org/",
    "separator": "cr:separator",
    "source": "cr:source",
    "subField": "cr:subField",
    "transform": "cr:transform",
}
"""The context that the specification of Croissant 1.0 gives, word for word."""

_TYPES: Final = {
    "string": "sc:Text",
    "time": "sc:DateTime",
    "integer": "sc:Integer",
    "boolean": "sc:Boolean",
    "number": "sc:Float",
}


def croissant(data: Dataset) -> dict[str, Json]:
    """A Croissant 1.0 description; the data are live, so files have no fixed checksum."""
    csv = {one.info.name: next(file for file in one.files if file.form == "csv") for one in data.series}
    return {
        "@context": _CROISSANT,
        "@type": "sc:Dataset",
        "conformsTo": "http://mlcommons.org/croissant/1.0",
        "isLiveDataset": True,
        **_given(
            name=data.about.title,
            description=data.description,
            license=data.license or "not stated",
            url=data.address,
            version="1.0.0",
            datePublished=data.modified[:10],
            dateModified=data.modified[:10],
            keywords=list(data.keywords),
            citeAs=f"{data.about.creator or data.about.title}: {data.about.title}. {data.modified[:10]}.",
        ),
        "creator": {"@type": "sc:Organization", "name": data.about.creator or data.about.title},
        "distribution": [
            {
                "@type": "cr:FileObject",
                "@id": f"file-{digest(name)}",
                "name": f"{name}.csv",
                "contentUrl": file.url,
                "encodingFormat": file.media_type,
            }
            for name, file in csv.items()
        ],
        "recordSet": [_record_set(one) for one in data.series],
    }


def _record_set(one: Series) -> dict[str, Json]:
    own = f"readings-{digest(one.info.name)}"
    return {
        "@type": "cr:RecordSet",
        "@id": own,
        "name": one.info.name,
        "description": one.what,
        "field": [
            {
                "@type": "cr:Field",
                "@id": f"{own}/{column.name}",
                "name": column.name,
                "description": column.description,
                "dataType": _TYPES[column.kind],
                "source": {
                    "fileObject": {"@id": f"file-{digest(one.info.name)}"},
                    "extract": {"column": column.name},
                },
            }
            for column in one.columns
        ],
    }


def digest(name: str) -> str:
    """A short name without special signs."""
    return hashlib.sha256(name.encode()).hexdigest()[:12]
