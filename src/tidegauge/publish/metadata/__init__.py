"""Metadata of what is published: one value, and a writer for each catalogue."""

from tidegauge.publish.metadata.dataset import Dataset, File, dataset
from tidegauge.publish.metadata.registry import FORMATS, MetadataFormat

__all__ = ["FORMATS", "Dataset", "File", "MetadataFormat", "dataset"]
