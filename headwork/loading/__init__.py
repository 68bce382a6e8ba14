"""Saved models without torch: folders verified and run on numpy; ``headwork.load`` (training) finds them."""

from headwork.loading.folders import read_saved
from headwork.loading.model import NumpyModel, SavedModel
