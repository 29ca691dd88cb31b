"""Features of images from frozen pretrained networks, stored on disk."""

from remnant.features.embed import (
    blank_dataset as blank_dataset,
    embed as embed,
    embed_filled as embed_filled,
    feature_dataset as feature_dataset,
    load_frozen as load_frozen,
    pending as pending,
    seconds_per_image as seconds_per_image,
)
