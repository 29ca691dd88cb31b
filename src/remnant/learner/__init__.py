"""A learner for one's own samples: learn again and again, predict, list suspect labels, save, export."""
