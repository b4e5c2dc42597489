"""Pages of a gauge, written on the server: the same for the static site and for `serve`."""

from tidegauge.publish.pages.assets import ASSETS, Asset
from tidegauge.publish.pages.build import bare_site, release_site, whole_site
from tidegauge.publish.pages.guarantee import guarantee
from tidegauge.publish.pages.layout import not_found
from tidegauge.publish.pages.ledger import ledger
from tidegauge.publish.pages.links import Links, served, static
from tidegauge.publish.pages.overview import overview
from tidegauge.publish.pages.release import release, release_chart
from tidegauge.publish.pages.status import status, status_view

__all__ = [
    "ASSETS",
    "Asset",
    "Links",
    "bare_site",
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
    "status_view",
    "whole_site",
]
