"""The Spark session, and the settings under which Tidegauge computes in it."""

from __future__ import annotations

import logging
import os
import shutil
import threading
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidegauge.errors import SourceError, SpecError
from tidegauge.scratch import ScratchFolder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_SETTINGS: Final = {
    "spark.sql.ansi.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    "spark.sql.legacy.timeParserPolicy": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInRead": "CORRECTED",
    "spark.sql.parquet.datetimeRebaseModeInWrite": "CORRECTED",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.optimizer.excludedRules": "",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.windowExec.buffer.in.memory.threshold": "65536",
    "spark.sql.execution.useObjectHashAggregateExec": "false",
}
"""What the value of an expression may depend on, that no file is passed over in silence, and how arrays are
collected: by sorting, which spills to the disk.  Set for the time of a statement, then put back."""
_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_DEFAULT: Final = "200"
_GIGABYTE: Final = 2**30
_kept: Final[list[ScratchFolder]] = []
"""The folder of the temporary files of the session that this process started; it goes with the process."""


def session() -> SparkSession:
    """The active session, or a new one with the settings of the installation (spark-defaults.conf).

    Raises SpecError if PySpark or Java is missing.
    """
    # PySpark says on import that it does not know the newest pandas, which is not used here.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    try:
        from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415  (loaded when first used)
        from pyspark.sql import SparkSession  # noqa: PLC0415
    except ImportError:
        raise SpecError(
            "PySpark is not installed; it comes with the extra 'spark' of the package", key="engine.kind"
        ) from None
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    if "SPARK_REMOTE" in os.environ:
        raise SpecError(
            "Spark Connect (SPARK_REMOTE) is not supported; use a session of this process", key="engine.kind"
        )
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        raise SpecError(
            "Spark needs Java 17 or later, and there is no java on the path. Install it, or set JAVA_HOME",
            key="engine.kind",
        )
    builder = SparkSession.builder.appName("tidegauge").config("spark.ui.showConsoleProgress", "false")
    if not {"PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME"} & set(os.environ):
        for name, value in _own_settings().items():
            builder = builder.config(name, value)
    try:
        return builder.getOrCreate()
    except PySparkRuntimeError as error:
        raise SpecError(
            f"the Spark session cannot be started ({error.getCondition()}). Java 17 or later is needed",
            key="engine.kind",
        ) from None


def _own_settings() -> dict[str, str]:
    """The settings of a session on this machine, where nothing is configured.

    Rows that are shuffled or sorted lie in Spark's temporary files: these are encrypted with a key that is in
    memory alone, so a killed process leaves nothing that can be read.  Spark's log may quote rows, and its
    pages show statements: both are off.
    """
    folder = ScratchFolder()
    _kept.append(folder)
    return {
        "spark.driver.memory": f"{_memory()}g",  # Spark's own limit of one gigabyte is for trying out
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.io.encryption.enabled": "true",
        "spark.local.dir": folder.name,
        "spark.log.level": "OFF",
        "spark.sql.warehouse.dir": folder.name,
        "spark.ui.enabled": "false",
    }


def _memory() -> int:
    """Gigabytes for a session on this machine: half of its memory, at most four."""
    installed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(1, min(4, installed // _GIGABYTE // 2))


REFUSED: Final = "tidegauge refuses a row: "
"""How the message of a row begins that cannot be read.  The message has no value of the row."""
_RAISED: Final = "USER_RAISED_EXCEPTION"
"""Spark's condition for what a statement raises itself."""


def condition(error: Exception) -> str:
    """The name that Spark has for an error: no value of a row is in it."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415  (loaded when first used)
    from pyspark.errors import PySparkException  # noqa: PLC0415

    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.getClass().getSimpleName())
    named = error.getCondition() if isinstance(error, PySparkException) else None
    return named or type(error).__name__


def _refused(error: Exception) -> str | None:
    """What a statement of ours says about a row that cannot be read; None: Spark's error is another one."""
    from pyspark.errors import PySparkException  # noqa: PLC0415  (loaded when first used)

    if not isinstance(error, PySparkException) or error.getCondition() != _RAISED:
        return None
    message = (error.getMessageParameters() or {}).get("errorMessage", "")
    return message.removeprefix(REFUSED) if message.startswith(REFUSED) else None


def _partitions(spark: SparkSession) -> dict[str, str]:
    """Parts of a shuffle on one machine, unless the session has a number of its own.

    Spark's default of 200 is for clusters: here most of the time would go into starting tasks.
    """
    local = str(spark.sparkContext.master).startswith("local")
    if not local or spark.conf.get(_PARTITIONS, _DEFAULT) != _DEFAULT:
        return {}
    return {_PARTITIONS: str(16 * spark.sparkContext.defaultParallelism)}


_silent: Final = threading.local()


def _wanted(record: logging.LogRecord) -> bool:
    del record
    return not getattr(_silent, "on", False)


@contextmanager
def unlogged() -> Iterator[None]:
    """Let PySpark and Py4J log nothing that this thread does.

    PySpark logs the messages of errors, which may have values of rows in them.  At level DEBUG, Py4J logs the
    arguments of every call into Java and its result.
    """
    from pyspark.logger import PySparkLogger  # noqa: PLC0415  (loaded when first used)

    for name in ("SQLQueryContextLogger", "DataFrameQueryContextLogger"):
        PySparkLogger.getLogger(name).addFilter(_wanted)
    for name in ("py4j.clientserver", "py4j.java_gateway"):
        logging.getLogger(name).addFilter(_wanted)
    before = getattr(_silent, "on", False)
    _silent.on = True
    try:
        yield
    finally:
        _silent.on = before


@contextmanager
def settled(spark: SparkSession) -> Iterator[None]:
    """Compute under the settings of Tidegauge; those of the session are put back at the end.

    Raises SourceError if a row cannot be read or a statement fails.  Spark's own messages may have values of
    rows in them, so the error has the name of Spark's condition alone.
    """
    from py4j.protocol import Py4JError  # noqa: PLC0415  (loaded when first used)
    from pyspark.errors import AnalysisException, PySparkException  # noqa: PLC0415

    settings = {**_SETTINGS, **_partitions(spark)}
    before: dict[str, str | None] = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        with unlogged():
            yield
    except AnalysisException:  # about names and types, before any row is read
        raise
    except (PySparkException, Py4JError) as error:
        if (message := _refused(error)) is None:
            raise SourceError(
                f"Spark could not carry out a statement ({condition(error)}); the log of Spark says more. "
                "Nothing of this read was committed"
            ) from None
        raise SourceError(f"{message}. Nothing of this read was committed") from None
    finally:
        for name, known in before.items():
            if known is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, known)
