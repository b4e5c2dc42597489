"""An invented town's year, to try the whole of Tidegauge on."""

from tidegauge.demo.show import make_demo

__all__ = ["make_demo"]
