"""Transforms of raw inputs: normalisation, augmentation and mixing of images and skeletons."""
