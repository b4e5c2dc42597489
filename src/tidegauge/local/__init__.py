"""Local differential privacy: no trusted server.  Each device randomizes its own reports."""

from tidegauge.local.collector import Collector, Receipt
from tidegauge.local.law import TiltedLaw, tilted_law
from tidegauge.local.reporter import FileState, Reporter, ReporterError, report_to_json
from tidegauge.local.survey import Survey, SurveyPlan
from tidegauge.local.tally import report_from_json

__all__ = [
    "Collector",
    "FileState",
    "Receipt",
    "Reporter",
    "ReporterError",
    "Survey",
    "SurveyPlan",
    "TiltedLaw",
    "report_from_json",
    "report_to_json",
    "tilted_law",
]
