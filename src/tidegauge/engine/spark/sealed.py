"""The files of an encrypted store's state: ORC files whose columns Spark encrypts, with a key in memory.

ORC encrypts each column of each file with AES-256 in counter mode, under a random key of the file; this key
is protected by a key of the store.  The key of the store is handed to ORC's key store inside of the Java
process: it is in no statement, no setting and no file.  Counter mode hides values and does not notice that a
file was altered, so the version of the state has a digest of each folder, which the store seals.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, Final

from tidegauge.engine.spark import paths
from tidegauge.engine.spark.render import literal, quote
from tidegauge.engine.spark.session import unlogged
from tidegauge.errors import SpecError, StoreError

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

_PROVIDER: Final = "orc.key.provider"
_MEMORY: Final = "memory"
_IMAGE: Final = "image"
_TIME, _OTHER = "t", "v"
"""How the name of a stored field begins.  A time is stored in microseconds: ORC depends on time zones."""


def require_private(spark: SparkSession) -> None:
    """Raise SpecError unless rows and keys stay on this machine, and temporary files are encrypted."""
    context = spark.sparkContext
    if not context._jsc.sc().isLocal():
        raise SpecError(
            "the engine 'spark' encrypts its state on one machine only, and this session has a cluster, to "
            "which the key would have to be sent. Nothing was read or spent. Use a session with master "
            "local[*], or remove the key",
            key="store.key",
        )
    if str(context.getConf().get("spark.io.encryption.enabled", "false")).lower() != "true":
        raise SpecError(
            "Spark's temporary files have rows, and this session does not encrypt them. Nothing was read or "
            "spent. Start it with spark.io.encryption.enabled = true, or let Tidegauge start the session",
            key="store.key",
        )


class Sealing:
    """Writes and reads folders of encrypted files with a secret of the store."""

    def __init__(self, spark: SparkSession, secret: bytes) -> None:
        self._spark = spark
        self._name = f"tidegauge{_derived(secret, b'name').hex()[:32]}"
        keys = self._keys()
        if self._name not in list(keys.getKeyNames()):
            algorithm = self._java.org.apache.orc.EncryptionAlgorithm.AES_CTR_256
            with unlogged():
                keys.addKey(self._name, algorithm, bytearray(_derived(secret, b"files")))
        self._require_key()

    @property
    def _java(self) -> Any:
        return self._spark.sparkContext._jvm

    def _keys(self) -> Any:
        """The key store of this Java process."""
        settings = self._java.org.apache.hadoop.conf.Configuration(False)
        settings.set(_PROVIDER, _MEMORY)
        return self._java.org.apache.orc.impl.CryptoUtils.getKeyProvider(
            settings, self._java.java.security.SecureRandom()
        )

    def _require_key(self) -> None:
        """Raise StoreError if ORC has no key: it would read every value as NULL."""
        if self._name not in list(self._keys().getKeyNames()):
            raise StoreError(
                "Spark's ORC files cannot be encrypted in this session. Nothing of this read was committed"
            )

    def write(self, frame: DataFrame, place: Path) -> None:
        """Write a folder.  Raises StoreError if a column was not encrypted."""
        self._require_key()
        stored = frame.selectExpr(*(_stored(frame, name) for name in frame.columns))
        columns = ",".join(stored.columns)
        writer = stored.write.mode("overwrite").option(_PROVIDER, _MEMORY)
        writer = writer.option("orc.mask", f"nullify:{columns}")  # what is there without the key
        writer.option("orc.encrypt", f"{self._name}:{columns}").orc(paths.written(place))
        for file in data_files(place):
            self._require_encrypted(file)

    def read(self, place: Path) -> DataFrame:
        """The rows of a folder."""
        self._require_key()
        found = self._spark.read.option(_PROVIDER, _MEMORY).orc(paths.read(place))
        return found.selectExpr(*(_original(found, name) for name in found.columns))

    def _require_encrypted(self, file: Path) -> None:
        orc = self._java.org.apache.orc.OrcFile
        options = orc.readerOptions(self._java.org.apache.hadoop.conf.Configuration(False))
        reader = orc.createReader(self._java.org.apache.hadoop.fs.Path(paths.written(file)), options)
        hidden = {variant.getRoot().getId() for variant in reader.getEncryptionVariants()}
        every = {one.getId() for one in reader.getSchema().getChildren()}
        reader.close()
        if hidden != every:
            for one in data_files(file.parent):
                one.unlink()
            raise StoreError(
                "Spark did not encrypt its ORC files, which were removed. Nothing of this read was committed"
            )


def data_files(place: Path) -> list[Path]:
    """The files of a folder that Spark reads."""
    return sorted(one for one in place.iterdir() if not one.name.startswith(("_", ".")))


def digest(place: Path) -> str:
    """A digest of the names and contents of the files of a folder that Spark reads."""
    whole = hashlib.sha256()
    for path in data_files(place):
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256")
        whole.update(f"{path.name} {found.hexdigest()}\n".encode())
    return whole.hexdigest()


def _derived(secret: bytes, use: bytes) -> bytes:
    return hashlib.blake2b(key=secret, person=use, digest_size=32).digest()


def _stored(frame: DataFrame, name: str) -> str:
    """SQL of a column as it is stored.  ORC has no field with any name, so those of an image are coded."""
    if name != _IMAGE:
        return name
    fields = []
    image: Any = frame.schema[_IMAGE].dataType
    for field in image.fields:
        time = field.dataType.typeName() == "timestamp"
        value, kind = f"{_IMAGE}.{quote(field.name)}", _TIME if time else _OTHER
        stored = f"unix_micros({value})" if time else value
        fields.append(f"'{kind}{field.name.encode().hex()}', {stored}")
    return f"CASE WHEN {_IMAGE} IS NOT NULL THEN named_struct({', '.join(fields)}) END AS {_IMAGE}"


def _original(frame: DataFrame, name: str) -> str:
    """SQL of a column as it was before it was stored."""
    if name != _IMAGE:
        return name
    fields = []
    image: Any = frame.schema[_IMAGE].dataType
    for field in image.fields:
        stored = f"{_IMAGE}.{field.name}"
        value = f"timestamp_micros({stored})" if field.name.startswith(_TIME) else stored
        fields.append(f"{literal(bytes.fromhex(field.name[1:]).decode())}, {value}")
    return f"CASE WHEN {_IMAGE} IS NOT NULL THEN named_struct({', '.join(fields)}) END AS {_IMAGE}"
