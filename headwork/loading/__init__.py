"""Saved models without torch: read, verified, run on numpy. ``headwork.models`` has the same reader."""

from headwork.loading.folders import read_saved
from headwork.loading.model import NumpyModel, SavedModel
