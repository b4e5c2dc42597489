"""Charts: shapes computed once, written as SVG or PNG."""

from tidegauge.publish.chart.draw import line_chart, multiples, spark
from tidegauge.publish.chart.shapes import Drawing
from tidegauge.publish.chart.svg import standalone_svg, svg

__all__ = ["Drawing", "line_chart", "multiples", "spark", "standalone_svg", "svg"]
