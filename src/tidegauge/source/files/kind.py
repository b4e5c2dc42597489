"""The kind `files`: a changelog in csv, jsonl or parquet files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegauge.model.source import Asked, Claim, Draft, Location, OpenSource, SourceKind
from tidegauge.source.files.spec import FilesSpec

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Final


class FilesKind(SourceKind[FilesSpec]):
    """Reads changelogs in files, and any file that no other kind claims."""

    spec = FilesSpec

    def open(self, spec: FilesSpec, where: Location) -> OpenSource:
        """Open the source; the files are read at the first use."""
        from tidegauge.source.files.source import Files  # noqa: PLC0415

        return Files(
            spec.path,
            time=spec.time,
            key=spec.key,
            table=spec.table,
            unit=spec.unit,
            before=spec.before,
            after=spec.after,
            op=spec.op,
            types=spec.types,
            time_unit=spec.time_unit,
            notation=spec.notation,
            base=where.base,
        )

    def operator_counts(self, spec: FilesSpec, where: Location) -> Mapping[str, float]:  # noqa: ARG002
        """Values that did not parse in the rows read so far, and their share."""
        from tidegauge.source.files.progress import Progress  # noqa: PLC0415
        from tidegauge.source.files.unread import operator_counts  # noqa: PLC0415

        return operator_counts(Progress.parse(where.position).unread or {})

    def claim(self, asked: Asked) -> Claim:
        """Any file that no other kind claims."""
        return Claim.NONE if asked.what is None or asked.server else Claim.OTHERWISE

    def template(self, asked: Asked) -> Draft:
        """Begin a declaration from the columns and the first rows."""
        from tidegauge.source.files.template import template  # noqa: PLC0415

        return template(asked)


KIND: Final = FilesKind()
