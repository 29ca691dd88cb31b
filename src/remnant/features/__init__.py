"""Features of images from frozen pretrained networks, stored on disk."""

from remnant.features.embed import (
    blank_dataset as blank_dataset,
    embed as embed,
    feature_dataset as feature_dataset,
    pending as pending,
    seconds_per_image as seconds_per_image,
)
