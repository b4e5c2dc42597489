"""Pages of a gauge, written on the server: the same for the static site and for `serve`."""

from tidegauge.publish.pages.assets import ASSETS
from tidegauge.publish.pages.build import release_site, whole_site
from tidegauge.publish.pages.guarantee import guarantee
from tidegauge.publish.pages.layout import not_found
from tidegauge.publish.pages.ledger import ledger
from tidegauge.publish.pages.links import Links, served, static
from tidegauge.publish.pages.overview import overview
from tidegauge.publish.pages.release import release, release_chart
from tidegauge.publish.pages.status import status

__all__ = [
    "ASSETS",
    "Links",
    "guarantee",
    "ledger",
    "not_found",
    "overview",
    "release",
    "release_chart",
    "release_site",
    "served",
    "static",
    "status",
    "whole_site",
]
