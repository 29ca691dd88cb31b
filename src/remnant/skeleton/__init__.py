"""Skeletons in motion: which joints there are, how they hang together, what a network sees of them."""

from remnant.skeleton.graph import KINECT_V1, KINECT_V2, Graph, hop_distances, hop_matrices
from remnant.skeleton.view import SkeletonView

__all__ = [
    "KINECT_V1",
    "KINECT_V2",
    "Graph",
    "SkeletonView",
    "hop_distances",
    "hop_matrices",
]
