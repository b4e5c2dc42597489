"""The formats of metadata by name.  A new one is one line."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tidegauge.publish.metadata.deployment import deployment
from tidegauge.publish.metadata.linked import croissant, dcat, schema_org
from tidegauge.publish.metadata.tabular import csvw, frictionless

if TYPE_CHECKING:
    from collections.abc import Callable

    from tidegauge.publish.metadata.dataset import Dataset


@dataclass(frozen=True)
class MetadataFormat:
    """A way to describe a data set; `file` is the name that its readers expect."""

    file: str
    media_type: str
    write: Callable[[Dataset], dict[str, Any]]

    def text(self, data: Dataset) -> str:
        """The description as text."""
        return json.dumps(self.write(data), ensure_ascii=False, indent=2) + "\n"


FORMATS: Final = {
    "schema.org": MetadataFormat("dataset.jsonld", "application/ld+json", schema_org),
    "dcat": MetadataFormat("dcat.jsonld", "application/ld+json", dcat),
    "csvw": MetadataFormat("csv-metadata.json", "application/csvm+json", csvw),
    "frictionless": MetadataFormat("datapackage.json", "application/json", frictionless),
    "croissant": MetadataFormat("croissant.json", "application/ld+json", croissant),
    "deployment": MetadataFormat("dp-deployment.json", "application/json", deployment),
}
"""SDMX-CSV is a form of the data themselves and not a description: see `sdmx_csv` in tabular.py."""
