"""The kind `files`: a changelog in csv, jsonl or parquet files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.source import Asked, Claim, Draft, Location, OpenSource, SourceKind
from tidegauge.source.files.spec import FilesSpec

if TYPE_CHECKING:
    from typing import Final


class FilesKind(SourceKind[FilesSpec]):
    """Reads any table in files that no other kind claims."""

    spec = FilesSpec

    def open(self, spec: FilesSpec, where: Location) -> OpenSource:
        """Open the files; they are read when they are asked for."""
        from tidegauge.source.files.source import Files  # noqa: PLC0415

        return Files(
            spec.path,
            time=spec.time,
            entry=spec.key,
            table=spec.table,
            unit=spec.unit,
            before=spec.before,
            after=spec.after,
            op=spec.op,
            types=spec.types,
            time_unit=spec.time_unit,
            base=where.base,
        )

    def claim(self, asked: Asked) -> Claim:
        """Any file that no other kind claims."""
        return Claim.NONE if asked.what is None or asked.server else Claim.OTHERWISE

    def template(self, asked: Asked) -> Draft:
        """A declaration from what the columns seem to be."""
        from tidegauge.source.files.template import template  # noqa: PLC0415

        return template(asked)


KIND: Final = FilesKind()
